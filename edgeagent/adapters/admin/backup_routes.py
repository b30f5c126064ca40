"""Backups at the operator's door."""

from edgeagent.adapters.admin.route import Asked, Role, Route
from edgeagent.contracts.door import Contract
from edgeagent.contracts.reports.backup import BackupRequest
from edgeagent.ports.backup_desk import BackupDesk


def backup_routes(desk: BackupDesk) -> list[Route]:
    """Everything that a ``BackupDesk`` answers."""

    async def back_up(asked: Asked) -> Contract:
        return await desk.back_up(asked.read(BackupRequest), asked.actor)

    async def backups(_asked: Asked) -> Contract:
        return await desk.backups()

    return [
        Route("POST", "/v1/backups", Role.OPERATE, back_up),
        Route("GET", "/v1/backups", Role.VIEW, backups),
    ]
