"""A web server for one file, which understands ranges, and its bad habits.

async with Portal(serves(content)) as portal: ...
async with Portal(serves(content, cut_at=1000)) as portal: ...
"""

import asyncio
import re
from collections.abc import Mapping
from typing import Final

from tests.support.portals import Asked, Script, response

_RANGE: Final = re.compile(r"bytes=(\d+)-")
BINARY: Final = "application/octet-stream"


def serves(
    content: bytes,
    *,
    cut_at: int | None = None,
    tag: str = "",
    deaf: bool = False,
    shifted: int = 0,
    headers: Mapping[str, str] | None = None,
    told: str = "",
) -> Script:
    """The file, or what is asked for of it.

    Args:
        content: its bytes.
        cut_at: the connection ends after so many bytes of a body.
        tag: its ETag; a range is given only to who names it, or names none.
        deaf: whether ranges are not understood.
        shifted: by how many bytes a range begins later than was asked.
        headers: further ones.
        told: the Content-Range, instead of the right one.
    """

    async def script(asked: Asked, writer: asyncio.StreamWriter) -> None:
        wanted = None if deaf else _RANGE.fullmatch(asked.headers.get("range", ""))
        if wanted is not None and asked.headers.get("if-range", tag) != tag:
            wanted = None
        fields = dict(headers or {}) | ({"ETag": tag} if tag else {})
        start = 0 if wanted is None else int(wanted[1]) + shifted
        if wanted is not None:
            fields["Content-Range"] = told or f"bytes {start}-{len(content) - 1}/{len(content)}"
        body = content[start:]
        status = "200 OK" if wanted is None else "206 Partial Content"
        raw = response(status, body, content_type=BINARY, headers=fields)
        if cut_at is None or len(body) <= cut_at:
            writer.write(raw)
            return
        writer.write(raw[: len(raw) - len(body) + cut_at])
        await writer.drain()
        writer.close()

    return script


def drips(content: bytes, *, pause: float) -> Script:
    """One byte after the other, with a pause."""

    async def script(_asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(response("200 OK", content, content_type=BINARY)[: -len(content)])
        for place in range(len(content)):
            writer.write(content[place : place + 1])
            await writer.drain()
            await asyncio.sleep(pause)

    return script


def hangs_after(content: bytes, count: int) -> Script:
    """Some bytes, and then nothing more."""

    async def script(_asked: Asked, writer: asyncio.StreamWriter) -> None:
        raw = response("200 OK", content, content_type=BINARY)
        writer.write(raw[: len(raw) - len(content) + count])
        await writer.drain()
        await asyncio.Event().wait()

    return script


def says_at_first(first: Script, then: Script) -> Script:
    """One answer the first time, another from then on."""
    scripts = [first]

    async def script(asked: Asked, writer: asyncio.StreamWriter) -> None:
        await (scripts.pop() if scripts else then)(asked, writer)

    return script
