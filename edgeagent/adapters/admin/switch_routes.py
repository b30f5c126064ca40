"""The kill switch at the operator's door."""

from edgeagent.adapters.admin.route import Asked, Role, Route
from edgeagent.contracts.door import Contract
from edgeagent.contracts.order import Verb
from edgeagent.contracts.reports.switch import SwitchRequest
from edgeagent.ports.switch import Switch


def switch_routes(switch: Switch) -> list[Route]:
    """Everything that a ``Switch`` answers."""
    door = _SwitchDoor(switch)
    return [
        Route("GET", "/v1/stops", Role.VIEW, door.stops),
        Route("POST", "/v1/stops/stop", Role.OPERATE, door.stop),
        Route("POST", "/v1/stops/resume", Role.OPERATE, door.resume),
    ]


class _SwitchDoor:
    def __init__(self, switch: Switch) -> None:
        self._switch = switch

    async def stops(self, _asked: Asked) -> Contract:
        return self._switch.stops()

    async def stop(self, asked: Asked) -> Contract:
        return await self._switch.throw(asked.read(SwitchRequest), Verb.STOP, asked.actor)

    async def resume(self, asked: Asked) -> Contract:
        return await self._switch.throw(asked.read(SwitchRequest), Verb.RESUME, asked.actor)
