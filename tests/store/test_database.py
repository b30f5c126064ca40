"""The one writer: whole functions, shared commits, results after the sync."""

import asyncio
import contextlib
import gc
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from edgeagent.errors import BrokenInvariantError, RejectedError, StorageError
from edgeagent.store.database import Database, Snapshot, SqlValue, Transaction
from tests.support.stores import migrations_of, opened, query

pytestmark = pytest.mark.requirement("R1")

TABLE = "CREATE TABLE things (name TEXT PRIMARY KEY, size INTEGER NOT NULL CHECK (size >= 0)) STRICT;"
INSERT = "INSERT INTO things VALUES (?, ?)"
DEADLINE = 60


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "things.db"


@pytest.fixture
def migrations(tmp_path: Path) -> Path:
    return migrations_of(tmp_path / "migrations", TABLE)


@pytest.fixture
async def things(path: Path, migrations: Path) -> AsyncIterator[Database]:
    async with opened(path, migrations) as database:
        yield database


def put(name: str, size: int = 0) -> Callable[[Transaction], int]:
    """A function that stores a thing."""
    return run(INSERT, name, size)


def run(sql: str, *values: SqlValue) -> Callable[[Transaction], int]:
    """A function of one statement."""
    return lambda tx: tx.execute(sql, values)


def names(db: Snapshot) -> list[str]:
    """The things that are stored."""
    return [str(row["name"]) for row in db.rows("SELECT name FROM things ORDER BY name")]


class Gate:
    """Holds the database's thread inside a function, so that others gather behind it."""

    def __init__(self) -> None:
        self._entered = threading.Event()
        self._opened = threading.Event()

    def hold(self, _db: Snapshot) -> bool:
        """Wait inside the database's thread until the gate is opened."""
        self._entered.set()
        return self._opened.wait(DEADLINE)

    async def is_reached(self) -> None:
        """Wait until the database's thread stands at the gate."""
        assert await asyncio.to_thread(self._entered.wait, DEADLINE)

    def open(self) -> None:
        """Let it go on."""
        self._opened.set()


async def gathered(database: Database, *works: Callable[[Transaction], object]) -> list[object]:
    """Let ``works`` share one commit; give back what each of them came to."""
    gate = Gate()
    held = asyncio.create_task(database.write(gate.hold))
    await gate.is_reached()
    waiting = [asyncio.create_task(database.write(work)) for work in works]
    await asyncio.sleep(0)  # each has put its function in the queue
    gate.open()
    await held
    return await asyncio.gather(*waiting, return_exceptions=True)


async def test_functions_that_wait_together_share_a_commit(things: Database) -> None:
    before = things.commits

    results = await gathered(things, *(put(f"thing {number:02d}") for number in range(20)))

    assert results == [1] * 20
    assert things.commits == before + 2  # the one that held them up, and theirs
    assert len(await things.read(names)) == 20


async def test_a_function_alone_is_committed_at_once(things: Database, path: Path) -> None:
    result = await things.write(lambda tx: (put("lamp")(tx), "stored"))

    assert result == (1, "stored")
    assert query(path, "SELECT name FROM things") == [("lamp",)]


@pytest.mark.requirement("R2")
@pytest.mark.parametrize(
    ("bad", "error"),
    [
        pytest.param(put("lamp"), BrokenInvariantError, id="the same key again"),
        pytest.param(put("fan", -1), BrokenInvariantError, id="a check that fails"),
        pytest.param(run("INSERT INTO nowhere VALUES (1)"), BrokenInvariantError, id="no such table"),
        pytest.param(run(INSERT), BrokenInvariantError, id="no values"),
        pytest.param(run(INSERT, "fan", "x"), BrokenInvariantError, id="a word for a number"),
        pytest.param(run(INSERT, "fan", 2**64), OverflowError, id="a number of 65 bits"),
        pytest.param(lambda _: next(iter([])), BrokenInvariantError, id="an iterator that is empty"),
    ],
)
async def test_a_function_that_fails_is_undone_alone(
    things: Database, bad: Callable[[Transaction], object], error: type[Exception]
) -> None:
    await things.write(put("lamp"))

    def halfway(tx: Transaction) -> object:
        put("half")(tx)
        return bad(tx)

    results = await gathered(things, put("before"), halfway, put("after"))

    assert results[0] == results[2] == 1
    assert isinstance(results[1], error)
    assert await things.read(names) == ["after", "before", "lamp"]


async def test_what_a_function_raises_reaches_its_caller_as_it_was_raised(things: Database) -> None:
    def refuse(tx: Transaction) -> None:
        put("lamp")(tx)
        raise RejectedError("no lamps")

    with pytest.raises(RejectedError, match="no lamps"):
        await things.write(refuse)

    assert await things.read(names) == []


async def test_nobody_is_told_before_the_commit_that_covers_it(path: Path, migrations: Path) -> None:
    seen: list[tuple[bool, object]] = []
    writing: list[asyncio.Task[int]] = []

    def look() -> None:
        seen.append((writing[0].done(), query(path, "SELECT name FROM things")))

    async with opened(path, migrations, after_commit=look) as database:
        writing.append(asyncio.create_task(database.write(put("lamp"))))
        await writing[0]

    assert seen == [(False, [("lamp",)])]


async def test_the_rows_of_returning_come_whole_whoever_shares_the_commit(things: Database) -> None:
    """A cursor that is read halfway would hold up the savepoint of the next function."""

    def insert(tx: Transaction) -> list[str]:
        rows = tx.rows("INSERT INTO things VALUES ('a', 1), ('b', 2), ('c', 3) RETURNING name")
        return [str(row["name"]) for row in rows]

    def first_of_many(tx: Transaction) -> int:
        row = tx.row("UPDATE things SET size = size + 1 RETURNING size")
        return -1 if row is None else int(row["size"])

    results = await gathered(things, insert, first_of_many, put("d"))

    assert results == [["a", "b", "c"], 2, 1]
    assert query(things_path(things), "SELECT size FROM things ORDER BY name") == [(2,), (3,), (4,), (0,)]


async def test_many_rows_are_counted_together(things: Database) -> None:
    stored = await things.write(lambda tx: tx.execute_many(INSERT, [("a", 1), ("b", 2), ("c", 3)]))
    removed = await things.write(lambda tx: tx.execute("DELETE FROM things WHERE size > ?", (1,)))

    assert (stored, removed) == (3, 2)


async def test_rows_that_break_off_halfway_leave_none_behind(things: Database) -> None:
    def rows() -> list[tuple[str, int]]:
        return [("a", 1), ("b", -1)]

    with pytest.raises(BrokenInvariantError):
        await things.write(lambda tx: tx.execute_many(INSERT, rows()))

    assert await things.read(names) == []


async def test_a_cancelled_caller_harms_neither_its_work_nor_the_others(things: Database) -> None:
    gate = Gate()
    first = asyncio.create_task(things.write(gate.hold))
    await gate.is_reached()
    cancelled = [asyncio.create_task(things.write(put(name))) for name in ("a", "b")]
    patient = asyncio.create_task(things.write(put("c")))
    await asyncio.sleep(0)

    for task in (first, *cancelled):
        task.cancel()
    gate.open()

    assert await patient == 1
    for task in (first, *cancelled):
        with pytest.raises(asyncio.CancelledError):
            await task
    assert "c" in await things.read(names)
    assert await things.write(put("d")) == 1


async def test_a_cancelled_callers_failure_is_nobodys(things: Database) -> None:
    """No error without an owner is left behind for the event loop to complain about."""
    complaints: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    gate = Gate()
    first = asyncio.create_task(things.write(lambda tx: (gate.hold(tx), put("a", -1)(tx))))
    await gate.is_reached()

    first.cancel()
    gate.open()
    with contextlib.suppress(asyncio.CancelledError):
        await first
    await things.write(put("b"))
    del first
    gc.collect()

    assert complaints == []
    assert await things.read(names) == ["b"]


async def test_a_reader_sees_nothing_of_what_is_not_committed(things: Database) -> None:
    gate = Gate()
    writing = asyncio.create_task(things.write(lambda tx: (put("lamp")(tx), gate.hold(tx))))
    await gate.is_reached()

    during = await things.read(names)
    gate.open()
    await writing
    after = await things.read(names)

    assert during == []
    assert after == ["lamp"]


async def test_a_reader_sees_one_state_however_long_it_looks(things: Database) -> None:
    gate = Gate()

    def twice(db: Snapshot) -> tuple[list[str], list[str]]:
        before = names(db)
        gate.hold(db)
        return before, names(db)

    reading = asyncio.create_task(things.read(twice))
    await gate.is_reached()
    await things.write(put("lamp"))
    gate.open()

    assert await reading == ([], [])
    assert await things.read(names) == ["lamp"]


async def test_a_reader_cannot_write(things: Database) -> None:
    with pytest.raises(StorageError, match="readonly"):
        await things.read(lambda db: db.rows("INSERT INTO things VALUES ('lamp', 1) RETURNING name"))

    assert await things.read(names) == []


@pytest.mark.parametrize("error", [RejectedError("no"), KeyError("no")], ids=repr)
async def test_a_reader_that_fails_leaves_the_next_one_alone(things: Database, error: Exception) -> None:
    def fail(db: Snapshot) -> None:
        names(db)
        raise error

    with pytest.raises(type(error)):
        await things.read(fail)

    assert await things.read(names) == []


async def test_a_reader_that_runs_out_of_an_iterator_tells_its_caller(things: Database) -> None:
    """No future can hold a StopIteration: the caller would wait for ever."""
    with pytest.raises(BrokenInvariantError):
        await asyncio.wait_for(things.read(lambda _: next(iter([]))), DEADLINE)


async def test_functions_run_whole_in_one_thread_in_the_order_of_their_calls(things: Database) -> None:
    """What is relied on of the connection's protected hook."""
    ran: list[tuple[int, int]] = []

    def note(number: int) -> Callable[[Transaction], None]:
        return lambda _: ran.append((number, threading.get_ident()))

    await gathered(things, *(note(number) for number in range(50)))

    assert [number for number, _ in ran] == list(range(50))
    assert len({thread for _, thread in ran}) == 1
    assert ran[0][1] != threading.get_ident()


async def test_the_log_is_cut_on_request_and_nothing_is_lost(things: Database) -> None:
    for number in range(50):
        await things.write(put(f"thing {number}", number))
    path = things_path(things)
    log = path.with_name(path.name + "-wal")
    assert log.stat().st_size > 0

    await things.checkpoint()

    assert log.stat().st_size == 0
    assert len(await things.read(names)) == 50


async def test_what_waits_when_the_database_is_closed_is_finished(path: Path, migrations: Path) -> None:
    database = await Database.open(path, migrations)
    writing = [asyncio.create_task(database.write(put(f"thing {number}"))) for number in range(10)]
    await asyncio.sleep(0)

    await database.close()

    assert await asyncio.gather(*writing) == [1] * 10
    assert query(path, "SELECT count(*) FROM things") == [(10,)]


async def test_a_closed_database_says_so_to_everybody(path: Path, migrations: Path) -> None:
    database = await Database.open(path, migrations)
    await database.close()

    for _ in range(2):
        with pytest.raises(BrokenInvariantError, match="is closed"):
            await asyncio.wait_for(database.write(put("lamp")), DEADLINE)
        with pytest.raises(BrokenInvariantError, match="is closed"):
            await asyncio.wait_for(database.read(names), DEADLINE)
        with pytest.raises(BrokenInvariantError, match="is closed"):
            await asyncio.wait_for(database.checkpoint(), DEADLINE)


async def test_every_commit_reaches_the_disk_and_foreign_keys_hold(things: Database) -> None:
    def pragmas(tx: Transaction) -> list[object]:
        wanted = ("journal_mode", "synchronous", "foreign_keys", "trusted_schema", "mmap_size")
        return [tx.rows(f"PRAGMA {name}")[0][0] for name in wanted]

    assert await things.write(pragmas) == ["wal", 2, 1, 0, 0]


def things_path(database: Database) -> Path:
    """Where a database lies."""
    return database._path


async def test_what_is_ready_in_one_pass_of_the_loop_shares_a_commit(things: Database) -> None:
    before = things.commits

    await asyncio.gather(*(things.write(put(f"thing-{number}")) for number in range(16)))

    assert things.commits == before + 1


async def test_the_first_of_a_group_may_be_cancelled_before_it_is_handed_over(things: Database) -> None:
    # Given two that write in one pass of the loop.
    first, second = (asyncio.ensure_future(things.write(put(name))) for name in ("a", "b"))
    await asyncio.sleep(0)

    # When the one that would hand them over is cancelled.
    first.cancel()

    # Then the other is committed all the same.
    assert await asyncio.wait_for(second, DEADLINE) == 1
    assert "b" in await things.read(names)
