"""What a command costs does not depend on how many are over."""

from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import pytest

from edgeagent.contracts.receipt import Outcome
from edgeagent.store.database import Database
from tests.flows.commanding import Hub, new_hub
from tests.flows.signing import VOLUME
from tests.support.past import lengthen

_STEP = 10
_PAST = 3_000


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub with one television that answers."""
    async with new_hub(tmp_path) as made:
        await made.television()
        yield made


class Steps:
    """Counts the steps of SQLite's machine on both connections of a store, by tens."""

    def __init__(self, store: Database) -> None:
        self._store = store
        self.count = 0

    async def begins(self) -> None:
        """Count from now on."""
        self.count = 0
        await self._handler(self._tick)

    async def ends(self) -> int:
        """Count no more.

        Returns:
            How many there were.
        """
        await self._handler(None)
        return self.count

    def _tick(self) -> int:
        self.count += 1
        return 0

    async def _handler(self, tick: Callable[[], int] | None) -> None:
        await self._store.write(lambda tx: tx._connection.set_progress_handler(tick, _STEP))
        await self._store.read(lambda db: db._connection.set_progress_handler(tick, _STEP))


async def work(hub: Hub, level: int) -> None:
    """Have a command come, be worked and end."""
    command = hub.command(VOLUME, level=level)
    await hub.admits(command)
    await hub.works()
    assert (await hub.ended(command)).outcome is Outcome.SUCCEEDED


@pytest.mark.requirement("Q8")
async def test_a_command_takes_as_many_steps_of_the_database_however_many_are_over(hub: Hub) -> None:
    # Given a hub that has worked before, so that nothing is done for the first time.
    for level in (1, 2):
        await work(hub, level)
    steps = Steps(hub.store)

    # When one is worked with nothing behind it, and one with thousands on the same device and slot.
    await steps.begins()
    await work(hub, 3)
    before = await steps.ends()
    await hub.store.write(partial(lengthen, by=_PAST))
    await steps.begins()
    await work(hub, 4)
    after = await steps.ends()

    # Then both took the same. A look through what is over would take a step for each row at least.
    assert hub.rows("SELECT count(*) FROM inbox") == [(_PAST + 4,)]
    assert before > 0
    assert abs(after - before) * _STEP < _PAST // 10, (before, after)
