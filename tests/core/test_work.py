"""What passes between whoever works a command and the desk."""

import pytest

from edgeagent.contracts.actions import CATALOGUE, ActionName, Effect
from edgeagent.contracts.policy import Level, TierRule
from edgeagent.contracts.reasons import Reason
from edgeagent.core.confirmation import Confirmed, Contradicted, Denied
from edgeagent.core.work import Answered, Claim
from tests.core.gating import LAMP, LOW, asked, world

ARGUMENTS: dict[ActionName, dict[str, object]] = {ActionName.POWER: {"on": True}}


def claim_of(action: ActionName) -> Claim:
    """A claim of a command that says this."""
    return Claim(
        run=1,
        asked=asked(action=action, arguments=ARGUMENTS.get(action, {})),
        envelope=b"",
        world=world(),
        rule=LOW,
        tier=TierRule(),
        token="0" * 32,
        fence=1,
        attempts=0,
        sent=False,
        force_refresh=False,
        before=None,
        plan=None,
    )


@pytest.mark.requirement("I3")
@pytest.mark.parametrize("action", ActionName)
def test_only_what_leads_to_the_same_end_again_may_be_resent(action: ActionName) -> None:
    claim = claim_of(action)

    assert claim.may_be_resent is (CATALOGUE[action].effect is Effect.ABSOLUTE)
    assert claim.device == LAMP


@pytest.mark.requirement("M2")
@pytest.mark.parametrize(
    ("answered", "is_enough"),
    [
        pytest.param(Answered(), False, id="nothing yet"),
        pytest.param(Answered(confirmed=Confirmed(Level.ACCEPTED)), False, id="less than is needed"),
        pytest.param(Answered(confirmed=Confirmed(Level.APPLIED)), True, id="what is needed"),
        pytest.param(Answered(confirmed=Confirmed(Level.VERIFIED)), True, id="more than is needed"),
        pytest.param(Answered(denied=Denied(Reason.DEVICE_REFUSED, "no")), True, id="the device said no"),
        pytest.param(Answered(seen=Confirmed(Level.VERIFIED, value=True)), True, id="read back"),
        pytest.param(Answered(seen=Contradicted(value=False)), True, id="read back, another value"),
        pytest.param(Answered(is_over=True), True, id="the time is over"),
    ],
)
def test_waiting_ends_when_enough_is_known_or_the_time_is_over(
    answered: Answered,
    is_enough: bool,  # noqa: FBT001 - a column of the table
) -> None:
    assert answered.is_enough(Level.APPLIED) is is_enough
