"""What a person at the hub may ask about backups."""

from typing import Protocol

from edgeagent.contracts.reports.backup import BackupReport, BackupRequest


class BackupDesk(Protocol):
    """Makes backups."""

    async def back_up(self, request: BackupRequest, actor: str) -> BackupReport:
        """Copy the database; ``actor`` is who the operating system says is asking.

        Raises:
            RejectedError: it cannot be made there, or another is being made; nothing is left of it.
            TransientError: it was given up, or is not on record; nothing is left of it.
        """
        ...
