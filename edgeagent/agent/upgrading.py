"""From one version to the next: a backup before tables are changed; the way back where none leads forward.

A newer database is never used and never changed; one whose tables cannot be changed is as it was. Either way
whoever stands before it is told which version to install, or which backup to put back (SPEC H1, H4).
"""

import logging
import sqlite3
from contextlib import closing
from datetime import datetime
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from edgeagent.contracts.backup import Why
from edgeagent.errors import AgentError, ConfigurationError
from edgeagent.store import audit, meta
from edgeagent.store.backups import Backup, Backups, Wish
from edgeagent.store.connection import connect_reader
from edgeagent.store.database import Snapshot
from edgeagent.store.files import LaterTablesError, tables_known
from edgeagent.store.side import ANY_LOG, Side

log = logging.getLogger(__name__)

KEPT: Final = 2
"""How many backups from before an upgrade are kept."""


def back_up_first(path: Path, migrations: Traversable, now: datetime) -> Backup | None:
    """Make a backup if tables are about to be changed; blocks.

    A start that is tried again makes no second one.

    Returns:
        The backup; None where none is needed.

    Raises:
        StorageError: the disk does not take it, or has no room for it; the tables stay as they are.
    """
    tables, known = _tables(path), tables_known(migrations)
    if not 0 < tables < known:
        return None
    backups = Backups(path.parent)
    try:
        with closing(connect_reader(path)) as connection:
            db = Snapshot(connection)
            present = (tables, meta.incarnation(db), audit.head(db).number)
    except (sqlite3.Error, AgentError, ValueError):
        return None  # damaged, which is judged when it is opened
    for made in backups.all():
        about = made.manifest
        if about is None or made.problem or about.why is not Why.UPGRADE:
            continue
        if (about.tables, about.incarnation, about.audit_number) == present:
            return made
    wish = Wish(why=Why.UPGRADE, made_at=now, version="unknown", tables_after=known)
    made = backups.make(Side(path, longest_log=ANY_LOG), wish)
    log.info("backup made before the upgrade", extra={"backup": made.name, "from": tables, "to": known})
    backups.thin_out(KEPT)
    return made


def way_back(path: Path, why: ConfigurationError) -> str:
    """What went wrong, and which version to install or which backup to put back; blocks."""
    version = _version(path)
    install = f"apt install ./edgeagent_{version}_*.deb" if version else "install the edgeagent that made it"
    if not isinstance(why, LaterTablesError):
        return f"{why}; go on with the version before: {install}"
    known = why.known
    fitting = (each for each in Backups(path.parent).all() if each.manifest and not each.problem)
    older = next((each.name for each in fitting if each.manifest and each.manifest.tables <= known), "")
    back = f"; or go back to a backup: edgeagent backup restore {older}" if older else ""
    return f"{why.what}; go on with the newer one: {install}{back}"


def _tables(path: Path) -> int:
    """The number of the last migration that a database has seen; 0 where it does not say."""
    if not path.exists():
        return 0
    try:
        with closing(connect_reader(path)) as connection:
            return int(connection.execute("PRAGMA user_version").fetchone()[0])
    except (sqlite3.Error, ValueError):
        return 0


def _version(path: Path) -> str:
    """The edgeagent that worked with a database last; empty where it does not say."""
    try:
        with closing(connect_reader(path)) as connection:
            started = meta.last_start(Snapshot(connection))
    except (sqlite3.Error, AgentError, ValueError):
        return ""
    return "" if started is None else started.version
