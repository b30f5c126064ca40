"""Looking at the hub's database while no agent runs: by root and the agent's own user.

Opened with ``mode=ro``: never ``immutable=1``, which would hide what still lies in the log.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from edgeagent.errors import ConfigurationError, StorageError
from edgeagent.store.database import Snapshot


@contextmanager
def read_only(path: Path) -> Iterator[Snapshot]:
    """Reads of a database that stays as it is.

    Raises:
        ConfigurationError: there is none, or we may not read it.
        StorageError: the disk does not give it, or it is no database.
    """
    try:
        path.stat()
    except OSError as why:
        raise ConfigurationError(f"cannot read {path}: {why.strerror}") from why
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            yield Snapshot(connection)
    except sqlite3.Error as why:
        raise StorageError(f"cannot read {path}: {why}") from why
