"""The policy in force at the operator's door."""

from edgeagent.adapters.admin.route import Asked, Role, Route
from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.door import Contract
from edgeagent.errors import MalformedError
from edgeagent.ids import device_id
from edgeagent.ports.policy_desk import PolicyDesk


def policy_routes(desk: PolicyDesk) -> list[Route]:
    """Everything that a ``PolicyDesk`` answers."""
    door = _PolicyDoor(desk)
    return [
        Route("GET", "/v1/policy", Role.VIEW, door.show),
        Route("GET", "/v1/policy/actions/{action}", Role.VIEW, door.explain),
    ]


class _PolicyDoor:
    def __init__(self, desk: PolicyDesk) -> None:
        self._desk = desk

    async def show(self, _asked: Asked) -> Contract:
        return self._desk.show()

    async def explain(self, asked: Asked) -> Contract:
        name = asked.names["action"]
        if name not in set(ActionName):
            raise MalformedError(f"no action {name}")
        device = asked.query.get("device")
        return self._desk.explain(ActionName(name), None if device is None else device_id(device))
