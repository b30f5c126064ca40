"""Old commands do nothing: replayed, reordered, expired, decided on what is no more, for a lost database.

Between the real agent and the real queue stands one in the wrong hands, which lends any recorded command as
often as it likes. The plug's own journal counts what was done.
"""

import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from edgeagent.clock import ProvenClock, SystemTime
from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.command import Precondition
from edgeagent.contracts.event import EventType, Stream
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.issuer.commands import SignedCommand
from tests.acceptance.replaying_queue import ReplayingQueue
from tests.support.agents_cloud import RefusedByCloudError
from tests.support.agents_venue import PLUG, Venue
from tests.support.brokers import wait_until
from tests.support.clocks import ManualClock
from tests.support.stores import query

TIMES: Final = 100
HOUR: Final = timedelta(hours=1)

pytestmark = [pytest.mark.slow, pytest.mark.requirement("T4")]


@pytest.fixture
def venue(tmp_path: Path, port: int) -> Iterator[Venue]:
    """A venue with one plug; the agent is not started."""
    with Venue(tmp_path, cloud_port=port) as running:
        yield running


def ended(venue: Venue, order: SignedCommand) -> tuple[Outcome, Reason | None]:
    """How a command that only the hub has seen ended; there is one receipt of it, and no second one."""
    wait_until(lambda: bool(venue.cloud.receipts(order.command.id)), "the command's receipt")
    [told] = venue.cloud.receipts(order.command.id)
    reason = told.data.get("reason")
    return Outcome(str(told.data["outcome"])), None if reason is None else Reason(str(reason))


def runs_of(venue: Venue, order: SignedCommand) -> int:
    """How many rows the inbox has of a command."""
    found = query(venue.agent.database, "SELECT command FROM inbox")
    return found.count((order.command.id,))


@pytest.mark.requirement("I3", "T9")
@pytest.mark.threat("T4", "T16")
def test_a_command_that_comes_a_hundred_times_and_again_after_a_kill_is_done_once(
    venue: Venue, queue: ReplayingQueue
) -> None:
    toggle = venue.sign(PLUG, ActionName.TOGGLE)

    queue.lend(toggle.envelope, times=TIMES)
    queue.wait_until_taken()
    first = ended(venue, toggle)
    venue.agent.kill()
    venue.agent.start()
    queue.lend(toggle.envelope, times=TIMES)
    queue.wait_until_taken()
    venue.catch_up()

    assert first == ended(venue, toggle) == (Outcome.SUCCEEDED, None)
    assert venue.effects(PLUG, ActionName.TOGGLE) == 1
    assert runs_of(venue, toggle) == 1
    assert venue.records_are_whole()
    assert venue.agent.stop() == 0
    assert venue.audit_break() is None


@pytest.mark.requirement("T5")
@pytest.mark.threat("T4")
def test_a_recorded_command_whose_time_is_over_is_refused(venue: Venue, queue: ReplayingQueue) -> None:
    now = ProvenClock(SystemTime()).wall().best
    old = venue.sign(PLUG, ActionName.TOGGLE, clock=ManualClock(now - HOUR))

    queue.lend(old.envelope, times=2)
    queue.wait_until_taken()

    outcome, reason = ended(venue, old)
    assert outcome in {Outcome.REFUSED, Outcome.EXPIRED}
    assert reason is Reason.EXPIRED
    assert venue.effects(PLUG, ActionName.TOGGLE) == 0


@pytest.mark.requirement("V7")
@pytest.mark.usefixtures("queue")
@pytest.mark.threat("T4")
def test_the_real_queue_does_not_even_take_a_command_whose_time_is_over(venue: Venue) -> None:
    now = ProvenClock(SystemTime()).wall().best
    old = venue.sign(PLUG, ActionName.TOGGLE, clock=ManualClock(now - HOUR))

    with pytest.raises(RefusedByCloudError, match="expired"):
        venue.cloud.send(old.envelope)

    assert venue.cloud.hub().waiting == 0
    assert venue.effects(PLUG, ActionName.TOGGLE) == 0


@pytest.mark.requirement("E2")
def test_a_command_that_waits_for_an_absent_plug_expires_and_is_not_done_when_it_returns(
    venue: Venue, queue: ReplayingQueue
) -> None:
    venue.unplug()
    wait_until(lambda: venue.agent.device(PLUG).online is False, "the plug to be gone")

    toggle = venue.sign(PLUG, ActionName.TOGGLE, valid_for=timedelta(seconds=5))
    queue.lend(toggle.envelope)
    queue.wait_until_taken()
    assert ended(venue, toggle) == (Outcome.EXPIRED, Reason.EXPIRED)
    venue.plug_in()
    wait_until(lambda: venue.agent.device(PLUG).online is True, "the plug to be back")

    assert venue.effects(PLUG, ActionName.TOGGLE) == 0


@pytest.mark.requirement("C2", "C3")
def test_a_command_that_was_decided_on_an_old_version_touches_nothing(
    venue: Venue, queue: ReplayingQueue
) -> None:
    seen = Precondition(version=venue.agent.device(PLUG).version)
    decided = venue.sign(PLUG, ActionName.TOGGLE, precondition=seen)
    venue.agent.send(PLUG, ActionName.TOGGLE)

    queue.lend(decided.envelope)
    queue.wait_until_taken()

    assert ended(venue, decided) == (Outcome.REFUSED, Reason.STALE)
    assert venue.effects(PLUG, ActionName.TOGGLE) == 1
    # The plug was read afresh and told, so that the desk can decide again.
    wait_until(lambda: bool(venue.cloud.told(EventType.REVALIDATED)), "the plug's state, read afresh")
    [report] = venue.cloud.told(EventType.REVALIDATED)
    assert (report.data["command"], report.data["live"]) == (decided.command.id, True)
    assert report.subject == PLUG
    assert isinstance(report.data["version"], int)
    again = venue.sign(PLUG, ActionName.TOGGLE, precondition=Precondition(version=report.data["version"]))
    queue.lend(again.envelope)
    queue.wait_until_taken()
    assert ended(venue, again) == (Outcome.SUCCEEDED, None)
    assert venue.effects(PLUG, ActionName.TOGGLE) == 2


@pytest.mark.requirement("T4")
@pytest.mark.threat("T5")
def test_an_earlier_command_that_is_held_back_until_a_later_one_is_done_is_superseded(
    venue: Venue, queue: ReplayingQueue
) -> None:
    off = venue.sign(PLUG, ActionName.POWER, {"on": False})
    on = venue.sign(PLUG, ActionName.POWER, {"on": True})

    queue.lend(on.envelope)
    queue.wait_until_taken()
    assert ended(venue, on) == (Outcome.SUCCEEDED, None)
    queue.lend(off.envelope)
    queue.wait_until_taken()

    assert ended(venue, off)[1] is Reason.SUPERSEDED
    assert venue.agent.device(PLUG).readings["power"].value is True
    assert venue.effects(PLUG, ActionName.POWER) == 1


@pytest.mark.requirement("T8")
@pytest.mark.threat("T4", "T26")
def test_a_hub_that_has_lost_its_database_does_nothing_that_was_signed_for_the_old_one(
    venue: Venue, queue: ReplayingQueue
) -> None:
    """Whoever wipes the memory of replays gets none of the old commands through."""
    toggle = venue.sign(PLUG, ActionName.TOGGLE)
    queue.lend(toggle.envelope)
    queue.wait_until_taken()
    assert ended(venue, toggle) == (Outcome.SUCCEEDED, None)
    old = venue.cloud.epoch
    assert venue.agent.stop() == 0
    shutil.rmtree(venue.agent.state_dir)
    venue.agent.start()
    wait_until(lambda: venue.cloud.epoch != old, "the hello of the new epoch")

    queue.lend(toggle.envelope, times=TIMES)
    queue.wait_until_taken()
    wait_until(lambda: bool(refusals(venue)), "the refusal at the cloud")

    # It is refused once, and known when it comes again.
    assert set(refusals(venue)) - {Reason.REPLAYED} == {Reason.WRONG_EPOCH}
    assert venue.effects(PLUG, ActionName.TOGGLE) == 1


def refusals(venue: Venue) -> list[str]:
    """The reasons of everything that the hub has refused in its present epoch."""
    return [
        str(event.data["reason"])
        for event in venue.cloud.events(Stream.RECORD)
        if event.type is EventType.REFUSED
        or (event.type is EventType.RECEIPT and event.data["outcome"] == Outcome.REFUSED)
    ]
