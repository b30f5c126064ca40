"""A venue that runs, for the stories of this room."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.replaying_queue import ReplayingQueue
from tests.support.agents_venue import Venue
from tests.support.brokers import free_port


@pytest.fixture
def venue(tmp_path: Path) -> Iterator[Venue]:
    """Broker, queue, four plugs and an agent that has admitted them."""
    with Venue(tmp_path, plugs=4) as running:
        running.open()
        yield running


@pytest.fixture
def port() -> int:
    """Where the agent looks for its queue."""
    return free_port()


@pytest.fixture
def queue(venue: Venue, port: int) -> Iterator[ReplayingQueue]:
    """The queue in the wrong hands, between a running agent and the real one."""
    with ReplayingQueue(venue.server, port) as running:
        venue.open()
        yield running
        venue.agent.kill()
