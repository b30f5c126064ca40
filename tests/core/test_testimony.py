"""What a worker says is held against what the hub has seen."""

from dataclasses import replace

import pytest

from edgeagent.contracts.actions import ActionName, Effect
from edgeagent.contracts.mqtt import PublishResult
from edgeagent.contracts.policy import Level, TierRule
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.confirmation import Confirmed, Contradicted, Denied, Wish
from edgeagent.core.gate.world import World
from edgeagent.core.profile.plan import Plan
from edgeagent.core.shadow import Shadow, StateReading
from edgeagent.core.testimony import Evidence, doubt
from edgeagent.core.work import Answered, Claim, Ending, Later
from edgeagent.ids import ReadingName
from tests.core.gating import LOW, asked, world

pytestmark = pytest.mark.requirement("W1")

POWER = ReadingName("power")
TAKEN, NO_ANSWER = PublishResult.TAKEN, PublishResult.NO_ANSWER
DENIED = Answered(denied=Denied(Reason.DEVICE_REFUSED, "no"))
OTHER = Answered(seen=Contradicted(value=False))


def claim(*, sent: bool = False) -> Claim:
    """A command to switch something on."""
    plan = Plan(
        action=ActionName.POWER,
        arguments={"on": True},
        effect=Effect.ABSOLUTE,
        steps=(),
        wish=Wish(POWER, value=True),
        requires=(),
        best=Level.VERIFIED,
    )
    return Claim(
        run=1,
        asked=asked(),
        envelope=b"",
        world=world(),
        rule=LOW,
        tier=TierRule(),
        token="0" * 32,
        fence=1,
        attempts=int(sent),
        sent=sent,
        force_refresh=False,
        before=None,
        plan=plan,
    )


def showing(value: bool, *, live: bool = True) -> World:  # noqa: FBT001 - a reading's value
    """A world in which the device shows this."""
    held = StateReading(value, 1, 0, live_at=1 if live else None)
    return replace(world(), shadow=Shadow(1, "0" * 16, {POWER: held}))


def success(level: Level | None = Level.APPLIED) -> Ending:
    """It has worked, the worker says."""
    return Ending(outcome=Outcome.SUCCEEDED, level=level)


def heard(level: Level) -> Evidence:
    """It was sent, and confirmed to a level."""
    return Evidence(is_acted=True, result=TAKEN, answers=(Answered(confirmed=Confirmed(level)),))


@pytest.mark.parametrize(
    ("said", "evidence", "is_believed"),
    [
        (success(), heard(Level.APPLIED), True),
        (success(), heard(Level.VERIFIED), True),
        (success(), heard(Level.ACCEPTED), False),
        (success(Level.VERIFIED), heard(Level.APPLIED), False),
        (success(None), heard(Level.VERIFIED), False),
        (success(), Evidence(), False),
        (success(), Evidence(answers=(Answered(seen=Confirmed(Level.VERIFIED)),)), True),
        (success(), Evidence(answers=(OTHER,)), False),
        (success(), Evidence(worlds=(showing(value=True),)), True),
        (success(Level.VERIFIED), Evidence(worlds=(showing(value=True),)), False),
        (success(), Evidence(worlds=(showing(value=False),)), False),
        (success(), Evidence(worlds=(showing(value=True, live=False),)), False),
        (success(Level.SENT), Evidence(is_acted=True, result=TAKEN), True),
        (success(Level.SENT), Evidence(is_acted=True, result=NO_ANSWER), False),
    ],
)
def test_a_success_is_what_was_seen(said: Ending, evidence: Evidence, *, is_believed: bool) -> None:
    assert (doubt(claim(), said, evidence) == "") is is_believed


@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.EXPIRED, Outcome.FAILED])
def test_that_nothing_was_done_is_believed_of_what_did_not_leave(outcome: Outcome) -> None:
    said = Ending(outcome=outcome)

    assert doubt(claim(), said, Evidence()) == ""
    assert doubt(claim(), said, Evidence(is_acted=True, result=PublishResult.REFUSED)) == ""
    for result in (TAKEN, NO_ANSWER):
        assert doubt(claim(), said, Evidence(is_acted=True, result=result))
    assert doubt(claim(sent=True), said, Evidence())


def test_a_failure_is_what_the_device_has_denied_or_contradicted() -> None:
    said = Ending(outcome=Outcome.FAILED)

    for answer in (DENIED, OTHER):
        assert doubt(claim(sent=True), said, Evidence().told(answer)) == ""
    assert doubt(claim(sent=True), said, Evidence().told(Answered(is_over=True)))


def test_that_it_does_not_know_is_always_believed() -> None:
    assert doubt(claim(sent=True), Ending(outcome=Outcome.UNKNOWN), heard(Level.VERIFIED)) == ""


@pytest.mark.parametrize("outcome", [Outcome.SUPERSEDED, Outcome.CANCELLED])
def test_what_others_decide_no_worker_says(outcome: Outcome) -> None:
    assert doubt(claim(), Ending(outcome=outcome), Evidence())


def test_a_step_is_unsent_only_where_the_hub_knows_it() -> None:
    later = Later(reason=Reason.BROKER_AWAY, unsent=True)

    assert doubt(claim(), later, Evidence(is_acted=True)) == ""
    assert doubt(claim(), later, Evidence(is_acted=True, result=PublishResult.NOBODY_LISTENS)) == ""
    for evidence in (Evidence(), Evidence(is_acted=True, result=TAKEN)):
        assert doubt(claim(), later, evidence)
    assert doubt(claim(), replace(later, unsent=False), Evidence()) == ""


def test_an_answer_that_is_told_twice_is_kept_once() -> None:
    assert Evidence().told(DENIED).told(DENIED).answers == (DENIED,)
