"""What the appliances' journal says of their updates: nothing in here comes from the agent.

A device is set off by the message that its family begins at, and is at it until it boots for the last time,
or is gone. The devices behind a bridge are told apart by their addresses.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from firmware_sim.fields import Json
from firmware_sim.journal import Line, What

_UP = "up"


@dataclass(slots=True)
class Seen:
    """What a device did.

    Attributes:
        set_off: the numbers of the lines at which it was told to begin.
        booted: the number of the line at which each version came up.
        over: the number of the last line about it after it was set off: a boot, or that it is gone.
        gone: whether it is off for good.
    """

    set_off: list[int] = field(default_factory=list)
    booted: dict[str, int] = field(default_factory=dict)
    over: int | None = None
    gone: bool = False

    @property
    def runs(self) -> str:
        """The version that came up last."""
        return max(self.booted, key=self.booted.__getitem__, default="")


def updates_seen(journal: Iterable[Line]) -> dict[str, Seen]:
    """What each device did that was told to begin, by id or address."""
    seen: dict[str, Seen] = {}
    for line in journal:
        device = _set_off(line)
        if device is not None:
            seen.setdefault(device, Seen()).set_off.append(line.number)
        elif line.what in {What.BOOTED, What.GONE}:
            part = str(line.details.get("part", ""))
            known = seen.get(part if part.startswith("0x") else line.appliance)
            if known is not None:
                _goes_on(known, line)
    return seen


def most_at_once(seen: Mapping[str, Seen]) -> int:
    """How many devices were at it at once at most; one that has no end, to the end."""
    turns = [(number, 1) for one in seen.values() for number in one.set_off[:1]]
    turns += [(one.over, -1) for one in seen.values() if one.over is not None]
    most = now = 0
    for _, turn in sorted(turns):
        now += turn
        most = max(most, now)
    return most


def _goes_on(seen: Seen, line: Line) -> None:
    seen.over = line.number
    if line.what is What.GONE:
        seen.gone = True
    elif line.details["outcome"] == _UP and not line.details["minimal"]:
        seen.booted[str(line.details["version"])] = line.number


def _set_off(line: Line) -> str | None:
    """Which device a line tells to begin; None where it does not."""
    if line.what is not What.HEARD:
        return None
    topic, said = str(line.details["topic"]), _object(line.details.get("payload"))
    if topic.endswith("/Upgrade") or said.get("method") == "Shelly.Update":
        return line.appliance
    if topic.endswith("bridge/request/device/ota_update/update"):
        return str(said["id"])
    return None


def _object(payload: Json) -> Mapping[str, Json]:
    try:
        value: Json = json.loads(str(payload))
    except ValueError:
        return {}
    return value if isinstance(value, Mapping) else {}
