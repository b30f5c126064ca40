"""What a person at the hub may ask about backups."""

from typing import Protocol

from edgeagent.contracts.reports.backup import BackupReport, BackupRequest, BackupsReport


class BackupDesk(Protocol):
    """Makes backups and lists them."""

    async def back_up(self, request: BackupRequest, actor: str) -> BackupReport:
        """Make a backup; ``actor`` is who the operating system says is asking.

        Raises:
            RejectedError: another is being made; nothing is left of it.
            TransientError: it was given up, or is not on record; nothing is left of it.
        """
        ...

    async def backups(self) -> BackupsReport:
        """All that there are.

        Raises:
            StorageError: the disk does not tell.
        """
        ...
