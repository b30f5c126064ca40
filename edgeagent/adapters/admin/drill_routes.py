"""Drills at the operator's door."""

from edgeagent.adapters.admin.route import Asked, Role, Route
from edgeagent.contracts.door import Contract
from edgeagent.contracts.reports.drills import DrillRequest
from edgeagent.ports.drill_desk import DrillDesk


def drill_routes(desk: DrillDesk) -> list[Route]:
    """Everything that a ``DrillDesk`` answers."""
    door = _DrillDoor(desk)
    return [
        Route("GET", "/v1/drills", Role.VIEW, door.drills),
        Route("POST", "/v1/drills", Role.OPERATE, door.drill),
    ]


class _DrillDoor:
    def __init__(self, desk: DrillDesk) -> None:
        self._desk = desk

    async def drills(self, _asked: Asked) -> Contract:
        return await self._desk.drills()

    async def drill(self, asked: Asked) -> Contract:
        return await self._desk.drill(asked.read(DrillRequest).kind, asked.actor)
