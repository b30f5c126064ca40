"""What comes before everything else: folders, the database, its epoch, the first audit rows."""

import asyncio
import logging
import random
import stat
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from edgeagent.agent.upgrading import back_up_first, way_back
from edgeagent.clock import EPOCH, FloorSource, ProvenClock
from edgeagent.config import Config
from edgeagent.contracts.event import EventTime, EventType, Stream, data_text
from edgeagent.contracts.floormark import FloorMark
from edgeagent.contracts.order import Verb
from edgeagent.contracts.scalars import timestamp_text
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.epochs import why_new
from edgeagent.core.stops import Standing
from edgeagent.errors import BrokenInvariantError, ConfigurationError
from edgeagent.flows.surroundings import Origin
from edgeagent.ids import Epoch, new_epoch
from edgeagent.ports.crash import CrashPoint
from edgeagent.store import audit, inbox, meta, outbox, receipts, stops
from edgeagent.store import catalogue as catalogues
from edgeagent.store import policy as policies
from edgeagent.store.audit import Act, Stamp, Start
from edgeagent.store.database import Database, Snapshot, Transaction
from edgeagent.store.files import MIGRATIONS, DamagedFileError, LaterTablesError, MigrationError, set_aside
from edgeagent.store.floormarks import found_beside
from edgeagent.store.meta import Life, StoredFloor
from edgeagent.store.outbox import NewEvent
from edgeagent.values import dataclass

log = logging.getLogger(__name__)

_FOLDER_MODE: Final = 0o750


class NoCrashPoints:
    """The product's observer of the named points: it does nothing."""

    def reached(self, point: CrashPoint) -> None:
        """Go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What is known of the hub's earlier lives when its database is open.

    Attributes:
        mark: the newest one beside the database; None for none.
        set_aside: where a damaged database lies; None if there was none.
    """

    mark: FloorMark | None = None
    set_aside: Path | None = None

    def time_floor(self, db: Snapshot) -> StoredFloor | None:
        """The floor of time that counts: of more resets, else the later one."""
        stored, mark = meta.time_floor(db), self.mark
        if mark is None or mark.time_floor is None:
            return stored
        beside = StoredFloor(mark.time_floor, FloorSource.FLOOR_FILE, mark.floor_resets)
        if stored is None:
            return beside
        return max(stored, beside, key=lambda floor: (floor.resets, floor.moment))


async def begun(store: Database, config: Config, clock: ProvenClock, key: bytes, before: Before) -> Origin:
    """Count this start and put it on record; begin a new epoch if that has to be (SPEC T8).

    The hello tells the public half of the hub's key, and why the epoch began.
    """
    wall = clock.wall()
    new = new_epoch((wall.best - EPOCH) // timedelta(milliseconds=1), random.getrandbits(32))
    stamp = Stamp(timestamp_text(wall.best), wall.source)
    start = Start(config.hub.id, version("edgeagent"))
    about = {"version": start.version, "boot": clock.boot_id}
    time = EventTime.of(wall, clock.boot())

    def begin(tx: Transaction) -> Origin:
        floor = before.time_floor(tx)
        if floor is not None and floor != meta.time_floor(tx):
            meta.set_time_floor(tx, floor)
        life, acts = _life(tx, before, new, time)
        used = 0 if before.mark is None else before.mark.incarnation
        incarnation = meta.next_incarnation(tx, after=used)
        meta.note_start(tx, start)
        acts.append(_act(AuditKind.STARTED, config.hub.id, {**about, "incarnation": incarnation}))
        audit.append(tx, acts, stamp)
        told = {**about, "key": key.hex(), "reason": life.reason, "previous": life.previous}
        data = data_text({name: value for name, value in told.items() if value is not None})
        hello = NewEvent(Stream.RECORD, EventType.HUB_HELLO, None, time, data)
        outbox.append(tx, [hello], incarnation=incarnation)
        return Origin(config.hub.id, life.epoch, incarnation, config.hub.zone)

    return await store.write(begin)


def _life(tx: Transaction, before: Before, new: Epoch, time: EventTime) -> tuple[Life, list[Act]]:
    """The life that goes on, or a new one, with what is to be put on record of it."""
    present, mark, aside = meta.life(tx), before.mark, before.set_aside
    found = found_beside(tx, mark)
    reason = why_new(found, mark, is_damaged=aside is not None)
    if reason is None and present is not None:
        if mark is None:
            log.warning("no floor file beside the database", extra={"epoch": present.epoch})
        return present, []
    if reason is None:
        raise BrokenInvariantError("a database without an epoch is to go on")
    earlier = found.epoch if mark is None else mark.epoch
    life = Life(epoch=new, reason=reason, previous=earlier, first_run=inbox.last_run(tx))
    meta.begin_life(tx, life)
    receipts.begin_anew(tx, outbox.begin_anew(tx))
    if mark is not None and mark.policy_version is not None:
        # An older one must not come into force because the newer one was forgotten (SPEC T2).
        meta.raise_policy_floor(tx, mark.policy_version)
        policies.forget_below(tx, mark.policy_version)
    # What was revoked since, and floors that were raised, are not in it.
    catalogues.doubt(tx, "an earlier copy of the database was put back; the next refresh looks anew")
    log.warning("new epoch", extra={"epoch": new, "reason": reason, "previous": earlier})
    detail: dict[str, JsonValue] = {"reason": reason}
    if earlier is not None:
        detail["previous"] = earlier
    stopped = _stop_again(tx, mark, time)
    if stopped:
        detail["stopped"] = [*stopped]
    acts = [_act(AuditKind.EPOCH_BEGUN, new, detail)]
    if present is None:
        acts.insert(
            0, _act(AuditKind.DATABASE_CREATED, new, {} if aside is None else {"set_aside": aside.name})
        )
    return life, acts


def _stop_again(tx: Transaction, mark: FloorMark | None, time: EventTime) -> list[str]:
    """Stop what was stopped in the life before; it was not meant for one database (SPEC B3)."""
    known = stops.stopped(tx)
    kinds = [kind for kind in (mark.stops if mark is not None and mark.stops else ()) if kind not in known]
    for kind in kinds:
        word = Standing(
            kind=kind,
            verb=Verb.STOP,
            sequence=stops.last_sequence(tx, kind) + 1,
            by="agent",
            why="it was stopped before this epoch",
            at=time.at,
        )
        stops.put(tx, word)
    return kinds


def _act(kind: AuditKind, subject: str, detail: Mapping[str, JsonValue]) -> Act:
    return Act(kind=kind, subject=subject, actor="agent", detail=dict(detail))


def least_policy_version(db: Snapshot) -> int:
    """The version below which a first policy is refused; 0 where one is stored, which says that itself."""
    return 0 if policies.is_stored(db) else meta.policy_floor(db)


async def open_store(path: Path, migrations: Traversable | None = None) -> tuple[Database, Path | None]:
    """Open the database; a damaged one is kept under another name, and a new one takes its place.

    Before tables are changed there is a backup.

    Args:
        path: the database.
        migrations: the folder of ``NNNN_name.sql``; ours if absent.

    Returns:
        The database, and where the damaged one lies.

    Raises:
        StorageError: the disk does not let us, or has no room for that backup.
        ConfigurationError: a newer edgeagent made it, or its tables cannot be changed; it is left as it is.
    """
    migrations = migrations or MIGRATIONS
    await asyncio.to_thread(back_up_first, path, migrations, datetime.now(UTC))
    try:
        return await Database.open(path, migrations), None
    except (LaterTablesError, MigrationError) as why:
        raise ConfigurationError(await asyncio.to_thread(way_back, path, why)) from why
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
