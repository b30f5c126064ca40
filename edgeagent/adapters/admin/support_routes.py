"""What a support bundle asks at the operator's door."""

from edgeagent.adapters.admin.route import Asked, Role, Route
from edgeagent.contracts.door import Contract
from edgeagent.ports.support_desk import SupportDesk


def support_routes(desk: SupportDesk) -> list[Route]:
    """Everything that a ``SupportDesk`` answers."""

    async def support(_asked: Asked) -> Contract:
        return await desk.support()

    return [Route("GET", "/v1/support", Role.VIEW, support)]
