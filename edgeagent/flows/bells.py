"""Waking whoever waits for work, without asking the disk again and again."""

import asyncio
from collections.abc import Iterable
from datetime import timedelta

from edgeagent.contracts.event import Stream


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
