"""The files of the store: ours and whole, or left alone; and nothing is ever deleted."""

import fcntl
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.errors import AgentError, BrokenInvariantError, ConfigurationError
from edgeagent.store.database import Database, Transaction
from edgeagent.store.files import (
    APPLICATION_ID,
    DamagedFileError,
    NewerFileError,
    check_file,
    set_aside,
    sole_owner,
)
from tests.support.clocks import NOON
from tests.support.stores import contents, migrations_of, opened, query

pytestmark = pytest.mark.requirement("R3", "H4")

TABLE = "CREATE TABLE things (name TEXT PRIMARY KEY, size INTEGER NOT NULL) STRICT;"
INDEX = "CREATE INDEX things_by_size ON things (size);"
PAGE = 4096


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder / "things.db"


@pytest.fixture
def migrations(tmp_path: Path) -> Path:
    return migrations_of(tmp_path / "migrations", TABLE)


def fill(tx: Transaction) -> None:
    """Store enough for a tree of pages."""
    tx.execute_many("INSERT INTO things VALUES (?, ?)", ((f"thing {n:06d}", n) for n in range(2000)))


async def filled(path: Path, migrations: Path) -> bytes:
    """A whole database of several pages, closed."""
    async with opened(path, migrations) as database:
        await database.write(fill)
    return path.read_bytes()


def killed_with_log(path: Path, script: str) -> None:
    """Let another program write a database and die, so that its log stays behind."""
    source = f"""
import os, signal, sqlite3
connection = sqlite3.connect({str(path)!r}, isolation_level=None)
connection.execute("PRAGMA journal_mode = WAL")
connection.executescript({script!r})
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", source], check=False).returncode == -signal.SIGKILL
    assert path.with_name(path.name + "-wal").stat().st_size > 0


async def refused(path: Path, migrations: Path) -> AgentError:
    """Why a database is not opened; it is as it was before."""
    before = contents(path.parent)
    with pytest.raises(AgentError) as refusal:
        await Database.open(path, migrations)
    assert contents(path.parent) == before
    return refusal.value


# A foreign or newer file is left as it is.


@pytest.mark.parametrize(
    "script", ["", f"PRAGMA application_id = {0x12345678};"], ids=["no id", "its own id"]
)
async def test_the_database_of_another_program_is_refused_and_left_as_it_is(
    path: Path, migrations: Path, script: str
) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"CREATE TABLE theirs (a); INSERT INTO theirs VALUES (1); {script}")

    refusal = await refused(path, migrations)

    assert isinstance(refusal, NewerFileError)
    assert "another program" in str(refusal)


async def test_the_log_of_another_programs_database_is_left_as_it_is_too(
    path: Path, migrations: Path
) -> None:
    killed_with_log(path, "CREATE TABLE theirs (a); INSERT INTO theirs VALUES (1);")

    refusal = await refused(path, migrations)

    assert isinstance(refusal, NewerFileError)


async def test_a_newer_schema_is_refused_with_the_way_back_and_every_row_stays(
    path: Path, tmp_path: Path, migrations: Path
) -> None:
    newer = migrations_of(tmp_path / "newer", TABLE, INDEX)
    await filled(path, newer)

    with pytest.raises(
        NewerFileError, match=r"schema 2.*knows 1.*newer edgeagent again, or restore a backup"
    ):
        await Database.open(path, migrations)

    assert query(path, "SELECT count(*) FROM things") == [(2000,)]
    assert query(path, "PRAGMA user_version") == [(2,)]
    async with opened(path, newer):
        pass


# A damaged file is known as such, and set aside whole.


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda whole: bytes(len(whole)), id="zeros"),
        pytest.param(lambda whole: b"\0", id="one zero"),
        pytest.param(lambda whole: whole[:16], id="a stub"),
        pytest.param(lambda whole: whole[:100], id="a header alone"),
        pytest.param(lambda whole: whole[:PAGE], id="one page"),
        pytest.param(lambda whole: whole[: len(whole) // 2], id="half of it"),
        pytest.param(lambda whole: whole[:-1], id="all but a byte"),
        pytest.param(lambda whole: whole[:PAGE] + bytes(len(whole) - PAGE), id="zeros after the first page"),
        pytest.param(lambda whole: bytes(PAGE) + whole[PAGE:], id="zeros for the first page"),
        pytest.param(lambda whole: whole[:100] + bytes(len(whole) - 100), id="zeros after the header"),
        pytest.param(lambda whole: whole[PAGE:], id="the first page cut off"),
        pytest.param(lambda whole: whole[::-1], id="backwards"),
        pytest.param(lambda whole: random.Random(1).randbytes(len(whole)), id="garbage"),
        pytest.param(lambda whole: b"name,size\n" * 1000, id="another format"),
        pytest.param(lambda whole: whole[:60] + bytes(4) + whole[64:], id="tables of no schema"),
    ],
)  # fmt: skip
async def test_a_damaged_file_is_known_as_such_and_kept(
    path: Path, migrations: Path, damage: Callable[[bytes], bytes]
) -> None:
    path.write_bytes(damage(await filled(path, migrations)))
    damaged = path.read_bytes()

    assert isinstance(await refused(path, migrations), DamagedFileError)
    kept = set_aside(path, NOON)

    assert kept.read_bytes() == damaged
    assert not path.exists()
    async with opened(path, migrations):
        assert query(path, "SELECT count(*) FROM things") == [(0,)]
    assert kept.read_bytes() == damaged


@pytest.mark.parametrize("seed", range(40))
async def test_a_flipped_bit_is_found_or_harms_no_structure_and_never_crashes(
    path: Path, migrations: Path, seed: int
) -> None:
    """SQLite has no checksums: a flip inside a value goes unseen. Half the flips hit a page's head."""
    chance = random.Random(seed)
    whole = bytearray(await filled(path, migrations))
    start = chance.randrange(len(whole) // PAGE) * PAGE
    place = start + chance.randrange(100 if seed % 2 else PAGE)
    whole[place] ^= 1 << chance.randrange(8)
    path.write_bytes(whole)

    try:
        async with opened(path, migrations) as database:
            await database.write(lambda tx: tx.execute("INSERT INTO things VALUES ('new', 1)"))
    except AgentError:
        pass

    kept = path.read_bytes()
    assert len(kept) >= len(whole)
    assert query_or_nothing(path) in {None, 2001} or kept[: len(whole)] == whole


@pytest.mark.parametrize("page", range(2, 12))
async def test_a_page_whose_head_is_overwritten_is_found(path: Path, migrations: Path, page: int) -> None:
    whole = await filled(path, migrations)
    start = (page - 1) * PAGE
    path.write_bytes(whole[:start] + b"\xff" * 12 + whole[start + 12 :])

    assert isinstance(await refused(path, migrations), DamagedFileError)


async def test_a_damaged_file_is_set_aside_with_its_log(path: Path, migrations: Path) -> None:
    """What the log holds may be all that is left."""
    await filled(path, migrations)
    killed_with_log(path, "INSERT INTO things VALUES ('the last one', 1);")
    log = path.with_name(path.name + "-wal").read_bytes()
    path.write_bytes(bytes(path.stat().st_size))

    assert isinstance(await refused(path, migrations), DamagedFileError)
    kept = set_aside(path, NOON)

    assert kept.with_name(kept.name + "-wal").read_bytes() == log
    assert sorted(contents(path.parent)) == [kept.name, f"{kept.name}-wal"]


async def test_a_log_without_its_file_is_damage_and_kept(path: Path, migrations: Path) -> None:
    """A new file must never meet an old log; and if setting aside dies halfway, this is what is found."""
    killed_with_log(path, "CREATE TABLE things (name, size);")
    log = path.with_name(path.name + "-wal").read_bytes()
    path.unlink()

    assert isinstance(await refused(path, migrations), DamagedFileError)
    kept = set_aside(path, NOON)

    assert kept.with_name(kept.name + "-wal").read_bytes() == log
    async with opened(path, migrations):
        pass


@pytest.mark.requirement("R4")
def test_files_set_aside_at_the_same_instant_do_not_overwrite_each_other(path: Path) -> None:
    """A hub without a clock starts at the same time of day again and again."""
    kept = []
    for content in (b"first", b"second", b"third"):
        path.write_bytes(content)
        kept.append(set_aside(path, NOON))

    assert [file.read_bytes() for file in kept] == [b"first", b"second", b"third"]


def test_the_name_says_when_it_was_set_aside(path: Path) -> None:
    path.write_bytes(b"x")

    assert set_aside(path, NOON).name == "things.db.damaged-20270301T120000000000Z"


# A file of ours.


async def test_a_file_that_a_killed_process_left_is_whole_with_its_log(path: Path, migrations: Path) -> None:
    await filled(path, migrations)
    killed_with_log(path, "INSERT INTO things VALUES ('the last one', 1);")

    async with opened(path, migrations) as database:
        count = await database.read(lambda db: db.rows("SELECT count(*) FROM things")[0][0])

    assert count == 2001


@pytest.mark.parametrize("found", [None, b""], ids=["nothing", "an empty file"])
async def test_where_there_is_nothing_a_database_of_ours_is_made(
    path: Path, migrations: Path, found: bytes | None
) -> None:
    if found is not None:
        path.write_bytes(found)

    async with opened(path, migrations):
        pass

    assert query(path, "PRAGMA application_id") == [(APPLICATION_ID,)]
    assert query(path, "PRAGMA user_version") == [(1,)]


async def test_a_start_that_was_killed_while_the_file_was_made_is_made_good(
    path: Path, migrations: Path
) -> None:
    """A rollback journal beside the first page: it is undone, and the file made anew."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript("PRAGMA cache_size = 1; CREATE TABLE a (x); DROP TABLE a; VACUUM;")
        connection.executescript("BEGIN IMMEDIATE; PRAGMA user_version = 0; PRAGMA application_id = 1;")
        hot = path.with_name(path.name + "-journal").read_bytes()
        half_made = path.read_bytes()
    path.write_bytes(half_made)
    path.with_name(path.name + "-journal").write_bytes(hot)

    async with opened(path, migrations):
        assert query(path, "SELECT count(*) FROM things") == [(0,)]


def test_looking_at_a_whole_file_changes_nothing(path: Path) -> None:
    killed_with_log(
        path, f"CREATE TABLE things (a); PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 1;"
    )
    before = contents(path.parent)

    check_file(path)

    assert contents(path.parent) == before


# Migrations.


async def test_migrations_run_once_and_in_order(path: Path, tmp_path: Path) -> None:
    first = migrations_of(tmp_path / "first", TABLE)
    both = migrations_of(tmp_path / "both", TABLE, f"INSERT INTO things VALUES ('from 2', 1); {INDEX}")

    async with opened(path, first):
        pass
    for _ in range(2):
        async with opened(path, both):
            pass

    assert query(path, "SELECT name FROM things") == [("from 2",)]
    assert query(path, "PRAGMA user_version") == [(2,)]


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param("INSERT INTO nowhere VALUES (1);", id="no such table"),
        pytest.param("INSERT INTO things VALUES ('a', 1); INSERT INTO things VALUES ('a', 1);", id="twice"),
        pytest.param("CREATE TABLE more (a); this is no SQL;", id="no SQL"),
    ],
)
async def test_a_migration_that_fails_leaves_nothing_of_itself_and_all_that_was(
    path: Path, tmp_path: Path, migrations: Path, broken: str
) -> None:
    await filled(path, migrations)
    both = migrations_of(tmp_path / "both", TABLE, f"CREATE TABLE other (a); {broken}")

    with pytest.raises(BrokenInvariantError, match="migration 2 fails"):
        await Database.open(path, both)

    assert query(path, "SELECT name FROM sqlite_schema WHERE type = 'table'") == [("things",)]
    assert query(path, "PRAGMA user_version") == [(1,)]
    async with opened(path, migrations) as database:
        assert len(await database.read(lambda db: db.rows("SELECT 1 FROM things"))) == 2000


async def test_a_hole_in_the_migrations_is_our_own_mistake(path: Path, tmp_path: Path) -> None:
    folder = migrations_of(tmp_path / "holes", TABLE, INDEX, "SELECT 1;")
    (folder / "0002_step.sql").unlink()

    with pytest.raises(BrokenInvariantError, match="migration 2 is missing"):
        await Database.open(path, folder)


# One owner.


def test_a_second_agent_is_kept_out_until_the_first_one_ends(path: Path) -> None:
    lock = path.with_name("agent.lock")

    with sole_owner(lock):
        with pytest.raises(ConfigurationError, match="another edgeagent is running"), sole_owner(lock):
            pass
        with pytest.raises(ConfigurationError), sole_owner(lock):  # the refusal did not take it either
            pass

    with sole_owner(lock):
        pass


def test_a_killed_owner_leaves_no_lock_behind(path: Path) -> None:
    lock = path.with_name("agent.lock")
    source = f"""
import os, signal
from pathlib import Path
from edgeagent.store.files import sole_owner
with sole_owner(Path({str(lock)!r})):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", source], check=False).returncode == -signal.SIGKILL
    assert lock.exists()

    with sole_owner(lock):
        pass


def test_the_lock_is_not_handed_on_to_programs_that_are_started(path: Path) -> None:
    lock = path.with_name("agent.lock")
    with sole_owner(lock):
        child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, close_fds=False)
    try:
        handle = os.open(lock, os.O_RDWR)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.close(handle)
    finally:
        child.communicate(timeout=timedelta(seconds=10).total_seconds())


def query_or_nothing(path: Path) -> object:
    """How many things another program finds; None if it cannot read the file."""
    try:
        return query(path, "SELECT count(*) FROM things")[0][0]
    except sqlite3.DatabaseError:
        return None
