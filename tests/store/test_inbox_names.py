"""What commands are called: found by how their ids begin, at the same cost however many have come."""

from functools import partial

import pytest

from edgeagent.core.lifecycle import State
from edgeagent.core.short_names import MOST
from edgeagent.ids import command_id
from edgeagent.store import inbox_names
from edgeagent.store.database import Database, Transaction
from tests.store.commands import inserted, new

pytestmark = pytest.mark.requirement("G3")


async def begin_so(store: Database, typed: str) -> list[str]:
    """The ids that begin with what was typed."""
    return await store.read(partial(inbox_names.begin_so, typed=command_id(typed)))


async def holds(store: Database, *ids: str) -> None:
    """Have commands come."""

    def insert(tx: Transaction) -> None:
        for number, name in enumerate(ids, start=1):
            inserted(tx, command=new(name, sequence=number), state=State.QUEUED)

    await store.write(insert)


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("c-1", ["c-1", "c-10", "c-1_", "c-1z"]),
        ("c-1z", ["c-1z"]),
        ("c-", ["c-1", "c-10", "c-1_", "c-1z", "c-2"]),
        ("C-1", ["C-1"]),
        ("c-3", []),
        ("-", []),
    ],
)
async def test_ids_are_found_by_how_they_begin(store: Database, typed: str, found: list[str]) -> None:
    await holds(store, "c-2", "c-1z", "c-1_", "c-10", "c-1", "C-1")

    assert await begin_so(store, typed) == found


async def test_no_more_are_looked_at_than_are_told(store: Database) -> None:
    await holds(store, *(f"c-{number:04}" for number in range(MOST + 20)))

    assert len(await begin_so(store, "c-")) == MOST + 1


async def test_they_are_looked_up_in_a_range_of_an_index(store: Database) -> None:
    statement = (
        "EXPLAIN QUERY PLAN SELECT DISTINCT command FROM inbox "
        "WHERE command >= 'c' AND command < 'c~' ORDER BY command LIMIT 9"
    )

    [plan] = await store.read(lambda db: [row["detail"] for row in db.rows(statement)])

    assert "COVERING INDEX" in plan
    assert "command>? AND command<?" in plan
