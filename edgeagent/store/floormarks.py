"""A mark of what a database holds now, for the floor file; and how a database stands to such a mark."""

from edgeagent.contracts.floormark import FloorMark
from edgeagent.core.epochs import Found
from edgeagent.errors import BrokenInvariantError
from edgeagent.ids import Digest, HubId
from edgeagent.store import audit, meta, stops
from edgeagent.store import policy as policies
from edgeagent.store.database import Snapshot


def found_beside(db: Snapshot, mark: FloorMark | None) -> Found:
    """What a database says of itself, and of the row of its trail that a mark names."""
    present = meta.life(db)
    return Found(
        epoch=None if present is None else present.epoch,
        previous=None if present is None else present.previous,
        incarnation=meta.incarnation(db),
        audit_number=audit.head(db).number,
        hash_at_mark=None if mark is None else audit.hash_of(db, mark.audit_number),
    )


def mark_of(db: Snapshot, hub: HubId, sequence: int, policy_version: int | None = None) -> FloorMark:
    """Make the mark.

    Args:
        db: what is marked.
        hub: whose it is.
        sequence: of the mark.
        policy_version: in force; None for the one that is stored.

    Raises:
        BrokenInvariantError: the database has no epoch yet.
    """
    life, head, floor = meta.life(db), audit.head(db), meta.time_floor(db)
    if life is None:
        raise BrokenInvariantError("a database without an epoch has no mark")
    return FloorMark(
        hub=hub,
        sequence=sequence,
        epoch=life.epoch,
        incarnation=meta.incarnation(db),
        audit_number=head.number,
        audit_hash=Digest(head.hash.hex()),
        time_floor=None if floor is None else floor.moment,
        floor_resets=meta.floor_resets(db),
        policy_version=policies.least_version(db) if policy_version is None else policy_version,
        stops=sorted(stops.stopped(db)) or None,
    )
