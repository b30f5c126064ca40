"""Artifacts at the operator's door."""

from edgeagent.adapters.admin.route import Asked, Role, Route
from edgeagent.contracts.door import Contract
from edgeagent.ids import artifact_id
from edgeagent.ports.artifact_desk import ArtifactDesk


def artifact_routes(desk: ArtifactDesk) -> list[Route]:
    """Everything that an ``ArtifactDesk`` answers."""
    door = _ArtifactDoor(desk)
    return [
        Route("GET", "/v1/artifacts", Role.VIEW, door.show_all),
        Route("GET", "/v1/artifacts/{artifact}", Role.VIEW, door.show),
        Route("GET", "/v1/catalogue/verified", Role.VIEW, door.verify),
    ]


class _ArtifactDoor:
    def __init__(self, desk: ArtifactDesk) -> None:
        self._desk = desk

    async def show_all(self, _asked: Asked) -> Contract:
        return self._desk.show_all()

    async def show(self, asked: Asked) -> Contract:
        return self._desk.show(artifact_id(asked.names["artifact"]))

    async def verify(self, _asked: Asked) -> Contract:
        return await self._desk.verify()
