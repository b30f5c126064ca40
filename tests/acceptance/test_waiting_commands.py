"""Commands that wait at the hub for longer than the queue lends them: lent again, and each done once."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.receipt import Outcome
from tests.acceptance.replaying_queue import ReplayingQueue
from tests.support.agents_venue import Venue
from tests.support.brokers import wait_until
from tests.support.stores import query

PLUGS: Final = 4
LENT: Final = 10

pytestmark = [pytest.mark.slow, pytest.mark.requirement("E2", "Q3", "Q5")]


@pytest.fixture
def venue(tmp_path: Path, port: int) -> Iterator[Venue]:
    """A venue with some plugs; the agent is not started."""
    with Venue(tmp_path, plugs=PLUGS, cloud_port=port) as running:
        yield running


@pytest.mark.threat("T20")
def test_what_was_fetched_ahead_and_is_lent_again_while_it_waits_is_done_once(
    venue: Venue, queue: ReplayingQueue
) -> None:
    venue.unplug()
    wait_until(lambda: not any(venue.agent.device(each).online for each in venue.devices), "the plugs to go")
    toggles = [venue.sign(device, ActionName.TOGGLE) for device in venue.devices]

    for toggle in toggles:
        queue.lend(toggle.envelope, times=LENT)
    queue.wait_until_taken()
    waiting = query(venue.agent.database, "SELECT DISTINCT attempts FROM inbox")
    venue.plug_in()
    for toggle in toggles:
        queue.lend(toggle.envelope, times=LENT)
    queue.wait_until_taken()
    wait_until(lambda: len(venue.cloud.receipts()) == PLUGS, "all receipts")
    venue.catch_up()

    assert waiting == [(0,)]
    told = [(receipt.data["outcome"], receipt.data["attempts"]) for receipt in venue.cloud.receipts()]
    assert told == [(Outcome.SUCCEEDED, 1)] * PLUGS
    assert [venue.effects(device, ActionName.TOGGLE) for device in venue.devices] == [1] * PLUGS
    assert len(query(venue.agent.database, "SELECT run FROM inbox")) == PLUGS
    assert venue.agent.stop() == 0
    assert venue.audit_break() is None
