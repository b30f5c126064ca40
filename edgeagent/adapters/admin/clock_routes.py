"""The clock: what is known of the time, and what a person says of it."""

from edgeagent.adapters.admin.route import Asked, Role, Route
from edgeagent.contracts.door import Contract
from edgeagent.contracts.reports.clock import ConfirmRequest, ResetFloorRequest
from edgeagent.ports.clock import ClockDesk


def clock_routes(desk: ClockDesk) -> list[Route]:
    """Everything that a ``ClockDesk`` answers."""
    door = _ClockDoor(desk)
    return [
        Route("GET", "/v1/clock", Role.VIEW, door.clock),
        Route("POST", "/v1/clock/confirm", Role.OPERATE, door.confirm),
        Route("POST", "/v1/clock/reset-floor", Role.OPERATE, door.reset_floor),
    ]


class _ClockDoor:
    def __init__(self, desk: ClockDesk) -> None:
        self._desk = desk

    async def clock(self, _asked: Asked) -> Contract:
        return await self._desk.clock()

    async def confirm(self, asked: Asked) -> Contract:
        return await self._desk.confirm(asked.read(ConfirmRequest), asked.actor)

    async def reset_floor(self, asked: Asked) -> Contract:
        return await self._desk.reset_floor(asked.read(ResetFloorRequest), asked.actor)
