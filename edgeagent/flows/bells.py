"""Waking whoever waits for work, without asking the disk again and again."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta
from typing import Final

from edgeagent.contracts.event import Stream
from edgeagent.errors import StorageError

_AFTER_FAULT: Final = 1.0


class Bell:
    """Wakes one waiter for each ring; a ring that nobody waits for is kept for the next who comes."""

    def __init__(self) -> None:
        self._rings: asyncio.Queue[None] = asyncio.Queue(maxsize=1)

    def ring(self) -> None:
        """There may be work."""
        if not self._rings.full():
            self._rings.put_nowait(None)

    async def wait(self, within: timedelta | None) -> None:
        """Wait for a ring, at most so long; None for ever."""
        try:
            async with asyncio.timeout(None if within is None else max(0.0, within.total_seconds())):
                await self._rings.get()
        except TimeoutError:
            return


async def write_when_due(
    close_due: Callable[[], Awaitable[timedelta | None]], bell: Bell, log: logging.Logger
) -> None:
    """Write counts whenever some are due; ends only by cancellation.

    Args:
        close_due: writes what is due, and says when the next is; None while there is none. What it cannot
            write, by a ``StorageError``, it keeps.
        bell: rung when something new is counted.
        log: of whoever counts.
    """
    while True:
        try:
            wait = await close_due()
        except StorageError as why:
            log.warning("counts are kept", extra={"why": str(why)})
            await asyncio.sleep(_AFTER_FAULT)
            continue
        await bell.wait(wait)


class OutboxBell:
    """Told of every event that was stored; wakes the uplink when there is enough to send.

    Records are sent at once, state and telemetry when a batch is full or has waited.

    Attributes:
        batch: how many events are enough.
        records: how often records were stored.
    """

    def __init__(self) -> None:
        self._any = asyncio.Event()
        self._enough = asyncio.Event()
        self._record = asyncio.Event()
        self._grown = 0
        self.batch = 500
        self.records = 0

    def stored(self, streams: Iterable[Stream], events: int) -> None:
        """So many events were stored in these streams."""
        self._any.set()
        self._grown += events
        if Stream.RECORD in streams:
            self._enough.set()
            self.records += 1
            # Everybody who waits wakes, and whoever comes later waits for the next one.
            self._record.set()
            self._record = asyncio.Event()
        elif self._grown >= self.batch:
            self._enough.set()

    async def next_record(self, within: timedelta, *, since: int | None = None) -> None:
        """Wait until a record is stored, at most so long.

        Args:
            within: how long.
            since: ``records`` as it was before the caller looked: what came meanwhile is not waited for.
        """
        if since is not None and since != self.records:
            return
        try:
            async with asyncio.timeout(max(0.0, within.total_seconds())):
                await self._record.wait()
        except TimeoutError:
            return

    async def wait(self, linger: timedelta) -> None:
        """Wait for events, and then for enough of them or until they have waited for ``linger``."""
        await self._any.wait()
        try:
            async with asyncio.timeout(linger.total_seconds()):
                await self._enough.wait()
        except TimeoutError:
            pass
        self._any.clear()
        self._enough.clear()
        self._grown = 0
