"""Breakers at the operator's door."""

from edgeagent.adapters.admin.route import Asked, Role, Route
from edgeagent.contracts.door import Contract
from edgeagent.contracts.reports.breakers import BreakerRequest
from edgeagent.ports.breaker_desk import BreakerDesk


def breaker_routes(desk: BreakerDesk) -> list[Route]:
    """Everything that a ``BreakerDesk`` answers."""
    door = _BreakerDoor(desk)
    return [
        Route("GET", "/v1/breakers", Role.VIEW, door.breakers),
        Route("POST", "/v1/breakers/trip", Role.OPERATE, door.trip),
        Route("POST", "/v1/breakers/reset", Role.OPERATE, door.reset),
    ]


class _BreakerDoor:
    def __init__(self, desk: BreakerDesk) -> None:
        self._desk = desk

    async def breakers(self, _asked: Asked) -> Contract:
        return await self._desk.report()

    async def trip(self, asked: Asked) -> Contract:
        return await self._desk.trip(asked.read(BreakerRequest), asked.actor)

    async def reset(self, asked: Asked) -> Contract:
        return await self._desk.reset(asked.read(BreakerRequest), asked.actor)
