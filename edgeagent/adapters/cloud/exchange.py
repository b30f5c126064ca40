"""One question, one answer, over one HTTP session.

Whatever comes back is either a bounded body of JSON from something that speaks like the queue, or a
``LinkError``. No redirect is followed, no cookie kept, no encoding undone, nothing read from the
environment, and never more read than allowed: a portal, a proxy or a mistaken server cannot be taken
for the queue, nor fill the memory (SPEC U4, R8).
"""

import io
from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Final, Literal, TypeVar

import aiohttp

from edgeagent.adapters.cloud.settings import CloudSettings
from edgeagent.adapters.cloud.tls import Trust
from edgeagent.adapters.cloud.trouble import of_exception, of_status
from edgeagent.adapters.cloud.wire import JSON, Problem
from edgeagent.clock import Clock
from edgeagent.contracts.door import Contract, decode
from edgeagent.errors import MalformedError
from edgeagent.ports.links import LinkError, Trouble
from edgeagent.values import dataclass

C = TypeVar("C", bound=Contract)

_CHUNK: Final = 64 * 1024
_CONNECTIONS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A request.

    Attributes:
        method: GET or POST.
        path: below the queue's address, with its leading slash.
        query: its parameters.
        body: its bytes.
        content_type: of the body.
        gzipped: whether the body is compressed.
        patience: how long the far side was asked to wait, on top of the settings' time-out.
        traceparent: the place in a trace that the request belongs to.
    """

    method: Literal["GET", "POST"] = "POST"
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    content_type: str = JSON
    gzipped: bool = False
    patience: timedelta = timedelta(0)
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """JSON, by its look, from something that may be the queue."""

    status: int
    body: bytes

    def read(self, contract: type[C], *, status: int = HTTPStatus.OK) -> C:
        """Take it as what was asked for.

        Raises:
            LinkError: another status, or not this contract.
        """
        if self.status != status:
            raise LinkError(Trouble.BROKEN_ANSWER, f"the queue answers {self.status}{self._why()}")
        try:
            return decode(contract, self.body, limit=len(self.body))
        except MalformedError as why:
            raise LinkError(Trouble.BROKEN_ANSWER, f"an answer of another shape: {why}") from why

    def problem(self) -> Problem | None:
        """Why it was refused, if it is a refusal that the queue itself may have written."""
        if self.status < HTTPStatus.BAD_REQUEST:
            return None
        try:
            return decode(Problem, self.body, limit=len(self.body))
        except MalformedError:
            return None

    def _why(self) -> str:
        problem = self.problem()
        return "" if problem is None else f": {problem.reason}, {problem.detail}"


class Exchange:
    """The session with the queue. Close it with ``await close()``."""

    def __init__(self, settings: CloudSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._trust = Trust(settings)
        self._opened: aiohttp.ClientSession | None = None
        self._tell: Callable[[bool], None] | None = None
        self._is_turned_away = False

    def when_turned_away(self, tell: Callable[[bool], None]) -> None:
        """Have somebody told False each time the far side does not let us in, and True when it does again."""
        self._tell = tell

    @property
    def certificate_until(self) -> datetime | None:
        """When the certificate ends that the far side showed last; None where it has shown none."""
        return self._trust.shown_until

    def adopt(self, settings: CloudSettings) -> None:
        """Log in with another token, or by a certificate that came meanwhile, from the next request on."""
        if (settings.certificate, settings.ca_file) != (self._settings.certificate, self._settings.ca_file):
            self._trust = Trust(settings)
        self._settings = settings

    async def close(self) -> None:
        """Close all connections."""
        if self._opened is not None:
            await self._opened.close()
            self._opened = None

    async def ask(self, question: Question) -> Answer:
        """Send a request and read what comes back.

        Raises:
            LinkError: nothing came back that may be an answer of the queue. The request may have
                been carried out all the same.
        """
        secure = self._settings.base.scheme == "https"
        context = await self._trust.context() if secure else True
        try:
            async with self._session().request(
                question.method,
                self._settings.base.joinpath(question.path.lstrip("/")),
                params=question.query,
                data=io.BytesIO(question.body) if question.body else None,
                headers=self._headers(question),
                allow_redirects=False,
                proxy=self._settings.proxy,
                ssl=context,
                timeout=self._timeout(question),
            ) as response:
                return await self._answer(response)
        # A name with a label that is too long ends as UnicodeError, a ValueError, in the resolver.
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as why:
            raise of_exception(why) from why

    def _session(self) -> aiohttp.ClientSession:
        if self._opened is None:
            self._opened = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=_CONNECTIONS),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
            )
        return self._opened

    def _headers(self, question: Question) -> dict[str, str]:
        headers = {
            "Accept": JSON,
            "Accept-Encoding": "identity",
            "User-Agent": "edgeagent",
        }
        if self._settings.token is not None:
            headers["Authorization"] = self._settings.token.header()
        if question.body:
            headers["Content-Type"] = question.content_type
        if question.gzipped:
            headers["Content-Encoding"] = "gzip"
        if question.traceparent is not None:
            headers["traceparent"] = question.traceparent
        return headers

    def _timeout(self, question: Question) -> aiohttp.ClientTimeout:
        total = self._settings.total_timeout + question.patience
        return aiohttp.ClientTimeout(
            total=total.total_seconds(), connect=self._settings.connect_timeout.total_seconds()
        )

    async def _answer(self, response: aiohttp.ClientResponse) -> Answer:
        fault = of_status(
            response.status,
            response.content_type,
            response.headers,
            self._clock.wall().best,
            through_proxy=self._settings.proxy is not None,
        )
        if fault is None and response.headers.get("Content-Encoding", "identity") != "identity":
            fault = LinkError(Trouble.BROKEN_ANSWER, "an answer in an encoding that was not asked for")
        self._note(fault)
        if fault is not None:
            response.close()  # whatever else it sends is not read
            raise fault
        return Answer(response.status, await self._body(response))

    def _note(self, fault: LinkError | None) -> None:
        """Take note of whether we are let in; other faults say nothing about that."""
        if fault is not None and fault.trouble is not Trouble.LOGIN:
            return
        before, self._is_turned_away = self._is_turned_away, fault is not None
        if self._tell is not None and (before or self._is_turned_away):
            self._tell(not self._is_turned_away)

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        limit = self._settings.most_answer_bytes
        body = bytearray()
        async for chunk in response.content.iter_chunked(_CHUNK):
            body += chunk
            if len(body) > limit:
                response.close()
                raise LinkError(Trouble.BROKEN_ANSWER, f"an answer of more than {limit} bytes")
        return bytes(body)
