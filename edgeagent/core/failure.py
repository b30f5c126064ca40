"""What a failure is worth: whether trying again can help (SPEC E1).

Every reason for which a try or a command ends without success has one class. Those for which nothing has
failed have none: what waits for its device or for the time, what was done already, what a later command took
the place of.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from edgeagent.contracts.reasons import Reason


class FailureClass(StrEnum):
    """Whether trying again can help."""

    TRANSIENT = "transient"
    """It may go better by itself: tried again, as often as the tier allows."""
    PERMANENT = "permanent"
    """The same again leads to the same: never retried."""
    SUSPICIOUS = "suspicious"
    """Somebody may mean harm: never retried, and told."""


_TRANSIENT: Final = {
    Reason.BROKER_AWAY,
    Reason.RETRYING,
    Reason.TAKEN_OVER,
    Reason.NO_CONFIRMATION,
    Reason.OTHER_VALUE,
    Reason.LEASE_LOST,
}
_PERMANENT: Final = {
    Reason.DEVICE_REFUSED,
    Reason.BROKER_REFUSED,
    Reason.TOO_LARGE,
    Reason.WRONG_HUB,
    Reason.WRONG_EPOCH,
    Reason.NO_POLICY,
    Reason.POLICY_EXPIRED,
    Reason.SEQUENCE_CONFLICT,
    Reason.VALID_TOO_LONG,
    Reason.EXPIRED,
    Reason.STOPPED,
    Reason.BREAKER_OPEN,
    Reason.NOT_LATER,
    Reason.UNSUPPORTED_ACTION,
    Reason.BAD_ARGUMENTS,
    Reason.CANNOT_CONFIRM,
    Reason.UNFIT_STATE,
    Reason.STALE,
    Reason.OPERATION_RUNNING,
    Reason.OUTCOME_UNKNOWN,
}
# Permanent for the command; and what a sender that is what it says it is does not send.
_SUSPICIOUS: Final = {
    Reason.MALFORMED,
    Reason.WRONG_PAYLOAD_TYPE,
    Reason.BAD_SIGNATURE,
    Reason.UNPROVEN_METADATA,
    Reason.ID_CONFLICT,
    Reason.DEVICE_UNKNOWN,
    Reason.NOT_ALLOWED,
    Reason.BANNED,
}

CLASSES: Final[Mapping[Reason, FailureClass]] = MappingProxyType(
    dict.fromkeys(_TRANSIENT, FailureClass.TRANSIENT)
    | dict.fromkeys(_PERMANENT, FailureClass.PERMANENT)
    | dict.fromkeys(_SUSPICIOUS, FailureClass.SUSPICIOUS)
)
"""The class of every reason that is a failure."""


def class_of(reason: Reason | None) -> FailureClass | None:
    """The class of a reason; None where nothing has failed."""
    return None if reason is None else CLASSES.get(reason)
