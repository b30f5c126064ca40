"""What lies on a disk when nobody uses it any more."""

import sqlite3
from contextlib import closing
from pathlib import Path


def checked(database: Path) -> str:
    """What SQLite says of all pages and indexes of a file: ``ok``, or the first problem."""
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
        return str(connection.execute("PRAGMA integrity_check(1)").fetchone()[0])
