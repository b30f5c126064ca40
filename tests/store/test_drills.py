"""The last drill of each kind, and when the last good one was."""

from dataclasses import replace
from functools import partial

import pytest

from edgeagent.contracts.reports.drills import DrillKind
from edgeagent.store import drills
from edgeagent.store.database import Database
from edgeagent.store.drills import Held

pytestmark = pytest.mark.requirement("O6")

GOOD = Held(
    kind=DrillKind.LOCK, at=1_000, passed=True, milliseconds=250, why="", actor="uid:0 root", good_at=1_000
)
BAD = replace(GOOD, at=2_000, passed=False, why="seen otherwise", good_at=None)


async def held(store: Database, *each: Held) -> list[Held]:
    """What is known after these were held."""
    for one in each:
        await store.write(partial(drills.save, held=one))
    return await store.read(drills.load)


async def test_one_that_was_never_held_is_not_known(store: Database) -> None:
    assert await held(store) == []


async def test_the_last_of_each_kind_is_known(store: Database) -> None:
    later, other = replace(GOOD, at=3_000, good_at=3_000), replace(GOOD, kind=DrillKind.CRASH)

    assert await held(store, GOOD, other, later) == [other, later]


async def test_one_that_fails_leaves_alone_when_the_last_good_one_was(store: Database) -> None:
    assert await held(store, BAD) == [BAD]
    assert await held(store, GOOD, BAD) == [replace(BAD, good_at=1_000)]
