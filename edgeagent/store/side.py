"""Long work beside the writer: a copy of the database, a look at all of its pages.

It has a read-only connection and a thread of its own, and sees one moment of the database, so that nobody who
writes waits for it. What it costs the others is the log, which cannot be cut while somebody reads: work that
makes it grow too long gives up, and so does work that is told to stop.
"""

import os
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from edgeagent.errors import StorageError, TransientError
from edgeagent.store.connection import connect_reader
from edgeagent.store.files import sync_folder

LONGEST_LOG: Final = 32 * 1024 * 1024
"""How many bytes the log may have while somebody reads beside the writer."""
ANY_LOG: Final = 2**62
"""The same where nobody writes: what was left of a log may be as long as it is."""
ROOM: Final = 16 * 1024 * 1024
"""How many bytes a backup leaves free on its disk."""

_PAGES: Final = 64
# Synced in pieces: one large sync at the end would make the commits on the same disk wait for all of it.
_PAGES_PER_SYNC: Final = 256
_OPCODES: Final = 10_000


class GaveUpError(TransientError):
    """Work beside the writer was ended before it was done; nothing of it is left."""


class Side:
    """Work beside the writer of one database; its methods block, each for a thread of its own.

    Args:
        path: the database.
        longest_log: gives up when the log has more bytes.
        room: how many bytes a copy leaves free.
    """

    def __init__(self, path: Path, *, longest_log: int = LONGEST_LOG, room: int = ROOM) -> None:
        self._path = path
        self._log = path.with_name(f"{path.name}-wal")
        self._longest_log = longest_log
        self._room = room
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Have the work give up soon; from any thread."""
        self._stopped.set()

    def why_to_end(self) -> str:
        """Why the work is to be given up; empty when it is not."""
        if self._stopped.is_set():
            return "the agent is stopping"
        try:
            size = self._log.stat().st_size
        except OSError:
            return ""
        return "too much is being written meanwhile" if size > self._longest_log else ""

    def damage(self) -> str:
        """Look at all pages and indexes, one table after the other.

        Returns:
            What does not hang together; empty when all does.

        Raises:
            StorageError: the disk does not give it.
            GaveUpError: it was not looked at to the end.
        """
        with self._reading() as connection:
            tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
            for (table,) in tables:
                # Each in a moment of its own, so that the log can be cut in between.
                quoted = str(table).replace("'", "''")
                problem = str(connection.execute(f"PRAGMA integrity_check('{quoted}')").fetchone()[0])
                if problem != "ok":
                    return problem
        return ""

    def back_up(self, target: Path) -> int:
        """Copy the database into a new file, and check the copy.

        The copy is of one moment, is whole without a log beside it, and belongs to its owner alone. It gets
        its name when it is whole and on the disk.

        Args:
            target: where nothing is yet.

        Returns:
            How many bytes it has.

        Raises:
            FileExistsError: something is there.
            OSError: the copy cannot be written there.
            StorageError: the database cannot be read, or the copy not be written.
            GaveUpError: see the class.
        """
        part = target.with_name(f".{target.name}.part")
        part.unlink(missing_ok=True)  # of a backup that was cut off
        handle = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            with self._reading() as source:
                self._copy(source, part, handle)
                self._make_whole(part)
            os.fsync(handle)
            size = os.fstat(handle).st_size
            # Not by a link, which a stick's file system does not know; what is there is never replaced.
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            try:
                part.replace(target)
                sync_folder(target.parent)
            except OSError:
                # Who is told that there is no backup is to find none: neither the name alone nor a copy
                # that nobody has put on record.
                target.unlink(missing_ok=True)
                raise
        finally:
            os.close(handle)
            for suffix in ("", "-wal", "-shm", "-journal"):
                part.with_name(part.name + suffix).unlink(missing_ok=True)
        return size

    def _copy(self, source: sqlite3.Connection, part: Path, handle: int) -> None:
        # A read that is not ended holds the moment: what is written meanwhile does not begin the copy anew.
        source.execute("BEGIN")
        [(pages,)] = source.execute("SELECT page_count FROM pragma_page_count").fetchall()
        [(page,)] = source.execute("PRAGMA page_size").fetchall()
        free = shutil.disk_usage(part.parent).free
        if free < pages * page + self._room:
            raise StorageError(f"{free} bytes are free in {part.parent}, a backup takes {pages * page}")
        since = 0

        def progress(_status: int, _left: int, _all: int) -> None:
            nonlocal since
            if why := self.why_to_end():
                raise GaveUpError(f"no backup: {why}")
            since += _PAGES
            if since >= _PAGES_PER_SYNC:
                os.fdatasync(handle)
                since = 0

        with closing(sqlite3.connect(part, isolation_level=None)) as copy:
            # Half a copy is thrown away: nothing of it has to survive anything before it is whole.
            copy.execute("PRAGMA synchronous = OFF")
            copy.execute("PRAGMA journal_mode = OFF")
            source.backup(copy, pages=_PAGES, progress=progress)
        source.execute("ROLLBACK")

    def _make_whole(self, part: Path) -> None:
        """Have the copy need no log, and look at all of it."""
        with closing(sqlite3.connect(part, isolation_level=None)) as copy:
            copy.execute("PRAGMA journal_mode = DELETE")
            copy.set_progress_handler(lambda: bool(self.why_to_end()), _OPCODES)
            problem = str(copy.execute("PRAGMA integrity_check(1)").fetchone()[0])
        if problem != "ok":
            raise StorageError(f"the copy is not whole: {problem}")

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(connect_reader(self._path)) as connection:
                connection.set_progress_handler(lambda: bool(self.why_to_end()), _OPCODES)
                yield connection
        except sqlite3.Error as why:
            reason = self.why_to_end()
            if reason and getattr(why, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
                raise GaveUpError(f"given up: {reason}") from why
            raise StorageError(f"cannot read {self._path.name}: {why}") from why
