"""Reading requests and writing answers: bounded in size and time, and a clear word for each refusal.

A body is read to its limit and not a byte further; it is unpacked to its limit and not a byte further,
so that a small body that unpacks to gigabytes costs nothing (SPEC R7, threats T28 and T35).
"""

import asyncio
import json
import re
import zlib
from datetime import timedelta
from http import HTTPStatus
from typing import Final, TypeVar

from aiohttp import web

from edgeagent.adapters.cloud.wire import JSON, REQUEST_BYTES, Fault, Problem, one_line
from edgeagent.contracts.door import Contract, decode, encode
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.traceparent import read_traceparent
from edgeagent.errors import AgentError, MalformedError

C = TypeVar("C", bound=Contract)

_GZIP: Final = 16 + zlib.MAX_WBITS
_NUMBER: Final = re.compile(r"\d{1,19}(\.\d{1,9})?", re.ASCII)
_CHUNK: Final = 64 * 1024


class ProblemError(AgentError):
    """A request that is not carried out.

    Attributes:
        status: of the answer.
        reason: the code.
        detail: for people.
        retry_after: when to come again; None to leave it open.
        batch: the nonce of the upload that is refused; None for other requests.
    """

    def __init__(
        self,
        status: HTTPStatus,
        reason: Fault | Reason,
        detail: str,
        *,
        retry_after: timedelta | None = None,
        batch: str | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.reason = reason
        self.detail = detail
        self.retry_after = retry_after
        self.batch = batch

    def of_batch(self, nonce: str) -> "ProblemError":
        """The same, as the answer to an upload."""
        return ProblemError(self.status, self.reason, self.detail, retry_after=self.retry_after, batch=nonce)

    def answer(self) -> web.Response:
        """The answer that tells it."""
        problem = Problem(reason=str(self.reason), detail=one_line(self.detail), batch=self.batch)
        response = answer(problem, status=self.status)
        if self.retry_after is not None:
            response.headers["Retry-After"] = str(round(self.retry_after.total_seconds()))
        if self.status is HTTPStatus.UNAUTHORIZED:
            response.headers["WWW-Authenticate"] = 'Bearer realm="edgeagent"'
        return response


def traceparent_of(request: web.Request) -> str | None:
    """The place in a trace that a request names; None where it names none, or more than one."""
    named = request.headers.getall("traceparent", [])
    found = read_traceparent(named[0]) if len(named) == 1 else None
    return None if found is None else str(found)


def answer(contract: Contract, *, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    """Write an answer."""
    return answer_bytes(encode(contract), status=status)


def answer_bytes(body: bytes, *, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    """Write an answer that is JSON already."""
    return web.Response(status=status, body=body, content_type=JSON)


def read_query(request: web.Request, contract: type[C]) -> C:
    """Read the parameters of a URL; each is text there, and a number in the contract is read as one.

    Raises:
        ProblemError: one stands twice, is missing, unknown, or wrong.
    """
    fields: dict[str, str | int | float] = {}
    for name, value in request.query.items():
        if name in fields:
            raise ProblemError(HTTPStatus.BAD_REQUEST, Reason.MALFORMED, "a parameter stands twice")
        field = contract.model_fields.get(name)
        is_number = field is not None and field.annotation in {int, float}
        fields[name] = _number(value) if is_number else value
    try:
        return decode(contract, json.dumps(fields).encode(), limit=REQUEST_BYTES)
    except MalformedError as why:
        raise ProblemError(HTTPStatus.BAD_REQUEST, Reason.MALFORMED, f"parameters: {why}") from why


async def read_json(request: web.Request, contract: type[C], *, within: timedelta) -> C:
    """Read a small request.

    Raises:
        ProblemError: too large, too slow, not JSON, or not this contract.
    """
    _check_type(request, JSON)
    if "Content-Encoding" in request.headers:
        raise ProblemError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, Fault.UNSUPPORTED_TYPE, "only uploads may be compressed"
        )
    raw = await read_body(request, limit=REQUEST_BYTES, within=within)
    try:
        return decode(contract, raw, limit=REQUEST_BYTES)
    except MalformedError as why:
        raise ProblemError(HTTPStatus.BAD_REQUEST, Reason.MALFORMED, str(why)) from why


async def read_body(request: web.Request, *, limit: int, within: timedelta) -> bytes:
    """Read a body as it is sent.

    Raises:
        ProblemError: too large or too slow.
    """
    too_large = ProblemError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, Reason.TOO_LARGE, f"a body may have {limit} bytes"
    )
    if (request.content_length or 0) > limit:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(within.total_seconds()):
            async for chunk in request.content.iter_chunked(_CHUNK):
                body += chunk
                if len(body) > limit:
                    raise too_large
    except TimeoutError as why:
        raise ProblemError(
            HTTPStatus.REQUEST_TIMEOUT, Fault.TOO_SLOW, "the body did not come in time"
        ) from why
    except web.RequestPayloadError as why:
        raise ProblemError(HTTPStatus.BAD_REQUEST, Reason.MALFORMED, "the body is cut") from why
    return bytes(body)


async def read_upload_body(
    request: web.Request, content_type: str, *, limit: int, unpacked_limit: int, within: timedelta
) -> bytes:
    """Read the body of an upload, unpacked.

    Raises:
        ProblemError: of another type or encoding, too large packed or unpacked, too slow, or cut.
    """
    _check_type(request, content_type)
    encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in {"identity", "gzip"}:
        raise ProblemError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, Fault.UNSUPPORTED_TYPE, "only gzip is unpacked here"
        )
    body = await read_body(request, limit=limit, within=within)
    if encoding == "identity":
        return body
    return await asyncio.to_thread(unpack, body, limit=unpacked_limit)


def unpack(packed: bytes, *, limit: int) -> bytes:
    """Undo gzip (RFC 1952): one member, whole, and nothing behind it.

    Raises:
        ProblemError: it unpacks to more than ``limit`` bytes, or is cut or broken.
    """
    unpacker = zlib.decompressobj(_GZIP)
    try:
        # One byte more than is allowed tells a full body from a bomb.
        body = unpacker.decompress(packed, limit + 1)
    except zlib.error as why:
        raise ProblemError(HTTPStatus.BAD_REQUEST, Reason.MALFORMED, "not gzip") from why
    if len(body) > limit:
        raise ProblemError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, Reason.TOO_LARGE, f"unpacked, a body may have {limit} bytes"
        )
    if not unpacker.eof or unpacker.unused_data:
        raise ProblemError(HTTPStatus.BAD_REQUEST, Reason.MALFORMED, "gzip that is cut or goes on")
    return body


def _check_type(request: web.Request, wanted: str) -> None:
    if request.content_type != wanted:
        raise ProblemError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, Fault.UNSUPPORTED_TYPE, f"the body is to be {wanted}"
        )


def _number(text: str) -> str | int | float:
    """A number of a query parameter, or the text for the contract to refuse."""
    if _NUMBER.fullmatch(text) is None:
        return text
    return float(text) if "." in text else int(text)
