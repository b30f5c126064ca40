"""A venue that runs, for the stories of this room."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.agents_venue import Venue


@pytest.fixture
def venue(tmp_path: Path) -> Iterator[Venue]:
    """Broker, queue, a plug and an agent that has admitted it."""
    with Venue(tmp_path) as running:
        running.open()
        yield running
