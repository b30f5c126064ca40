"""Backups on request: a copy of one moment, checked, for its owner alone, and on record.

A restored backup is another life of the database: the floor files beside it tell (SPEC T8), and the hub
begins a new epoch. So nothing that was carried out since can be carried out again.
"""

import asyncio
import logging
import os
import stat
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from typing_extensions import override

from edgeagent.contracts.reports.backup import BackupReport, BackupRequest
from edgeagent.core.audit_chain import AuditKind
from edgeagent.errors import RejectedError
from edgeagent.flows.beside import Beside
from edgeagent.flows.surroundings import Surroundings
from edgeagent.ports.backup_desk import BackupDesk
from edgeagent.store import audit
from edgeagent.store.audit import Act
from edgeagent.store.database import Database
from edgeagent.store.side import Side

log = logging.getLogger(__name__)


class Backups(BackupDesk):
    """Makes backups.

    Args:
        store: what is copied.
        beside: runs the copying.
        around: time.
        kept_clear: folders in which no backup is made.
    """

    def __init__(
        self, store: Database, beside: Beside, around: Surroundings, kept_clear: Sequence[Path]
    ) -> None:
        self._store = store
        self._beside = beside
        self._around = around
        self._kept_clear = kept_clear

    @override
    async def back_up(self, request: BackupRequest, actor: str) -> BackupReport:
        file = Path(request.file)
        await asyncio.to_thread(self._check, file)
        if self._beside.is_busy:
            raise RejectedError("a backup or a check of the database is going on: try again later")
        try:
            size = await self._beside.run(partial(Side.back_up, target=file))
        except OSError as why:
            raise RejectedError(f"no backup: {file}: {why.strerror}") from why
        act = Act(kind=AuditKind.BACKED_UP, subject=file.name[:200], actor=actor, detail={"bytes": size})
        stamp = self._around.stamp()
        try:
            await self._store.write(lambda tx: audit.append(tx, [act], stamp))
        except BaseException:
            # A copy of everything that nobody can find in the trail must not be.
            await asyncio.to_thread(file.unlink, missing_ok=True)
            raise
        log.info("backup made", extra={"file": str(file), "bytes": size})
        return BackupReport(file=str(file), bytes=size)

    def _check(self, file: Path) -> None:
        """Refuse a file that must not be made; blocks."""
        if not file.is_absolute():
            raise RejectedError("the path of a backup begins with /")
        try:
            folder = file.parent.resolve(strict=True)
            mode = folder.stat().st_mode
        except OSError as why:
            raise RejectedError(f"no backup: {file.parent}: {why.strerror}") from why
        if any(folder == kept.resolve() for kept in self._kept_clear):
            # It could take a name there that means something, and would be lost with its database.
            raise RejectedError(f"no backup beside the database itself: choose another folder than {folder}")
        if mode & stat.S_IWOTH:
            raise RejectedError(f"anybody may write in {folder}: choose another folder")
        if os.path.lexists(file):
            raise RejectedError(f"{file} is there already; it is left as it is")
