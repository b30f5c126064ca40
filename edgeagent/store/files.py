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

from edgeagent.errors import AgentError, BrokenInvariantError, ConfigurationError, StorageError

MIGRATIONS: Final = Path(__file__).parent / "migrations"
"""The folder of a hub's tables."""
APPLICATION_ID: Final = 0x65646765
"""``edge``, in the header of each file of ours."""

_PRIVATE: Final = 0o600
_OTHERS: Final = 0o077

# Primary result codes that tell of the surroundings: who looks again later may find a whole file.
_HINDERED: Final = frozenset(
    {
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_PROTOCOL,
    }
)
# What a full check may take at start; a longer one is left to upkeep (SPEC R5: starts in under 5 s).
_CHECK_SECONDS: Final = 2.0
_HEADER: Final = b"SQLite format 3\x00"
_HEAD_BYTES: Final = 100
_LARGEST_PAGE: Final = 65_536
_ANY: Final = 2**31


class DamagedFileError(AgentError):
    """The file is no whole database; it may be set aside."""


class NewerFileError(ConfigurationError):
    """A newer edgeagent, or another program, made the file; it is left as it is."""


class LaterTablesError(NewerFileError):
    """The file has seen migrations that we do not have; it is left as it is.

    Attributes:
        what: in few words, without what to do.
        known: the number of the last one that we have.
    """

    def __init__(self, version: int, known: int) -> None:
        self.what = f"the database has schema {version}, this edgeagent knows {known}"
        super().__init__(
            f"{self.what}: install the newer edgeagent again, or restore a backup made before the upgrade"
        )
        self.known = known


class HeldError(ConfigurationError):
    """Another process works on the state. It lets go when it ends; a person who types is told at once."""


class MigrationError(ConfigurationError):
    """The tables cannot be brought up to date; the file is as it was, and the version before can use it."""


def take_file(path: Path, tables: int = _ANY) -> bool:
    """See that a database can be used, and have it be ours alone; raises as the two steps do.

    Args:
        path: the database.
        tables: the number of the last migration that we have.

    Returns:
        Whether there was time to look at all of it.
    """
    is_checked = check_file(path, tables)
    keep_private(path)
    return is_checked


def check_file(path: Path, tables: int = _ANY) -> bool:
    """Look whether a file can be used, without a change to it or to its log.

    The check of all pages is bounded in time; a file too large for it is taken on its schema.

    Args:
        path: the database.
        tables: the number of the last migration that we have.

    Returns:
        Whether there was time to look at all pages.

    Raises:
        DamagedFileError: zeros, a stub, another format, or broken pages.
        NewerFileError: not ours.
        LaterTablesError: it has seen migrations that we do not have.
        StorageError: it cannot be read now.
    """
    try:
        if not _check_shape(path):
            return True
    except OSError as why:
        raise StorageError(f"cannot read {path}: {why.strerror}") from why
    try:
        return _check_content(path, tables)
    except sqlite3.DatabaseError as why:
        if why.sqlite_errorcode == sqlite3.SQLITE_READONLY_ROLLBACK:
            _check_journal(path)
            return True
        if why.sqlite_errorcode & 0xFF in _HINDERED:
            raise StorageError(f"cannot read {path}: {why}") from why
        raise DamagedFileError(f"{path.name}: {why}") from why
    except UnicodeDecodeError as why:
        # What SQLite has to say of a schema it cannot read repeats the bytes of that.
        raise DamagedFileError(f"{path.name}: its schema is no text") from why


def keep_private(path: Path) -> None:
    """Have a database and its log be nobody else's, whatever the umask; it is made where there is none.

    Raises:
        ConfigurationError: others may use it, and we may not change that.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _PRIVATE))
    except OSError:
        return  # SQLite says why, when it tries the same
    # SQLite gives the log the rights of its file when it makes it.
    for suffix in ("", "-wal", "-shm", "-journal"):
        part = path.with_name(path.name + suffix)
        if part.exists() and part.stat().st_mode & _OTHERS:
            try:
                part.chmod(_PRIVATE)
            except OSError as why:
                raise ConfigurationError(f"others may use {part}: chmod 600 {part}") from why


def _check_shape(path: Path) -> bool:
    """Look at the file as bytes.

    Returns:
        Whether there is anything in it.
    """
    log, journal = (_size(path.with_name(path.name + suffix)) for suffix in ("-wal", "-journal"))
    size = _size(path)
    if size == 0:
        if log:
            raise DamagedFileError(f"{path.name} is empty but has a log")
        return False
    if journal:
        return True  # a change is to be undone first; SQLite knows what belongs into the file
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if not head.startswith(_HEADER):
        raise DamagedFileError(f"{path.name} is no database")
    # sqlite.org/fileformat2.html 1.3.2: 1 stands for 65,536.
    page = int.from_bytes(head[16:18], "big")
    # A checkpoint that was cut short may leave part of a page, but then the log has all of it. Without
    # one, SQLite would take zeros for what is missing.
    if not log and size % (_LARGEST_PAGE if page == 1 else max(page, 1)):
        raise DamagedFileError(f"{path.name} is cut off in the middle of a page")
    return True


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _check_content(path: Path, known: int) -> bool:
    # Read-only: the last connection that may write moves the log into the file when it is closed, and
    # then neither a foreign file is left as it is nor a damaged one kept with its log.
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        application = int(connection.execute("PRAGMA application_id").fetchone()[0])
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        tables = int(connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0])
        if tables and application != APPLICATION_ID:
            raise NewerFileError(f"{path} is the database of another program; it is left as it is")
        if tables and version < 1:
            raise DamagedFileError(f"{path.name} has tables of no schema")
        if version > known:
            raise LaterTablesError(version, known)
        return check_pages(connection, path)


def _check_journal(path: Path) -> None:
    """Look at a file that a read-only connection cannot open, since its last change has to be undone.

    Ours have such a journal only while their first page is made; the writer may undo that.
    """
    if path.stat().st_size > _LARGEST_PAGE:
        raise NewerFileError(f"{path} was left in the middle of a change by another program")


def check_pages(connection: sqlite3.Connection, path: Path) -> bool:
    """Look at the pages of an open database, for as long as a start may take.

    Returns:
        Whether there was time for all of them.

    Raises:
        DamagedFileError: they do not hang together.
    """
    end = time.monotonic() + _CHECK_SECONDS
    connection.set_progress_handler(lambda: int(time.monotonic() > end), 1000)
    try:
        problem = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.OperationalError as why:
        if why.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
            return False
        raise
    finally:
        connection.set_progress_handler(None, 0)
    if problem != "ok":
        raise DamagedFileError(f"{path.name}: {problem}")
    return True


def set_aside(path: Path, now: datetime) -> Path:
    """Move a damaged database out of the way, with its log.

    Returns:
        Where it lies now.
    """
    kept = _unused(path.with_name(f"{path.name}.damaged-{now:%Y%m%dT%H%M%S%fZ}"))
    # The log after the file: should we die in between, a log without its file is found at the next
    # start. The other way round the file would be found whole, without its last transactions.
    for suffix in ("-journal", "", "-wal", "-shm"):
        part = path.with_name(path.name + suffix)
        if part.exists():
            part.rename(kept.with_name(kept.name + suffix))
    sync_folder(path.parent)
    return kept


def _unused(wanted: Path) -> Path:
    """A name that nothing bears yet: a clock that stands still at start gives the same one twice."""
    name, number = wanted, 1
    while any(name.with_name(name.name + suffix).exists() for suffix in ("", "-journal", "-wal", "-shm")):
        number += 1
        name = wanted.with_name(f"{wanted.name}-{number}")
    return name


def tables_known(folder: Traversable) -> int:
    """The number of the last migration of a folder."""
    return sum(1 for entry in folder.iterdir() if entry.name.endswith(".sql"))


def migrate(connection: sqlite3.Connection, folder: Traversable) -> None:
    """Run the migrations that the file has not seen, all in one transaction.

    Were some kept where a later one fails, neither the version before nor this one could use the file.

    Args:
        connection: the writer's.
        folder: ``NNNN_name.sql``; a file's ``user_version`` is the number of its last one.

    Raises:
        LaterTablesError: the file has seen migrations that we do not have.
        MigrationError: a migration fails; the file is as it was.
        BrokenInvariantError: one is missing.
    """
    scripts = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > len(scripts):
        raise LaterTablesError(version, len(scripts))
    missing = [number for number, name in enumerate(scripts, start=1) if int(name[:4]) != number]
    if missing:
        raise BrokenInvariantError(f"migration {missing[0]} is missing")
    if version < len(scripts):
        # The number after each, so that it is known which one fails.
        steps = [
            f"{folder.joinpath(name).read_text('utf-8')}\nPRAGMA user_version = {number};"
            for number, name in enumerate(scripts[version:], start=version + 1)
        ]
        _migrate_at_once(connection, "\n".join(steps))


def _migrate_at_once(connection: sqlite3.Connection, script: str) -> None:
    try:
        connection.executescript(
            f"BEGIN IMMEDIATE;\n{script}\nPRAGMA application_id = {APPLICATION_ID};\nCOMMIT;"
        )
    except sqlite3.Error as why:
        is_hindered = getattr(why, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF in _HINDERED | {
            sqlite3.SQLITE_FULL
        }
        done = 0 if is_hindered else int(connection.execute("PRAGMA user_version").fetchone()[0])
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if is_hindered:
            raise  # the disk: whoever tries again later may find it well
        raise MigrationError(f"migration {done + 1} fails: {why}; the database is as it was") from why


@contextmanager
def sole_owner(lock: Path) -> Iterator[None]:
    """Hold the lock that keeps a second agent, a restore and a migration apart.

    Raises:
        HeldError: another process holds it.
        ConfigurationError: it belongs to somebody else.
        StorageError: the disk does not let it be opened.
    """
    try:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except PermissionError as why:
        raise ConfigurationError(f"cannot use {lock}: it belongs to somebody else") from why
    except OSError as why:
        raise StorageError(f"cannot use {lock}: {why.strerror}") from why
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as why:
            raise HeldError(f"another edgeagent is running on {lock.parent}") from why
        yield
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Make renames in a folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
