"""The audit trail: what was done, by whom, with which clock; hash-chained from the first row.

Owns ``audit``. Rows are only appended; the chain's rule is in ``core/audit_chain``.
"""

from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from edgeagent.core.audit_chain import (
    GENESIS,
    AuditKind,
    AuditRow,
    Break,
    detail_text,
    first_break,
    next_hash,
)
from edgeagent.store.database import Snapshot, Transaction

_LAST: Final = "SELECT number, hash FROM audit ORDER BY number DESC LIMIT 1"
_APPEND: Final = """
INSERT INTO audit (number, at, clock, kind, subject, actor, detail, hash)
VALUES (:number, :at, :clock, :kind, :subject, :actor, :detail, :hash)
"""
_ROWS: Final = """
SELECT number, at, clock, kind, subject, actor, detail, hash
  FROM audit WHERE number > :after ORDER BY number LIMIT :most
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """Something that is put on record.

    Attributes:
        kind: what was done.
        subject: to whom or what.
        actor: by whom.
        detail: the rest; no secret, no payload.
    """

    kind: AuditKind
    subject: str
    actor: str
    detail: dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Stamp:
    """When something is put on record: RFC 3339 in UTC, and what that time rests on."""

    at: str
    clock: str


@dataclass(frozen=True, slots=True)
class Head:
    """The last row: its number and hash. Zero and the genesis hash of an empty trail."""

    number: int
    hash: bytes


def append(tx: Transaction, acts: list[Act], stamp: Stamp) -> Head:
    """Put acts on record, in order.

    Returns:
        The head of the trail after them.
    """
    last = head(tx)
    for act in acts:
        row = AuditRow(
            number=last.number + 1,
            at=stamp.at,
            clock=stamp.clock,
            kind=act.kind,
            subject=act.subject,
            actor=act.actor,
            detail=detail_text(act.detail),
        )
        last = Head(row.number, next_hash(last.hash, row))
        tx.execute(
            _APPEND,
            {
                "number": row.number,
                "at": row.at,
                "clock": row.clock,
                "kind": row.kind,
                "subject": row.subject,
                "actor": row.actor,
                "detail": row.detail,
                "hash": last.hash,
            },
        )
    return last


def head(db: Snapshot) -> Head:
    """The last row of the trail."""
    row = db.row(_LAST)
    return Head(0, GENESIS) if row is None else Head(int(row["number"]), bytes(row["hash"]))


def rows(db: Snapshot, *, after: int, most: int) -> list[tuple[AuditRow, bytes]]:
    """Rows in order, each with its stored hash, from the one after ``after``."""
    return [
        (
            AuditRow(
                number=int(row["number"]),
                at=str(row["at"]),
                clock=str(row["clock"]),
                kind=str(row["kind"]),
                subject=str(row["subject"]),
                actor=str(row["actor"]),
                detail=str(row["detail"]),
            ),
            bytes(row["hash"]),
        )
        for row in db.rows(_ROWS, {"after": after, "most": most})
    ]


def verify(db: Snapshot) -> Break | None:
    """Follow the whole chain; name the first row that does not fit."""
    last = Head(0, GENESIS)
    while part := rows(db, after=last.number, most=1000):
        found = first_break(part, after=last.number, previous=last.hash)
        if found is not None:
            return found
        last = Head(part[-1][0].number, part[-1][1])
    return None
