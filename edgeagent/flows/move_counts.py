"""What the trail tells of devices whose bridge calls them otherwise: a row at once, then a row a minute.

A bridge can rename without end, and nobody signs what it says. Each move is made; the first of a device
within a minute is on record in the commit that makes it. What follows is counted, and told as one row with
the name that it has come to when the minute is over. A kill loses the counts of the minute at most, and no
name.
"""

from collections.abc import Mapping
from dataclasses import field
from datetime import timedelta
from typing import Final

from pydantic import JsonValue

from edgeagent.core.audit_chain import AuditKind
from edgeagent.ids import DeviceId
from edgeagent.store.audit import Act
from edgeagent.values import dataclass

MINUTE: Final = timedelta(minutes=1)
"""For how long the moves of a device are counted together."""
_ANNOUNCED: Final = "announcement"


@dataclass(frozen=True, slots=True)
class _Minute:
    """The minute of a device after a row of it.

    Attributes:
        ends: boot time at which it is over.
        more: how many moves there were since the row.
        last: what the last of them has changed.
    """

    ends: timedelta
    more: int = 0
    last: Mapping[str, JsonValue] = field(default_factory=dict)


class MoveCounts:
    """Which moves are told, and when."""

    def __init__(self) -> None:
        self._minutes: dict[DeviceId, _Minute] = {}

    def told(
        self, moves: Mapping[DeviceId, Mapping[str, JsonValue]], now: timedelta
    ) -> tuple[list[Act], "MoveCounts"]:
        """What goes on record with some moves, or without any.

        Args:
            moves: what changes of which device.
            now: boot time.

        Returns:
            The rows, and the counts once they are written.
        """
        after, acts = MoveCounts(), []
        minutes = after._minutes
        for device, minute in self._minutes.items():
            if minute.ends > now:
                minutes[device] = minute
            elif minute.more:
                acts.append(_act(device, {**minute.last, "moves": minute.more}))
                minutes[device] = _Minute(now + MINUTE)
        for device, changed in moves.items():
            running = minutes.get(device)
            if running is None:
                acts.append(_act(device, changed))
                minutes[device] = _Minute(now + MINUTE)
            else:
                minutes[device] = _Minute(running.ends, running.more + 1, {**running.last, **changed})
        return acts, after

    @property
    def due(self) -> timedelta | None:
        """The boot time at which there is something to tell; None for nothing."""
        return min((minute.ends for minute in self._minutes.values() if minute.more), default=None)


def _act(device: DeviceId, detail: Mapping[str, JsonValue]) -> Act:
    return Act(kind=AuditKind.DEVICE_MOVED, subject=device, actor=_ANNOUNCED, detail=dict(detail))
