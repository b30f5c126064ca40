"""The connection that writes, opened anew after an error that left unknown what the old one was good for.

It is closed, opened, and all pages are looked at before anything is written again. Looking takes up to two
seconds of a large file: as long as the disk goes on failing, four fifths of the time are left alone.
"""

import sqlite3
import time
from pathlib import Path
from typing import Final

from edgeagent.store.connection import connect_writer
from edgeagent.store.files import check_pages

# What is quicker is done each time that somebody writes.
_QUICK: Final = 0.05
_REST: Final = 4


class Reopening:
    """Opens the writer of one database anew."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._not_before = 0.0

    @property
    def is_resting(self) -> bool:
        """Whether it was tried so lately that it is left alone."""
        return time.monotonic() < self._not_before

    def connection(self) -> sqlite3.Connection:
        """Open it, and see that it may write and that its pages hang together.

        The reader stays open meanwhile, and with it the log's index: what the failed commit has left in the
        log behind the last good frame is not taken for good, but written over. Were the index made anew, such
        frames could count, though they stand in the kernel's cache and nowhere else.

        Raises:
            DamagedFileError: its pages do not hang together.
            sqlite3.Error: it cannot be written.
        """
        began = time.monotonic()
        try:
            return self._opened()
        finally:
            now = time.monotonic()
            if now - began > _QUICK:
                self._not_before = now + _REST * (now - began)

    def _opened(self) -> sqlite3.Connection:
        connection = connect_writer(self._path)
        try:
            # Of a file system that has become read-only SQLite silently opens a file to read.
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
            check_pages(connection, self._path)
        except BaseException:
            connection.close()
            raise
        return connection
