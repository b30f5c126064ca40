"""A burst of commands for a target that is not at this hub, on a living venue (SPEC B1).

They come past the producer's gate, by a queue in the wrong hands that lends whatever it likes. The hub
refuses and counts them, and their origin's action stands still there; nothing else does.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.receipt import Outcome
from edgeagent.ids import device_id
from tests.acceptance.replaying_queue import ReplayingQueue
from tests.support.agents_venue import PLUG, Venue
from tests.support.brokers import wait_until
from tests.support.stores import query

pytestmark = [pytest.mark.slow, pytest.mark.requirement("B1", "T9")]

STRANGER = device_id("plug-of-somebody-else")
BURST = 60


@pytest.fixture
def venue(tmp_path: Path, port: int) -> Iterator[Venue]:
    """A venue with one plug; the agent is not started."""
    with Venue(tmp_path, cloud_port=port) as running:
        yield running


@pytest.mark.threat("T14", "T52", "T53")
def test_a_burst_for_a_strange_target_stops_its_action_and_is_read_from_the_trail(
    venue: Venue, queue: ReplayingQueue
) -> None:
    burst = [venue.sign(STRANGER, ActionName.TOGGLE) for _ in range(BURST)]

    for order in burst:
        queue.lend(order.envelope)
    queue.wait_until_taken()
    wait_until(lambda: "breaker_refused" in venue.agent.run("audit", "list").stdout, "the breaker's refusals")
    other = venue.sign(PLUG, ActionName.POWER, {"on": True})
    queue.lend(other.envelope)
    wait_until(lambda: bool(venue.cloud.receipts(other.command.id)), "another command's receipt")
    [told] = venue.cloud.receipts(other.command.id)

    trail = venue.agent.run("audit", "list").stdout
    breakers = venue.agent.run("breakers", "list").stdout
    assert "breaker_opened" in trail
    assert "open" in breakers
    assert "off_target" in breakers
    assert told.data["outcome"] == Outcome.SUCCEEDED
    assert venue.effects(PLUG, ActionName.TOGGLE) == 0
    rows = query(venue.agent.database, "SELECT state, attempts FROM inbox WHERE action = 'toggle'")
    assert 0 < len(rows) < BURST
    assert set(rows) == {("refused", 0)}
    assert venue.agent.stop() == 0
    assert venue.audit_break() is None
