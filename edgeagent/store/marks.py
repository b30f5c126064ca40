"""Delivery marks on disk: which messages of a broker session are stored already.

Owns ``delivery_marks``: one row for each commit of readings, in the same commit, so that a message
and its mark are saved together or not at all (SPEC Q2). What a mark means, and for how long, is
decided in ``core/redelivery``.
"""

from typing import Final

from edgeagent.store.database import Snapshot, Transaction

_ADD: Final = "INSERT INTO delivery_marks (session, batch, marks) VALUES (:session, :batch, :marks)"
_FORGET: Final = "DELETE FROM delivery_marks WHERE session = :session AND batch < :before"
_LOAD: Final = "SELECT batch, marks FROM delivery_marks WHERE session = :session ORDER BY batch"


def add(tx: Transaction, session: str, batch: int, marks: bytes) -> None:
    """Store the marks of one commit."""
    tx.execute(_ADD, {"session": session, "batch": batch, "marks": marks})


def forget(tx: Transaction, session: str, *, before: int) -> None:
    """Drop the marks of commits before ``before``: their window has passed."""
    tx.execute(_FORGET, {"session": session, "before": before})


def load(db: Snapshot, session: str) -> list[tuple[int, bytes]]:
    """The stored marks of a session, oldest commit first."""
    return [(int(row["batch"]), bytes(row["marks"])) for row in db.rows(_LOAD, {"session": session})]
