"""Few connections at once at a door where anybody on this machine may knock.

Each costs a descriptor, and an agent without any left can neither store nor talk. Where all places are taken,
the first goes that is being answered nothing, so that whoever only holds on keeps nobody out; where all are
being answered, the newcomer goes.
"""

import asyncio
from typing import Final

from aiohttp import web
from typing_extensions import override

from edgeagent.errors import BrokenInvariantError

MOST_INSIDE: Final = 128
"""Connections at once; pages and supervisors together have some ten."""


class Doorkeeper:
    """Makes the connections of a server, and bounds them; a protocol factory for ``create_server``.

    Args:
        runner: what answers; it is set up, and has no site of its own.
        most: connections at once.
    """

    def __init__(self, runner: web.AppRunner, most: int = MOST_INSIDE) -> None:
        if runner.server is None:
            raise BrokenInvariantError("what answers has to be set up before anybody comes")
        self._server = runner.server
        self._most = most
        self._inside: dict[Visitor, None] = {}
        answer = self._server.request_handler

        async def answering(request: web.BaseRequest) -> web.StreamResponse:
            visitor = request.protocol
            if not isinstance(visitor, Visitor):
                raise BrokenInvariantError("a request of a connection that is none of ours")
            visitor.is_answered = True
            try:
                return await answer(request)
            finally:
                visitor.is_answered = False

        self._server.request_handler = answering

    def __call__(self) -> "Visitor":
        """Make the next connection."""
        return Visitor(self._server, self)

    def takes(self, visitor: "Visitor") -> bool:
        """Give a connection its place; whether there is one."""
        if len(self._inside) >= self._most and not self._makes_room():
            return False
        self._inside[visitor] = None
        return True

    def leaves(self, visitor: "Visitor") -> None:
        """Free the place of a connection."""
        self._inside.pop(visitor, None)

    def _makes_room(self) -> bool:
        for visitor in self._inside:
            if not visitor.is_answered:
                self.leaves(visitor)
                visitor.cut()
                return True
        return False


class Visitor(web.RequestHandler):
    """One connection.

    Args:
        server: what answers requests.
        keeper: who lets it in.
    """

    __slots__ = ("_keeper", "is_answered")

    def __init__(self, server: web.Server, keeper: Doorkeeper) -> None:
        # No access log: a line for each poll of a health check is noise; what changes is audited.
        super().__init__(server, loop=asyncio.get_running_loop(), access_log=None)  # type: ignore[arg-type]
        self._keeper = keeper
        self.is_answered = False

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if not self._keeper.takes(self):
            self.cut()

    @override
    def connection_lost(self, exc: BaseException | None) -> None:
        self._keeper.leaves(self)
        super().connection_lost(exc)

    def cut(self) -> None:
        """End it now, whatever is not sent."""
        if self.transport is not None:
            self.transport.abort()
