"""Single values of the hub that outlive a restart.

Owns the table ``meta``: the *epoch* (the life of this database, SPEC T8), the *incarnation* (one more
at each start of the agent, SPEC L3), the floor of time (SPEC T6), and how far back commands are forgotten
(SPEC T4).
"""

from datetime import datetime
from typing import Final

from edgeagent.contracts.scalars import timestamp, timestamp_text
from edgeagent.ids import Epoch
from edgeagent.ids import epoch as checked_epoch
from edgeagent.store.database import Snapshot, Transaction

_READ: Final = "SELECT value FROM meta WHERE name = :name"
_WRITE: Final = """
INSERT INTO meta (name, value) VALUES (:name, :value)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""
_CREATE: Final = "INSERT INTO meta (name, value) VALUES (:name, :value) ON CONFLICT (name) DO NOTHING"


def ensure_epoch(tx: Transaction, new: Epoch) -> tuple[Epoch, bool]:
    """Give the database its epoch if it has none.

    Returns:
        The epoch, and whether it is new.
    """
    created = tx.execute(_CREATE, {"name": "epoch", "value": new}) == 1
    return checked_epoch(_value(tx, "epoch") or ""), created


def next_incarnation(tx: Transaction) -> int:
    """Count a start of the agent.

    Returns:
        Its number, from 1.
    """
    incarnation = int(_value(tx, "incarnation") or "0") + 1
    tx.execute(_WRITE, {"name": "incarnation", "value": str(incarnation)})
    return incarnation


def time_floor(db: Snapshot) -> datetime | None:
    """The moment that is certainly past, if one was ever stored."""
    text = _value(db, "time_floor")
    return None if text is None else timestamp(text)


def raise_time_floor(tx: Transaction, moment: datetime) -> bool:
    """Store a later floor of time. An earlier one changes nothing.

    Returns:
        Whether it rose.
    """
    present = time_floor(tx)
    if present is not None and moment <= present:
        return False
    tx.execute(_WRITE, {"name": "time_floor", "value": timestamp_text(moment)})
    return True


def forgotten(db: Snapshot) -> datetime | None:
    """The latest expiry of a command that was forgotten: one that expires by then may have been here."""
    text = _value(db, "forgotten")
    return None if text is None else timestamp(text)


def raise_forgotten(tx: Transaction, moment: datetime) -> None:
    """Note how far back commands are forgotten now. An earlier moment changes nothing."""
    present = forgotten(tx)
    if present is None or moment > present:
        tx.execute(_WRITE, {"name": "forgotten", "value": timestamp_text(moment)})


def _value(db: Snapshot, name: str) -> str | None:
    row = db.row(_READ, {"name": name})
    return None if row is None else str(row["value"])
