"""Frames of the work socket: four bytes of length, most significant first, and so many bytes of JSON.

Whoever sends a longer one than is allowed is not read any further; half a frame has to become a whole one
soon.
"""

import asyncio
import struct
from datetime import timedelta
from typing import Final

from edgeagent.errors import MalformedError, TransientError

PATIENCE: Final = timedelta(seconds=5)
"""How long the rest of a frame may take to come, and a frame to be taken."""

_LENGTH: Final = struct.Struct(">I")


async def read_frame(reader: asyncio.StreamReader, *, limit: int) -> bytes:
    """Wait for a frame, however long its first byte takes.

    Raises:
        TransientError: the other side is gone.
        MalformedError: it is longer than ``limit``, or stays half.
    """
    try:
        first = await reader.readexactly(1)
        async with asyncio.timeout(PATIENCE.total_seconds()):
            [length] = _LENGTH.unpack(first + await reader.readexactly(_LENGTH.size - 1))
            if length > limit:
                raise MalformedError(f"{length} bytes, of which {limit} are allowed")
            return await reader.readexactly(length)
    except (asyncio.IncompleteReadError, OSError) as why:
        if isinstance(why, TimeoutError):
            raise MalformedError("half a frame") from why
        raise TransientError("the other side is gone") from why


async def write_frame(writer: asyncio.StreamWriter, body: bytes) -> None:
    """Send a frame.

    Raises:
        TransientError: the other side is gone, or does not take it.
    """
    try:
        writer.write(_LENGTH.pack(len(body)) + body)
        async with asyncio.timeout(PATIENCE.total_seconds()):
            await writer.drain()
    except OSError as why:
        raise TransientError("the other side does not take what it is sent") from why
