"""Clocks that a test moves by hand."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Final

from edgeagent.clock import BootId, ClockSource, Wall

NOON: Final = datetime(2027, 3, 1, 12, tzinfo=UTC)
"""An instant like any other, after ``BUILT_AT``."""
FIRST_BOOT: Final = BootId("11111111-1111-4111-8111-111111111111")
SECOND_BOOT: Final = BootId("22222222-2222-4222-8222-222222222222")


class ManualClock:
    """A ``Clock`` that stands still until it is told to go on.

    Args:
        now: the best guess of the time of day.
        error: how far that may be off; None when unknown.
        boot: time since boot.
    """

    def __init__(
        self,
        now: datetime = NOON,
        *,
        error: timedelta | None = timedelta(milliseconds=20),
        boot: timedelta = timedelta(hours=1),
    ) -> None:
        self._now = now
        self._error = error
        self._boot = boot
        self._boot_id = FIRST_BOOT

    @property
    def boot_id(self) -> BootId:
        """Which boot ``boot()`` counts in."""
        return self._boot_id

    def boot(self) -> timedelta:
        """Time since boot."""
        return self._boot

    def wall(self) -> Wall:
        """The time of day, as far as it is known."""
        if self._error is None:
            return Wall(best=self._now, earliest=self._now, latest=None, source=ClockSource.NONE)
        return Wall(
            best=self._now,
            earliest=self._now - self._error,
            latest=self._now + self._error,
            source=ClockSource.STATEMENT,
        )

    def passes(self, length: timedelta) -> None:
        """Let both times go on."""
        self._now += length
        self._boot += length

    def is_set(self, now: datetime) -> None:
        """Let the time of day leap; boot time is not bent by it."""
        self._now = now

    def is_known(self, error: timedelta | None) -> None:
        """Say how far the time of day may be off from now on; None for unknown."""
        self._error = error

    def reboots(self, boot_id: BootId = SECOND_BOOT) -> None:
        """Begin another boot, in which nothing of the time of day is proven."""
        self._boot_id = boot_id
        self._boot = timedelta(seconds=20)
        self._error = None


class ManualReadings:
    """The kernel's clocks, moved by hand: what a ``ProvenClock`` stands on.

    Args:
        wall: what CLOCK_REALTIME says.
        error: what the kernel says of that; None for not synchronised.
        boot: what CLOCK_BOOTTIME says.
    """

    def __init__(
        self,
        wall: datetime = NOON,
        *,
        error: timedelta | None = None,
        boot: timedelta = timedelta(minutes=1),
    ) -> None:
        self._wall = wall
        self._error = error
        self._boot = boot
        self._boot_id = FIRST_BOOT

    @property
    def boot_id(self) -> BootId:
        """Which boot ``boot()`` counts in."""
        return self._boot_id

    def boot(self) -> timedelta:
        """CLOCK_BOOTTIME."""
        return self._boot

    def wall(self) -> datetime:
        """CLOCK_REALTIME."""
        return self._wall

    def synchronised(self) -> timedelta | None:
        """The kernel's word on the error of ``wall()``."""
        return self._error

    def passes(self, length: timedelta) -> None:
        """Let both clocks go on."""
        self._wall += length
        self._boot += length

    def is_set(self, wall: datetime) -> None:
        """Let somebody set CLOCK_REALTIME."""
        self._wall = wall

    def reboots(self, boot_id: BootId = SECOND_BOOT) -> None:
        """Begin another boot."""
        self._boot_id = boot_id
        self._boot = timedelta(seconds=20)

    def synchronises(self, wall: datetime, error: timedelta) -> None:
        """Let the kernel's clock be set right from outside, and say so."""
        self._wall = wall
        self._error = error


class LoopTime:
    """The running loop's time, which a test lets leap: what waits for an hour is due at once."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._ahead = 0.0
        real = loop.time
        loop.time = lambda: real() + self._ahead  # type: ignore[method-assign]  # ends with this test's loop

    def passes(self, length: timedelta) -> None:
        """Let the loop's timers be so much nearer."""
        self._ahead += length.total_seconds()
