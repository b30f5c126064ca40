"""Where the hub fetches files for devices: a plain web server, which understands ranges and can be cut.

It knows nothing of what lies there, and nobody has to believe it: what comes from it is verified at the hub.
"""

import re
from pathlib import Path
from typing import Final

from aiohttp import web

from firmware_sim.venue.loopback import HOST

_RANGE: Final = re.compile(r"bytes=(\d+)-")
_PARTIAL: Final = 206
_CLOSING: Final = 1.0


class Shelf:
    """See the module's docstring. Open it, close it; in between it serves.

    Args:
        folder: what is served.

    Attributes:
        cuts: how many files are cut in their middle, from the next one on.
        gave: of each request for a file: from which byte on, how many were given, and how many it has.
    """

    def __init__(self, folder: Path) -> None:
        self.cuts = 0
        self.gave: list[tuple[int, int, int]] = []
        self._folder = folder
        self._port = 0
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://{HOST}:{self._port}"

    async def open(self) -> None:
        """Serve."""
        app = web.Application()
        app.add_routes([web.get("/{path:.+}", self._give)])
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=_CLOSING)
        await self._runner.setup()
        await web.TCPSite(self._runner, HOST, 0).start()
        self._port = int(self._runner.addresses[0][1])

    async def close(self) -> None:
        """Serve no more."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _give(self, request: web.Request) -> web.StreamResponse:
        file = self._folder / request.match_info["path"]
        if not file.resolve().is_relative_to(self._folder.resolve()) or not file.is_file():
            raise web.HTTPNotFound
        data, asked = file.read_bytes(), _RANGE.fullmatch(request.headers.get("Range", ""))
        begin = min(int(asked[1]), len(data)) if asked else 0
        body = data[begin:]
        answer = web.StreamResponse()
        if begin:
            answer.set_status(_PARTIAL)
            answer.headers["Content-Range"] = f"bytes {begin}-{len(data) - 1}/{len(data)}"
        answer.content_length = len(body)
        await answer.prepare(request)
        is_cut, self.cuts = self.cuts > 0, max(0, self.cuts - 1)
        given = body[: len(body) // 2] if is_cut else body
        self.gave.append((begin, len(given), len(data)))
        await answer.write(given)
        if is_cut and request.transport is not None:
            request.transport.close()
        return answer
