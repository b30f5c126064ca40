"""A short look at the pages of the database as they lie on the disk now, beside whoever writes it.

Each look goes on with the table at which the one before ended, so that after some looks all tables were seen
that fit into one. A file that was overwritten while it is open shows here: this connection has no page of it
in memory yet. A look at everything is ``Side.damage``.
"""

import sqlite3
import time
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Final

from edgeagent.errors import StorageError
from edgeagent.store.connection import connect_reader
from edgeagent.store.trouble import Fault, fault_of
from edgeagent.values import dataclass

BUDGET: Final = timedelta(milliseconds=50)
"""How long a look takes at most."""
_OPCODES: Final = 1_000


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look has seen.

    Attributes:
        tables: how many tables were looked at to their end.
        of: how many there are.
        damage: what does not hang together; empty when all does that was seen.
    """

    tables: int
    of: int
    damage: str = ""


class PageLook:
    """Looks at the tables of a database in turn; blocks, for a thread of its own."""

    def __init__(self, path: Path, *, budget: timedelta = BUDGET) -> None:
        self._path = path
        self._budget = budget.total_seconds()
        self._next = ""

    def look(self) -> Looked:
        """Look at as many tables as there is time for.

        Raises:
            StorageError: the disk does not give it now.
        """
        try:
            with closing(connect_reader(self._path)) as connection:
                return self._look(connection)
        except sqlite3.Error as why:
            if fault_of(why) is Fault.DAMAGED:
                return Looked(0, 0, str(why))
            raise StorageError(f"cannot read {self._path.name}: {why}") from why

    def _look(self, connection: sqlite3.Connection) -> Looked:
        found = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
        tables = [str(name) for (name,) in found.fetchall()]
        end, seen = time.monotonic() + self._budget, 0
        connection.set_progress_handler(lambda: int(time.monotonic() > end), _OPCODES)
        for table in [*(each for each in tables if each >= self._next), *tables]:
            if seen == len(tables):
                break
            try:
                problem = _problem(connection, table)
            except sqlite3.OperationalError as why:
                if why.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                    raise
                # The next look begins with it; one that is too large for any is passed over then.
                self._next = table if seen else f"{table}\x00"
                return Looked(seen, len(tables))
            if problem:
                return Looked(seen, len(tables), problem)
            seen += 1
        self._next = ""
        return Looked(seen, len(tables))


def _problem(connection: sqlite3.Connection, table: str) -> str:
    """What of a table does not hang together."""
    quoted = table.replace("'", "''")
    [(problem,)] = connection.execute(f"PRAGMA quick_check('{quoted}')").fetchmany(1)
    return "" if problem == "ok" else str(problem)
