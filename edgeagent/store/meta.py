"""Single values of the hub that outlive a restart.

Owns the table ``meta``: the *epoch* (the life of this database, SPEC T8) with why it began and what was
before, the *incarnation* (one more at each start of the agent, SPEC L3), the floor of time with what it
rests on (SPEC T6), how far back commands are forgotten (SPEC T4), what damage of the file is known, and at
which hub, of which version, the agent was started last.
"""

from datetime import datetime
from typing import Final

from edgeagent.clock import BootId, FloorSource
from edgeagent.contracts.floormark import EpochReason
from edgeagent.contracts.scalars import timestamp, timestamp_text
from edgeagent.ids import Epoch, hub_id
from edgeagent.ids import epoch as checked_epoch
from edgeagent.store import audit
from edgeagent.store.audit import Start
from edgeagent.store.database import Snapshot, Transaction
from edgeagent.values import dataclass

_READ: Final = "SELECT value FROM meta WHERE name = :name"
_WRITE: Final = """
INSERT INTO meta (name, value) VALUES (:name, :value)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""
_REMOVE: Final = "DELETE FROM meta WHERE name = :name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """A life of the database.

    Attributes:
        epoch: its name.
        reason: why it began.
        previous: the name of the one before; None when none is known.
        first_run: the last run of a command before it began; later ones came in it.
        is_known: whether a command that was signed for it has been accepted.
    """

    epoch: Epoch
    reason: EpochReason
    previous: Epoch | None = None
    first_run: int = 0
    is_known: bool = False


@dataclass(frozen=True, slots=True)
class StoredFloor:
    """The stored floor of time.

    Attributes:
        moment: what is certainly past.
        source: who said so.
        resets: how often a person has set the floor back.
    """

    moment: datetime
    source: FloorSource
    resets: int


def life(db: Snapshot) -> Life | None:
    """The present life of the database; None when it has none yet."""
    name = _value(db, "epoch")
    if name is None:
        return None
    previous = _value(db, "epoch_previous")
    return Life(
        epoch=checked_epoch(name),
        reason=EpochReason(_value(db, "epoch_reason") or EpochReason.FIRST),
        previous=None if previous is None else checked_epoch(previous),
        first_run=int(_value(db, "epoch_first_run") or "0"),
        is_known=_value(db, "epoch_is_known") is not None,
    )


def begin_life(tx: Transaction, new: Life) -> None:
    """Begin a new life of the database."""
    _write(tx, "epoch", new.epoch)
    _write(tx, "epoch_reason", new.reason)
    _write(tx, "epoch_first_run", str(new.first_run))
    tx.execute(_REMOVE, {"name": "epoch_is_known"})
    if new.previous is None:
        tx.execute(_REMOVE, {"name": "epoch_previous"})
    else:
        _write(tx, "epoch_previous", new.previous)


def note_life_known(tx: Transaction) -> None:
    """Note that a command that was signed for the present life has been accepted."""
    _write(tx, "epoch_is_known", "1")


def policy_floor(db: Snapshot) -> int:
    """The version of the policy that was in force in an earlier life; 0 for none."""
    return int(_value(db, "policy_floor") or "0")


def raise_policy_floor(tx: Transaction, version: int) -> None:
    """Store the version of the policy that was in force before this life."""
    _write(tx, "policy_floor", str(max(version, policy_floor(tx))))


def incarnation(db: Snapshot) -> int:
    """The number of the agent's last start; 0 before the first."""
    return int(_value(db, "incarnation") or "0")


def next_incarnation(tx: Transaction, *, after: int = 0) -> int:
    """Count a start of the agent.

    Args:
        tx: the transaction.
        after: a number that is known from elsewhere to have been used.

    Returns:
        Its number, from 1.
    """
    number = max(incarnation(tx), after) + 1
    _write(tx, "incarnation", str(number))
    return number


def note_start(tx: Transaction, start: Start) -> None:
    """Note a start of the agent."""
    _write(tx, "hub", start.hub)
    _write(tx, "version", start.version)


def last_start(db: Snapshot) -> Start | None:
    """The last start of the agent, also when the trail has dropped its row; None for none that is known."""
    hub, version = _value(db, "hub"), _value(db, "version")
    # One that was made by an earlier version has noted none.
    return audit.last_start(db) if hub is None or version is None else Start(hub_id(hub), version)


def time_floor(db: Snapshot) -> StoredFloor | None:
    """The moment that is certainly past, if one was ever stored."""
    text = _value(db, "time_floor")
    if text is None:
        return None
    source = FloorSource(_value(db, "time_floor_source") or FloorSource.BUILT)
    return StoredFloor(timestamp(text), source, floor_resets(db))


def floor_resets(db: Snapshot) -> int:
    """How often a person has set the floor of time back."""
    return int(_value(db, "floor_resets") or "0")


def raise_time_floor(tx: Transaction, moment: datetime, source: FloorSource) -> bool:
    """Store a later floor of time. An earlier one changes nothing.

    Returns:
        Whether it rose.
    """
    present = time_floor(tx)
    if present is not None and moment <= present.moment:
        return False
    _write(tx, "time_floor", timestamp_text(moment))
    _write(tx, "time_floor_source", source)
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


def set_time_floor(tx: Transaction, floor: StoredFloor) -> None:
    """Store a floor of time, be it earlier or later: a person's, or that of another database."""
    _write(tx, "time_floor", timestamp_text(floor.moment))
    _write(tx, "time_floor_source", floor.source)
    _write(tx, "floor_resets", str(floor.resets))


def boot_began(db: Snapshot) -> tuple[BootId, datetime] | None:
    """When a boot began at the earliest, as far as that is beyond doubt; None when none is stored."""
    boot_id, moment = _value(db, "boot_id"), _value(db, "boot_began")
    return None if boot_id is None or moment is None else (BootId(boot_id), timestamp(moment))


def note_boot_began(tx: Transaction, boot_id: BootId, moment: datetime) -> None:
    """Store when this boot began, as far as that is beyond doubt."""
    _write(tx, "boot_id", boot_id)
    _write(tx, "boot_began", timestamp_text(moment))


def damage(db: Snapshot) -> str:
    """What the last look at all pages has found; empty for nothing."""
    return _value(db, "damage") or ""


def note_damage(tx: Transaction, what: str) -> None:
    """Note what a look at all pages has found; empty for nothing."""
    if what:
        _write(tx, "damage", what)
    else:
        tx.execute(_REMOVE, {"name": "damage"})


def _value(db: Snapshot, name: str) -> str | None:
    row = db.row(_READ, {"name": name})
    return None if row is None else str(row["value"])


def _write(tx: Transaction, name: str, value: str) -> None:
    tx.execute(_WRITE, {"name": name, "value": str(value)})
