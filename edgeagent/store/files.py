"""The files of the store: which are ours, whole, of our time; and what becomes of the others.

A newer or foreign file is refused and left as it is. A damaged one is set aside under a name that
says when, with its log, and never deleted: somebody may want to read it (SPEC R3, H4).
"""

import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from edgeagent.errors import AgentError, BrokenInvariantError, ConfigurationError

APPLICATION_ID: Final = 0x65646765
"""``edge``, in the header of each file of ours."""

FAULTY_CODES: Final = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
"""Primary result codes after which a file or disk is not to be trusted."""

# What a full check may take at start; a longer one is left to upkeep (SPEC R5: starts in under 5 s).
_CHECK_SECONDS: Final = 2.0
_HEADER: Final = b"SQLite format 3\x00"


class DamagedFileError(AgentError):
    """The file is no whole database; it may be set aside."""


class NewerFileError(ConfigurationError):
    """A newer edgeagent, or another program, made the file; it is left as it is."""


def check_file(path: Path) -> None:
    """Look whether a file can be used, before anything is written to it.

    The check of all pages is bounded in time; a file too large for it is taken on its schema.

    Raises:
        DamagedFileError: zeros, a stub, another format, or broken pages.
        NewerFileError: not ours.
    """
    log = path.with_name(path.name + "-wal")
    if not path.exists() or path.stat().st_size == 0:
        if log.exists() and log.stat().st_size:
            raise DamagedFileError(f"{path.name} is empty but has a log")
        return
    with path.open("rb") as file:
        if file.read(len(_HEADER)) != _HEADER:
            raise DamagedFileError(f"{path.name} is no database")
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            application = int(connection.execute("PRAGMA application_id").fetchone()[0])
            tables = int(connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0])
            if tables and application != APPLICATION_ID:
                raise NewerFileError(f"{path} is the database of another program; it is left as it is")
            _check_pages(connection, path)
    except sqlite3.DatabaseError as why:
        raise DamagedFileError(f"{path.name}: {why}") from why


def _check_pages(connection: sqlite3.Connection, path: Path) -> None:
    end = time.monotonic() + _CHECK_SECONDS
    connection.set_progress_handler(lambda: int(time.monotonic() > end), 1000)
    try:
        problem = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.OperationalError as why:
        if why.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
            return
        raise
    if problem != "ok":
        raise DamagedFileError(f"{path.name}: {problem}")


def set_aside(path: Path, now: datetime) -> Path:
    """Move a damaged database out of the way, with its log.

    Returns:
        Where it lies now.
    """
    kept = path.with_name(f"{path.name}.damaged-{now:%Y%m%dT%H%M%S%fZ}")
    # The log first: should we die in between, the file without its log is found damaged or whole, but
    # a new file never meets an old log.
    for suffix in ("-wal", "-shm", ""):
        part = path.with_name(path.name + suffix)
        if part.exists():
            part.rename(kept.with_name(kept.name + suffix))
    _sync_folder(path.parent)
    return kept


def migrate(connection: sqlite3.Connection, folder: Traversable) -> None:
    """Run the migrations that the file has not seen, each in a transaction of its own.

    Args:
        connection: the writer's.
        folder: ``NNNN_name.sql``; a file's ``user_version`` is the number of its last one.

    Raises:
        NewerFileError: the file has seen migrations that we do not have.
        BrokenInvariantError: a migration fails.
    """
    scripts = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > len(scripts):
        raise NewerFileError(
            f"the database has schema {version}, this edgeagent knows {len(scripts)}: install the newer "
            "edgeagent again, or restore a backup made before the upgrade"
        )
    for number, name in enumerate(scripts, start=1):
        if int(name[:4]) != number:
            raise BrokenInvariantError(f"migration {number} is missing")
        if number > version:
            _migrate_once(connection, folder.joinpath(name).read_text("utf-8"), number)


def _migrate_once(connection: sqlite3.Connection, script: str, number: int) -> None:
    try:
        connection.executescript(
            f"BEGIN IMMEDIATE;\n{script}\n"
            f"PRAGMA application_id = {APPLICATION_ID};\nPRAGMA user_version = {number};\nCOMMIT;"
        )
    except sqlite3.Error as why:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if isinstance(why, sqlite3.OperationalError) and why.sqlite_errorcode in {
            sqlite3.SQLITE_FULL,
            sqlite3.SQLITE_READONLY,
        }:
            raise ConfigurationError(f"cannot prepare the database: {why}") from why
        raise BrokenInvariantError(f"migration {number} fails: {why}") from why


@contextmanager
def sole_owner(lock: Path) -> Iterator[None]:
    """Hold the lock that keeps a second agent, a restore and a migration apart.

    Raises:
        ConfigurationError: another process holds it.
    """
    handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as why:
            raise ConfigurationError(f"another edgeagent is running on {lock.parent}") from why
        yield
    finally:
        os.close(handle)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
