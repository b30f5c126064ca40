"""The channels of a device: how many of each kind it has, and what tells them apart."""

from collections.abc import Iterable, Mapping, Sequence

from edgeagent import ids
from edgeagent.contracts.profile import DeviceProfile
from edgeagent.core.profile.parameters import ParameterValue, Scope
from edgeagent.ids import ReadingName, reading_name
from edgeagent.values import dataclass


@dataclass(frozen=True, slots=True)
class Channel:
    """One channel of a device.

    Attributes:
        kind: of the profile.
        id: what the device calls it.
        number: 1, 2, 3 … over all numbered kinds; what commands name.
        mark: what is put behind the name of a reading when several channels have it.
        scope: the device's values and the channel's own.
    """

    kind: str
    id: int
    number: int
    mark: str
    scope: Scope


def channels_of(profile: DeviceProfile, scope: Scope) -> dict[str, tuple[Channel, ...]]:
    """The channels of a device by kind."""
    found: dict[str, tuple[Channel, ...]] = {}
    number = 0
    for kind in profile.channels:
        listed = scope.values.get(kind.ids, ())
        own_ids = listed if isinstance(listed, tuple) else ()
        several = len(own_ids) > 1
        members = []
        for each in own_ids:
            number += kind.suffix == "number"
            own: dict[str, ParameterValue] = {
                "id": each,
                "channel": number,
                "suffix": str(each) if several else "",
                "component": ids.topic_segment(kind.component.replace("{id}", str(each))),
            }
            mark = str(number if kind.suffix == "number" else each)
            inner = Scope({**scope.values, **own})
            members.append(Channel(kind.kind, each, number, mark, inner))
        found[kind.kind] = tuple(members)
    return found


def channels_with(
    kinds: Iterable[str | None], channels: Mapping[str, tuple[Channel, ...]]
) -> tuple[Channel, ...]:
    """The channels of these kinds, each once, in the order of the profile."""
    wanted = {kind for kind in kinds if kind is not None}
    return tuple(channel for kind, members in channels.items() if kind in wanted for channel in members)


def name_for(base: str, channel: Channel | None, siblings: Sequence[Channel]) -> ReadingName:
    """The name of a channel's reading: with its mark only where there are several."""
    if channel is None or len(siblings) == 1:
        return reading_name(base)
    return reading_name(f"{base}.{channel.mark}")
