"""The hub at large: health, status, devices, commands, outbox."""

from edgeagent.adapters.admin.route import Asked, Role, Route
from edgeagent.contracts.door import Contract
from edgeagent.contracts.reports.commands import SendRequest
from edgeagent.contracts.reports.devices import AdmitRequest, ForgottenReport
from edgeagent.ids import command_id, device_id
from edgeagent.ports.operator import Operator


def hub_routes(operator: Operator) -> list[Route]:
    """Everything that an ``Operator`` answers."""
    door = _HubDoor(operator)
    return [
        Route("GET", "/v1/health", Role.VIEW, door.health),
        Route("GET", "/v1/status", Role.VIEW, door.status),
        Route("GET", "/v1/devices", Role.VIEW, door.devices),
        Route("POST", "/v1/devices", Role.OPERATE, door.admit),
        Route("GET", "/v1/devices/{device}", Role.VIEW, door.device),
        Route("DELETE", "/v1/devices/{device}", Role.OPERATE, door.forget),
        Route("GET", "/v1/outbox", Role.VIEW, door.outbox),
        Route("GET", "/v1/commands", Role.VIEW, door.commands),
        Route("POST", "/v1/commands", Role.OPERATE, door.send),
        Route("GET", "/v1/commands/{command}", Role.VIEW, door.command),
    ]


class _HubDoor:
    def __init__(self, operator: Operator) -> None:
        self._operator = operator

    async def health(self, _asked: Asked) -> Contract:
        return await self._operator.health()

    async def status(self, _asked: Asked) -> Contract:
        return await self._operator.status()

    async def devices(self, _asked: Asked) -> Contract:
        return await self._operator.devices()

    async def device(self, asked: Asked) -> Contract:
        return await self._operator.device(device_id(asked.names["device"]))

    async def admit(self, asked: Asked) -> Contract:
        return await self._operator.admit(asked.read(AdmitRequest), asked.actor)

    async def forget(self, asked: Asked) -> Contract:
        device = device_id(asked.names["device"])
        await self._operator.forget(device, asked.actor)
        return ForgottenReport(device=device)

    async def commands(self, _asked: Asked) -> Contract:
        return await self._operator.commands()

    async def command(self, asked: Asked) -> Contract:
        return await self._operator.command(command_id(asked.names["command"]))

    async def send(self, asked: Asked) -> Contract:
        return await self._operator.send(asked.read(SendRequest), asked.actor)

    async def outbox(self, _asked: Asked) -> Contract:
        return await self._operator.outbox()
