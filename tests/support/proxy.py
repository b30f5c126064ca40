"""A TCP proxy that can be told to misbehave, between the agent and whatever it talks to.

async with Proxy(broker.host, broker.port) as proxy:
    ...                          # connect to proxy.host, proxy.port
    proxy.mode = Mode.BLACKHOLE  # takes everything, passes nothing on
"""

import asyncio
import contextlib
import socket
import struct
from enum import StrEnum
from types import TracebackType
from typing import Final, Self

_CHUNK: Final = 64 * 1024
_NO_LINGER: Final = struct.pack("ii", 1, 0)


class Mode(StrEnum):
    """What it does with what comes."""

    PASS = "pass"  # noqa: S105 - not a password
    """Passes everything on."""
    BLACKHOLE = "blackhole"
    """Keeps connections and passes nothing on, as a dead link does; on PASS what it kept goes on."""
    RESET = "reset"
    """Resets each connection, those that stand too."""
    SLOW = "slow"
    """Passes byte after byte on, each in a packet of its own."""


class Proxy:
    """Passes TCP connections on.

    Attributes:
        connections: how many were made since the start.
    """

    host: Final = "127.0.0.1"

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._mode = Mode.PASS
        self._changed = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.connections = 0

    @property
    def mode(self) -> Mode:
        """What it does now."""
        return self._mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        self._mode = mode
        self._changed.set()
        self._changed = asyncio.Event()
        if mode is Mode.RESET:
            for writer in list(self._writers):
                _reset(writer)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, self.host, self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, why: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in list(self._writers):
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        self._writers.add(writer)
        try:
            if self._mode is Mode.RESET:
                _reset(writer)
                return
            other_reader, other_writer = await asyncio.open_connection(*self._target)
            self._writers.add(other_writer)
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._pass(reader, other_writer))
                    group.create_task(self._pass(other_reader, writer))
            finally:
                await self._close(other_writer)
        except* (OSError, asyncio.CancelledError):
            pass  # one side is gone, so the other goes too; or the test is over
        finally:
            await self._close(writer)
            self._tasks.discard(task)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_CHUNK):
            while self._mode is Mode.BLACKHOLE:
                await self._changed.wait()
            for piece in [data[i : i + 1] for i in range(len(data))] if self._mode is Mode.SLOW else [data]:
                writer.write(piece)
                await writer.drain()
                if self._mode is Mode.SLOW:
                    await asyncio.sleep(0)
        raise ConnectionResetError  # the end of one direction ends the connection

    async def _close(self, writer: asyncio.StreamWriter) -> None:
        self._writers.discard(writer)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def _reset(writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    writer.transport.abort()
