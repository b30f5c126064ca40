"""Databases in a test's own folder, whole and broken."""

import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from edgeagent.store.database import Database

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
    """The files in a folder, but for the index of the log, which is made anew whenever it is missing."""
    return {file.name: file.read_bytes() for file in folder.iterdir() if not file.name.endswith("-shm")}


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


def _target(link: Path) -> Path | None:
    try:
        return link.readlink()
    except FileNotFoundError:
        return None
