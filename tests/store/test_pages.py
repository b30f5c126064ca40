"""A short look at the pages, beside the writer: some tables each time, all of them in the end (SPEC O5)."""

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.contracts.reports.health import Level
from edgeagent.errors import StorageError
from edgeagent.flows.page_health import page_checks
from edgeagent.store.pages import Looked, PageLook
from tests.support.stores import opened

pytestmark = pytest.mark.requirement("O5", "R3")


def filled(path: Path, *tables: str, rows: int = 200) -> Path:
    """A database with these tables, closed."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        for table in tables:
            connection.execute(f"CREATE TABLE {table} (a TEXT)")
            connection.executemany(f"INSERT INTO {table} VALUES (?)", [("x" * 100,)] * rows)  # noqa: S608 - ours
        connection.commit()
    return path


def test_a_whole_one_is_seen_to_its_end(tmp_path: Path) -> None:
    path = filled(tmp_path / "hub.db", "a", "b", "c")

    assert PageLook(path, budget=timedelta(minutes=1)).look() == Looked(3, 3)


def test_without_time_for_all_each_look_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    path = filled(filled(tmp_path / "hub.db", "a", "b", rows=20_000), "c", rows=3)
    look = PageLook(path, budget=timedelta(0))

    seen = [look.look().tables for _ in range(4)]

    # One that is too large for any look is passed over, so that the next one has its turn.
    assert seen == [0, 0, 1, 0]


@pytest.mark.threat("T25")
async def test_a_file_that_is_overwritten_while_it_is_open_shows_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "hub.db"
    async with opened(path) as store:
        before = page_checks(PageLook(path))
        assert await store.checkpoint()
        with path.open("r+b") as file:
            file.write(bytes(path.stat().st_size))

        [check] = page_checks(PageLook(path))

    assert [each.level for each in before] == [Level.OK]
    assert check.level is Level.CRITICAL
    assert "damaged" in check.summary
    assert "set aside" in check.advice


def test_one_that_is_not_there_cannot_be_looked_at(tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        PageLook(tmp_path / "hub.db").look()

    [check] = page_checks(PageLook(tmp_path / "hub.db"))

    assert check.level is Level.UNKNOWN
    assert not (tmp_path / "hub.db").exists()
