"""What a disk may hold when the power goes, at any place of a recording; and what an agent finds on it.

    disk = Disk(recording)
    files = disk.image(cut, Survival.RANDOM, chance)    # everything before the record ``cut`` has happened
    write(files, folder)
    found = await look(folder)                          # opened by the agent's own store

After a power cut a disk holds all that was synced, and of the rest anything: nothing, all, or some sectors of
it in any order. The same goes for names, which are synced with their folder (fsync(2)).
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Final

from edgeagent.contracts.event import Stream
from edgeagent.core.audit_chain import Break
from edgeagent.store import audit, outbox
from edgeagent.store.database import Database, Snapshot
from tests.support.agents_cloud import numbers_of
from tests.support.recording import Kind, Record, Recording
from tests.support.stores import HUB_MIGRATIONS

SECTOR: Final = 512
"""What a disk writes whole or not at all."""
_NAMES: Final = frozenset({Kind.CREATED, Kind.REMOVED, Kind.RENAMED})
_CONTENT: Final = frozenset({Kind.WRITTEN, Kind.CUT})


class Survival(StrEnum):
    """What is left of that which was not synced."""

    ALL = "all"
    """Everything: the process died, the machine did not."""
    SYNCED = "synced"
    """Nothing."""
    RANDOM = "random"
    """By chance: whole writes, some of their sectors, names."""


@dataclass(slots=True)
class _File:
    """A file by what was done to it, whatever it was called: places of records, and of its last sync."""

    changes: list[int] = field(default_factory=list)
    syncs: list[int] = field(default_factory=list)

    def synced(self, cut: int) -> int:
        """The place before which its content is on the disk for certain."""
        return max((place for place in self.syncs if place < cut), default=-1)


class Disk:
    """The disk under a recording, which begins with an empty folder."""

    def __init__(self, recording: Recording) -> None:
        self._records = recording.records
        self._made: dict[int, _File] = {}
        self._folder_syncs: list[int] = []
        by_inode: dict[int, _File] = {}
        for place, record in enumerate(recording.records):
            if record.kind is Kind.CREATED:
                # The number of a removed file is given to a new one.
                self._made[place] = by_inode[record.number] = _File()
            elif record.kind is Kind.FOLDER_SYNCED:
                self._folder_syncs.append(place)
            elif record.kind is Kind.SYNCED:
                by_inode[record.number].syncs.append(place)
            elif record.kind in _CONTENT:
                by_inode[record.number].changes.append(place)

    def image(self, cut: int, survival: Survival, chance: Random) -> dict[str, bytes]:
        """The files, by name, when the power goes before the record ``cut``."""
        certain = max((place for place in self._folder_syncs if place < cut), default=-1)
        names: dict[str, _File] = {}
        for place, record in enumerate(self._records[:cut]):
            if record.kind in _NAMES and (place < certain or _survives(survival, chance)):
                self._rename(names, place, record)
        return {
            name: self._content(file, cut, survival, chance)
            for name, file in names.items()
            if not name.endswith("-shm")  # mapped memory, made anew from the log
        }

    def _rename(self, names: dict[str, _File], place: int, record: Record) -> None:
        if record.kind is Kind.CREATED:
            names[record.path] = self._made[place]
        elif record.kind is Kind.REMOVED:
            names.pop(record.path, None)
        elif record.path in names:
            names[record.data.decode()] = names.pop(record.path)

    def _content(self, file: _File, cut: int, survival: Survival, chance: Random) -> bytes:
        content, certain = bytearray(), file.synced(cut)
        for place in file.changes:
            if place >= cut:
                break
            record = self._records[place]
            if place >= certain and not _survives(survival, chance):
                continue
            if record.kind is Kind.CUT:
                _resize(content, record.offset)
                continue
            torn = place >= certain and survival is Survival.RANDOM and chance.random() < 0.3
            for offset, sector in _sectors(record):
                if not torn or chance.random() < 0.5:
                    _resize(content, max(len(content), offset + len(sector)))
                    content[offset : offset + len(sector)] = sector
        return bytes(content)


def _survives(survival: Survival, chance: Random) -> bool:
    return survival is Survival.ALL or (survival is Survival.RANDOM and chance.random() < 0.5)


def _resize(content: bytearray, length: int) -> None:
    del content[length:]
    content.extend(bytes(length - len(content)))


def _sectors(record: Record) -> Iterable[tuple[int, bytes]]:
    """A write, cut where the sectors of the file end."""
    place, end = record.offset, record.offset + len(record.data)
    while place < end:
        step = min(SECTOR - place % SECTOR, end - place)
        start = place - record.offset
        yield place, record.data[start : start + step]
        place += step


def write(files: Mapping[str, bytes], folder: Path) -> None:
    """Put an image into a folder of its own."""
    folder.mkdir(parents=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o600)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What an agent finds in its database.

    Attributes:
        epoch: the life of the database; None of one that is new.
        incarnation: the last start of the agent; 0 before the first.
        following: the next number of each stream.
        numbers: of a burst's messages that wait in the outbox.
        commands: those that the inbox knows.
        attempts: how many steps are on record as sent, in all.
        fences: the last fence of each device.
        audit_break: where the audit trail's chain is broken.
        damage: what SQLite's integrity check says; empty when all is well.
    """

    epoch: str | None
    incarnation: int
    following: Mapping[Stream, int]
    numbers: frozenset[int]
    commands: frozenset[str]
    attempts: int
    fences: Mapping[str, int]
    audit_break: Break | None
    damage: str


async def look(folder: Path) -> Found:
    """Open the database of an image as the agent does, and see what is in it.

    Raises:
        AgentError: it cannot be opened.
    """
    database = await Database.open(folder / "hub.db", HUB_MIGRATIONS)
    try:
        return await database.read(_found)
    finally:
        await database.close()


def _found(db: Snapshot) -> Found:
    meta = {str(row["name"]): str(row["value"]) for row in db.rows("SELECT name, value FROM meta")}
    waiting = db.rows("SELECT data FROM outbox WHERE stream = 'telemetry'")
    [check] = db.rows("PRAGMA integrity_check(1)")
    return Found(
        epoch=meta.get("epoch"),
        incarnation=int(meta.get("incarnation", "0")),
        following={stream: outbox.upcoming(db, stream) for stream in Stream},
        numbers=frozenset(number for row in waiting for number in numbers_of(json.loads(row["data"]))),
        commands=frozenset(str(row["command"]) for row in db.rows("SELECT command FROM inbox")),
        attempts=_total(db.rows("SELECT coalesce(sum(attempts), 0) FROM inbox")),
        fences={str(row["device"]): int(row["fence"]) for row in db.rows("SELECT device, fence FROM locks")},
        audit_break=audit.verify(db),
        damage="" if check[0] == "ok" else str(check[0]),
    )


def _total(rows: list[sqlite3.Row]) -> int:
    return int(rows[0][0])
