"""The traces of commands, drawn from the store: for people at the hub, and for whoever collects them.

Everything is read in one view of the database, which works without an agent too.
"""

import json
from datetime import timedelta
from functools import partial
from typing import Final

from edgeagent.clock import EPOCH
from edgeagent.contracts.command import COMMAND_BYTES, Command
from edgeagent.contracts.door import decode
from edgeagent.contracts.reports.trace import SpanReport, TraceReport, WayReport
from edgeagent.contracts.scalars import timestamp
from edgeagent.core.audit_chain import AuditRow
from edgeagent.core.envelope import unproven_payload
from edgeagent.core.timeline import Noted, Way, spans_of
from edgeagent.core.tracing import trace_of
from edgeagent.errors import UnknownError
from edgeagent.ids import CommandId
from edgeagent.store import audit, inbox, receipts
from edgeagent.store.database import Database, Snapshot
from edgeagent.store.inbox_row import Row

# A command has some six rows for each of its devices and runs.
_MOST_ROWS: Final = 5000


async def trace(store: Database, command: CommandId) -> TraceReport:
    """Draw the way of a command.

    Raises:
        RejectedError: none of that id has come.
    """
    return await store.read(partial(drawn, command=command))


def drawn(db: Snapshot, command: CommandId) -> TraceReport:
    """Draw the way of a command. Raises as ``trace``."""
    rows = inbox.by_command(db, command)
    if not rows:
        raise UnknownError(f"no command {command} has come")
    told = audit.about(db, command, receipts.spans(db, command), _MOST_ROWS)
    return TraceReport(command=command, ways=[_way(way_of(db, row, told)) for row in rows])


def way_of(db: Snapshot, row: Row, told: list[AuditRow]) -> Way:
    """What is on record of a run.

    Args:
        db: the database.
        row: the run.
        told: rows of the trail about its command; those about other devices and runs are left out.
    """
    issued_at = None
    if row.local is None:
        issued_at = decode(Command, unproven_payload(row.envelope), limit=COMMAND_BYTES).issued_at
    uploaded = receipts.uploaded_at(db, row.run)
    return Way(
        command=row.command,
        device=row.device,
        run=row.run,
        payload=row.sha256,
        traceparent=row.traceparent,
        issued_at=issued_at,
        received_at=EPOCH + timedelta(microseconds=row.received_at),
        rows=[noted for each in told if (noted := _noted(each, row)) is not None],
        replay_of=row.replay_of,
        uploaded_at=None if uploaded is None else EPOCH + timedelta(microseconds=uploaded),
    )


def _noted(told: AuditRow, row: Row) -> Noted | None:
    """A row of the trail if it is about this run."""
    detail = json.loads(told.detail)
    if not isinstance(detail, dict) or detail.get("device", row.device) != row.device:
        return None
    if detail.get("run", row.run) != row.run:
        return None
    return Noted(told.kind, timestamp(told.at), detail)


def _way(way: Way) -> WayReport:
    parent = trace_of(way.traceparent, way.payload)
    return WayReport(
        device=way.device,
        run=way.run,
        trace=parent.trace,
        sampled=parent.sampled,
        spans=[
            SpanReport(
                name=span.name,
                span=span.id,
                parent=span.parent,
                start=span.start,
                end=span.end,
                says=span.says,
            )
            for span in spans_of(way)
        ],
    )
