"""The final results, each under the event that told it.

Owns ``receipts``. When a command comes again its receipt is put back into the outbox under the same
number, so that the far side gets the same event and not a second one (SPEC T4). A number counts in one
epoch only: a receipt of an earlier one has the number 0 until it is told again in the present one.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Final

from edgeagent.contracts.event import EventTime, EventType, Stream
from edgeagent.ids import CommandId, DeviceId
from edgeagent.store.audit import Span
from edgeagent.store.database import Snapshot, SqlValue, Transaction
from edgeagent.store.event_ids import event_id
from edgeagent.store.outbox import NewEvent, upcoming

_SAVE: Final = """
INSERT INTO receipts (run, number, device, at, error, boot, incarnation, data, traceparent, audit)
VALUES (:run, :number, :device, :at, :error, :boot, :incarnation, :data, :traceparent, :audit)
"""
_LOAD: Final = """
SELECT r.data FROM receipts r JOIN inbox i ON i.run = r.run
 WHERE i.command = :command AND i.device = :device ORDER BY i.ordinal DESC LIMIT 1
"""
_LAST: Final = """
SELECT r.run, r.number FROM receipts r JOIN inbox i ON i.run = r.run
 WHERE i.command = :command AND i.device = :device ORDER BY i.ordinal DESC LIMIT 1
"""
# A receipt that is told again was there before: the first time counts.
_UPLOADED: Final = """
UPDATE receipts SET uploaded_at = :at
 WHERE uploaded_at IS NULL AND number IN (SELECT value FROM json_each(:numbers))
"""
_UPLOADED_AT: Final = "SELECT uploaded_at FROM receipts WHERE run = :run"
_SPANS: Final = """
SELECT i.since AS since, r.audit AS audit FROM inbox i LEFT JOIN receipts r ON r.run = i.run
 WHERE i.command = :command
"""
_NUMBERED: Final = "SELECT run, number FROM receipts WHERE number > 0"
_FORGET_NUMBERS: Final = "UPDATE receipts SET number = 0"
_NUMBER: Final = "UPDATE receipts SET number = :number WHERE run = :run"
# One that still waits in the outbox is left alone.
_TELL_AGAIN: Final = """
INSERT INTO outbox (id, type, device, at, error, boot, incarnation, data, traceparent)
SELECT :before + r.number, :type, r.device, r.at, r.error, r.boot, r.incarnation, r.data, r.traceparent
  FROM receipts r JOIN inbox i ON i.run = r.run
 WHERE i.command = :command AND i.device = :device
 ORDER BY i.ordinal DESC LIMIT 1
ON CONFLICT (id) DO NOTHING
"""


_END: Final = 2**63 - 1


def save(tx: Transaction, run: int, number: int, event: NewEvent, *, incarnation: int, audit: int) -> None:
    """Keep the receipt of a run, with its number in the stream and that of its row in the trail."""
    time: EventTime = event.time
    tx.execute(
        _SAVE,
        {
            "run": run,
            "number": number,
            "device": event.device,
            "at": time.at,
            "error": time.error,
            "boot": time.boot,
            "incarnation": incarnation,
            "data": event.data,
            "traceparent": event.traceparent,
            "audit": audit,
        },
    )


def load(db: Snapshot, command: CommandId, device: DeviceId) -> bytes | None:
    """The JSON text of a command's last receipt about a device; None while it is open."""
    row = db.row(_LOAD, {"command": command, "device": device})
    return None if row is None else bytes(row["data"])


def tell_again(tx: Transaction, command: CommandId, device: DeviceId) -> bool:
    """Put a command's receipt about a device back into the outbox under its number.

    Returns:
        Whether it has one, and it was not there.
    """
    last = tx.row(_LAST, {"command": command, "device": device})
    if last is not None and last["number"] == 0:
        tx.execute(_NUMBER, {"run": last["run"], "number": upcoming(tx, Stream.RECORD)})
    fields: dict[str, SqlValue] = {
        "command": command,
        "device": device,
        "before": event_id(Stream.RECORD, 0),
        "type": str(EventType.RECEIPT),
    }
    return tx.execute(_TELL_AGAIN, fields) == 1


def note_uploaded(tx: Transaction, numbers: Sequence[int], *, at: int) -> None:
    """Note when the cloud had those receipts that are among these records.

    Args:
        tx: the transaction.
        numbers: of the stream ``record``, which the cloud has proven to hold.
        at: microseconds since 1970.
    """
    tx.execute(_UPLOADED, {"numbers": json.dumps(list(numbers)), "at": at})


def uploaded_at(db: Snapshot, run: int) -> int | None:
    """When the cloud had the receipt of a run, in microseconds since 1970; None: not yet."""
    row = db.row(_UPLOADED_AT, {"run": run})
    return None if row is None or row[0] is None else int(row[0])


def spans(db: Snapshot, command: CommandId) -> list[Span]:
    """Where in the trail the runs of a command lie: from their coming to their receipts."""
    return [
        Span(int(row["since"]), _END if row["audit"] is None else int(row["audit"]))
        for row in db.rows(_SPANS, {"command": command})
    ]


def begin_anew(tx: Transaction, records: Mapping[int, int]) -> None:
    """Let go of the numbers of an earlier epoch.

    Args:
        tx: the transaction.
        records: the new number of each record that waits in the outbox, by its old one.
    """
    numbered = [(int(row["run"]), int(row["number"])) for row in tx.rows(_NUMBERED)]
    tx.execute(_FORGET_NUMBERS)
    tx.execute_many(
        _NUMBER, [{"run": run, "number": records[old]} for run, old in numbered if old in records]
    )
