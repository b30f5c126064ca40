"""What every test may use."""

import logging
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from edgeagent.store.database import Database
from tests.support.stores import opened

# No deadline: how fast a machine is proves nothing. A failing example prints how to run it again.
settings.register_profile("edgeagent", deadline=None, print_blob=True)
settings.load_profile("edgeagent")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell's background job has it ignored, and so had every program that a test starts and interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Where the tests are a unit or a container, its manager is no affair of the agents that they start.
os.environ.pop("NOTIFY_SOCKET", None)


@pytest.fixture(autouse=True)
def ends_its_logging() -> Iterator[None]:
    """Let the level that a command of a test has set end with the test."""
    ours = logging.getLogger("edgeagent")
    before = ours.level
    yield
    ours.setLevel(before)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Database]:
    """A hub's database, newly made."""
    async with opened(tmp_path / "hub.db") as database:
        yield database


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files of the most slow tests, with quick ones between them, and end with quick ones.

    So nobody waits for a slow one in the end. Slow ones wait most of their time, and quick ones never: beside
    each other they leave no core idle.
    """
    slow: Counter[Path] = Counter()
    files = dict.fromkeys(item.path for item in items)
    for item in items:
        for mark in item.iter_markers("slow"):
            slow[item.path] += mark.kwargs.get("weight", 1)
    quick = [path for path in files if path not in slow]
    places = {path: float(place) for place, (path, _) in enumerate(slow.most_common())}
    # Three of four of the quick ones come between.
    places |= {path: 0.5 + place * len(slow) / (0.75 * len(quick)) for place, path in enumerate(quick)}
    items.sort(key=lambda item: places[item.path])
