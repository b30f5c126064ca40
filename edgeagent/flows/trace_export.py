"""From the record to whoever collects traces, where one is configured (SPEC O2).

    audit rows ──ended?──> drawn once the receipt is up, or after a while ──> SpanSink

Best effort, and bounded: what the collector does not take is tried again, for at most so many commands; a
restart leaves out what had not been sent. The work itself never waits for it.
"""

import asyncio
import json
import logging
from collections import defaultdict, deque
from datetime import timedelta
from functools import partial
from typing import Final

from edgeagent.core.audit_chain import AuditKind, AuditRow
from edgeagent.core.timeline import spans_of
from edgeagent.core.tracing import trace_of
from edgeagent.errors import StorageError
from edgeagent.flows.surroundings import Surroundings
from edgeagent.flows.traces import way_of
from edgeagent.ports.links import LinkError
from edgeagent.ports.spans import SpanSink, Traced
from edgeagent.store import audit, inbox
from edgeagent.store.database import Database, Snapshot

log = logging.getLogger(__name__)

EVERY: Final = timedelta(seconds=5)
"""How often what has ended is looked for."""
PATIENCE: Final = timedelta(seconds=60)
"""How long the upload of a receipt is waited for."""
MOST_WAITING: Final = 1000
"""How many commands may wait to be sent; the oldest are left out."""

_PART: Final = 500
_REMEMBERED: Final = 10_000
_AT_ONCE: Final = 100
_ENDS: Final = (AuditKind.COMMAND_SETTLED, AuditKind.COMMAND_REFUSED)
_OF_A_RUN: Final = frozenset(
    {
        AuditKind.STEP_SENT,
        AuditKind.STEP_ENDED,
        AuditKind.DEAD_LETTER_REPLAYED,
        *(kind for kind in AuditKind if kind.startswith("command_")),
    }
)


class TraceExport:
    """Sends the spans of commands that have ended."""

    def __init__(self, store: Database, sink: SpanSink, around: Surroundings, *, has_cloud: bool) -> None:
        self._store = store
        self._sink = sink
        self._around = around
        self._has_cloud = has_cloud
        self._after: int | None = None
        self._rows: deque[AuditRow] = deque(maxlen=_REMEMBERED)
        # Runs that have ended, and the boot time at which that was seen.
        self._ended: dict[int, timedelta] = {}
        self._why = ""

    async def run(self) -> None:
        """Look for what has ended, again and again; ends only by cancellation."""
        while True:
            try:
                await self.look()
                self._why = ""
            except (LinkError, StorageError) as why:
                if str(why) != self._why:
                    log.warning("traces not sent", extra={"why": str(why)})
                self._why = str(why)
            await asyncio.sleep(EVERY.total_seconds())

    async def look(self) -> None:
        """Send what has ended since the last look.

        Raises:
            LinkError: the collector does not take it; it is kept.
            StorageError: nothing could be read.
        """
        await self._read_on()
        while self._ended:
            due = list(self._ended)[:_AT_ONCE]
            drawn = await self._store.read(partial(self._drawn, due))
            if not drawn:
                return
            traced = [each for each in drawn.values() if each is not None]
            if traced:
                await self._sink.send(traced)
                self._around.metrics.traces.labels("sent").inc(len(traced))
            for run in drawn:
                del self._ended[run]

    async def _read_on(self) -> None:
        """Read what is new on record."""
        if self._after is None:
            # What began before this start is drawn from where it can be seen.
            head = await self._store.read(audit.head)
            self._after = head.number
        while part := await self._store.read(partial(audit.rows, after=self._after, most=_PART)):
            for row, _ in part:
                self._take(row)
            self._after = part[-1][0].number
        for run in list(self._ended)[: max(0, len(self._ended) - MOST_WAITING)]:
            del self._ended[run]
            self._around.metrics.traces.labels("dropped").inc()

    def _take(self, row: AuditRow) -> None:
        if row.kind not in _OF_A_RUN:
            return
        self._rows.append(row)
        run = json.loads(row.detail).get("run")
        if row.kind in _ENDS and isinstance(run, int):
            self._ended[run] = self._around.clock.boot()

    def _drawn(self, runs: list[int], db: Snapshot) -> dict[int, Traced | None]:
        """Those that can be sent now; None for one that is not to be."""
        told = defaultdict(list)
        for row in self._rows:
            told[row.subject].append(row)
        found: dict[int, Traced | None] = {}
        for run in runs:
            row_of = inbox.by_run(db, run)
            if row_of is None:
                found[run] = None
                continue
            way = way_of(db, row_of, told[row_of.command])
            waited = self._around.clock.boot() - self._ended[run]
            if self._has_cloud and way.uploaded_at is None and waited < PATIENCE:
                continue
            trace = trace_of(way.traceparent, way.payload)
            # Whoever began a trace and does not record it does not want the rest of it either.
            found[run] = Traced(trace.trace, spans_of(way)) if trace.sampled else None
        return found
