"""Backups: folders that hold one moment of the hub, each with a manifest, whole or not there.

    state_dir/backups/20261130T104100Z-0.1.0/            made by hand
    state_dir/backups/pre-0015-from-0.1.0-20261130.../   made before tables were changed
        manifest.json      {"manifest": {...}, "sha256": "..."}
        hub.db             one moment of the database, every page checked
        hub.key            the hub's key, and
        identity/...       its certificates, if keys were asked for

A backup is made under another name, synced, and gets its own when it is whole. An older one goes only when a
newer one of its kind is there; the last of a kind never does. Reading takes nothing on trust: names are those
of the manifest, which lead nowhere else, and links are not followed.
"""

import json
import logging
import os
import re
import shutil
import sqlite3
import stat
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from edgeagent.contracts.backup import BackupFile, BackupLink, Manifest, Signed, Why, is_file_name
from edgeagent.contracts.door import decode, encode
from edgeagent.errors import AgentError, MalformedError, RejectedError, StorageError
from edgeagent.ids import Digest
from edgeagent.store import audit, meta
from edgeagent.store.connection import connect_reader
from edgeagent.store.database import Snapshot
from edgeagent.store.files import sync_folder
from edgeagent.store.side import Side
from edgeagent.values import dataclass

log = logging.getLogger(__name__)

DATABASE: Final = "hub.db"
"""The database's name, in a backup and in the state folder."""
KEY: Final = "hub.key"
"""The hub's key, there and here."""
IDENTITY: Final = "identity"
"""The folder of the hub's certificates, there and here."""
MANIFEST: Final = "manifest.json"
"""What a backup says of itself."""

_MANIFEST_BYTES: Final = 64 * 1024
_KEY_BYTES: Final = 64 * 1024
_MOST_KEYS: Final = 32
_ODD: Final = re.compile(r"[^A-Za-z0-9.+~-]")
_PIECE: Final = 256 * 1024
_NOFOLLOW: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is to be made.

    Attributes:
        why: it is made.
        made_at: by the hub's clock.
        version: of the edgeagent that asks, where the database does not tell one.
        has_keys: whether the hub's key and identity are to be in it.
        tables_after: the number of the migrations to come; 0 where none do.
    """

    why: Why
    made_at: datetime
    version: str
    has_keys: bool = True
    tables_after: int = 0


@dataclass(frozen=True, slots=True)
class Backup:
    """A folder that is, or was to be, a backup.

    Attributes:
        path: where.
        manifest: what it says of itself; None where that cannot be read.
        problem: what is wrong with it, as far as was looked; empty for nothing.
    """

    path: Path
    manifest: Manifest | None
    problem: str = ""

    @property
    def name(self) -> str:
        """Its name in the list."""
        return self.path.name

    @property
    def order(self) -> tuple[int, int, str]:
        """Later ones are greater, whatever the clock said."""
        known = self.manifest
        return (0, 0, self.name) if known is None else (known.incarnation, known.audit_number, self.name)


class Backups:
    """The backups of a hub.

    Args:
        state_dir: whose database is copied.
    """

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self.folder = state_dir / "backups"

    def make(self, side: Side, wish: Wish) -> Backup:
        """Make one, whole; blocks.

        Raises:
            StorageError: the disk does not take it, or has no room for it; nothing of it is left.
            GaveUpError: see ``Side``.
        """
        part = self.folder / ".making"
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            shutil.rmtree(part, ignore_errors=True)  # of one that was cut off
            part.mkdir(mode=0o700)
            try:
                return self._make(side, wish, part)
            finally:
                shutil.rmtree(part, ignore_errors=True)
        except OSError as why:
            raise StorageError(f"no backup: {why.filename or self.folder}: {why.strerror}") from why

    def _make(self, side: Side, wish: Wish, part: Path) -> Backup:
        side.back_up(part / DATABASE)
        names, links = self._keys() if wish.has_keys else ([], [])
        for name in names:
            make_way(part, name)
            _copy(self._state_dir / name, part / name, _KEY_BYTES)
        manifest = _described(part, wish, links)
        _write(part / MANIFEST, encode(Signed(manifest=manifest, sha256=_digest(manifest))))
        for folder in {file.parent for file in part.rglob("*")}:
            sync_folder(folder)
        target = self._named(wish, manifest)
        _give_name(part, target)
        return Backup(target, manifest)

    def _named(self, wish: Wish, manifest: Manifest) -> Path:
        name = f"{wish.made_at:%Y%m%dT%H%M%SZ}-{manifest.version}"
        if wish.why is Why.UPGRADE:
            name = f"pre-{wish.tables_after:04d}-from-{manifest.version}-{wish.made_at:%Y%m%dT%H%M%SZ}"
        target, number = self.folder / name, 1
        while os.path.lexists(target):
            number += 1
            target = self.folder / f"{name}-{number}"
        return target

    def _keys(self) -> tuple[list[str], list[BackupLink]]:
        """The hub's key and what is in its identity: files, and links such as the one to what is shown.

        What has no name of ours, as an editor's copy, and a link that leads elsewhere are left out.
        """
        files = [KEY] if (self._state_dir / KEY).is_file() else []
        links = []
        for path in sorted((self._state_dir / IDENTITY).rglob("*")):
            name = str(path.relative_to(self._state_dir))
            if path.is_symlink():
                try:
                    links.append(BackupLink(name=name, to=str(path.readlink())))
                except ValidationError:
                    log.warning("a link is not in the backup", extra={"link": name})
            elif path.is_file() and is_file_name(name):
                files.append(name)
            elif path.is_file():
                log.warning("a file is not in the backup: it has no name of ours", extra={"file": name})
        return files[:_MOST_KEYS], links[:_MOST_KEYS]

    def all(self) -> list[Backup]:
        """All that lie here, the newest first; their contents are not looked at."""
        try:
            names = [entry.name for entry in os.scandir(self.folder) if not entry.name.startswith(".")]
        except FileNotFoundError:
            return []
        except OSError as why:
            raise StorageError(f"cannot read {self.folder}: {why.strerror}") from why
        return sorted((look(self.folder / name) for name in names), key=lambda each: each.order, reverse=True)

    def find(self, name: str) -> Path:
        """Where the backup of a name, or of a path, lies."""
        return Path(name) if "/" in name else self.folder / name

    def thin_out(self, keep: int) -> list[str]:
        """Take away what is older than the newest ``keep`` of its kind; what is not whole counts for none.

        Returns:
            The names of those that went.
        """
        for left in self.folder.glob(".*-*"):  # whose removal was cut off
            shutil.rmtree(left, ignore_errors=True)
        gone = []
        for why in Why:
            kind = [each for each in self.all() if each.manifest and each.manifest.why is why]
            whole = [each for each in kind if not each.problem]
            for old in whole[max(keep, 1) :]:
                leaving = self.folder / f".{old.name}"
                try:
                    old.path.rename(leaving)
                    shutil.rmtree(leaving)
                except OSError as failed:
                    raise StorageError(f"cannot take {old.path} away: {failed.strerror}") from failed
                gone.append(old.name)
        return gone


def look(path: Path) -> Backup:
    """Look at a backup without reading all of it: its manifest, and whether its files have their sizes."""
    try:
        raw = _read(path / MANIFEST, _MANIFEST_BYTES)
        signed = decode(Signed, raw, limit=_MANIFEST_BYTES)
    except FileNotFoundError:
        return Backup(path, None, f"it has no {MANIFEST}")
    except (OSError, MalformedError) as why:
        return Backup(path, None, f"{MANIFEST} cannot be read: {why}")
    manifest = signed.manifest
    if signed.sha256 != _digest(manifest):
        return Backup(path, None, f"{MANIFEST} is damaged")
    wrong = [told for file in manifest.files if (told := _problem(path, file))]
    if DATABASE not in {file.name for file in manifest.files}:
        wrong.append(f"it has no {DATABASE}")
    return Backup(path, manifest, "; ".join(wrong))


def _problem(path: Path, file: BackupFile) -> str:
    """What is wrong with a file without reading it; empty for nothing."""
    try:
        size = (path / file.name).lstat().st_size
    except OSError as why:
        return f"{file.name}: {why.strerror}"
    return "" if size == file.bytes else f"{file.name} has {size} bytes, not {file.bytes}"


def copy_out(source: Path, folder: Path) -> Path:
    """Copy a backup into a folder elsewhere, and read the copy.

    Returns:
        Where it lies.

    Raises:
        RejectedError: it is there already, is not whole, or would show keys to others there.
        StorageError: the disk does not take it; nothing is left of it.
    """
    backup = look(source)
    if backup.manifest is None or backup.problem:
        raise RejectedError(f"{source} is no whole backup: {backup.problem}")
    target, part = folder / source.name, folder / f".{source.name}.part"
    if os.path.lexists(target):
        raise RejectedError(f"{target} is there already; it is left as it is")
    try:
        free = shutil.disk_usage(folder).free
        if free < backup.manifest.bytes:
            raise StorageError(f"{free} bytes are free in {folder}, the backup takes {backup.manifest.bytes}")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(mode=0o700)
        try:
            if backup.manifest.has_keys and part.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise RejectedError(
                    f"the disk of {folder} keeps no rights: the hub's keys would be anybody's; --without-keys"
                )
            _copy_checked(source, part, backup.manifest.files)
            _write(part / MANIFEST, _read(source / MANIFEST, _MANIFEST_BYTES))
            _give_name(part, target)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    except OSError as why:
        raise StorageError(f"not copied: {why.filename or folder}: {why.strerror}") from why
    return target


def _give_name(part: Path, target: Path) -> None:
    """Give what is whole its own name; where that does not reach the disk, it is taken back."""
    part.rename(target)
    try:
        sync_folder(target.parent)
    except OSError:
        target.rename(part)
        raise


def _copy_checked(source: Path, target: Path, files: Sequence[BackupFile]) -> None:
    for file in files:
        make_way(target, file.name)
        found = _copy(source / file.name, target / file.name, file.bytes)
        if found != file.sha256:
            raise RejectedError(f"{source / file.name} is damaged: not the sha256 of its manifest")


def make_way(folder: Path, name: str) -> None:
    """Make the folders that a file of a backup lies in, for their owner alone."""
    for parent in reversed(Path(name).parents):
        (folder / parent).mkdir(mode=0o700, exist_ok=True)


def copy_from(handle: int, target: Path, limit: int) -> Digest:
    """Copy an open file to a new one for its owner alone, synced.

    Returns:
        The sha256 of what was copied: at most ``limit`` bytes, and one more where there are more.

    Raises:
        OSError: it cannot be read or written.
    """
    seen, left = sha256(), limit + 1
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    with os.fdopen(os.open(target, flags, 0o600), "wb") as copy:
        while left and (piece := os.read(handle, min(_PIECE, left))):
            copy.write(piece)
            # In pieces: one large sync at the end would hold up everybody on the disk.
            copy.flush()
            os.fdatasync(copy.fileno())
            seen.update(piece)
            left -= len(piece)
    return Digest(seen.hexdigest())


def _copy(source: Path, target: Path, limit: int) -> Digest:
    handle = os.open(source, _NOFOLLOW)
    try:
        return copy_from(handle, target, limit)
    finally:
        os.close(handle)


def _described(part: Path, wish: Wish, links: list[BackupLink]) -> Manifest:
    """What a backup says of itself, by its own database."""
    try:
        with closing(connect_reader(part / DATABASE)) as connection:
            db = Snapshot(connection)
            [(tables,)] = connection.execute("PRAGMA user_version").fetchall()
            life, started = meta.life(db), meta.last_start(db)
            incarnation, number = meta.incarnation(db), audit.head(db).number
    except (sqlite3.Error, AgentError, ValueError) as why:
        raise StorageError(f"the copy cannot be read: {why}") from why
    names = sorted(str(file.relative_to(part)) for file in part.rglob("*") if file.is_file())
    return Manifest(
        hub=None if started is None else started.hub,
        epoch=None if life is None else life.epoch,
        version=wish.version if started is None else _ODD.sub("-", started.version)[:40] or "unknown",
        tables=tables,
        incarnation=incarnation,
        audit_number=number,
        made_at=wish.made_at,
        why=wish.why,
        has_keys=any(name != DATABASE for name in names),
        files=[_file(part, name) for name in names],
        links=links,
    )


def _file(part: Path, name: str) -> BackupFile:
    with (part / name).open("rb") as file:
        seen = sha256()
        while piece := file.read(_PIECE):
            seen.update(piece)
        return BackupFile(name=name, bytes=file.tell(), sha256=Digest(seen.hexdigest()))


def _write(path: Path, raw: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(raw)
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path, limit: int) -> bytes:
    with os.fdopen(os.open(path, _NOFOLLOW), "rb") as file:
        return file.read(limit + 1)


def _digest(manifest: Manifest) -> Digest:
    fields = manifest.model_dump(mode="json", exclude_none=True)
    return Digest(sha256(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()).hexdigest())
