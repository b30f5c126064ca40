"""The agent's end of the talk: hands the errand over, and hears what the process says as a stranger's words.

It is the same whoever has started the process. When it is over, or nobody wants to hear more, our half is
closed: by that the process knows that it is left alone, and it ends.
"""

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from datetime import timedelta
from typing import Final

from edgeagent.adapters.fetcher.wire import LENGTH, length_of
from edgeagent.contracts.door import decode, encode
from edgeagent.contracts.fetching import (
    LINE_BYTES,
    PIECE_BYTES,
    WHOLE_BYTES,
    FetchLine,
    FetchTrouble,
    Request,
)
from edgeagent.errors import MalformedError
from edgeagent.ports.artifacts import FetchError
from edgeagent.ports.fetcher import Lines, Parcel

_FIRST_WORD: Final = timedelta(seconds=60)
_LAST_WORD: Final = timedelta(seconds=5)
# An hour of four a second, and as many again; of a refresh there come some hundred.
_MOST_LINES: Final = 30_000


@asynccontextmanager
async def conversation(channel: socket.socket, parcel: Parcel) -> AsyncIterator[Lines]:
    """Hand an errand over, and give what is heard; at the end the other side is gone, or stands still.

    Args:
        channel: a connected stream socket; it is closed in the end.
        parcel: the errand.

    Raises:
        FetchError: the other side is gone, says what nobody understands, or too much.
    """
    channel.setblocking(False)  # noqa: FBT003 - its only argument
    try:
        request = encode(Request(errand=parcel.errand))
        # A fresh socket has room for four bytes.
        first = LENGTH.pack(len(request))
        if parcel.handle is None:
            channel.send(first)
        else:
            socket.send_fds(channel, [first], [parcel.handle])
        reader, writer = await asyncio.open_unix_connection(sock=channel, limit=PIECE_BYTES)
    except OSError as why:
        channel.close()
        raise _gone() from why
    except BaseException:
        channel.close()
        raise
    try:
        try:
            for part in (request, *parcel.files):
                writer.write(part)
                await writer.drain()
        except OSError as why:
            raise _gone() from why
        async with aclosing(_lines(reader)) as lines:
            yield lines
    finally:
        try:
            await _end(reader, writer)
        finally:
            # What the other side has not taken by now is not waited for.
            writer.transport.abort()


async def _lines(reader: asyncio.StreamReader) -> AsyncGenerator[tuple[FetchLine, bytes], None]:
    patience: float | None = _FIRST_WORD.total_seconds()
    whole = 0
    for _ in range(_MOST_LINES):
        try:
            async with asyncio.timeout(patience):
                line, piece = await _line(reader)
        except TimeoutError as why:
            raise FetchError(FetchTrouble.FAILED, "the fetching process does not begin") from why
        patience = None
        whole += len(piece)
        if whole > WHOLE_BYTES:
            raise FetchError(FetchTrouble.FAILED, f"the fetching process gives more than {WHOLE_BYTES} bytes")
        yield line, piece
        if line.is_last:
            return
    raise FetchError(FetchTrouble.FAILED, "the fetching process says more than there is to say")


async def _line(reader: asyncio.StreamReader) -> tuple[FetchLine, bytes]:
    try:
        length = length_of(await reader.readexactly(LENGTH.size), limit=LINE_BYTES)
        line = decode(FetchLine, await reader.readexactly(length), limit=LINE_BYTES)
        return line, await reader.readexactly(line.piece)
    except MalformedError as why:
        raise FetchError(FetchTrouble.FAILED, "the fetching process says what nobody understands") from why
    except (asyncio.IncompleteReadError, ConnectionError) as why:
        raise _gone() from why


async def _end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Tell the other side that nobody listens any more, and give it a moment to be gone."""
    with suppress(OSError, TimeoutError):
        writer.write_eof()
        async with asyncio.timeout(_LAST_WORD.total_seconds()):
            while await reader.read(PIECE_BYTES):
                pass


def _gone() -> FetchError:
    return FetchError(FetchTrouble.FAILED, "the fetching process ended before it was done")
