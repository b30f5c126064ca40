"""The one writer, and the readers beside it.

A transaction is a plain function of a ``Transaction``, run whole in the database's thread. It cannot
await, so nothing interleaves, and a cancelled caller harms nothing. Its result is handed out only
after the COMMIT that covers it has been synced to the disk (WAL, ``synchronous = FULL``).

    write(f) ──┐
    write(g) ──┼──> BEGIN IMMEDIATE; savepoint f; savepoint g; ...; COMMIT ──> results of f, g
    write(h) ──┘         one that fails rolls back alone; if the COMMIT fails, all fail

Functions that wait while a commit runs share the next one. There is one read-write connection in one
process: before 3.51.3, two connections that write or checkpoint one WAL file at the same instant can
lose committed data (sqlite.org/wal.html#walresetbug), and several writers starve each other.

After an I/O error the connection is *poisoned*: what the kernel did with the pages is unknown, so it
is closed, opened and checked anew before anything else is written, and ``generation`` grows: whoever
keeps a copy of rows in memory reads them again. A failed sync is never tried again and called good. What
a process before this one failed to sync may look whole and stand in the kernel's cache alone; so at the
start the log is moved into the file, and that is synced, before anything new rests on it.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final, Generic, Self, TypeVar

from edgeagent.errors import BrokenInvariantError, StorageError
from edgeagent.store.connection import (
    ConnectionThread,
    connect_reader,
    connect_writer,
    cut_log,
    prove_writable,
)
from edgeagent.store.files import DamagedFileError, migrate, tables_known, take_file
from edgeagent.store.reopening import Reopening
from edgeagent.store.trouble import Fault, Trouble, fault_of, is_poison
from edgeagent.values import dataclass

T = TypeVar("T")
SqlValue = str | int | float | bytes | None
Parameters = Sequence[SqlValue] | Mapping[str, SqlValue]

_OUR_CODES: Final = frozenset(
    {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG}
)
# No future can hold a StopIteration: whoever waits for it would wait for ever.
_STOPPED: Final = "the work ended with StopIteration"


class Snapshot:
    """Reads, all of one moment. Returns whole lists, never a cursor.

    A half-read cursor would block the next SAVEPOINT and so break the whole group.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, sql: str, parameters: Parameters = ()) -> list[sqlite3.Row]:
        """All rows of a query; of a ``RETURNING`` too."""
        return self._connection.execute(sql, parameters).fetchall()

    def row(self, sql: str, parameters: Parameters = ()) -> sqlite3.Row | None:
        """The first row of a query, or None."""
        found = self.rows(sql, parameters)
        return found[0] if found else None


class Transaction(Snapshot):
    """Reads and writes that are committed together or not at all."""

    def execute(self, sql: str, parameters: Parameters = ()) -> int:
        """Run a statement that writes.

        Returns:
            How many rows it changed.
        """
        return self._connection.execute(sql, parameters).rowcount

    def execute_many(self, sql: str, rows: Iterable[Parameters]) -> int:
        """Run a statement that writes once for each of ``rows``.

        Returns:
            How many rows it changed in all.
        """
        return self._connection.executemany(sql, rows).rowcount


@dataclass(frozen=True, slots=True)
class _Entry(Generic[T]):
    """A function that waits for its commit, and whom to tell."""

    work: Callable[[Transaction], T]
    future: asyncio.Future[T]


class Database:
    """One SQLite file: its writer and its reader.

    Open it with ``await Database.open(...)``; close it with ``await close()``.

    Attributes:
        generation: grows whenever the writer had to be opened anew.
        commits: how many transactions were committed.
        trouble: why commits fail; None since the last good one.
        failed: set whenever a commit has failed; whoever looks after it clears it.
        is_checked: whether the start had the time to look at all pages.
    """

    def __init__(
        self, path: Path, writer: ConnectionThread, reader: ConnectionThread, after_commit: Callable[[], None]
    ) -> None:
        self._path = path
        self._writer = writer
        self._reader = reader
        self._after_commit = after_commit
        self._loop = asyncio.get_running_loop()
        self._waiting: list[_Entry[object]] = []
        self._scheduled = False
        self._guard = threading.Lock()
        self._poisoned = False
        self._reopening = Reopening(path)
        self._closed = False
        self.generation = 0
        self.commits = 0
        self.trouble: Trouble | None = None
        self.failed = asyncio.Event()
        self.is_checked = True

    @classmethod
    async def open(
        cls, path: Path, migrations: Traversable, *, after_commit: Callable[[], None] = lambda: None
    ) -> Self:
        """Open the file, or make it, and bring its tables up to date.

        Args:
            path: the database.
            migrations: the folder of ``NNNN_name.sql``.
            after_commit: called in the database's thread after each commit and before anybody is
                told: a place for a test to kill the process.

        Raises:
            DamagedFileError: it is no whole database of ours.
            NewerFileError: a newer edgeagent or another program made it; it is left as it is.
            MigrationError: its tables cannot be brought up to date; it is left as it was.
            StorageError: the disk does not give it, or takes no writes.
        """
        # In a thread: all of a log that was left is read.
        is_checked = await asyncio.to_thread(take_file, path, tables_known(migrations))
        writer = ConnectionThread(partial(connect_writer, path), iter_chunk_size=1)
        try:
            await writer.begin()
            try:
                await writer.run(lambda: migrate(writer.connection(), migrations))
                await writer.run(lambda: cut_log(writer.connection()))
                await writer.run(lambda: prove_writable(writer.connection()))
                reader = ConnectionThread(partial(connect_reader, path), iter_chunk_size=1)
                await reader.begin()
            except BaseException:
                await writer.close()
                raise
        except sqlite3.Error as why:
            raise StorageError(f"cannot open {path}: {why}") from why
        database = cls(path, writer, reader, after_commit)
        database.is_checked = is_checked
        return database

    @property
    def path(self) -> Path:
        """Where it is."""
        return self._path

    @property
    def log_bytes(self) -> int:
        """The length of the write-ahead log's file; 0 when there is none."""
        try:
            return self._path.with_name(f"{self._path.name}-wal").stat().st_size
        except OSError:
            return 0

    async def close(self) -> None:
        """Finish what is queued and close both connections."""
        self._closed = True
        await self._reader.close()
        await self._writer.close()

    async def write(self, work: Callable[[Transaction], T]) -> T:
        """Run ``work`` in a transaction and commit it, or nothing of it.

        When the caller is cancelled the work may still be committed.

        Raises:
            StorageError: the disk did not take it; nothing of it is saved.
            BrokenInvariantError: a constraint of the database forbids it, a statement is wrong, or
                the database is closed.
            AgentError: whatever ``work`` itself raised; nothing of it is saved.
        """
        self._check_open()
        future: asyncio.Future[T] = self._loop.create_future()
        entry = _Entry(work, future)
        with self._guard:
            self._waiting.append(entry)  # type: ignore[arg-type]  # a list of entries of any T
            first, self._scheduled = not self._scheduled, True
        if first:
            # In the next pass of the loop: whoever is ready in this one shares the commit. A callback and no
            # task: what is cancelled meanwhile takes nobody else's commit along.
            self._loop.call_soon(self._writer.post, self._commit_group)
        return await future

    async def read(self, work: Callable[[Snapshot], T]) -> T:
        """Run ``work`` on one consistent state of the database, beside the writer.

        Raises:
            StorageError: the disk did not give it.
            BrokenInvariantError: the database is closed.
        """
        self._check_open()
        return await self._reader.run(partial(self._read, work))

    async def checkpoint(self) -> bool:
        """Move the write-ahead log into the file and cut it to nothing, as far as readers allow.

        Returns:
            Whether it is cut; else some reader still needs it.

        Raises:
            StorageError: the disk did not take it; the log still holds all of it.
            BrokenInvariantError: the database is closed.
        """
        self._check_open()
        return await self._writer.run(self._cut_log)

    async def come_round(self) -> None:
        """Wait until both threads have done what they were given: neither hangs. Touches no disk.

        Raises:
            BrokenInvariantError: the database is closed.
        """
        self._check_open()
        await self._writer.come_round()
        await self._reader.come_round()

    def _check_open(self) -> None:
        if self._closed:
            raise BrokenInvariantError(f"{self._path.name} is closed")

    def _cut_log(self) -> bool:
        connection = self._ready()
        try:
            return cut_log(connection)
        except sqlite3.Error as why:
            raise self._failure(why) from why

    def _read(self, work: Callable[[Snapshot], T]) -> T:
        connection = self._reader.connection()
        try:
            # A transaction, so that several queries see one state; always ended, since an open one
            # keeps the write-ahead log from being cut.
            connection.execute("BEGIN")
            try:
                return work(Snapshot(connection))
            finally:
                connection.execute("ROLLBACK")
        except sqlite3.Error as why:
            raise StorageError(f"cannot read {self._path.name}: {why}") from why
        except StopIteration as why:
            raise BrokenInvariantError(_STOPPED) from why

    def _commit_group(self) -> None:
        """Commit everything that waits; runs in the database's thread."""
        with self._guard:
            group, self._waiting = self._waiting, []
            self._scheduled = False
        if not group:
            return
        try:
            outcomes = self._committed([entry.work for entry in group])
        except BaseException as why:  # noqa: BLE001 - whoever waits has to be told, whatever happened
            outcomes = [why] * len(group)
        self._loop.call_soon_threadsafe(_tell, group, outcomes)

    def _committed(self, works: Sequence[Callable[[Transaction], object]]) -> list[object]:
        """Run the functions under one commit.

        Returns:
            For each its result, or the error that rolled it back alone.

        Raises:
            StorageError: nothing of the group is saved.
        """
        connection = self._ready()
        before = connection.total_changes
        try:
            connection.execute("BEGIN IMMEDIATE")
            try:
                outcomes = [_savepoint(connection, work) for work in works]
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as why:
            raise self._failure(why) from why
        except StorageError as why:
            raise self._troubled(why, str(why)) from why
        self.commits += 1
        if connection.total_changes != before:
            # One that changes nothing reaches no disk: it proves nothing.
            self.trouble = None
        self._after_commit()
        return outcomes

    def _failure(self, why: sqlite3.Error) -> StorageError:
        self._poisoned = self._poisoned or is_poison(why)
        return self._troubled(why, f"cannot write {self._path.name}: {why}")

    def _troubled(self, why: Exception, told: str) -> StorageError:
        before = 0 if self.trouble is None else self.trouble.failures
        self.trouble = Trouble(fault_of(why), told, before + 1)
        self._loop.call_soon_threadsafe(self.failed.set)
        return StorageError(told)

    def _ready(self) -> sqlite3.Connection:
        """The connection that writes, opened anew if the one before it was poisoned."""
        if self._poisoned:
            if self._reopening.is_resting:
                raise StorageError(f"{self._path.name} is not written again yet")
            try:
                connection = self._reopening.connection()
            except (sqlite3.Error, DamagedFileError) as why:
                raise self._troubled(why, f"{self._path.name} cannot be written again: {why}") from why
            self._writer.replace(connection)
            self._poisoned = False
            self.generation += 1
        connection = self._writer.connection()
        if self.trouble is not None and self.trouble.fault is Fault.FULL:
            # The log itself may be what fills the disk: SQLite begins it anew at 4 MiB only.
            try:
                cut_log(connection)
            except sqlite3.Error as why:
                # Of anything else the commit will tell.
                if fault_of(why) is Fault.FAILED_SYNC:
                    raise self._failure(why) from why
        return connection


def _is_ours(why: sqlite3.Error) -> bool:
    """Whether an error is the fault of a statement or its parameters, and of nothing else."""
    # The module's own refusals, such as a missing parameter, have no code of SQLite.
    code = getattr(why, "sqlite_errorcode", None)
    return code is None or (code & 0xFF) in _OUR_CODES


def _savepoint(connection: sqlite3.Connection, work: Callable[[Transaction], object]) -> object:
    """Run one function of a group; its own failure undoes only itself."""
    connection.execute("SAVEPOINT work")
    try:
        result = work(Transaction(connection))
    except sqlite3.Error as why:
        if not _is_ours(why):
            raise  # the disk or the file: the whole group fails
        failure: Exception = BrokenInvariantError(f"the database forbids it: {why}")
        failure.__cause__ = why
    except StopIteration as why:
        failure = BrokenInvariantError(_STOPPED)
        failure.__cause__ = why
    except Exception as why:  # noqa: BLE001 - it is handed to whoever asked for the work
        failure = why
    else:
        connection.execute("RELEASE work")
        return _Done(result)
    if not connection.in_transaction:
        # Disk full and I/O errors make SQLite roll back by itself, and the rest of the group with it.
        raise StorageError("a failure rolled the whole group back") from failure
    connection.execute("ROLLBACK TO work")
    connection.execute("RELEASE work")
    return failure


@dataclass(frozen=True, slots=True)
class _Done:
    """Tells a result from an error, since a function may return either."""

    result: object


def _tell(group: Sequence[_Entry[object]], outcomes: Sequence[object]) -> None:
    for entry, outcome in zip(group, outcomes, strict=True):
        if entry.future.done():  # cancelled meanwhile
            continue
        if isinstance(outcome, _Done):
            entry.future.set_result(outcome.result)
        else:
            assert isinstance(outcome, BaseException)  # noqa: S101 - for the type checker
            entry.future.set_exception(outcome)
