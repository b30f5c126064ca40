"""The time of a drill: it begins at the present and stands still until the drill lets it go on.

So a lease lapses in no time, and nothing of a drill waits for a minute to be over.
"""

from datetime import datetime, timedelta

from edgeagent.clock import BootId


class Timepiece:
    """Clocks that a drill moves; what its ``ProvenClock`` stands on.

    Args:
        boot_id: which boot it is.
        boot: time since boot.
        wall: the time of day.
    """

    def __init__(self, boot_id: BootId, boot: timedelta, wall: datetime) -> None:
        self._boot_id = boot_id
        self._boot = boot
        self._wall = wall

    @property
    def boot_id(self) -> BootId:
        """Which boot ``boot()`` counts in."""
        return self._boot_id

    def boot(self) -> timedelta:
        """Time since boot."""
        return self._boot

    def wall(self) -> datetime:
        """The time of day."""
        return self._wall

    def synchronised(self) -> timedelta | None:
        """No kernel stands behind it: what the time is, is proven to the engine by the drill."""
        return None

    def passes(self, length: timedelta) -> None:
        """Let both clocks go on."""
        self._wall += length
        self._boot += length
