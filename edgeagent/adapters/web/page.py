"""The hub's page: files of ours, the reports behind them, and the stream that keeps them live (SPEC H6).

It only looks, and is shown to whoever may look at the admin socket, or to everyone, as is configured:
``callers`` tells who asks. The files are written by hand and served as they are, from the disk; nothing of
them is built when the agent is installed, and nothing is fetched from elsewhere.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Final

from aiohttp import web

from edgeagent.adapters.web.api import api_answers, refusal
from edgeagent.adapters.web.callers import user_of
from edgeagent.adapters.web.guard import PAGE, Handler
from edgeagent.adapters.web.questions import Questions
from edgeagent.adapters.web.watching import Pace, Watching
from edgeagent.contracts.reports.refusal import Kind

FILES: Final = Path(__file__).parent / "static"
"""Where the page's files lie."""
_FIRST: Final = FILES / "index.html"
_MEDIA: Final = MappingProxyType(
    {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
)
_JOINING: Final = (
    "be a member of [hub] view_group (sudo usermod -aG GROUP USER, then log in again), "
    'or let everyone on this machine look: [web] page = "everyone"'
)
_PACE: Final = Pace()

MayLook = Callable[[int], bool]
"""Whether a user, by number, may look."""


class Page:
    """Everything that the page consists of.

    Args:
        ask: what it may ask.
        may_look: who may; None for everyone on this machine.
        pace: how often those who watch are told.
    """

    def __init__(self, ask: Questions, may_look: MayLook | None = None, pace: Pace = _PACE) -> None:
        self._ask = ask
        self._may_look = may_look
        self._watching = Watching(ask, pace)

    @property
    def watchers(self) -> int:
        """How many pages watch live."""
        return self._watching.pages

    async def run(self) -> None:
        """Look at the hub while somebody watches; ends only by cancellation."""
        await self._watching.run()

    def close(self) -> None:
        """End the streams of all who watch."""
        self._watching.close()

    def routes(self) -> list[web.RouteDef]:
        """Each file by its name, each report, and the stream: there is no address that names a path."""
        files = [file for file in sorted(FILES.rglob("*")) if file.suffix in _MEDIA and file != _FIRST]
        answers: dict[str, Handler] = {
            PAGE: _serving(_FIRST),
            **{f"/page/{file.relative_to(FILES).as_posix()}": _serving(file) for file in files},
            **api_answers(self._ask),
            "/api/stream": self._watching.stream,
        }
        return [web.get(path, self._for_viewers(answer)) for path, answer in answers.items()]

    def _for_viewers(self, answer: Handler) -> Handler:
        async def answer_viewer(request: web.Request) -> web.StreamResponse:
            may = self._may_look
            if may is not None and not await asyncio.to_thread(_is_viewer, request, may):
                return refusal(403, Kind.FORBIDDEN, "you may not look at this hub", _JOINING)
            return await answer(request)

        return answer_viewer


def _is_viewer(request: web.Request, may_look: MayLook) -> bool:
    transport = request.transport
    if transport is None:
        return False
    caller, own = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
    if caller is None or own is None:
        return False
    user = user_of(caller[:2], own[:2])
    return user is not None and may_look(user)


def _serving(file: Path) -> Handler:
    async def serve(_request: web.Request) -> web.StreamResponse:
        content = await asyncio.to_thread(file.read_bytes)
        return web.Response(body=content, content_type=_MEDIA[file.suffix], charset="utf-8")

    return serve
