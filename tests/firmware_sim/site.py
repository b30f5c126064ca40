"""A server of images on loopback: plain HTTP, ranges, and cuts where a test wants them."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from tests.support.waiting import eventually


def at_once() -> bool:
    """Nothing has to be so."""
    return True


@dataclass
class Site:
    """What is served, and what was asked for.

    Attributes:
        url: where it begins, without a slash at the end.
        files: by name.
        cuts: how many answers are cut in their middle before one is whole.
        cut_when: what has to be so before one is cut: a client may throw away what it has not yet read.
        asked: method, name and ``Range`` of each request.
    """

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    cuts: int = 0
    cut_when: Callable[[], object] = at_once
    asked: list[tuple[str, str, str | None]] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        name = request.match_info["name"]
        asked = request.headers.get("Range")
        self.asked.append((request.method, name, asked))
        if name not in self.files:
            raise web.HTTPNotFound
        data, begin = self.files[name], 0
        if asked is not None:
            begin = int(asked.removeprefix("bytes=").removesuffix("-"))
        answer = web.StreamResponse(status=206 if begin else 200)
        answer.content_length = len(data) - begin
        if begin:
            answer.headers["Content-Range"] = f"bytes {begin}-{len(data) - 1}/{len(data)}"
        await answer.prepare(request)
        if self.cuts:
            self.cuts -= 1
            await answer.write(data[begin : begin + (len(data) - begin) // 2])
            await eventually(self.cut_when)
            assert request.transport is not None
            request.transport.close()
            return answer
        await answer.write(data[begin:])
        return answer


@asynccontextmanager
async def serving(files: Mapping[str, bytes]) -> AsyncIterator[Site]:
    """A running server on a port of its own."""
    site = Site(files=dict(files))
    application = web.Application()
    application.router.add_get("/{name:.*}", site.answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        listening = web.TCPSite(runner, "127.0.0.1", 0)
        await listening.start()
        host, port = runner.addresses[0][:2]
        site.url = f"http://{host}:{port}"
        yield site
    finally:
        await runner.cleanup()
