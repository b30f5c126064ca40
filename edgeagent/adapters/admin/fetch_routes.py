"""Fetching files for devices, at the operator's door."""

from edgeagent.adapters.admin.route import Asked, Role, Route
from edgeagent.contracts.door import Contract
from edgeagent.contracts.reports.fetches import CollectRequest
from edgeagent.ids import artifact_id
from edgeagent.ports.fetch_desk import FetchDesk


def fetch_routes(desk: FetchDesk) -> list[Route]:
    """Everything that a ``FetchDesk`` answers."""
    door, path = _FetchDoor(desk), "/v1/artifacts/{artifact}/fetch"
    return [
        Route("POST", path, Role.OPERATE, door.fetch),
        Route("GET", path, Role.VIEW, door.progress),
        Route("DELETE", path, Role.OPERATE, door.stop),
        Route("POST", "/v1/artifacts/collect", Role.OPERATE, door.collect),
    ]


class _FetchDoor:
    def __init__(self, desk: FetchDesk) -> None:
        self._desk = desk

    async def fetch(self, asked: Asked) -> Contract:
        return await self._desk.fetch(artifact_id(asked.names["artifact"]), asked.actor)

    async def progress(self, asked: Asked) -> Contract:
        return await self._desk.progress(artifact_id(asked.names["artifact"]))

    async def stop(self, asked: Asked) -> Contract:
        return await self._desk.stop(artifact_id(asked.names["artifact"]))

    async def collect(self, asked: Asked) -> Contract:
        return await self._desk.collect(asked.actor, dry_run=asked.read(CollectRequest).dry_run)
