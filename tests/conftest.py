"""What every test may use."""

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import settings

from edgeagent.store.database import Database
from tests.support.stores import opened

# No deadline: how fast a machine is proves nothing. A failing example prints how to run it again.
settings.register_profile("edgeagent", deadline=None, print_blob=True)
settings.load_profile("edgeagent")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Database]:
    """A hub's database, newly made."""
    async with opened(tmp_path / "hub.db") as database:
        yield database


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that have the most slow tests, so that nobody waits for one of them in the end."""
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: -slow[item.path])
