"""What comes before everything else: folders, the database, its epoch, the first audit rows."""

import logging
import random
import stat
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from edgeagent.clock import EPOCH, ProvenClock
from edgeagent.config import Config
from edgeagent.contracts.event import EventTime, EventType, Stream, data_text
from edgeagent.contracts.scalars import timestamp_text
from edgeagent.core.audit_chain import AuditKind
from edgeagent.errors import ConfigurationError
from edgeagent.flows.surroundings import Origin
from edgeagent.ids import new_epoch
from edgeagent.ports.crash import CrashPoint
from edgeagent.store import audit, meta, outbox
from edgeagent.store.audit import Act, Stamp
from edgeagent.store.database import Database, Transaction
from edgeagent.store.files import DamagedFileError, set_aside
from edgeagent.store.outbox import NewEvent

log = logging.getLogger(__name__)

_FOLDER_MODE: Final = 0o750


class NoCrashPoints:
    """The product's observer of the named points: it does nothing."""

    def reached(self, point: CrashPoint) -> None:
        """Go on."""


async def begun(
    store: Database, config: Config, clock: ProvenClock, key: bytes, damaged: Path | None
) -> Origin:
    """Count this start and put it on record; say hello with the public half of the hub's key."""
    wall = clock.wall()
    new = new_epoch((wall.best - EPOCH) // timedelta(milliseconds=1), random.getrandbits(32))
    stamp = Stamp(timestamp_text(wall.best), wall.source)
    about = {"version": version("edgeagent"), "boot": clock.boot_id}
    hello = NewEvent(
        Stream.RECORD,
        EventType.HUB_HELLO,
        None,
        EventTime.of(wall, clock.boot()),
        data_text({**about, "key": key.hex()}),
    )

    def begin(tx: Transaction) -> Origin:
        epoch, created = meta.ensure_epoch(tx, new)
        incarnation = meta.next_incarnation(tx)
        acts = []
        if created:
            aside = {} if damaged is None else {"set_aside": damaged.name}
            acts.append(_act(AuditKind.DATABASE_CREATED, epoch, aside))
        acts.append(_act(AuditKind.STARTED, config.hub.id, {**about, "incarnation": incarnation}))
        audit.append(tx, acts, stamp)
        outbox.append(tx, [hello], incarnation=incarnation)
        return Origin(config.hub.id, epoch, incarnation)

    return await store.write(begin)


def _act(kind: AuditKind, subject: str, detail: Mapping[str, JsonValue]) -> Act:
    return Act(kind=kind, subject=subject, actor="agent", detail=dict(detail))


async def open_store(path: Path) -> tuple[Database, Path | None]:
    """Open the database; a damaged one is kept under another name, and a new one takes its place.

    Returns:
        The database, and where the damaged one lies.
    """
    migrations = files("edgeagent.store") / "migrations"
    try:
        return await Database.open(path, migrations), None
    except DamagedFileError as why:
        kept = set_aside(path, datetime.now(UTC))
        log.warning("database damaged, set aside", extra={"why": str(why), "kept": str(kept)})
        return await Database.open(path, migrations), kept


def make_folders(config: Config) -> None:
    """Make the folders of the state and of the run.

    Raises:
        ConfigurationError: they cannot be made, or anybody may write there.
    """
    for folder in (config.hub.state_dir, config.hub.run_dir):
        try:
            folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
            mode = folder.stat().st_mode
        except OSError as why:
            raise ConfigurationError(f"cannot make {folder}: {why.strerror}") from why
        if mode & stat.S_IWOTH:
            # Whoever may write there may put another database, key or socket in the place of ours.
            raise ConfigurationError(f"anybody may write in {folder}: chmod o-w {folder}")
