"""The heads of hubs' audit trails, as uploads told them (SPEC A3).

    number > highest          the trail has grown
    number and hash known     nothing new
    anything else             a *fork*: the trail was rewritten, cut or set back

Owns ``heads`` and ``forks``. A hub cannot be kept from forging its own trail; this keeps it from forging
what it has said already.
"""

from typing import Final

from edgeagent.contracts.receipt import AuditMark
from edgeagent.contracts.scalars import timestamp
from edgeagent.ids import Digest, Epoch, HubId
from edgeagent.issuer.store.opening import Instant
from edgeagent.issuer.wire import HeadStatus
from edgeagent.store.database import Snapshot, SqlValue, Transaction
from edgeagent.values import dataclass

KEPT: Final = 1000
"""How many heads of a trail are remembered."""

_HIGHEST: Final = """
SELECT number, hash, seen FROM heads WHERE hub = :hub AND epoch = :epoch ORDER BY number DESC LIMIT 1
"""
_AT: Final = "SELECT hash FROM heads WHERE hub = :hub AND epoch = :epoch AND number = :number"
_ADD: Final = """
INSERT INTO heads (hub, epoch, number, hash, seen) VALUES (:hub, :epoch, :number, :hash, :seen)
"""
_FORGET: Final = """
DELETE FROM heads WHERE hub = :hub AND epoch = :epoch AND number <= (
    SELECT number FROM heads WHERE hub = :hub AND epoch = :epoch ORDER BY number DESC LIMIT 1 OFFSET :kept)
"""
_FORK: Final = """
INSERT INTO forks (hub, epoch, number, hash, known, seen)
VALUES (:hub, :epoch, :number, :hash, :known, :seen) ON CONFLICT DO NOTHING
"""
_FORKS: Final = "SELECT count(*) FROM forks WHERE hub = :hub AND epoch = :epoch"


@dataclass(frozen=True, slots=True)
class Fork:
    """A head that does not fit what the same trail was before.

    Attributes:
        told: the number of the head that was told.
        known: the number of the one that it does not fit.
    """

    told: int
    known: int


def note(tx: Transaction, hub: HubId, life: Epoch, head: AuditMark, now: Instant) -> Fork | None:
    """Remember a head.

    Returns:
        What is wrong with it, the first time that it is told; None when it fits.
    """
    trail: dict[str, SqlValue] = {"hub": hub, "epoch": life}
    told: dict[str, SqlValue] = {**trail, "number": head.number, "hash": head.hash, "seen": now.text}
    highest = tx.row(_HIGHEST, trail)
    if highest is None or head.number > int(highest["number"]):
        tx.execute(_ADD, told)
        tx.execute(_FORGET, {**trail, "kept": KEPT})
        return None
    same = tx.row(_AT, {**trail, "number": head.number})
    fits = same is not None and same["hash"] == head.hash
    # Two uploads of one round say the same. That of an earlier head is a trail that was set back.
    if fits and head.number == int(highest["number"]):
        return None
    known = int(highest["number"]) if fits or same is None else head.number
    new = tx.execute(_FORK, {**told, "known": known}) == 1
    return Fork(head.number, known) if new else None


def status(db: Snapshot, hub: HubId, life: Epoch) -> HeadStatus | None:
    """The furthest head of a trail, and how many did not fit; None when none was ever told."""
    trail: dict[str, SqlValue] = {"hub": hub, "epoch": life}
    row = db.row(_HIGHEST, trail)
    if row is None:
        return None
    return HeadStatus(
        number=int(row["number"]),
        hash=Digest(row["hash"]),
        seen_at=timestamp(row["seen"]),
        forks=int(db.rows(_FORKS, trail)[0][0]),
    )
