"""Disks that are full, fail, or lie: nothing is told as saved that is not, and it goes on by itself."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from edgeagent.errors import StorageError
from edgeagent.store.database import Database, Snapshot, Transaction
from edgeagent.store.trouble import Fault
from tests.support.stores import broken_log, migrations_of, opened, query

pytestmark = pytest.mark.requirement("R2")

TABLE = "CREATE TABLE things (name TEXT PRIMARY KEY, data BLOB) STRICT;"
NO_SPACE = Path("/dev/full")
FAILED_SYNC = Path("/dev/null")
TWO_PAGES = 2 * 4096


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "things.db"


@pytest.fixture
async def things(path: Path, tmp_path: Path) -> AsyncIterator[Database]:
    migrations = migrations_of(tmp_path / "migrations", TABLE)
    async with opened(path, migrations) as database:
        yield database


def put(tx: Transaction, name: str, size: int = 0) -> int:
    """Store a thing."""
    return tx.execute("INSERT INTO things VALUES (?, ?)", (name, bytes(size)))


def names(db: Snapshot) -> list[str]:
    """The things that are stored."""
    return [str(row["name"]) for row in db.rows("SELECT name FROM things ORDER BY name")]


def limit_pages(tx: Transaction, pages: int) -> None:
    """Let the file grow to this size and no further, as a full disk would."""
    tx.rows(f"PRAGMA max_page_count = {pages}")


@pytest.mark.parametrize("disk", [NO_SPACE, FAILED_SYNC], ids=["no space", "a failed sync"])
async def test_a_commit_that_fails_fails_everybody_in_it_and_saves_nothing(
    things: Database, path: Path, disk: Path
) -> None:
    await things.write(lambda tx: put(tx, "before"))

    with broken_log(path, disk):
        results = await asyncio.gather(
            *(things.write(partial(put, name=name)) for name in "abc"), return_exceptions=True
        )

    assert [type(result) for result in results] == [StorageError] * 3
    assert await things.read(names) == ["before"]
    assert things.commits == 1


@pytest.mark.parametrize("disk", [NO_SPACE, FAILED_SYNC], ids=["no space", "a failed sync"])
async def test_a_disk_that_is_well_again_is_written_again_without_a_restart(
    things: Database, path: Path, disk: Path
) -> None:
    with broken_log(path, disk), pytest.raises(StorageError):
        await things.write(lambda tx: put(tx, "lost"))

    await things.write(lambda tx: put(tx, "after"))

    assert await things.read(names) == ["after"]
    assert query(path, "SELECT name FROM things") == [("after",)]
    assert query(path, "PRAGMA integrity_check") == [("ok",)]


@pytest.mark.threat("T23")
async def test_a_failed_sync_is_never_tried_again_on_the_same_connection(
    things: Database, path: Path
) -> None:
    """What the kernel did with the pages is unknown: they may count as written and be gone."""
    await things.write(lambda tx: put(tx, "before"))
    with broken_log(path, FAILED_SYNC), pytest.raises(StorageError):
        await things.write(lambda tx: put(tx, "lost"))
    assert things.generation == 0

    await things.write(lambda tx: put(tx, "after"))

    assert things.generation == 1
    assert await things.read(names) == ["after", "before"]


async def test_a_full_disk_does_not_cost_the_connection(things: Database, path: Path) -> None:
    with broken_log(path, NO_SPACE), pytest.raises(StorageError):
        await things.write(lambda tx: put(tx, "lost"))

    await things.write(lambda tx: put(tx, "after"))

    assert things.generation == 0


async def test_a_disk_that_fills_up_in_the_middle_fails_the_whole_group(things: Database) -> None:
    """SQLite may have rolled back by itself, and the others' work with it."""
    await things.write(lambda tx: limit_pages(tx, 10))

    results = await asyncio.gather(
        things.write(lambda tx: put(tx, "small")),
        things.write(lambda tx: put(tx, "huge", 1_000_000)),
        things.write(lambda tx: put(tx, "small too")),
        return_exceptions=True,
    )

    saved = await things.read(names)
    # The first may have had a commit of its own; whoever shared one with the huge one was told.
    assert [
        name for name, result in zip(["small", "huge", "small too"], results, strict=True) if result == 1
    ] == saved
    assert isinstance(results[1], StorageError)
    assert "huge" not in saved


async def test_a_function_that_hides_a_full_disk_is_told_of_it(things: Database) -> None:
    await things.write(lambda tx: limit_pages(tx, 10))

    def hide(tx: Transaction) -> str:
        try:
            put(tx, "huge", 1_000_000)
        except Exception:  # noqa: BLE001 - a careless function is what is tried
            return "fine"
        return "unexpected"

    with pytest.raises(StorageError):
        await things.write(lambda tx: (put(tx, "small"), hide(tx)))

    assert await things.read(names) == []


async def test_once_there_is_room_again_writing_goes_on(things: Database) -> None:
    await things.write(lambda tx: limit_pages(tx, 10))
    with pytest.raises(StorageError):
        await things.write(lambda tx: put(tx, "huge", 1_000_000))

    await things.write(lambda tx: limit_pages(tx, 1000))
    await things.write(lambda tx: put(tx, "huge", 1_000_000))

    assert await things.read(names) == ["huge"]


async def test_a_checkpoint_that_fails_loses_nothing_and_poisons_the_connection(
    things: Database, path: Path
) -> None:
    await things.write(lambda tx: put(tx, "before"))

    with broken_log(path, FAILED_SYNC), pytest.raises(StorageError):
        await things.checkpoint()
    await things.checkpoint()

    assert things.generation == 1
    assert await things.read(names) == ["before"]


async def test_trouble_is_named_and_a_commit_that_changes_nothing_does_not_end_it(
    things: Database, path: Path
) -> None:
    with broken_log(path, NO_SPACE), pytest.raises(StorageError):
        await things.write(lambda tx: put(tx, "lost"))
    await things.write(lambda tx: tx.rows("SELECT 1"))
    trouble = things.trouble

    await things.write(lambda tx: put(tx, "after"))

    assert trouble is not None
    assert trouble.fault is Fault.FULL
    assert trouble.failures == 1
    assert things.failed.is_set()
    assert things.trouble is None


@pytest.mark.threat("T23")
async def test_what_a_dead_process_left_in_the_log_is_synced_into_the_file_before_anything_rests_on_it(
    things: Database, path: Path, tmp_path: Path
) -> None:
    """It may have failed to sync that log: then the kernel's cache has it, and nothing else."""
    await things.write(lambda tx: put(tx, "before"))
    dead = tmp_path / "dead" / path.name
    dead.parent.mkdir()
    for suffix in ("", "-wal"):
        shutil.copy2(path.with_name(path.name + suffix), dead.with_name(path.name + suffix))

    left = dead.with_name(f"{dead.name}-wal").stat().st_size

    async with opened(dead, migrations_of(tmp_path / "migrations", TABLE)) as again:
        # Only the page by which the start has tried whether the disk takes writes.
        assert again.log_bytes < TWO_PAGES < left
        assert await again.read(names) == ["before"]


@pytest.mark.requirement("R5")
async def test_a_database_on_a_folder_that_is_missing_is_no_damage(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot open"):
        await Database.open(tmp_path / "missing" / "things.db", migrations_of(tmp_path / "m", TABLE))
