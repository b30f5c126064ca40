"""What commands have made devices show, for a minute: a read-back that finds something else is counted.

Such a find says that the device, or somebody beside us, has undone what was confirmed, or that a
confirmation proves less than it seems to (SPEC C6).
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from edgeagent.core.confirmation import Wish
from edgeagent.core.shadow import StateReading
from edgeagent.flows.surroundings import Surroundings
from edgeagent.ids import DeviceId, ReadingName

REMEMBERED: Final = timedelta(seconds=60)
"""How long after a confirmed write another value counts."""


class Writes:
    """The confirmed writes of the last minute; in memory only, since they are only counted by."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._made: dict[tuple[DeviceId, ReadingName], tuple[Wish, timedelta]] = {}

    def confirmed(self, device: DeviceId, wish: Wish) -> None:
        """Note that a command has made a reading what it was to be."""
        now = self._around.clock.boot()
        self._made.pop((device, wish.reading), None)
        self._made[device, wish.reading] = (wish, now)
        # The oldest is first.
        while now - self._made[oldest := next(iter(self._made))][1] > REMEMBERED:
            del self._made[oldest]

    def read_back(self, device: DeviceId, state: Mapping[ReadingName, StateReading], *, since: int) -> None:
        """Compare what a device was read to show.

        Args:
            device: which.
            state: its state readings.
            since: nanoseconds of boot time at which it was asked: what was heard before is not looked at.
        """
        now = self._around.clock.boot()
        for key, (wish, at) in list(self._made.items()):
            held = state.get(key[1])
            if key[0] != device or held is None or held.live_at is None or held.live_at < since:
                continue
            if now - at <= REMEMBERED and not wish.met_by(held.value):
                # Found once: what is read next is compared with what is known by then.
                del self._made[key]
                self._around.metrics.shadow_answers.labels("miss_after_update").inc()
