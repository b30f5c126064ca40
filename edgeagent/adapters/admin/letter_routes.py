"""Dead letters at the operator's door."""

from edgeagent.adapters.admin.route import Asked, Role, Route
from edgeagent.contracts.door import Contract
from edgeagent.contracts.reports.dead_letters import DiscardRequest, LettersWanted, ReplayRequest
from edgeagent.errors import MalformedError
from edgeagent.ports.letter_desk import LetterDesk

_DIGITS = 15


def letter_routes(desk: LetterDesk) -> list[Route]:
    """Everything that a ``LetterDesk`` answers."""
    door = _LetterDoor(desk)
    return [
        # What is asked for is more than fits a path: asked by POST, it changes nothing all the same.
        Route("POST", "/v1/dead-letters/list", Role.VIEW, door.letters),
        Route("POST", "/v1/dead-letters/{number}/show", Role.OPERATE, door.show),
        Route("POST", "/v1/dead-letters/export", Role.OPERATE, door.export),
        Route("POST", "/v1/dead-letters/replay", Role.OPERATE, door.replay),
        Route("POST", "/v1/dead-letters/discard", Role.OPERATE, door.discard),
    ]


class _LetterDoor:
    def __init__(self, desk: LetterDesk) -> None:
        self._desk = desk

    async def letters(self, asked: Asked) -> Contract:
        return await self._desk.letters(asked.read(LettersWanted))

    async def show(self, asked: Asked) -> Contract:
        text = asked.names["number"]
        if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
            raise MalformedError("not the number of a dead letter")
        return await self._desk.show(int(text), asked.actor)

    async def export(self, asked: Asked) -> Contract:
        return await self._desk.export(asked.read(LettersWanted), asked.actor)

    async def replay(self, asked: Asked) -> Contract:
        return await self._desk.replay(asked.read(ReplayRequest), asked.actor)

    async def discard(self, asked: Asked) -> Contract:
        return await self._desk.discard(asked.read(DiscardRequest), asked.actor)
