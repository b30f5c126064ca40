"""The agent is killed: nothing acknowledged is lost, nothing has two event ids, no one-shot acts twice.

A burst of 20,000 messages at QoS 1 runs while it dies, each a change, each with a number of its own. The
broker goes on, so whatever it has acknowledged to a plug has to reach the cloud, once.
"""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from edgeagent.cli.failing import AgentDownError
from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.event import EventType, Stream
from edgeagent.contracts.receipt import Outcome
from edgeagent.ports.crash import CrashPoint
from tests.support.agents_burst import Judgement
from tests.support.agents_venue import Venue
from tests.support.brokers import wait_until

BURST: Final = 20_000
SHORTER: Final = 8_000

pytestmark = [pytest.mark.slow, pytest.mark.requirement("R5", "Q1", "Q2", "U1")]


@dataclass(frozen=True, slots=True)
class Death:
    """A death at a named point, and what becomes of a one-shot command that came right before.

    Attributes:
        nth: at which passing of the point it dies.
        outcome: how the command ends all the same.
        effects: how often the plug acts on it.
    """

    nth: int
    outcome: Outcome
    effects: int


# What a command of several parts passes besides is in ``test_killed_scene``.
# The burst makes some 50 commits and uploads: the thirtieth is in the middle of it.
DEATHS: Final = {
    CrashPoint.EVENTS_COMMITTED: Death(12, Outcome.SUCCEEDED, 1),
    CrashPoint.EVENTS_UPLOADED: Death(8, Outcome.SUCCEEDED, 1),
    CrashPoint.COMMAND_ADMITTED: Death(1, Outcome.SUCCEEDED, 1),
    CrashPoint.COMMAND_CLAIMED: Death(1, Outcome.SUCCEEDED, 1),
    CrashPoint.STEP_RECORDED: Death(1, Outcome.UNKNOWN, 0),
    CrashPoint.STEP_SENT: Death(1, Outcome.UNKNOWN, 1),
    CrashPoint.EFFECT_CONFIRMED: Death(1, Outcome.UNKNOWN, 1),
    CrashPoint.COMMAND_SETTLED: Death(1, Outcome.SUCCEEDED, 1),
}


def incarnations(venue: Venue) -> list[int]:
    """The starts of the agent of which the cloud has been told, in its present epoch."""
    return [
        event.incarnation for event in venue.cloud.events(Stream.RECORD) if event.type is EventType.HUB_HELLO
    ]


@pytest.mark.parametrize("seed", [1, 2])
def test_random_kills_during_a_burst_lose_nothing_and_double_nothing(seed: int, venue: Venue) -> None:
    epoch = venue.cloud.epoch
    chance = random.Random(seed)  # noqa: S311 - the moments can be had again from the seed
    moments = sorted(chance.sample(range(BURST // 20, BURST * 9 // 10), 4))

    burst = venue.burst(BURST)
    for moment in moments:
        venue.progress(moment)
        venue.agent.kill()
        venue.agent.start()
    tally = burst.finish()
    venue.catch_up()

    assert tally.acknowledged == BURST
    assert venue.judgement() == Judgement()
    assert venue.records_are_whole()
    assert venue.cloud.epoch == epoch
    assert incarnations(venue) == [1, 2, 3, 4, 5]
    assert venue.agent.stop() == 0
    assert venue.audit_break() is None


def test_a_broker_that_has_not_read_thousands_of_pubacks_sends_again_what_is_known(tmp_path: Path) -> None:
    """Half of the burst comes over the control session, whose window is small.

    mosquitto 2.0.11 does not heed the window, and what it has not read of our PUBACKs is lost by the kill.
    """
    with Venue(tmp_path, shelly=True) as venue:
        venue.open()
        burst = venue.burst(BURST)
        for part in range(1, 6):
            venue.progress(part * BURST // 8)
            venue.agent.kill()
            venue.agent.start()
        burst.finish()
        venue.catch_up()

        assert venue.judgement() == Judgement()
        assert venue.records_are_whole()


def test_further_kills_while_it_starts_again_change_nothing(venue: Venue) -> None:
    burst = venue.burst(BURST)
    venue.progress(BURST // 10)
    venue.agent.kill()
    starts_and_dies(venue, "")
    starts_and_dies(venue, "started")
    starts_and_dies(venue, "link up")
    venue.agent.start()
    burst.finish()
    venue.catch_up()

    assert venue.judgement() == Judgement()
    assert venue.records_are_whole()


def starts_and_dies(venue: Venue, word: str) -> None:
    """Start the agent, and kill it once it has logged a word; without one, once it holds its lock."""
    before = venue.agent.log.count(word)
    venue.agent.launch()
    if word:
        wait_until(lambda: venue.agent.log.count(word) > before, f"the agent to say {word!r}")
    else:
        wait_until(lambda: venue.agent.has_open("agent.lock"), "the agent to hold its lock")
    venue.agent.kill()


def has_stored(venue: Venue, events: int) -> bool:
    """Whether a running agent has stored so many telemetry events."""
    try:
        return venue.agent.outbox().streams[Stream.TELEMETRY].next > events
    except AgentDownError:
        return False


@pytest.mark.threat("T17")
@pytest.mark.requirement("I3", "L3", "Q3", "Q4")
@pytest.mark.parametrize("point", DEATHS, ids=str)
def test_a_death_at_a_named_point_loses_nothing_and_lets_no_one_shot_act_twice(
    point: CrashPoint, venue: Venue
) -> None:
    """A toggle comes in the middle of the burst; whatever is ordered while the agent is dead waits."""
    plug, other, *_ = venue.devices
    death = DEATHS[point]
    assert venue.agent.stop() == 0
    venue.agent.start(crash=(point, death.nth))
    venue.agent.wait_for_broker()

    burst = venue.burst(SHORTER)
    # On a slow machine it may be dead by then: of many small commits.
    wait_until(lambda: has_stored(venue, SHORTER // 20) or not venue.agent.alive, "the burst to come in")
    toggle = venue.order(plug, ActionName.TOGGLE)
    assert venue.agent.wait_for_end() == -9
    power = venue.order(other, ActionName.POWER, {"on": True})
    venue.agent.start()
    burst.finish()
    venue.catch_up()

    assert venue.end_of(toggle).outcome is death.outcome
    assert venue.effects(plug, ActionName.TOGGLE) == death.effects
    assert venue.end_of(power).outcome is Outcome.SUCCEEDED
    assert venue.judgement() == Judgement()
    assert venue.records_are_whole()
    assert venue.agent.stop() == 0
    assert venue.audit_break() is None


@pytest.mark.threat("T17")
@pytest.mark.requirement("I3", "M2")
def test_a_plug_that_has_acted_before_the_final_commit_is_not_made_to_act_again(venue: Venue) -> None:
    """Killed from outside, the moment the plug's own journal shows the effect."""
    plug = venue.devices[0]
    before = len(venue.journal())

    toggle = venue.order(plug, ActionName.TOGGLE)
    wait_until(lambda: venue.effects(plug, ActionName.TOGGLE) == 1, "the plug to act")
    venue.agent.kill()
    venue.agent.start()

    assert venue.end_of(toggle).outcome in {Outcome.SUCCEEDED, Outcome.UNKNOWN}
    assert venue.effects(plug, ActionName.TOGGLE) == 1
    assert len(venue.journal()) > before
