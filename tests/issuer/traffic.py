"""Real traffic, held against ``docs/openapi.yaml``.

``Listener`` stands between a client and the queue server, passes everything on, and keeps it; ``check``
holds what it heard against the document.
"""

import gzip
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import aiohttp
import yaml
from aiohttp import web
from werkzeug.datastructures import Headers, ImmutableMultiDict

if TYPE_CHECKING:
    # Reading it takes seconds, and each process that collects the tests would read it.
    from openapi_core import OpenAPI

_DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "openapi.yaml"
_HOP: Final = frozenset({"host", "content-length", "transfer-encoding", "connection"})


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its answer, as they went over the wire."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    status: int
    answer_headers: Mapping[str, str]
    answer: bytes


@dataclass(slots=True)
class Listener:
    """Passes requests on to the server at ``url`` and keeps what it hears.

    Attributes:
        url: of the server.
        tls: how it is reached, where that is by TLS; a certificate in it is shown.
        heard: what went over the wire.
    """

    url: str
    tls: ssl.SSLContext | None = None
    heard: list[Exchange] = field(default_factory=list)
    _runner: web.AppRunner | None = None
    _session: aiohttp.ClientSession | None = None
    port: int = 0

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(auto_decompress=False)
        app = web.Application(client_max_size=16 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._pass_on)
        self._runner = web.AppRunner(app, access_log=None, auto_decompress=False, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = int(self._runner.addresses[0][1])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, why: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._runner is not None
        assert self._session is not None
        await self._runner.cleanup()
        await self._session.close()

    async def _pass_on(self, request: web.Request) -> web.Response:
        assert self._session is not None
        body = await request.read()
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP}
        async with self._session.request(
            request.method,
            self.url + request.raw_path,
            data=body or None,
            headers=headers,
            ssl=self.tls or True,
        ) as response:
            answer = await response.read()
            kept = {name: value for name, value in response.headers.items() if name.lower() not in _HOP}
            self.heard.append(
                Exchange(
                    request.method,
                    request.path,
                    dict(request.query),
                    dict(request.headers),
                    body,
                    response.status,
                    kept,
                    answer,
                )
            )
            return web.Response(status=response.status, body=answer, headers=kept)


class _Request:
    """An exchange's request, in the shape that openapi-core reads."""

    def __init__(self, exchange: Exchange) -> None:
        self.host_url = "https://queue.example"
        self.path = exchange.path
        self.method = exchange.method.lower()
        self.content_type = exchange.headers.get("Content-Type", "").partition(";")[0]
        packed = exchange.headers.get("Content-Encoding") == "gzip"
        self.body = gzip.decompress(exchange.body) if packed else exchange.body or None
        from openapi_core.datatypes import RequestParameters

        self.parameters = RequestParameters(
            query=ImmutableMultiDict(exchange.query), header=Headers(dict(exchange.headers))
        )


class _Response:
    """An exchange's answer, in the shape that openapi-core reads."""

    def __init__(self, exchange: Exchange) -> None:
        self.status_code = exchange.status
        self.headers = Headers(dict(exchange.answer_headers))
        self.content_type = exchange.answer_headers.get("Content-Type", "").partition(";")[0]
        self.data = exchange.answer


def document() -> "OpenAPI":
    """The interface as it is described."""
    from openapi_core import Config, OpenAPI
    from openapi_core.deserializing.media_types.datatypes import DeserializerCallable

    described = yaml.safe_load(_DOCUMENT.read_text("utf-8"))
    for path in described["paths"].values():
        for operation in path.values():
            # Shown in the handshake, which the checker does not see; it knows no mutualTLS.
            if isinstance(operation, dict) and operation.get("security") == [{"certificate": []}]:
                operation["security"] = []
    readers: dict[str, DeserializerCallable] = {"application/cloudevents-batch+json": json.loads}
    return OpenAPI.from_dict(described, config=Config(extra_media_type_deserializers=readers))


def check(heard: Exchange, described: "OpenAPI") -> None:
    """Hold an exchange against the document.

    A refused request is held to nothing; its refusal is.

    Raises:
        OpenAPIError: the request or the answer is not as described.
    """
    request = _Request(heard)
    if heard.status < 400:
        described.validate_request(request)
    described.validate_response(request, _Response(heard))
