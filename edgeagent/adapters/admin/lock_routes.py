"""The locks at the operator's door."""

from edgeagent.adapters.admin.route import Asked, Role, Route
from edgeagent.contracts.door import Contract
from edgeagent.contracts.reports.locks import ReleaseRequest
from edgeagent.ids import device_id
from edgeagent.ports.lock_desk import LockDesk


def lock_routes(desk: LockDesk) -> list[Route]:
    """Everything that a ``LockDesk`` answers."""
    door = _LockDoor(desk)
    return [
        Route("GET", "/v1/locks", Role.VIEW, door.locks),
        Route("POST", "/v1/locks/{device}/release", Role.OPERATE, door.release),
    ]


class _LockDoor:
    def __init__(self, desk: LockDesk) -> None:
        self._desk = desk

    async def locks(self, _asked: Asked) -> Contract:
        return await self._desk.locks()

    async def release(self, asked: Asked) -> Contract:
        device = device_id(asked.names["device"])
        return await self._desk.release(device, asked.read(ReleaseRequest), asked.actor)
