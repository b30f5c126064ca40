"""Databases in a test's own folder, whole and broken."""

import asyncio
import os
import resource
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final, TypeVar

from edgeagent.store.database import Database, Transaction
from edgeagent.store.files import migrate
from tests.support.waiting import DEADLINE

T = TypeVar("T")

HUB_MIGRATIONS: Final[Traversable] = files("edgeagent.store") / "migrations"
"""The tables of a hub."""


@asynccontextmanager
async def opened(
    path: Path,
    migrations: Traversable = HUB_MIGRATIONS,
    *,
    after_commit: Callable[[], None] = lambda: None,
) -> AsyncIterator[Database]:
    """Open a database, and close it at the end."""
    database = await Database.open(path, migrations, after_commit=after_commit)
    try:
        yield database
    finally:
        await database.close()


def use(path: Path, migrations: Traversable, work: Callable[[Transaction], T]) -> T:
    """Open a database, run a function in it, and close it; for tests that are not asynchronous."""

    async def used() -> T:
        async with opened(path, migrations) as database:
            return await database.write(work)

    return asyncio.run(used())


@contextmanager
def scratch(migrations: Traversable = HUB_MIGRATIONS) -> Iterator[Transaction]:
    """A transaction of a database in memory, for a test that needs a hundred new ones."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA foreign_keys = ON")
        migrate(connection, migrations)
        yield Transaction(connection)


def migrations_of(folder: Path, *scripts: str) -> Path:
    """Write ``scripts`` as a folder of migrations, numbered from 1."""
    folder.mkdir(exist_ok=True)
    for number, script in enumerate(scripts, start=1):
        (folder / f"{number:04d}_step.sql").write_text(script, "utf-8")
    return folder


def query(path: Path, sql: str) -> list[tuple[object, ...]]:
    """Ask a database from outside, read-only, as another program would."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        return connection.execute(sql).fetchall()


def contents(folder: Path) -> dict[str, bytes]:
    """The files in a folder, but for an empty log and its index, which are made whenever they are missing."""
    files_there = {file.name: file.read_bytes() for file in folder.iterdir()}
    return {name: raw for name, raw in files_there.items() if raw and not name.endswith("-shm")}


@contextmanager
def broken_log(database: Path, device: Path) -> Iterator[None]:
    """Let this process's writes to a database's log go to a device file instead.

    ``/dev/full`` has no space left. ``/dev/null`` takes every write and fails each fdatasync with
    EINVAL, as a disk does that has lost what it had taken.
    """
    log = database.with_name(f"{database.name}-wal")
    handles = [int(link.name) for link in Path("/proc/self/fd").iterdir() if _target(link) == log]
    assert handles, f"{log} is not open"
    kept = {handle: os.dup(handle) for handle in handles}
    bad = os.open(device, os.O_RDWR)
    for handle in handles:
        os.dup2(bad, handle)
    os.close(bad)
    try:
        yield
    finally:
        for handle, whole in kept.items():
            # A connection that was opened anew has closed the handle; its number may be another file's.
            if _target(Path(f"/proc/self/fd/{handle}")) == device:
                os.dup2(whole, handle)
            os.close(whole)


@contextmanager
def full_disk(database: Path) -> Iterator[None]:
    """Let no file of this process grow beyond the size of a database's log: what is there is read as before.

    Unlike ``/dev/full`` in the log's place, from which a reader would read zeros.
    """
    kept = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = database.with_name(f"{database.name}-wal").stat().st_size
    assert size, "the log is empty: nothing would be full"
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, kept[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, kept)


def spoil_index(path: Path, table: str, value: bytes) -> None:
    """Have the index of a table's keys hold another value than the table: what a bad page does, by hand."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        sql = "SELECT rootpage FROM sqlite_schema WHERE type = 'index' AND tbl_name = ?"
        [(root,)] = connection.execute(sql, (table,)).fetchall()
        [(size,)] = connection.execute("PRAGMA page_size").fetchall()
    with path.open("r+b") as file:
        file.seek((root - 1) * size)
        raw = bytearray(file.read(size))
        at = raw.rindex(value)
        raw[at : at + len(value)] = b"!" * len(value)
        file.seek((root - 1) * size)
        file.write(raw)


@asynccontextmanager
async def reads_wait(store: Database) -> AsyncIterator[None]:
    """Have whoever reads from now on wait; what is written is written meanwhile."""
    gate = threading.Event()
    held = asyncio.create_task(store.read(lambda _: gate.wait(DEADLINE)))
    await asyncio.sleep(0)
    try:
        yield
    finally:
        gate.set()
        await held


def _target(link: Path) -> Path | None:
    try:
        return link.readlink()
    except FileNotFoundError:
        return None
