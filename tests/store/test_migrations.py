"""Migrations: each once, in order, whole or not at all."""

import asyncio
from pathlib import Path

import pytest

from edgeagent.errors import BrokenInvariantError
from edgeagent.store.database import Database, Snapshot
from edgeagent.store.files import MigrationError
from tests.support.stores import HUB_MIGRATIONS, migrations_of, query, use

pytestmark = pytest.mark.requirement("H1")

TABLE = "CREATE TABLE things (name TEXT PRIMARY KEY, size INTEGER NOT NULL) STRICT;"
INDEX = "CREATE INDEX things_by_size ON things (size);"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "things.db"


@pytest.fixture
def migrations(tmp_path: Path) -> Path:
    return migrations_of(tmp_path / "migrations", TABLE)


def count(db: Snapshot) -> int:
    """How many things there are."""
    return int(db.rows("SELECT count(*) FROM things")[0][0])


def test_migrations_run_once_and_in_order(path: Path, tmp_path: Path) -> None:
    first = migrations_of(tmp_path / "first", TABLE)
    more = migrations_of(tmp_path / "more", TABLE, INDEX, "INSERT INTO things VALUES ('from 3', 1);")

    use(path, first, count)
    for _ in range(2):
        use(path, more, count)

    assert query(path, "SELECT name FROM things") == [("from 3",)]
    assert query(path, "PRAGMA user_version") == [(3,)]


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param("INSERT INTO nowhere VALUES (1);", id="no such table"),
        pytest.param("INSERT INTO things VALUES ('b', 1); INSERT INTO things VALUES ('a', 1);", id="twice"),
        pytest.param("CREATE TABLE more (a); this is no SQL;", id="no SQL"),
    ],
)
def test_a_migration_that_fails_leaves_nothing_of_itself_and_all_that_was(
    path: Path, tmp_path: Path, migrations: Path, broken: str
) -> None:
    use(path, migrations, lambda tx: tx.execute("INSERT INTO things VALUES ('a', 1)"))
    more = migrations_of(tmp_path / "more", TABLE, f"CREATE TABLE other (a); {broken}")

    with pytest.raises(MigrationError, match=r"migration 2 fails.*as it was"):
        asyncio.run(Database.open(path, more))

    assert query(path, "SELECT name FROM sqlite_schema WHERE type = 'table'") == [("things",)]
    assert query(path, "PRAGMA user_version") == [(1,)]
    assert use(path, migrations, count) == 1


def test_of_several_migrations_none_is_kept_where_a_later_one_fails(
    path: Path, tmp_path: Path, migrations: Path
) -> None:
    """Else neither this version nor the one before could use the file."""
    use(path, migrations, lambda tx: tx.execute("INSERT INTO things VALUES ('a', 1)"))
    more = migrations_of(tmp_path / "more", TABLE, INDEX, "DELETE FROM things;", "this is no SQL;")

    with pytest.raises(MigrationError, match="migration 4 fails"):
        asyncio.run(Database.open(path, more))

    assert query(path, "PRAGMA user_version") == [(1,)]
    assert query(path, "SELECT count(*) FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL") == [
        (0,)
    ]
    assert use(path, migrations, count) == 1


def test_a_hole_in_the_migrations_is_our_own_mistake(path: Path, tmp_path: Path) -> None:
    folder = migrations_of(tmp_path / "holes", TABLE, INDEX, "SELECT 1;")
    (folder / "0002_step.sql").unlink()

    with pytest.raises(BrokenInvariantError, match="migration 2 is missing"):
        asyncio.run(Database.open(path, folder))


def test_the_tables_of_a_hub_are_made_whole_and_strict(path: Path) -> None:
    use(path, HUB_MIGRATIONS, lambda _: None)

    tables = query(path, "SELECT name, strict FROM pragma_table_list WHERE type = 'table'")
    ours = {name: strict for name, strict in tables if not str(name).startswith("sqlite_")}
    assert {"outbox", "streams", "audit", "devices", "shadows", "delivery_marks", "meta"} <= ours.keys()
    assert set(ours.values()) == {1}
    assert query(path, "PRAGMA foreign_key_check") == []
