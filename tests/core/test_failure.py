"""Every reason for which something fails has one class, and nothing else has one."""

import pytest

from edgeagent.contracts.reasons import Reason
from edgeagent.core.failure import CLASSES, FailureClass, class_of

pytestmark = pytest.mark.requirement("E1")

NO_FAILURE = {
    # Done already, or a later one has come.
    *(Reason.REPLAYED, Reason.OPERATION_DONE, Reason.ALREADY_SO, Reason.SUPERSEDED),
    # It waits.
    *(Reason.CLOCK_UNSURE, Reason.NOT_YET_VALID, Reason.NEEDS_APPROVAL),
    *(Reason.DEVICE_BUSY, Reason.DEVICE_OFFLINE),
    # What devices send, and what is only told.
    *(Reason.INVALID_UTF8, Reason.INVALID_PAYLOAD, Reason.UNUSABLE_VALUE, Reason.RETAINED_COMMAND),
    *(Reason.FLAPPING, Reason.RETRY_THRESHOLD),
}


@pytest.mark.parametrize("reason", list(Reason))
def test_a_reason_is_a_failure_of_one_class_or_none_at_all(reason: Reason) -> None:
    assert (reason in CLASSES) is not (reason in NO_FAILURE)


@pytest.mark.requirement("E2")
def test_waiting_for_a_device_that_is_away_is_no_failure() -> None:
    assert class_of(Reason.DEVICE_OFFLINE) is None
    assert class_of(None) is None


@pytest.mark.parametrize("reason", [Reason.DEVICE_UNKNOWN, Reason.NOT_ALLOWED, Reason.BANNED])
def test_a_target_that_is_not_allowed_is_suspicious(reason: Reason) -> None:
    assert class_of(reason) is FailureClass.SUSPICIOUS


def test_what_the_device_itself_refuses_is_not_tried_again() -> None:
    assert class_of(Reason.DEVICE_REFUSED) is FailureClass.PERMANENT
