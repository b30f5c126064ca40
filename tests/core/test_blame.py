"""Whose fault an ending is: one class for every reason, and what it leaves."""

import pytest

from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.blame import INVALID, OFF_TARGET, SUSPICIOUS, TRANSIENT, Blame, blame_of, is_buried

pytestmark = pytest.mark.requirement("E1", "D1")


def test_no_reason_is_of_two_classes() -> None:
    assert not TRANSIENT & SUSPICIOUS
    assert not TRANSIENT & INVALID


def test_a_target_off_the_whitelist_is_permanent_for_its_command() -> None:
    assert {blame_of(reason) for reason in OFF_TARGET} == {Blame.PERMANENT}


def test_what_nobody_has_named_a_reason_for_does_not_pass_by_itself() -> None:
    assert blame_of(None) is Blame.PERMANENT


@pytest.mark.parametrize(
    ("outcome", "reason", "at_worker", "buried"),
    [
        (Outcome.FAILED, Reason.DEVICE_REFUSED, True, True),
        (Outcome.UNKNOWN, Reason.NO_CONFIRMATION, True, True),
        (Outcome.REFUSED, Reason.NOT_ALLOWED, True, True),
        (Outcome.REFUSED, Reason.NOT_ALLOWED, False, False),
        (Outcome.REFUSED, Reason.ID_CONFLICT, False, True),
        (Outcome.REFUSED, Reason.STALE, True, True),
        (Outcome.REFUSED, Reason.STALE, False, False),
        (Outcome.REFUSED, Reason.STOPPED, True, True),
        (Outcome.REFUSED, Reason.STOPPED, False, False),
        (Outcome.REFUSED, Reason.UNFIT_STATE, True, True),
        (Outcome.REFUSED, Reason.OPERATION_RUNNING, True, False),
        (Outcome.SUCCEEDED, None, True, False),
        (Outcome.EXPIRED, Reason.EXPIRED, True, False),
    ],
)
def test_what_ends_badly_at_the_worker_or_is_suspicious_leaves_a_dead_letter(
    *, outcome: Outcome, reason: Reason | None, at_worker: bool, buried: bool
) -> None:
    assert is_buried(outcome, reason, at_worker=at_worker) is buried
