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

from dataclasses import dataclass

from edgeagent.contracts.floormark import EpochReason, FloorMark
from edgeagent.ids import Epoch


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
