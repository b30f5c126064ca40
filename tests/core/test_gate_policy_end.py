"""The end of the policy's time: which end counts, and the grace of a tier."""

from datetime import datetime, timedelta

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.policy import Tier, TierRule
from edgeagent.contracts.reasons import Reason
from edgeagent.core.gate.verdict import Accept, Moment, Refuse
from tests.core.gating import HOUR, MINUTE, SECOND, judged, policy, wall, world
from tests.support.clocks import NOON

pytestmark = pytest.mark.requirement("C5", "T2")

OVER = Refuse(Reason.POLICY_EXPIRED)


@pytest.mark.parametrize("moment", [Moment.ADMIT, Moment.ACT, Moment.REPLAY])
@pytest.mark.parametrize(
    ("policy_ends", "metadata_end", "is_over"),
    [
        (NOON + HOUR, None, False),
        (NOON + HOUR, NOON + HOUR, False),
        (NOON + HOUR, NOON - MINUTE, True),
        (NOON - MINUTE, NOON + HOUR, True),
        (NOON - MINUTE, None, True),
    ],
)
def test_the_earlier_end_counts(
    moment: Moment,
    policy_ends: datetime,
    metadata_end: datetime | None,
    is_over: bool,  # noqa: FBT001 - a column of the table
) -> None:
    verdict = judged(world(policy=policy(expires_at=policy_ends), policy_until=metadata_end), moment)

    assert (verdict == OVER) == is_over
    assert is_over or isinstance(verdict, Accept)


@pytest.mark.parametrize(("over", "is_over"), [(HOUR - SECOND, False), (HOUR, True), (2 * HOUR, True)])
def test_a_tier_goes_on_for_as_long_as_its_grace(over: timedelta, *, is_over: bool) -> None:
    lenient = policy(
        expires_at=NOON - over, issued_at=NOON - 9 * HOUR, tiers={Tier.LOW: TierRule(grace=HOUR)}
    )

    verdict = judged(world(policy=lenient, wall=wall(error=timedelta(0))))

    assert (verdict == OVER) == is_over


def test_the_grace_of_one_tier_is_not_that_of_another() -> None:
    lenient = policy(expires_at=NOON - MINUTE, tiers={Tier.LOW: TierRule(grace=HOUR)})

    verdict = judged(world(policy=lenient), Moment.ADMIT, action=ActionName.TOGGLE, arguments={})

    assert verdict == OVER


def test_a_grace_beyond_any_calendar_is_no_trouble() -> None:
    endless = policy(expires_at=NOON - MINUTE, tiers={Tier.LOW: TierRule(grace=timedelta(days=999_999_999))})

    assert isinstance(judged(world(policy=endless)), Accept)


def test_what_the_clock_cannot_prove_to_be_over_is_not() -> None:
    """Whether the time of the command is over is asked apart from that, and holds it."""
    unsure = world(policy=policy(expires_at=NOON + MINUTE), wall=wall(error=None))

    assert judged(unsure) != OVER
