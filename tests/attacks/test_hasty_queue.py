"""T20: the queue lends for less time than anything takes, and lends again what it has not heard of.

The hub asks for a quarter of a minute and gets a second. It acknowledges once a command is on its disk, not
once it is done, so the work may take as long as it likes; what was not acknowledged in time comes again and
is known.
"""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.receipt import Outcome
from tests.acceptance.replaying_queue import ReplayingQueue
from tests.support.agents_venue import Venue
from tests.support.brokers import free_port, wait_until
from tests.support.stores import query

HOLD: Final = 1.0
PREFETCHED: Final = 10
SLOW: Final = timedelta(seconds=3)

pytestmark = [pytest.mark.slow, pytest.mark.threat("T20"), pytest.mark.requirement("Q3", "I3", "T4")]


@pytest.fixture
def port() -> int:
    """Where the agent looks for its queue."""
    return free_port()


@pytest.fixture
def venue(tmp_path: Path, port: int) -> Iterator[Venue]:
    """A venue with many plugs; the agent is not started."""
    with Venue(tmp_path, plugs=PREFETCHED, cloud_port=port) as running:
        yield running


@pytest.fixture
def queue(venue: Venue, port: int) -> Iterator[ReplayingQueue]:
    """The queue of a running agent."""
    with ReplayingQueue(venue.server, port, hold=HOLD) as running:
        venue.open()
        yield running
        venue.agent.kill()


def toggled_once_each(venue: Venue) -> bool:
    """Whether every plug has been toggled, and none twice."""
    return [venue.effects(plug, ActionName.TOGGLE) for plug in venue.devices] == [1] * PREFETCHED


def test_work_that_takes_longer_than_the_loan_is_done_once(venue: Venue, queue: ReplayingQueue) -> None:
    late = {"fault": "delay", "way": "said", "delay": f"{SLOW.total_seconds()}s", "topic": "stat/#"}
    for plug in venue.devices:
        venue.fleet.does("fault", plug, fault=late)
    orders = [venue.sign(plug, ActionName.TOGGLE) for plug in venue.devices]

    for order in orders:
        queue.lend(order.envelope)
    queue.wait_until_taken()
    taken = queue.lent
    wait_until(lambda: len(venue.cloud.receipts()) == PREFETCHED, "all receipts")

    assert queue.lent == taken
    assert toggled_once_each(venue)
    assert {told.data["outcome"] for told in venue.cloud.receipts()} <= {Outcome.SUCCEEDED, Outcome.UNKNOWN}
    assert venue.agent.stop() == 0
    assert venue.audit_break() is None


def test_what_waited_beyond_its_loan_before_it_was_stored_comes_again_and_is_known(
    venue: Venue, queue: ReplayingQueue
) -> None:
    """The agent stands still with ten commands in its hands, until the queue has taken them back."""
    orders = [venue.sign(plug, ActionName.TOGGLE) for plug in venue.devices]

    venue.agent.stops()
    for order in orders:
        queue.lend(order.envelope)
    wait_until(lambda: queue.lent > 0, "the agent to be lent what waits")
    wait_until(lambda: queue.is_overdue, "the loans to be over")
    venue.agent.goes_on()
    queue.wait_until_taken()
    wait_until(lambda: len(venue.cloud.receipts()) >= PREFETCHED, "all receipts")
    venue.catch_up()

    assert queue.lent > PREFETCHED
    assert toggled_once_each(venue)
    assert query(venue.agent.database, "SELECT count(*), sum(attempts) FROM inbox") == [(PREFETCHED,) * 2]
    for order in orders:
        [told] = venue.cloud.receipts(order.command.id)
        assert told.data["outcome"] == Outcome.SUCCEEDED
    assert venue.agent.stop() == 0
    assert venue.audit_break() is None
