"""The signed heads of the audit trail.

Owns ``checkpoints``. The rows of the trail up to a checkpoint may go once others have it: the cloud has
acknowledged its event, or a person has exported it (SPEC A3). The trail begins after that checkpoint then.
"""

from typing import Final

from edgeagent.contracts.event import Stream
from edgeagent.store.audit import EMPTY, Head
from edgeagent.store.database import Snapshot, SqlValue, Transaction
from edgeagent.store.event_ids import event_id
from edgeagent.values import dataclass

_ADD: Final = """
INSERT INTO checkpoints (number, hash, at, proven, event, data)
VALUES (:number, :hash, :at, :proven, :event, :data)
"""
_LAST: Final = "SELECT number, hash FROM checkpoints ORDER BY number DESC LIMIT 1"
_AT: Final = "SELECT hash FROM checkpoints WHERE number = :number"
_FIRST_ROW: Final = "SELECT min(number) FROM audit"
_PAGE: Final = """
SELECT number, data FROM checkpoints WHERE number > :after AND number <= :upto ORDER BY number LIMIT :most
"""
# What others have: its event is neither waiting nor set aside, or it was written to somebody's file.
_PRUNABLE: Final = """
SELECT number, hash FROM checkpoints c
 WHERE number > :after AND proven = 1 AND at < :before
   AND (exported = 1
        OR NOT EXISTS (SELECT 1 FROM outbox WHERE id = :records + c.event)
           AND NOT EXISTS (SELECT 1 FROM outbox_refused WHERE stream = :stream AND number = c.event))
 ORDER BY number <= :upto DESC, CASE WHEN number <= :upto THEN -number ELSE number END LIMIT 1
"""
_EXPORTED: Final = "UPDATE checkpoints SET exported = 1 WHERE number = :number AND exported = 0"
_FORGET: Final = "DELETE FROM checkpoints WHERE number < :before"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """A checkpoint to be stored.

    Attributes:
        head: the row of the trail that it covers last.
        at: microseconds since 1970, the best guess.
        proven: whether that guess rests on a proof of the time.
        event: its number in the stream ``record``.
        data: the checkpoint with its proof, as JSON text.
    """

    head: Head
    at: int
    proven: bool
    event: int
    data: bytes


def add(tx: Transaction, signed: Signed) -> None:
    """Keep a checkpoint."""
    tx.execute(
        _ADD,
        {
            "number": signed.head.number,
            "hash": signed.head.hash,
            "at": signed.at,
            "proven": int(signed.proven),
            "event": signed.event,
            "data": signed.data,
        },
    )


def last(db: Snapshot) -> Head:
    """The row that the newest checkpoint covers last; the genesis when there is none."""
    row = db.row(_LAST)
    return EMPTY if row is None else Head(int(row["number"]), bytes(row["hash"]))


def basis(db: Snapshot) -> Head | None:
    """What the first row of the trail builds on: the genesis, or the checkpoint up to which it was pruned.

    Returns:
        None when rows are gone that no checkpoint covers.
    """
    first = db.rows(_FIRST_ROW)[0][0]
    if first is None or int(first) == 1:
        return EMPTY
    row = db.row(_AT, {"number": int(first) - 1})
    return None if row is None else Head(int(first) - 1, bytes(row["hash"]))


def page(db: Snapshot, *, after: int, upto: int = 2**53, most: int) -> list[tuple[int, bytes]]:
    """Checkpoints in order, by the number of their row: each as JSON text with its proof."""
    bounds = {"after": after, "upto": upto, "most": most}
    return [(int(row["number"]), bytes(row["data"])) for row in db.rows(_PAGE, bounds)]


def prunable(db: Snapshot, *, after: int, upto: int, before: int) -> Head | None:
    """A checkpoint that others have, so that rows up to it may go.

    Args:
        db: the database.
        after: one that covers rows after this one.
        upto: the latest that covers none after this one; else the first of the others.
        before: microseconds since 1970: one that was surely made earlier.
    """
    bounds: dict[str, SqlValue] = {
        "after": after,
        "upto": upto,
        "before": before,
        "stream": Stream.RECORD,
        "records": event_id(Stream.RECORD, 0),
    }
    row = db.row(_PRUNABLE, bounds)
    return None if row is None else Head(int(row["number"]), bytes(row["hash"]))


def note_exported(tx: Transaction, number: int) -> bool:
    """Note that a person has the rows up to a checkpoint.

    Returns:
        Whether that is new.
    """
    return tx.execute(_EXPORTED, {"number": number}) == 1


def forget(tx: Transaction, *, before: int) -> None:
    """Drop the checkpoints of rows before ``before``: the trail begins later now."""
    tx.execute(_FORGET, {"before": before})
