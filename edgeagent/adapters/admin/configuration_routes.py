"""The configuration at the operator's door."""

from edgeagent.adapters.admin.route import Asked, Role, Route
from edgeagent.contracts.door import Contract
from edgeagent.contracts.reports.configuration import ReloadRequest
from edgeagent.ports.configuration_desk import ConfigurationDesk


def configuration_routes(desk: ConfigurationDesk) -> list[Route]:
    """Everything that a ``ConfigurationDesk`` answers."""

    async def standing(_asked: Asked) -> Contract:
        return desk.standing

    async def reload(asked: Asked) -> Contract:
        asked.read(ReloadRequest)
        return await desk.reload(asked.actor)

    return [
        Route("GET", "/v1/configuration", Role.VIEW, standing),
        Route("POST", "/v1/configuration/reload", Role.OPERATE, reload),
    ]
