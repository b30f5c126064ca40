"""SQLite's connections as the store uses them: one that writes, those that read, each in its thread.

The writer syncs every commit (WAL, ``synchronous = FULL``). Readers are opened with ``mode=ro``: never
``immutable=1``, which hides the write-ahead log.
"""

import asyncio
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import aiosqlite

T = TypeVar("T")

_BUSY: Final = 5_000
_FEWEST_PAGES: Final = 50
_MOST_PAGES: Final = 1_000
_PAGE: Final = 4_096
# What part of its disk a log may have before it is moved.
_SHARE: Final = 64


class ConnectionThread(aiosqlite.Connection):
    """aiosqlite's thread and life cycle, with whole functions in place of single statements.

    A hop into the thread costs 93 microseconds: eight statements one by one make 873 transactions a
    second, as one function with twenty sharing a commit 33,000.
    """

    async def begin(self) -> None:
        """Open the connection; if that fails, wait for the thread, which tells the loop of its end."""
        try:
            await self
        except BaseException:
            await asyncio.to_thread(self._thread.join)
            raise

    async def run(self, work: Callable[[], T]) -> T:
        """Run a function in the connection's thread."""
        result: T = await self._execute(work)  # type: ignore[no-untyped-call]  # protected; see pyproject
        return result

    async def come_round(self) -> None:
        """Wait until the thread has done what it was given before; touches no disk."""
        await self.run(lambda: None)

    def post(self, work: Callable[[], None]) -> None:
        """Run a function in the connection's thread that raises nothing, since nobody waits for it."""
        self._tx.put_nowait((None, work))

    def connection(self) -> sqlite3.Connection:
        """The connection itself; only for functions that run in the thread."""
        return self._conn

    def replace(self, connection: sqlite3.Connection) -> None:
        """Put a newly opened connection in the place of a poisoned one; only in the thread."""
        self._conn.close()
        self._connection = connection


def connect_writer(path: Path) -> sqlite3.Connection:
    """Open the connection that writes."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=_BUSY / 1000, cached_statements=256)
    connection.row_factory = sqlite3.Row
    for pragma in (
        "journal_mode = WAL",
        # FULL, not NORMAL: what we acknowledged must survive a power cut.
        "synchronous = FULL",
        "foreign_keys = ON",
        "trusted_schema = OFF",
        # The recorder of the crash tests does not see writes through a memory map.
        "mmap_size = 0",
        "temp_store = MEMORY",
        f"wal_autocheckpoint = {_pages_of_log(path)}",
    ):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def _pages_of_log(path: Path) -> int:
    """How many pages of log are moved into the file at once: SQLite's own 1,000, fewer on a small disk.

    A log that fills its disk cannot be moved any more, since the file has to grow for it.
    """
    try:
        disk = os.statvfs(path.parent)
    except OSError:
        return _MOST_PAGES
    return max(_FEWEST_PAGES, min(_MOST_PAGES, disk.f_blocks * disk.f_frsize // _SHARE // _PAGE))


def connect_reader(path: Path) -> sqlite3.Connection:
    """Open a connection that reads."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA query_only = ON")
    return connection


def prove_writable(connection: sqlite3.Connection) -> None:
    """Commit something that changes nothing and reaches the disk all the same."""
    [(version,)] = connection.execute("PRAGMA user_version").fetchall()
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(f"PRAGMA user_version = {int(version)}")
        connection.execute("COMMIT")
    except sqlite3.Error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def cut_log(connection: sqlite3.Connection) -> bool:
    """Move the write-ahead log into the file and cut it to nothing; readers are not waited for.

    Returns:
        Whether it is cut; else some reader still needs it.
    """
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        [(busy, _, _)] = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        connection.execute(f"PRAGMA busy_timeout = {_BUSY}")
    return not busy
