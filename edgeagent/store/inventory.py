"""The database by numbers, for whoever has to help from afar: how much there is, never what.

It has a connection of its own that only reads, and a bound of time: what could not be counted is left open.
"""

import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Final

from edgeagent.core.audit_chain import AuditRow
from edgeagent.errors import ConfigurationError, StorageError
from edgeagent.store import audit
from edgeagent.store.audit import Head
from edgeagent.store.connection import connect_reader
from edgeagent.store.database import Snapshot
from edgeagent.values import dataclass

BUDGET: Final = timedelta(seconds=2)
"""How long counting takes at most."""
MOST_ROWS: Final = 500
"""How many rows of the trail are told."""
_OPCODES: Final = 1_000


@dataclass(frozen=True, slots=True)
class Inventory:
    """What there is.

    Attributes:
        migrations: how many the file has seen.
        pages: of the file.
        free_pages: of these, not used.
        page_bytes: the size of each.
        tables: the rows of each table; None where there was no time to count.
        head: the trail's last row.
        rows: its last rows, oldest first, each with its hash.
    """

    migrations: int
    pages: int
    free_pages: int
    page_bytes: int
    tables: dict[str, int | None]
    head: Head
    rows: Sequence[tuple[AuditRow, bytes]]


def inventory(path: Path, *, budget: timedelta = BUDGET) -> Inventory:
    """Take stock; blocks.

    Raises:
        ConfigurationError: there is no database, or we may not read it.
        StorageError: the disk does not give it, or it is damaged.
    """
    try:
        path.stat()
    except OSError as why:
        raise ConfigurationError(f"cannot read {path}: {why.strerror}") from why
    try:
        with closing(connect_reader(path)) as connection:
            return _taken(connection, budget)
    except sqlite3.Error as why:
        raise StorageError(f"cannot read {path}: {why}") from why


def _taken(connection: sqlite3.Connection, budget: timedelta) -> Inventory:
    db = Snapshot(connection)
    rows = audit.newest(db, kind=None, subject=None, since=None, most=MOST_ROWS)
    end = time.monotonic() + budget.total_seconds()
    connection.set_progress_handler(lambda: int(time.monotonic() > end), _OPCODES)
    return Inventory(
        migrations=_number(db, "user_version"),
        pages=_number(db, "page_count"),
        free_pages=_number(db, "freelist_count"),
        page_bytes=_number(db, "page_size"),
        tables=_counted(db),
        head=_head(rows),
        rows=rows,
    )


def _head(rows: Sequence[tuple[AuditRow, bytes]]) -> Head:
    """The head that the last rows show; that of an empty trail for none."""
    return Head(rows[-1][0].number, rows[-1][1]) if rows else audit.EMPTY


def _counted(db: Snapshot) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    for row in db.rows("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"):
        name = str(row["name"])
        quoted = name.replace('"', '""')
        try:
            found[name] = int(db.rows(f'SELECT count(*) FROM "{quoted}"')[0][0])  # noqa: S608 - out of the schema
        except sqlite3.OperationalError as why:
            if why.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise
            found[name] = None
    return found


def _number(db: Snapshot, pragma: str) -> int:
    return int(db.rows(f"PRAGMA {pragma}")[0][0])
