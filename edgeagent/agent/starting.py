"""The time before READY: what it goes on, and more of it while it goes on something (SPEC R6).

A start may take long for a good reason: a large log is moved into its file, a new version changes tables,
all pages are looked at, or the disk takes no writes and is waited for. While the process computes, reads
or writes, or waits for the disk on purpose, the service manager is asked for more time; a start that does
none of it is stuck, and given up when what it was given is over.
"""

import asyncio
import resource
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Final

from edgeagent.adapters.systemd import ServiceManager

MORE: Final = timedelta(minutes=1)
"""What is asked for, again and again."""
LONGEST: Final = timedelta(hours=2)
"""How long a start may compute, read and write: no database of a hub takes that."""

PATIENCE: Final = timedelta(minutes=10)
"""How long one start waits for something outside, under a service manager."""

_EVERY: Final = timedelta(seconds=5)
# What the asking itself takes of a slow processor within one pause, and some.
_IDLE: Final = 0.05


class Starting:
    """A start that is under way; ``boot`` is the time since boot."""

    def __init__(self, manager: ServiceManager, boot: Callable[[], timedelta]) -> None:
        self._manager = manager
        self._boot = boot
        self._began = boot()
        self._spent = _spent()
        self._waits_since: timedelta | None = None

    def at(self, what: str) -> None:
        """The start is at this now; that is a line for people."""
        self._waits_since = None
        self._manager.status(f"starting: {what}")
        self._manager.extend(MORE)

    def waits(self, why: str) -> bool:
        """The start waits for something outside.

        Returns:
            Whether it is to go on doing so. A unit sees folders as they were mounted when it was started; so
            a service manager is to start us anew now and then.
        """
        now = self._boot()
        if self._waits_since is None:
            self._waits_since = now
        self._manager.status(f"waiting: {why}")
        self._manager.extend(MORE)
        return not self._manager.listens or now - self._waits_since < PATIENCE

    def look(self) -> bool:
        """Ask for more time, if the start moves or waits.

        Returns:
            Whether it was asked for.
        """
        before, self._spent = self._spent, _spent()
        moves = self._spent[0] - before[0] >= _IDLE or self._spent[1] > before[1]
        if self._waits_since is None and (not moves or self._boot() - self._began > LONGEST):
            return False
        self._manager.extend(MORE)
        return True

    async def run(self) -> None:
        """Ask for more time again and again; ends only by cancellation."""
        while True:
            await asyncio.sleep(_EVERY.total_seconds())
            self.look()


@asynccontextmanager
async def starting(manager: ServiceManager, boot: Callable[[], timedelta]) -> AsyncIterator[Starting]:
    """Be starting, until the block is left."""
    start = Starting(manager, boot)
    asking = asyncio.create_task(start.run(), name="starting")
    try:
        yield start
    finally:
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking


def _spent() -> tuple[float, int]:
    """What this process has taken so far: seconds of processor, and reads and writes of a disk."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime, usage.ru_inblock + usage.ru_oublock
