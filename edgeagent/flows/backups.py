"""Backups on request: one moment of the hub, checked, for its owner alone, and on record.

A restored backup is another life of the database: the floor files beside it tell (SPEC T8), and the hub
begins a new epoch. So nothing that was carried out since can be carried out again.
"""

import asyncio
import logging
import shutil
from functools import partial
from importlib.metadata import version
from pathlib import Path

from typing_extensions import override

from edgeagent.contracts.backup import Why
from edgeagent.contracts.reports.backup import BackupReport, BackupRequest, BackupsReport
from edgeagent.core.audit_chain import AuditKind
from edgeagent.errors import RejectedError, StorageError
from edgeagent.flows.beside import Beside
from edgeagent.flows.surroundings import Surroundings
from edgeagent.ports.backup_desk import BackupDesk
from edgeagent.store import audit
from edgeagent.store.audit import Act
from edgeagent.store.backups import Backup, Backups, Wish
from edgeagent.store.database import Database

log = logging.getLogger(__name__)


class BackupFlow(BackupDesk):
    """Makes backups.

    Args:
        store: what is copied.
        beside: runs the copying.
        around: time.
        keep: how many made by hand are kept.
    """

    def __init__(self, store: Database, beside: Beside, around: Surroundings, keep: int) -> None:
        self._store = store
        self._beside = beside
        self._around = around
        self._backups = Backups(store.path.parent)
        self._keep = keep

    def adopt(self, keep: int) -> None:
        """Keep another number from the next one on."""
        self._keep = keep

    @override
    async def back_up(self, request: BackupRequest, actor: str) -> BackupReport:
        if self._beside.is_busy:
            raise RejectedError("a backup or a check of the database is going on: try again later")
        wish = Wish(
            why=Why.BY_HAND,
            made_at=self._around.clock.wall().best,
            version=version("edgeagent"),
            has_keys=request.keys,
        )
        made = await self._beside.run(partial(self._backups.make, wish=wish))
        await self._put_on_record(made, actor)
        try:
            gone = await asyncio.to_thread(self._backups.thin_out, self._keep)
        except StorageError as why:
            log.warning("an old backup is not taken away", extra={"why": str(why)})
        else:
            log.info("backup made", extra={"backup": made.name, "gone": gone})
        return report_of(made)

    @override
    async def backups(self) -> BackupsReport:
        return await asyncio.to_thread(report_all, self._backups, self._keep)

    async def _put_on_record(self, made: Backup, actor: str) -> None:
        size = 0 if made.manifest is None else made.manifest.bytes
        act = Act(kind=AuditKind.BACKED_UP, subject=made.name, actor=actor, detail={"bytes": size})
        stamp = self._around.stamp()
        try:
            await self._store.write(lambda tx: audit.append(tx, [act], stamp))
        except BaseException:
            # A copy of everything that nobody can find in the trail must not be.
            await asyncio.to_thread(shutil.rmtree, made.path, ignore_errors=True)
            raise


def report_all(backups: Backups, keep: int) -> BackupsReport:
    """All backups of a hub, for people; blocks."""
    found = [report_of(each) for each in backups.all()]
    return BackupsReport(folder=str(backups.folder), keep=keep, backups=found)


def report_of(backup: Backup) -> BackupReport:
    """A backup, for people."""
    path, known = Path(backup.path), backup.manifest
    if known is None:
        return BackupReport(name=backup.name, path=str(path), problem=backup.problem)
    return BackupReport(
        name=backup.name,
        path=str(path),
        problem=backup.problem,
        hub=known.hub,
        epoch=known.epoch,
        version=known.version,
        tables=known.tables,
        made_at=known.made_at,
        why=known.why,
        has_keys=known.has_keys,
        bytes=known.bytes,
    )
