"""How much waits at the hub, remembered for a while: for charts.

Two rings in memory, an hour at five seconds and a day at two minutes; nothing is written, and a restart
begins anew. The database is asked only when something was committed since the last sample, and only for
what its indexes answer at once, however long the outbox is.
"""

import asyncio
from array import array
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Final

from edgeagent.contracts.event import Stream
from edgeagent.contracts.policy import Tier
from edgeagent.contracts.reports.history import HistoryReport, HistorySample, HistorySpan
from edgeagent.errors import StorageError
from edgeagent.flows.surroundings import Surroundings
from edgeagent.store import lines, outbox
from edgeagent.store.database import Database, Snapshot

EVERY: Final = timedelta(seconds=5)
"""From one sample to the next."""
_SPANS: Final = ((EVERY, 720), (timedelta(minutes=2), 720))
_COLUMNS: Final = 2 + len(Stream) + len(Tier)


class Ring:
    """The last so many rows of whole numbers, each eight bytes.

    Args:
        columns: numbers in a row.
        most: rows that are kept.
    """

    def __init__(self, columns: int, most: int) -> None:
        self._columns = [array("Q", bytes(8 * most)) for _ in range(columns)]
        self._most = most
        self._noted = 0

    def note(self, row: Sequence[int]) -> None:
        """Keep a row; the oldest makes place."""
        for column, value in zip(self._columns, row, strict=True):
            column[self._noted % self._most] = value
        self._noted += 1

    def columns(self) -> list[list[int]]:
        """All that is kept by column, the oldest first."""
        if self._noted <= self._most:
            return [column[: self._noted].tolist() for column in self._columns]
        first = self._noted % self._most
        return [[*column[first:], *column[:first]] for column in self._columns]


class History:
    """Takes samples, and shows them."""

    def __init__(self, store: Database, around: Surroundings) -> None:
        self._store = store
        self._around = around
        self._rings = [(every, Ring(_COLUMNS, most)) for every, most in _SPANS]
        self._due = [timedelta(0) for _ in _SPANS]
        self._commits: int | None = None
        self._last: HistorySample | None = None

    async def run(self) -> None:
        """Take a sample every five seconds; ends only by cancellation."""
        while True:
            await self.take()
            await asyncio.sleep(EVERY.total_seconds())

    async def take(self) -> None:
        """Take a sample. While the store cannot be read, all is taken to be as it was."""
        commits = self._store.commits
        if commits != self._commits or self._last is None:
            with suppress(StorageError):
                self._last = await self._store.read(partial(_sample, at=0))
                self._commits = commits
        if self._last is None:
            return
        now = self._around.clock.boot()
        self._last = self._last.model_copy(update={"at": now // timedelta(seconds=1)})
        row = _row(self._last)
        for number, (every, ring) in enumerate(self._rings):
            if now >= self._due[number]:
                ring.note(row)
                # A sample that comes a moment early would else be left out, and the next be late.
                self._due[number] = now + every - EVERY / 2

    def latest(self) -> HistorySample | None:
        """The last sample; None while there is none."""
        return self._last

    def report(self) -> HistoryReport:
        """All that is remembered."""
        return HistoryReport(
            now=self._around.clock.boot() // timedelta(seconds=1),
            spans=[_span(every, ring.columns()) for every, ring in self._rings],
        )


def _sample(db: Snapshot, at: int) -> HistorySample:
    extents, pending = outbox.extents(db), lines.pending(db)
    return HistorySample(
        at=at,
        stored=sum(upcoming - 1 for _, upcoming in extents.values()),
        outbox={stream: upcoming - first for stream, (first, upcoming) in extents.items()},
        lanes={
            lane: sum(number for (tier, _), (number, _) in pending.items() if tier is lane) for lane in Tier
        },
    )


def _row(sample: HistorySample) -> list[int]:
    waiting = [sample.outbox.get(stream, 0) for stream in Stream]
    return [sample.at, sample.stored, *waiting, *(sample.lanes[lane] for lane in Tier)]


def _span(every: timedelta, columns: list[list[int]]) -> HistorySpan:
    at, stored, *waiting = columns
    return HistorySpan(
        every=every // timedelta(seconds=1),
        at=at,
        stored=stored,
        outbox=dict(zip(Stream, waiting, strict=False)),
        lanes=dict(zip(Tier, waiting[len(Stream) :], strict=True)),
    )
