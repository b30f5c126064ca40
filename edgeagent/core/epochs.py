"""Whether a database goes on with its life, or a new one begins (SPEC T8, R3).

Judged at each start by what the database says of itself and what the mark beside it remembers.

| database | mark | |
|---|---|---|
| empty | none | first, or damaged if one was set aside |
| empty | there | lost, or damaged if one was set aside |
| whole | none | goes on |
| whole | of its epoch or of the one before it, and not ahead | goes on |
| whole | of its epoch and ahead, or of an epoch that it does not know | restored |
"""

from collections.abc import Sequence

from edgeagent.contracts.floormark import EpochReason, FloorMark
from edgeagent.ids import Epoch
from edgeagent.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a database says of itself.

    Attributes:
        epoch: its own; None when it has none yet.
        previous: the one before that.
        incarnation: the last start of the agent.
        audit_number: of the trail's last row.
        hash_at_mark: the hash of the row that the mark names; None when that row is not there (any more).
    """

    epoch: Epoch | None
    previous: Epoch | None
    incarnation: int
    audit_number: int
    hash_at_mark: bytes | None


def why_new(found: Found, mark: FloorMark | None, *, is_damaged: bool) -> EpochReason | None:
    """Why a new epoch begins; None when the present one goes on.

    Args:
        found: the database that was opened.
        mark: the newest one beside it that is whole and of this hub.
        is_damaged: whether a damaged database was set aside right before.
    """
    if found.epoch is None:
        if is_damaged:
            return EpochReason.DAMAGED
        return EpochReason.FIRST if mark is None else EpochReason.LOST
    if mark is None:
        return None
    if mark.epoch != found.epoch:
        # The power may have gone between the commit that began the epoch and the mark that names it.
        return None if mark.epoch == found.previous else EpochReason.RESTORED
    is_behind = found.incarnation < mark.incarnation or found.audit_number < mark.audit_number
    is_other = found.hash_at_mark is not None and found.hash_at_mark.hex() != mark.audit_hash
    return EpochReason.RESTORED if is_behind or is_other else None


def ahead_of(restored: FloorMark, previous: Epoch | None, known: Sequence[FloorMark]) -> FloorMark:
    """The mark to write before a database is put back, so that it finds itself behind and a new epoch begins.

    Without it a copy that is as late as the last mark, or lies on a new card where there is none, would go on
    as if nothing had been done since.

    Args:
        restored: what the copy holds.
        previous: the epoch before that of the copy; None for none.
        known: the marks that lie beside the database, and one of what it holds now.
    """
    every = [restored, *known]
    newest = max(every, key=lambda mark: (mark.incarnation, mark.audit_number))
    floors = [mark for mark in every if mark.time_floor is not None]
    floor = max(floors, key=lambda mark: (mark.floor_resets, mark.time_floor), default=restored)
    versions = [mark.policy_version for mark in every if mark.policy_version is not None]
    return FloorMark(
        hub=restored.hub,
        sequence=max(mark.sequence for mark in every) + 1,
        # One that the copy takes for the one before it would be no reason for a new one.
        epoch=restored.epoch if newest.epoch == previous else newest.epoch,
        incarnation=max(mark.incarnation for mark in every) + 1,
        audit_number=max(mark.audit_number for mark in every) + 1,
        audit_hash=newest.audit_hash,
        time_floor=floor.time_floor,
        floor_resets=max(mark.floor_resets for mark in every),
        policy_version=max(versions, default=None),
        stops=newest.stops,
    )
