"""The policy in force: one row whose version only grows."""

from pathlib import Path

import pytest

from edgeagent.errors import BrokenInvariantError, LostRaceError
from edgeagent.store import policy
from edgeagent.store.database import Database
from tests.support.stores import HUB_MIGRATIONS, query, use

pytestmark = pytest.mark.requirement("T2", "C5", "F1")


async def test_at_first_there_is_none(store: Database) -> None:
    assert await store.read(policy.load) is None


@pytest.mark.parametrize(("version", "is_taken"), [(4, False), (5, True), (6, True), (2**53 - 1, True)])
async def test_a_policy_takes_the_place_of_one_that_is_not_newer(
    store: Database,
    tmp_path: Path,
    version: int,
    is_taken: bool,  # noqa: FBT001 - a column of the table
) -> None:
    await store.write(lambda tx: policy.save(tx, 5, b"five"))

    if is_taken:
        await store.write(lambda tx: policy.save(tx, version, b"other"))
    else:
        with pytest.raises(LostRaceError):
            await store.write(lambda tx: policy.save(tx, version, b"other"))

    kept = (version, b"other") if is_taken else (5, b"five")
    assert query(tmp_path / "hub.db", "SELECT version, envelope FROM policy") == [kept]
    assert await store.read(policy.load) == kept[1]


def test_the_version_does_not_fall_after_a_reopening(tmp_path: Path) -> None:
    path = tmp_path / "hub.db"
    use(path, HUB_MIGRATIONS, lambda tx: policy.save(tx, 5, b"five"))

    with pytest.raises(LostRaceError):
        use(path, HUB_MIGRATIONS, lambda tx: policy.save(tx, 4, b"four"))

    assert use(path, HUB_MIGRATIONS, policy.load) == b"five"


@pytest.mark.parametrize(
    "sql",
    ["INSERT INTO policy (one, version, envelope) VALUES (2, 9, x'00')", "UPDATE policy SET version = 0"],
)
async def test_the_database_holds_one_row_with_a_version(store: Database, sql: str) -> None:
    await store.write(lambda tx: policy.save(tx, 5, b"five"))

    with pytest.raises(BrokenInvariantError):
        await store.write(lambda tx: tx.execute(sql))

    assert await store.read(policy.load) == b"five"
