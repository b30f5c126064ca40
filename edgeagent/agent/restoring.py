"""Putting a backup back while the agent is stopped; making one then, and telling which there are.

    verified ──> floor file written ahead ──> present state set aside ──> backup in its place

What lies there now is kept in ``replaced-...`` beside it. The floor file is written first, ahead of all
that is known of this hub, so that the next start finds the database behind it and begins a new epoch: what
was done since the backup is not done again, also on a new card where there was no floor file (SPEC T4, T8).
A power cut anywhere leaves the present state or the backup, or, between two renames, neither: then the same
is typed again.

Whoever types it opens the backup; what is written is written as the user whose state it is. So root is led
nowhere by a link in a folder of the agent's, and leaves no file there that the agent cannot use.
"""

import os
import shutil
import sqlite3
from contextlib import AbstractContextManager, ExitStack, closing
from datetime import datetime
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from edgeagent.clock import ClockSource
from edgeagent.contracts.backup import BackupFile, Manifest
from edgeagent.contracts.floormark import FloorMark
from edgeagent.contracts.scalars import timestamp_text
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.epochs import ahead_of
from edgeagent.errors import AgentError, ConfigurationError, RejectedError, StorageError
from edgeagent.ids import Epoch, HubId
from edgeagent.rights import acting_as
from edgeagent.store import audit, meta
from edgeagent.store.audit import Act, Stamp
from edgeagent.store.backups import (
    DATABASE,
    IDENTITY,
    KEY,
    Backup,
    Backups,
    Wish,
    copy_from,
    look,
    make_way,
)
from edgeagent.store.connection import connect_reader, connect_writer, cut_log
from edgeagent.store.database import Snapshot, Transaction
from edgeagent.store.files import MIGRATIONS, check_file, sole_owner, sync_folder, tables_known
from edgeagent.store.floorfile import FloorFile
from edgeagent.store.floormarks import mark_of
from edgeagent.store.side import ANY_LOG, ROOM, Side
from edgeagent.values import dataclass

_STAGE: Final = ".restoring"
_LOG: Final = ("-wal", "-shm", "-journal")


@dataclass(frozen=True, slots=True)
class Restored:
    """A backup was put back.

    Attributes:
        manifest: what it says of itself.
        kept: where what lay there before lies now; None where nothing did.
        keys: whether the hub's key or identity came with it.
    """

    manifest: Manifest
    kept: Path | None
    keys: bool


def restore(state_dir: Path, hub: HubId, source: Path, now: datetime) -> Restored:
    """Put a backup in the place of the present state; blocks.

    Args:
        state_dir: where the state lies.
        hub: whose it has to be.
        source: the backup's folder.
        now: names what is set aside.

    Raises:
        RejectedError: it is no whole backup, another hub's, or of a newer edgeagent; nothing has changed.
        ConfigurationError: the agent is running, or there is no such folder; nothing has changed.
        StorageError: the disk does not take it.
    """
    manifest = _fitting(source, hub)
    if not state_dir.is_dir():
        raise ConfigurationError(f"there is no folder {state_dir}: edgeagent setup makes it")
    try:
        with ExitStack() as held:
            # As who typed it: the agent's user may not be allowed to.
            opened = {file.name: _opened(source / file.name, held) for file in manifest.files}
            held.enter_context(_as_owner(state_dir))
            held.enter_context(sole_owner(state_dir / "agent.lock"))
            stage = _staged(state_dir, manifest, opened)
            try:
                _put_on_record(stage / DATABASE, source.name, now)
                _write_ahead(state_dir, hub, stage / DATABASE)
                return _swapped(state_dir, stage, manifest, now)
            finally:
                _clear(stage)
    except OSError as why:
        raise StorageError(f"cannot restore: {why.filename or state_dir}: {why.strerror}") from why


def back_up_alone(state_dir: Path, wish: Wish, keep: int) -> Backup:
    """Make a backup of a stopped agent's state; blocks.

    Raises:
        ConfigurationError: the agent is running, or there is no such folder or database.
        StorageError: the disk does not take it.
    """
    if not (state_dir / DATABASE).is_file():
        raise ConfigurationError(f"there is no database in {state_dir}")
    with _as_owner(state_dir), sole_owner(state_dir / "agent.lock"):
        backups = Backups(state_dir)
        made = backups.make(Side(state_dir / DATABASE, longest_log=ANY_LOG), wish)
        backups.thin_out(keep)
        return made


def _fitting(source: Path, hub: HubId) -> Manifest:
    """What a backup says of itself, if it can be put back here."""
    backup, known = look(source), tables_known(MIGRATIONS)
    manifest = backup.manifest
    if manifest is None or backup.problem:
        raise RejectedError(f"{source} is no whole backup: {backup.problem}")
    if manifest.hub is not None and manifest.hub != hub:
        raise RejectedError(f"{source} is a backup of the hub {manifest.hub}, this is {hub}")
    if manifest.tables > known:
        raise RejectedError(
            f"{source} is of a newer edgeagent (schema {manifest.tables}, this one knows {known}): install "
            f"edgeagent {manifest.version} or a later one first"
        )
    return manifest


def _opened(path: Path, held: ExitStack) -> int:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    held.callback(os.close, handle)
    return handle


def _as_owner(state_dir: Path) -> AbstractContextManager[None]:
    """Be the user whose state it is, if we are root."""
    owner = state_dir.stat()
    return acting_as(owner.st_uid, owner.st_gid)


def _staged(state_dir: Path, manifest: Manifest, opened: dict[str, int]) -> Path:
    """Copy the backup beside the state, and see that it is what its manifest says."""
    stage = state_dir / _STAGE
    _clear(stage)
    disk = os.statvfs(state_dir)
    free = disk.f_bavail * disk.f_frsize
    if free < manifest.bytes + ROOM:
        raise StorageError(f"{free} bytes are free in {state_dir}, the backup takes {manifest.bytes}")
    stage.mkdir(mode=0o700)
    try:
        for file in manifest.files:
            make_way(stage, file.name)
            _take(opened[file.name], stage / file.name, file)
        for link in manifest.links:
            make_way(stage, link.name)
            (stage / link.name).symlink_to(link.to)
        _check(stage / DATABASE)
    except BaseException:
        _clear(stage)
        raise
    return stage


def _take(handle: int, target: Path, file: BackupFile) -> None:
    if copy_from(handle, target, file.bytes) != file.sha256:
        raise RejectedError(f"the backup is damaged: {file.name} is not the sha256 of its manifest")


def _check(database: Path) -> None:
    try:
        check_file(database)
    except AgentError as why:
        raise RejectedError(f"the backup is damaged: {why}") from why


def _put_on_record(database: Path, name: str, now: datetime) -> None:
    """Have the copy tell who has put it back: it is the trail that goes on."""
    detail: dict[str, JsonValue] = {"backup": name[:200]}
    who = f"uid:{os.getuid()}"
    act = Act(kind=AuditKind.RESTORED, subject=DATABASE, actor=who, detail=detail)
    stamp = Stamp(timestamp_text(now), ClockSource.NONE)
    try:
        with closing(connect_writer(database)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            audit.append(Transaction(connection), [act], stamp)
            connection.execute("COMMIT")
            cut_log(connection)
    except sqlite3.Error as why:
        raise StorageError(f"cannot write {database}: {why}") from why


def _write_ahead(state_dir: Path, hub: HubId, database: Path) -> None:
    """Have the floor file be ahead of the copy and of all that is known, in both of its slots."""
    copy = _marked(database, hub)
    if copy is None:
        return  # it had no life yet, and begins one as a new database does
    restored, previous = copy
    file = FloorFile(state_dir, hub)
    known = [mark for mark in (file.read(),) if mark is not None]
    present = _marked(state_dir / DATABASE, hub)
    if present is not None:
        known.append(present[0])
    mark = ahead_of(restored, previous, known)
    for later in range(2):
        file.write(mark.model_copy(update={"sequence": mark.sequence + later}))


def _marked(database: Path, hub: HubId) -> tuple[FloorMark, Epoch | None] | None:
    """A mark of what a database holds, and the epoch before its own; None where it cannot be read."""
    if not database.exists():
        return None
    try:
        with closing(connect_reader(database)) as connection:
            db = Snapshot(connection)
            life = meta.life(db)
            return None if life is None else (mark_of(db, hub, 1), life.previous)
    except (sqlite3.Error, AgentError, ValueError):
        return None


def _swapped(state_dir: Path, stage: Path, manifest: Manifest, now: datetime) -> Restored:
    kept = _unused(state_dir / f"replaced-{now:%Y%m%dT%H%M%SZ}")
    kept.mkdir(mode=0o700)
    # The key goes with the database, whose trail it has signed; an identity that is there may be newer.
    going = [f"{DATABASE}{suffix}" for suffix in ("", *_LOG)]
    coming = [DATABASE]
    if (stage / KEY).exists():
        going.append(KEY)
        coming.append(KEY)
    if (stage / IDENTITY).exists() and not (state_dir / IDENTITY).exists():
        coming.append(IDENTITY)
    moved = [name for name in going if os.path.lexists(state_dir / name)]
    for name in moved:
        (state_dir / name).rename(kept / name)
    sync_folder(kept)
    for name in reversed(coming):  # the database last: what goes with it is there then
        (stage / name).rename(state_dir / name)
    sync_folder(state_dir)
    if not moved:
        kept.rmdir()
    return Restored(manifest, kept if moved else None, keys=len(coming) > 1)


def _unused(wanted: Path) -> Path:
    name, number = wanted, 1
    while os.path.lexists(name):
        number += 1
        name = wanted.with_name(f"{wanted.name}-{number}")
    return name


def _clear(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
