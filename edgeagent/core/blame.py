"""Whose fault an ending is, and so what follows from it: again, never again, or a person looks (SPEC E1).

One table for every reason code. What passes by itself is *transient* and is tried again within the lane's
attempts; what will be the same tomorrow is *permanent* and is tried once; what no honest sender does is
*suspicious*: it stops early, is kept, and somebody is told. A target off the whitelist is permanent for its
command and counts against its origin, as ``OFF_TARGET`` says.
"""

from enum import StrEnum
from typing import Final

from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome


class Blame(StrEnum):
    """What kind of error a reason is."""

    TRANSIENT = "transient"
    """It passes by itself: try again."""
    PERMANENT = "permanent"
    """It does not pass: never try again."""
    SUSPICIOUS = "suspicious"
    """No honest sender does this: stop, keep it, tell somebody."""


TRANSIENT: Final = frozenset(
    {
        Reason.NO_POLICY,
        Reason.CLOCK_UNSURE,
        Reason.NEEDS_APPROVAL,
        Reason.NOT_YET_VALID,
        Reason.BREAKER_OPEN,
        Reason.TOO_MANY_HELD,
        Reason.OPERATION_RUNNING,
        Reason.OUTCOME_UNKNOWN,
        Reason.DEVICE_BUSY,
        Reason.DEVICE_OFFLINE,
        Reason.BROKER_AWAY,
        Reason.RETRYING,
        Reason.TAKEN_OVER,
        Reason.LEASE_LOST,
        Reason.NO_CONFIRMATION,
        Reason.OTHER_VALUE,
        Reason.FLAPPING,
    }
)
"""What passes by itself. Where a command ends with one of these, its attempts are spent."""
SUSPICIOUS: Final = frozenset(
    {
        Reason.WRONG_PAYLOAD_TYPE,
        Reason.BAD_SIGNATURE,
        Reason.UNPROVEN_METADATA,
        Reason.ID_CONFLICT,
        Reason.SEQUENCE_CONFLICT,
    }
)
"""What no honest sender does."""
OFF_TARGET: Final = frozenset({Reason.DEVICE_UNKNOWN, Reason.NOT_ALLOWED, Reason.BANNED})
"""A target off the whitelist: a device, an action or both that are not the sender's (SPEC B1)."""
INVALID: Final = OFF_TARGET | {
    Reason.VALID_TOO_LONG,
    Reason.UNSUPPORTED_ACTION,
    Reason.ARTIFACT_NOT_APPROVED,
    Reason.ARTIFACT_UNSIGNED,
    Reason.ARTIFACT_REVOKED,
    Reason.ARTIFACT_MISFIT,
    Reason.ARTIFACT_TOO_OLD,
    Reason.BAD_ARGUMENTS,
    Reason.CANNOT_CONFIRM,
    Reason.ID_CONFLICT,
    Reason.SEQUENCE_CONFLICT,
}
"""Refusals that tell of a sender that is wrong.

Not what whoever brings an honest sender's commands can cause by bringing them late, twice, or to another
hub: its breaker would open for what it did not do (SPEC T9).
"""

ANSWERED: Final = frozenset(
    {
        Reason.ARTIFACT_NOT_NEWER,
        Reason.STALE,
        Reason.UNFIT_STATE,
        Reason.STOPPED,
        Reason.CALLED_OFF,
        Reason.SUPERSEDED,
        Reason.EXPIRED,
        Reason.OPERATION_RUNNING,
        Reason.OPERATION_DONE,
        Reason.WRONG_EPOCH,
    }
)
"""The issuer is told, and decides anew: neither is it the sender's fault nor is a person called.

Refused so at the worker a command is kept as a dead letter all the same, for whoever wants to see it or, once
the reason is gone, to replay it (SPEC D1). But no breaker counts it, health does not warn of it, and it
crowds out no other letter: an issuer that decides on what it last saw has such refusals every day (SPEC C3).
"""
_BURIED: Final = frozenset({Outcome.FAILED, Outcome.UNKNOWN, Outcome.ROLLBACK_FAILED})


def blame_of(reason: Reason | None) -> Blame:
    """The class of a reason; permanent where none is given: nobody knows that it would pass."""
    if reason in TRANSIENT:
        return Blame.TRANSIENT
    return Blame.SUSPICIOUS if reason in SUSPICIOUS else Blame.PERMANENT


def is_buried(outcome: Outcome, reason: Reason | None, *, at_worker: bool) -> bool:
    """Whether an ending leaves a dead letter (SPEC D1).

    Args:
        outcome: how the command ended.
        reason: why.
        at_worker: whether it had been claimed: refused on arrival it is its sender's to put right.
    """
    if outcome in _BURIED:
        return True
    if outcome is not Outcome.REFUSED:
        return False
    # Of an operation that is running the first command's result is the answer, and it is on its way.
    return blame_of(reason) is Blame.SUSPICIOUS or (at_worker and reason is not Reason.OPERATION_RUNNING)
