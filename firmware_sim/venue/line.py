"""The line between hub and cloud: all that they say to each other passes here.

    hub ──HTTP──> line ──HTTP──> cloud

It can be cut, as a cable can. And envelopes can be slipped in behind the cloud's back, as somebody could who
holds the line or the queue: they are lent to the hub like any command, and the hub's acknowledgement of
them is counted here and goes no further.
"""

import asyncio
import base64
import secrets
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from aiohttp import ClientError, ClientResponse, ClientSession, web

from firmware_sim.fields import Fields, Json, parse
from firmware_sim.venue.loopback import HOST

_PASSED_ON: Final = ("Authorization", "Content-Type", "Content-Encoding")
_PASSED_BACK: Final = ("Content-Type", "Retry-After")
_LEASE: Final = "/commands/lease"
_ACKNOWLEDGE: Final = "/commands/acknowledge"
_HOLD: Final = 60.0
_CLOSING: Final = 1.0


class Line:
    """See the module's docstring. Open it, close it; in between it serves.

    Attributes:
        taken: how many of the slipped envelopes the hub has acknowledged.
    """

    def __init__(self) -> None:
        self.taken = 0
        self._port = 0
        self._cloud = ""
        self._session: ClientSession | None = None
        self._runner: web.AppRunner | None = None
        self._is_cut = False
        self._open: set[asyncio.Transport] = set()
        self._slipped: deque[bytes] = deque()
        self._news = asyncio.Event()
        self._lent: set[str] = set()

    @property
    def url(self) -> str:
        """Where the hub finds what it takes for the cloud."""
        return f"http://{HOST}:{self._port}"

    async def open(self, cloud: str) -> None:
        """Lead to a cloud, by its address."""
        self._cloud = cloud
        self._session = ClientSession(auto_decompress=False)
        app = web.Application(client_max_size=2**22)
        app.add_routes([web.route("*", "/{path:.*}", self._pass)])
        # Whoever has gone waits for nothing any more; bodies are passed on as they are.
        self._runner = web.AppRunner(
            app,
            access_log=None,
            handler_cancellation=True,
            auto_decompress=False,
            shutdown_timeout=_CLOSING,
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, HOST, 0).start()
        self._port = int(self._runner.addresses[0][1])

    async def close(self) -> None:
        """Lead nowhere."""
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    def cut(self) -> None:
        """Break every connection, and each that is tried, until it is mended."""
        self._is_cut = True
        for cable in self._open:
            cable.abort()

    def mend(self) -> None:
        """Let connections through again."""
        self._is_cut = False

    def slip_in(self, envelope: bytes, *, times: int) -> None:
        """Lend an envelope to the hub so many times, past the cloud."""
        self._slipped.extend([envelope] * times)
        self._news.set()

    async def _pass(self, request: web.Request) -> web.Response:
        cable = request.transport
        if cable is None or self._is_cut:
            raise _gone(cable)
        self._open.add(cable)
        try:
            body = await request.read()
            if self._is_cut:
                raise _gone(cable)
            if request.path.endswith(_LEASE):
                return await self._lease(request, body)
            if request.path.endswith(_ACKNOWLEDGE) and (ours := self._acknowledged(body)) is not None:
                return web.json_response({"done": ours, "gone": []})
            return await self._ask(request, body)
        finally:
            self._open.discard(cable)

    async def _lease(self, request: web.Request, body: bytes) -> web.Response:
        """Lend what is slipped in, or else what the cloud lends; the cloud lets us wait for it."""
        most = Fields(parse(body, "lease"), "lease").whole("most", least=1)
        if self._slipped:
            return self._lend(most)
        asking = asyncio.ensure_future(self._ask(request, body))
        slipping = asyncio.ensure_future(self._news.wait())
        try:
            await asyncio.wait({asking, slipping}, return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                return asking.result()
        finally:
            asking.cancel()
            slipping.cancel()
            # The cloud lends nothing to whoever has gone.
            with suppress(asyncio.CancelledError, web.HTTPException):
                await asking
        return self._lend(most)

    def _lend(self, most: int) -> web.Response:
        envelopes = [self._slipped.popleft() for _ in range(min(most, len(self._slipped)))]
        if not self._slipped:
            self._news.clear()
        loans: list[Json] = []
        for envelope in envelopes:
            handle = secrets.token_hex(16)
            self._lent.add(handle)
            text = base64.b64encode(envelope).decode()
            loans.append({"handle": handle, "envelope": text, "hold_seconds": _HOLD})
        return web.json_response({"commands": loans, "waited_seconds": 0.0})

    def _acknowledged(self, body: bytes) -> Sequence[str] | None:
        """Take the hub's word for what was slipped in; None if it speaks of the cloud's own loans.

        One lease lends either or, and the hub acknowledges what one lease has lent.
        """
        told = Fields(parse(body, "acknowledge"), "acknowledge").take("handles")
        handles = [str(handle) for handle in told] if isinstance(told, list) else []
        if not self._lent.intersection(handles):
            return None
        self.taken += len(self._lent.intersection(handles))
        self._lent.difference_update(handles)
        return handles

    async def _ask(self, request: web.Request, body: bytes) -> web.Response:
        assert self._session is not None, "the line is not open"  # noqa: S101 - our own mistake
        headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        try:
            async with self._session.request(
                request.method, f"{self._cloud}{request.raw_path}", data=body, headers=headers
            ) as answer:
                return await _answered(answer)
        except ClientError as why:
            raise web.HTTPBadGateway(text=f"the cloud does not answer: {type(why).__name__}") from why


def _gone(cable: asyncio.Transport | None) -> web.HTTPException:
    """End a connection in the middle; what is raised then reaches nobody."""
    if cable is not None:
        cable.abort()
    return web.HTTPServiceUnavailable()


async def _answered(answer: ClientResponse) -> web.Response:
    headers = {name: answer.headers[name] for name in _PASSED_BACK if name in answer.headers}
    return web.Response(status=answer.status, body=await answer.read(), headers=headers)
