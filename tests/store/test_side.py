"""Work beside the writer: a copy is whole or not there, and nobody who writes waits for it."""

import asyncio
import os
import sqlite3
import stat
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from edgeagent.errors import StorageError
from edgeagent.store.database import Database, Snapshot, Transaction
from edgeagent.store.side import GaveUpError, Side
from tests.support.stores import migrations_of, opened, query, spoil_index

pytestmark = pytest.mark.requirement("R2")

TABLE = "CREATE TABLE things (name TEXT PRIMARY KEY, data BLOB) STRICT;"
A_MEBIBYTE = 1024 * 1024


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir()
    return tmp_path / "state" / "things.db"


@pytest.fixture
async def things(path: Path, tmp_path: Path) -> AsyncIterator[Database]:
    async with opened(path, migrations_of(tmp_path / "migrations", TABLE)) as database:
        yield database


@pytest.fixture
def copies(tmp_path: Path) -> Path:
    """An empty folder."""
    folder = tmp_path / "copies"
    folder.mkdir()
    return folder


def put(tx: Transaction, name: str, size: int = 0) -> int:
    return tx.execute("INSERT INTO things VALUES (?, ?)", (name, os.urandom(size)))


async def test_a_copy_holds_what_was_committed_also_what_lies_in_the_log_only(
    things: Database, path: Path, copies: Path
) -> None:
    await things.write(lambda tx: put(tx, "one", A_MEBIBYTE))

    size = await asyncio.to_thread(Side(path).back_up, copies / "copy.db")

    copy = copies / "copy.db"
    assert query(copy, "SELECT name FROM things") == [("one",)]
    assert query(copy, "PRAGMA integrity_check") == [("ok",)]
    assert size == copy.stat().st_size > A_MEBIBYTE


async def test_a_copy_is_one_file_for_its_owner_alone(things: Database, path: Path, copies: Path) -> None:
    await things.write(lambda tx: put(tx, "one"))

    await asyncio.to_thread(Side(path).back_up, copies / "copy.db")

    assert files_in(copies) == ["copy.db"]
    assert stat.S_IMODE((copies / "copy.db").stat().st_mode) == 0o600


async def test_a_copy_is_of_one_moment_while_others_write(things: Database, path: Path, copies: Path) -> None:
    await things.write(lambda tx: put(tx, "big", 8 * A_MEBIBYTE))
    copying = asyncio.ensure_future(asyncio.to_thread(Side(path).back_up, copies / "copy.db"))

    written = 0
    while not copying.done():
        await things.write(partial(put_pair, number=written))
        written += 1
    await copying

    [(count,)] = query(copies / "copy.db", "SELECT count(*) FROM things WHERE name != 'big'")
    assert isinstance(count, int)
    assert count % 2 == 0
    assert query(path, "SELECT count(*) FROM things") == [(1 + 2 * written,)]


async def test_what_is_there_already_is_left_as_it_is(things: Database, path: Path, copies: Path) -> None:
    await things.write(lambda tx: put(tx, "one"))
    (copies / "copy.db").write_text("mine")

    with pytest.raises(FileExistsError):
        await asyncio.to_thread(Side(path).back_up, copies / "copy.db")

    assert (copies / "copy.db").read_text() == "mine"
    assert files_in(copies) == ["copy.db"]


async def test_the_half_of_a_copy_that_was_cut_off_is_no_hindrance(
    things: Database, path: Path, copies: Path
) -> None:
    await things.write(lambda tx: put(tx, "one"))
    (copies / ".copy.db.part").write_bytes(b"half")

    await asyncio.to_thread(Side(path).back_up, copies / "copy.db")

    assert query(copies / "copy.db", "SELECT name FROM things") == [("one",)]
    assert files_in(copies) == ["copy.db"]


@pytest.mark.parametrize(
    "work", [Side.damage, partial(Side.back_up, target=Path("copy.db"))], ids=["a look", "a copy"]
)
async def test_work_that_is_told_to_stop_leaves_nothing(
    things: Database, path: Path, copies: Path, monkeypatch: pytest.MonkeyPatch, work: object
) -> None:
    monkeypatch.chdir(copies)
    await things.write(lambda tx: [put(tx, str(number), 200) for number in range(20_000)])
    side = Side(path)
    side.stop()
    assert callable(work)

    with pytest.raises(GaveUpError, match="stopping"):
        await asyncio.to_thread(work, side)

    assert files_in(copies) == []


async def test_a_log_that_grows_too_long_meanwhile_ends_the_copy(
    things: Database, path: Path, copies: Path
) -> None:
    await things.write(lambda tx: put(tx, "big", A_MEBIBYTE))

    with pytest.raises(GaveUpError, match="too much is being written"):
        await asyncio.to_thread(Side(path, longest_log=A_MEBIBYTE // 2).back_up, copies / "copy.db")

    assert files_in(copies) == []
    assert await things.checkpoint()


async def test_a_disk_without_room_for_a_copy_is_not_filled(
    things: Database, path: Path, copies: Path
) -> None:
    await things.write(lambda tx: put(tx, "one"))

    with pytest.raises(StorageError, match="are free"):
        await asyncio.to_thread(Side(path, room=2**62).back_up, copies / "copy.db")

    assert files_in(copies) == []


async def test_a_whole_file_has_no_damage(things: Database, path: Path) -> None:
    await things.write(lambda tx: put(tx, "one", A_MEBIBYTE))

    assert await asyncio.to_thread(Side(path).damage) == ""


async def test_an_index_that_does_not_fit_its_table_is_damage(things: Database, path: Path) -> None:
    await things.write(lambda tx: [put(tx, str(number)) for number in range(100)])
    await things.checkpoint()
    spoil_index(path, "things", b"42")

    damage = await asyncio.to_thread(Side(path).damage)

    assert "index" in damage


async def test_a_reader_keeps_the_log_and_holds_nobody_up(things: Database, path: Path) -> None:
    await things.write(lambda tx: put(tx, "one", A_MEBIBYTE))
    reading = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None)
    reading.execute("BEGIN")
    reading.execute("SELECT count(*) FROM things").fetchall()
    await things.write(lambda tx: put(tx, "two"))

    assert not await things.checkpoint()
    reading.close()
    assert await things.checkpoint()
    assert things.log_bytes == 0
    assert await things.read(names) == ["one", "two"]


def files_in(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir()]


def put_pair(tx: Transaction, number: int) -> None:
    put(tx, f"{number} a")
    put(tx, f"{number} b")


def names(db: Snapshot) -> list[str]:
    return [str(row["name"]) for row in db.rows("SELECT name FROM things ORDER BY name")]
