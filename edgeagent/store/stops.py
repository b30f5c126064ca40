"""The kill switch on disk: the last word on each kind of command, and which orders have come (SPEC B3).

Owns ``stops`` and ``orders``.
"""

from datetime import timedelta
from typing import Final

from edgeagent.clock import EPOCH
from edgeagent.contracts.order import Order, Verb
from edgeagent.contracts.reasons import Reason
from edgeagent.core.stops import Standing
from edgeagent.ids import CommandId, Digest
from edgeagent.store.database import Snapshot, SqlValue, Transaction

_MICROSECOND: Final = timedelta(microseconds=1)
# Whoever was judged by an older word has lost.
_PUT: Final = """
INSERT INTO stops (kind, verb, sequence, actor, why, at, is_guess)
VALUES (:kind, :verb, :sequence, :actor, :why, :at, :is_guess)
ON CONFLICT (kind) DO UPDATE
   SET verb = excluded.verb, sequence = excluded.sequence, actor = excluded.actor, why = excluded.why,
       at = excluded.at, is_guess = excluded.is_guess
 WHERE excluded.sequence > stops.sequence
"""
_ALL: Final = "SELECT kind, verb, sequence, actor, why, at, is_guess FROM stops ORDER BY kind"
_STOPPED: Final = "SELECT kind FROM stops WHERE verb = 'stop'"
_LAST: Final = "SELECT sequence FROM stops WHERE kind = :kind"
_KNOWN: Final = "SELECT sha256 FROM orders WHERE id = :id"
_REMEMBER: Final = """
INSERT INTO orders (id, sha256, reason, expires_at) VALUES (:id, :sha256, :reason, :expires_at)
"""
_FORGET: Final = """
DELETE FROM orders
 WHERE id IN (SELECT id FROM orders WHERE expires_at <= :before ORDER BY expires_at LIMIT :most)
RETURNING expires_at
"""
_OVER: Final = "SELECT 1 FROM orders WHERE expires_at <= :before LIMIT 1"


def put(tx: Transaction, word: Standing) -> bool:
    """Let a word on a kind of command be the last.

    Returns:
        False if a later one is; nothing was changed.
    """
    fields: dict[str, SqlValue] = {
        "kind": word.kind,
        "verb": word.verb,
        "sequence": word.sequence,
        "actor": word.by,
        "why": word.why,
        "at": word.at,
        "is_guess": int(word.is_guess),
    }
    return tx.execute(_PUT, fields) == 1


def standings(db: Snapshot) -> list[Standing]:
    """The last word on each kind that there was one on."""
    return [
        Standing(
            kind=str(row["kind"]),
            verb=Verb(row["verb"]),
            sequence=int(row["sequence"]),
            by=str(row["actor"]),
            why=str(row["why"]),
            at=int(row["at"]),
            is_guess=bool(row["is_guess"]),
        )
        for row in db.rows(_ALL)
    ]


def stopped(db: Snapshot) -> frozenset[str]:
    """The kinds of command that are stopped."""
    return frozenset(str(row["kind"]) for row in db.rows(_STOPPED))


def last(db: Snapshot, kind: str) -> Standing | None:
    """The last word on a kind; None for none."""
    return next((word for word in standings(db) if word.kind == kind), None)


def last_sequence(db: Snapshot, kind: str) -> int:
    """The sequence of the last word on a kind; 0 for none."""
    row = db.row(_LAST, {"kind": kind})
    return 0 if row is None else int(row["sequence"])


def known(db: Snapshot, order: CommandId) -> Digest | None:
    """The payload that has come under an order's id; None for none."""
    row = db.row(_KNOWN, {"id": order})
    return None if row is None else Digest(row["sha256"])


def remember(tx: Transaction, order: Order, sha256: Digest, reason: Reason | None) -> None:
    """Note that an order has come."""
    until = (order.expires_at - EPOCH) // _MICROSECOND
    tx.execute(_REMEMBER, {"id": order.id, "sha256": sha256, "reason": reason, "expires_at": until})


def has_over(db: Snapshot, before: int) -> bool:
    """Whether an order expired by ``before``; microseconds since 1970."""
    return db.row(_OVER, {"before": before}) is not None


def forget(tx: Transaction, before: int, most: int) -> list[int]:
    """Forget orders that expired by ``before``, at most so many.

    Returns:
        When each expired; microseconds since 1970, as ``before``.
    """
    return [int(row[0]) for row in tx.rows(_FORGET, {"before": before, "most": most})]
