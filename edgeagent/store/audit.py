"""The audit trail: what was done, by whom, with which clock; hash-chained from the first row.

Owns ``audit`` and ``audit_told``. Rows are only appended, and dropped from the beginning up to a signed
head; the chain's rule is in ``core/audit_chain``.
"""

import sqlite3
from collections.abc import Sequence
from typing import Final

from pydantic import JsonValue

from edgeagent.contracts.door import parse
from edgeagent.core.audit_chain import (
    GENESIS,
    AuditKind,
    AuditRow,
    Break,
    detail_text,
    first_break,
    next_hash,
)
from edgeagent.ids import CommandId, HubId, hub_id
from edgeagent.store.database import Snapshot, SqlValue, Transaction
from edgeagent.values import dataclass

_DETAIL_BYTES: Final = 64 * 1024
_LAST: Final = "SELECT number, hash FROM audit ORDER BY number DESC LIMIT 1"
_HASH_OF: Final = "SELECT hash FROM audit WHERE number = :number"
_LAST_START: Final = """
SELECT subject, detail FROM audit WHERE kind = 'started' ORDER BY number DESC LIMIT 1
"""
_APPEND: Final = """
INSERT INTO audit (number, at, clock, kind, subject, actor, detail, hash)
VALUES (:number, :at, :clock, :kind, :subject, :actor, :detail, :hash)
"""
_DROP: Final = "DELETE FROM audit WHERE number <= :upto"
_TOLD: Final = "SELECT number, hash FROM audit_told"
_TELL: Final = """
INSERT INTO audit_told (one, number, hash) VALUES (1, :number, :hash)
    ON CONFLICT (one) DO UPDATE SET number = excluded.number, hash = excluded.hash
 WHERE excluded.number > number
"""
_ROWS: Final = """
SELECT number, at, clock, kind, subject, actor, detail, hash
  FROM audit WHERE number > :after ORDER BY number LIMIT :most
"""
# A command's rows lie between its coming and its receipt; what follows later has an index.
_ABOUT: Final = """
SELECT number, at, clock, kind, subject, actor, detail, hash FROM audit
 WHERE number > :after AND number <= :upto AND subject = :subject ORDER BY number LIMIT :most
"""
_AFTERWARDS: Final = """
SELECT number, at, clock, kind, subject, actor, detail, hash FROM audit INDEXED BY audit_afterwards
 WHERE kind IN ('command_corrected', 'dead_letter_discarded') AND subject = :subject
 ORDER BY number LIMIT :most
"""

# Compared as text: all are written in UTC, the year first.
_NEWEST: Final = """
SELECT number, at, clock, kind, subject, actor, detail, hash FROM audit
 WHERE (:kind IS NULL OR kind = :kind)
   AND (:subject IS NULL OR subject = :subject)
   AND (:since IS NULL OR at >= :since)
 ORDER BY number DESC LIMIT :most
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


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A stretch of the trail: behind one row, up to another."""

    after: int
    upto: int


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


@dataclass(frozen=True, slots=True)
class Start:
    """A start of the agent: at which hub, and of which version."""

    hub: HubId
    version: str


EMPTY: Final = Head(0, GENESIS)
"""The head of a trail without a row."""


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
                "kind": str(row.kind),
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
    return EMPTY if row is None else Head(int(row["number"]), bytes(row["hash"]))


def last_start(db: Snapshot) -> Start | None:
    """The last start of the agent that the trail still tells; None where it tells none."""
    row = db.row(_LAST_START)
    if row is None:
        return None
    detail = parse(str(row["detail"]).encode(), limit=_DETAIL_BYTES)
    version = detail.get("version") if isinstance(detail, dict) else None
    return Start(hub_id(str(row["subject"])), str(version))


def hash_of(db: Snapshot, number: int) -> bytes | None:
    """The stored hash of a row; None when there is no such row."""
    row = db.row(_HASH_OF, {"number": number})
    return None if row is None else bytes(row["hash"])


def rows(db: Snapshot, *, after: int, most: int) -> list[tuple[AuditRow, bytes]]:
    """Rows in order, each with its stored hash, from the one after ``after``."""
    return [_row_of(row) for row in db.rows(_ROWS, {"after": after, "most": most})]


def note_told(tx: Transaction, told: Head) -> None:
    """Note that the cloud was told a head, and has answered."""
    if told.number:
        tx.execute(_TELL, {"number": told.number, "hash": told.hash})


def told(db: Snapshot) -> Head | None:
    """The furthest head that the cloud was told; None when it was told none."""
    row = db.row(_TOLD)
    return None if row is None else Head(int(row["number"]), bytes(row["hash"]))


def newest(
    db: Snapshot, *, kind: str | None, subject: str | None, since: str | None, most: int
) -> list[tuple[AuditRow, bytes]]:
    """The newest rows that fit all conditions, oldest first, each with its stored hash.

    Args:
        db: the database.
        kind: of this kind.
        subject: about this one.
        since: written at or after this time: the beginning of an RFC 3339 text in UTC.
        most: so many.
    """
    wanted: dict[str, SqlValue] = {"kind": kind, "subject": subject, "since": since, "most": most}
    return [_row_of(row) for row in reversed(db.rows(_NEWEST, wanted))]


def about(db: Snapshot, command: CommandId, spans: Sequence[Span], most: int) -> list[AuditRow]:
    """The rows about a command, in order, at most so many of each span.

    Args:
        db: the database.
        command: whose.
        spans: where its rows lie, beside those of its other runs and of what came of it afterwards.
        most: so many.
    """
    found: dict[int, AuditRow] = {}
    wanted: dict[str, SqlValue] = {"subject": command, "most": most}
    after = 0
    for span in sorted(spans):
        after = max(after, span.after)
        if span.upto > after:
            part = db.rows(_ABOUT, wanted | {"after": after, "upto": span.upto})
            found |= {row.number: row for row, _ in map(_row_of, part)}
            after = span.upto
    late = [row for row, _ in map(_row_of, db.rows(_AFTERWARDS, wanted))]
    found |= {row.number: row for row in late}
    return [found[number] for number in sorted(found)]


def drop(tx: Transaction, *, upto: int) -> int:
    """Drop the rows up to one that a checkpoint covers; the last row of the trail is to stay.

    Returns:
        How many there were.
    """
    return tx.execute(_DROP, {"upto": upto})


def verify(db: Snapshot, basis: Head = EMPTY) -> Break | None:
    """Follow the whole chain from what its first row builds on; name the first row that does not fit."""
    last = basis
    while part := rows(db, after=last.number, most=1000):
        found = first_break(part, after=last.number, previous=last.hash)
        if found is not None:
            return found
        last = Head(part[-1][0].number, part[-1][1])
    return None


def _row_of(row: sqlite3.Row) -> tuple[AuditRow, bytes]:
    return (
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
