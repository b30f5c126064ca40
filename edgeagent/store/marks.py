"""Delivery marks on disk: which messages of a broker session are stored already.

Owns ``delivery_marks`` and ``delivery_sessions``. The marks of a commit of readings are saved in that commit,
so that a message and its mark are there together or not at all (SPEC Q2). What a mark means and how long it
counts is decided in ``core/redelivery``.

    events of the session's stream ──> with the last of them, in the page that is written anyhow
    in the commit                              │                (``outbox.append``)
                                               │ the event goes
                                               v
    none                           ──> ``delivery_marks``, a row for each commit

Written there at once they were the most of what a commit wrote: two pages for a hundred bytes.
"""

from typing import Final

from edgeagent.contracts.event import Stream
from edgeagent.contracts.mqtt import Session
from edgeagent.core.redelivery import MARK_BYTES, REACH
from edgeagent.store.database import Snapshot, Transaction
from edgeagent.store.event_ids import within

_ADD: Final = "INSERT INTO delivery_marks (session, batch, marks) VALUES (:session, :batch, :marks)"
_FORGET: Final = "DELETE FROM delivery_marks WHERE session = :session AND batch < :before"
_BEGIN: Final = """
INSERT INTO delivery_sessions (session, begins) VALUES (:session, :batch)
ON CONFLICT (session) DO UPDATE SET begins = excluded.begins
"""
_BEGINS: Final = "SELECT begins FROM delivery_sessions WHERE session = :session"
_LOAD: Final = "SELECT batch, marks FROM delivery_marks WHERE session = :session ORDER BY batch"
_LAID: Final = """
SELECT id, marks_batch, marks FROM outbox
 WHERE id BETWEEN :first AND :last AND marks IS NOT NULL ORDER BY id DESC LIMIT :most
"""
_TAKE_OVER: Final = """
INSERT INTO delivery_marks (session, batch, marks)
SELECT :session, marks_batch, marks FROM outbox
 WHERE id IN (SELECT :first + value FROM json_each(:numbers) WHERE value BETWEEN 1 AND :last - :first)
   AND marks_batch >= coalesce((SELECT begins FROM delivery_sessions WHERE session = :session), 0)
"""
# While a backlog drains and nothing comes in, nobody forgets what has passed.
_FORGET_PASSED: Final = """
DELETE FROM delivery_marks
 WHERE session = :session
   AND batch < (SELECT max(batch) FROM (
                    SELECT batch, sum(length(marks)) OVER (ORDER BY batch DESC) AS bytes
                      FROM delivery_marks WHERE session = :session)
                 WHERE bytes >= :most)
"""

Laid = tuple[int, bytes]
"""The how-manieth commit of its session it was, and its marks."""
STREAM_OF: Final = {Session.CONTROL: Stream.STATE, Session.TELEMETRY: Stream.TELEMETRY}
"""The stream with whose events the marks of a session lie: what most of its messages come to."""

_SESSION_OF: Final = {stream: session for session, stream in STREAM_OF.items()}
_AT_ONCE: Final = 1_000
_MOST_BYTES: Final = 2 * REACH * MARK_BYTES


def add(tx: Transaction, session: Session, batch: int, marks: bytes) -> None:
    """Store the marks of one commit."""
    tx.execute(_ADD, {"session": session.value, "batch": batch, "marks": marks})


def forget(tx: Transaction, session: Session, *, before: int) -> None:
    """Drop the marks of commits before ``before``: their window has passed."""
    tx.execute(_FORGET, {"session": session.value, "before": before})


def begin_session(tx: Transaction, session: Session, *, batch: int) -> None:
    """Let the marks of commits before ``batch`` count no more: the broker has lost their session."""
    forget(tx, session, before=batch)
    tx.execute(_BEGIN, {"session": session.value, "batch": batch})


def take_over(tx: Transaction, stream: Stream, going: dict[str, str | int]) -> None:
    """Keep the marks that lie with events that are about to go.

    Args:
        tx: the transaction.
        stream: theirs.
        going: the ids between which its events are, and the JSON text of the numbers that go.
    """
    session = _SESSION_OF.get(stream)
    if session is not None and tx.execute(_TAKE_OVER, {**going, "session": session.value}):
        tx.execute(_FORGET_PASSED, {"session": session.value, "most": _MOST_BYTES})


def load(db: Snapshot, session: Session, *, reach: int = REACH) -> list[Laid]:
    """The stored marks of a session, oldest commit first: at least ``reach``, if there are so many."""
    row = db.row(_BEGINS, {"session": session.value})
    begins = 0 if row is None else int(row[0])
    found = [(int(row["batch"]), bytes(row["marks"])) for row in db.rows(_LOAD, {"session": session.value})]
    return sorted(each for each in found + _laid(db, STREAM_OF[session], reach) if each[0] >= begins)


def _laid(db: Snapshot, stream: Stream, reach: int) -> list[Laid]:
    """The marks that lie with events: the latest, however many events wait."""
    found: list[Laid] = []
    count, bounds = 0, within(stream)
    while count < reach:
        rows = db.rows(_LAID, {**bounds, "most": _AT_ONCE})
        found += [(int(row["marks_batch"]), bytes(row["marks"])) for row in rows]
        count += sum(len(row["marks"]) for row in rows) // MARK_BYTES
        if len(rows) < _AT_ONCE:
            break
        bounds["last"] = int(rows[-1]["id"]) - 1
    return found
