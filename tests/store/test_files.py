"""The files of the store: ours and whole, or left alone; and nothing is ever deleted."""

import asyncio
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from hashlib import shake_256
from pathlib import Path

import pytest

from edgeagent.errors import AgentError
from edgeagent.store.database import Database, Snapshot, Transaction
from edgeagent.store.files import (
    APPLICATION_ID,
    DamagedFileError,
    NewerFileError,
    check_file,
    set_aside,
)
from tests.support.clocks import NOON
from tests.support.crashing import killed_after
from tests.support.stores import contents, migrations_of, query, use

pytestmark = pytest.mark.requirement("R3", "H4")

TABLE = "CREATE TABLE things (name TEXT PRIMARY KEY, size INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
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


def count(db: Snapshot) -> int:
    """How many things there are."""
    return int(db.rows("SELECT count(*) FROM things")[0][0])


def filled(path: Path, migrations: Path) -> bytes:
    """A whole database of several pages, closed."""
    use(path, migrations, fill)
    return path.read_bytes()


def killed_with_log(path: Path, script: str) -> bytes:
    """Let another program write a database and die, and give back the log that it leaves behind."""
    killed_after(path, f"PRAGMA journal_mode = WAL; {script}")
    log = path.with_name(path.name + "-wal").read_bytes()
    assert log
    return log


def killed_with_journal(path: Path, size: int) -> None:
    """Let another program die in the middle of a change, so that the next one has to undo it."""
    script = "PRAGMA cache_size = 1; BEGIN; CREATE TABLE half (made);"
    script += "INSERT INTO half VALUES (zeroblob(SIZE)); CREATE TABLE other (a);"
    killed_after(path, script.replace("SIZE", str(size)))
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        query(path, "SELECT * FROM half")


def refused(path: Path, migrations: Path) -> AgentError:
    """Why a database is not opened; it is as it was before."""
    before = contents(path.parent)
    with pytest.raises(AgentError) as refusal:
        asyncio.run(Database.open(path, migrations))
    assert contents(path.parent) == before
    return refusal.value


# A foreign or newer file is left as it is.


@pytest.mark.parametrize("application", [0, 305419896], ids=["no id", "its own id"])
def test_the_database_of_another_program_is_refused_and_left_as_it_is(
    path: Path, migrations: Path, application: int
) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE theirs (a); INSERT INTO theirs VALUES (1);")
        connection.execute(f"PRAGMA application_id = {application}")

    refusal = refused(path, migrations)

    assert isinstance(refusal, NewerFileError)
    assert "another program" in str(refusal)


def test_the_log_of_another_programs_database_is_left_as_it_is_too(path: Path, migrations: Path) -> None:
    killed_with_log(path, "CREATE TABLE theirs (a); INSERT INTO theirs VALUES (1);")

    refusal = refused(path, migrations)

    assert isinstance(refusal, NewerFileError)


def test_a_newer_schema_is_refused_with_the_way_back_and_every_row_stays(
    path: Path, tmp_path: Path, migrations: Path
) -> None:
    newer = migrations_of(tmp_path / "newer", TABLE, INDEX)
    filled(path, newer)

    with pytest.raises(
        NewerFileError, match=r"schema 2.*knows 1.*newer edgeagent again, or restore a backup"
    ):
        asyncio.run(Database.open(path, migrations))

    assert query(path, "SELECT count(*) FROM things") == [(2000,)]
    assert query(path, "PRAGMA user_version") == [(2,)]
    assert use(path, newer, count) == 2000


# A damaged file is known as such, and set aside whole.


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda whole: bytes(len(whole)), id="zeros"),
        pytest.param(lambda _: b"\0", id="one zero"),
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
        pytest.param(lambda whole: shake_256(whole).digest(len(whole)), id="garbage"),
        pytest.param(lambda _: b"name,size\n" * 1000, id="another format"),
        pytest.param(lambda whole: whole[:60] + bytes(4) + whole[64:], id="tables of no schema"),
    ],
)  # fmt: skip
def test_a_damaged_file_is_known_as_such_and_kept(
    path: Path, migrations: Path, damage: Callable[[bytes], bytes]
) -> None:
    path.write_bytes(damage(filled(path, migrations)))
    damaged = path.read_bytes()

    assert isinstance(refused(path, migrations), DamagedFileError)
    kept = set_aside(path, NOON)

    assert kept.read_bytes() == damaged
    assert not path.exists()
    assert use(path, migrations, count) == 0
    assert kept.read_bytes() == damaged


@pytest.mark.parametrize("seed", range(40))
def test_a_flipped_bit_is_found_or_loses_no_row(path: Path, migrations: Path, seed: int) -> None:
    """SQLite has no checksums: a flip inside a value goes unseen. Half the flips hit a page's head."""
    chance = random.Random(seed)  # noqa: S311 - a place to break, not a secret
    whole = bytearray(filled(path, migrations))
    start = chance.randrange(len(whole) // PAGE) * PAGE
    place = start + chance.randrange(100 if seed % 2 else PAGE)
    whole[place] ^= 1 << chance.randrange(8)
    path.write_bytes(whole)

    try:
        use(path, migrations, lambda tx: tx.execute("INSERT INTO things VALUES ('new', 1)"))
    except AgentError:
        assert path.read_bytes() == whole
    else:
        assert query(path, "PRAGMA quick_check") == [("ok",)]
        assert query(path, "SELECT count(*) FROM things") == [(2001,)]


@pytest.mark.parametrize("page", range(2, 12))
def test_a_page_whose_head_is_overwritten_is_found(path: Path, migrations: Path, page: int) -> None:
    whole = filled(path, migrations)
    start = (page - 1) * PAGE
    path.write_bytes(whole[:start] + b"\xff" * 12 + whole[start + 12 :])

    assert isinstance(refused(path, migrations), DamagedFileError)


def test_a_damaged_file_is_set_aside_with_its_log(path: Path, migrations: Path) -> None:
    """What the log holds may be all that is left."""
    filled(path, migrations)
    log = killed_with_log(path, "INSERT INTO things VALUES ('the last one', 1);")
    path.write_bytes(bytes(path.stat().st_size))

    assert isinstance(refused(path, migrations), DamagedFileError)
    kept = set_aside(path, NOON)

    assert kept.with_name(kept.name + "-wal").read_bytes() == log
    assert sorted(contents(path.parent)) == [kept.name, f"{kept.name}-wal"]


def test_a_log_without_its_file_is_damage_and_kept(path: Path, migrations: Path) -> None:
    """A new file must never meet an old log; and if setting aside dies halfway, this is what is found."""
    log = killed_with_log(path, "CREATE TABLE things (name, size);")
    path.unlink()

    assert isinstance(refused(path, migrations), DamagedFileError)
    kept = set_aside(path, NOON)

    assert kept.with_name(kept.name + "-wal").read_bytes() == log
    assert use(path, migrations, count) == 0


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


def test_a_file_that_a_killed_process_left_is_whole_with_its_log(path: Path, migrations: Path) -> None:
    filled(path, migrations)
    killed_with_log(path, "INSERT INTO things VALUES ('the last one', 1);")

    assert use(path, migrations, count) == 2001


@pytest.mark.parametrize("found", [None, b""], ids=["nothing", "an empty file"])
def test_where_there_is_nothing_a_database_of_ours_is_made(
    path: Path, migrations: Path, found: bytes | None
) -> None:
    if found is not None:
        path.write_bytes(found)

    use(path, migrations, count)

    assert query(path, "PRAGMA application_id") == [(APPLICATION_ID,)]
    assert query(path, "PRAGMA user_version") == [(1,)]


def test_a_start_that_was_killed_while_the_file_was_made_is_made_good(path: Path, migrations: Path) -> None:
    killed_with_journal(path, 20_000)

    assert use(path, migrations, count) == 0


def test_a_file_that_another_program_was_changing_is_left_to_it(path: Path, migrations: Path) -> None:
    killed_with_journal(path, 200_000)

    assert isinstance(refused(path, migrations), NewerFileError)


def test_looking_at_a_whole_file_changes_nothing(path: Path) -> None:
    killed_with_log(
        path, f"CREATE TABLE things (a); PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 1;"
    )
    before = contents(path.parent)

    check_file(path)

    assert contents(path.parent) == before
