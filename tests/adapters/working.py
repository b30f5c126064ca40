"""A hub whose commands are worked over the work socket: the real desk, the real socket, a worker beside it.

async with new_bench(tmp_path) as bench:
    await bench.hub.admits(bench.hub.command(POWER, on=True))
    claim = await bench.worker().claim(Tier.LOW, "low-1")
"""

import asyncio
import struct
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from edgeagent.adapters.work_socket.client import WorkClient
from edgeagent.adapters.work_socket.presence import Presence
from edgeagent.adapters.work_socket.server import WorkSocket
from edgeagent.contracts.door import Contract, decode, encode
from edgeagent.contracts.policy import Tier
from edgeagent.contracts.work import ANSWER_BYTES, WorkAnswer
from edgeagent.flows.dispatch import Dispatch
from edgeagent.flows.wary import WaryDesk
from tests.flows.commanding import Hub, new_hub
from tests.support.waiting import DEADLINE

_LENGTH: Final = struct.Struct(">I")


class Stranger:
    """Somebody who speaks the frames of the socket, and says what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def sends(self, raw: bytes, *, length: int | None = None) -> None:
        """Send a frame, or what looks like one."""
        self._writer.write(_LENGTH.pack(len(raw) if length is None else length) + raw)

    async def asks(self, request: Contract | bytes) -> WorkAnswer:
        """Ask, and be answered."""
        self.sends(request if isinstance(request, bytes) else encode(request))
        return await self.hears()

    async def hears(self) -> WorkAnswer:
        """The next answer."""
        async with asyncio.timeout(DEADLINE):
            [length] = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
            return decode(WorkAnswer, await self._reader.readexactly(length), limit=ANSWER_BYTES)

    async def is_cut_off(self) -> bool:
        """Wait until the other side hangs up; False if it says something instead."""
        async with asyncio.timeout(DEADLINE):
            try:
                return await self._reader.read(1) == b""
            except ConnectionResetError:
                return True

    @property
    def is_at_end(self) -> bool:
        """Whether the other side has hung up, and nothing is left to be heard."""
        return self._reader.at_eof()

    def hangs_up(self) -> None:
        """End the connection, as the kernel does for who is killed."""
        self._writer.transport.abort()


@dataclass(slots=True)
class Bench:
    """A hub, its work socket, and who works there.

    Attributes:
        hub: the hub.
        desk: what stands behind the socket.
        path: of the socket.
        told: what the workers have told people of the agent, each for itself.
    """

    hub: Hub
    desk: WaryDesk
    path: Path
    told: list[str] = field(default_factory=list)
    _workers: list[WorkClient] = field(default_factory=list)
    _strangers: list[Stranger] = field(default_factory=list)

    def worker(self) -> WorkClient:
        """A worker with a connection of its own."""
        return self.worker_at(self.path)

    def worker_at(self, path: Path) -> WorkClient:
        """The same, at another socket."""
        client = WorkClient(path, lambda: 0.0, Presence(path, self.told.append))
        self._workers.append(client)
        return client

    async def works(self, lane: Tier = Tier.LOW) -> None:
        """Have a worker claim what is due and work it as far as it goes, as the worker's process does."""
        desk, around = self.worker(), self.hub.now.around
        async with asyncio.timeout(DEADLINE):
            claim = await desk.claim(lane, "worker-2")
        await Dispatch(desk, lane, around.clock, around.chance, around.metrics).work(claim)

    async def stranger(self, path: Path | None = None) -> Stranger:
        """Somebody who connects; to another socket, if one is named."""
        stranger = Stranger(*await asyncio.open_unix_connection(path or self.path, limit=ANSWER_BYTES))
        self._strangers.append(stranger)
        return stranger

    def close(self) -> None:
        """Have all workers hang up."""
        for worker in self._workers:
            worker.close()
        for stranger in self._strangers:
            stranger.hangs_up()


@asynccontextmanager
async def new_bench(folder: Path) -> AsyncIterator[Bench]:
    """A hub with a television, and a work socket that lends the commands of every lane."""
    # Not below the test's own folder: the path of a Unix socket has at most 107 bytes (unix(7)).
    with tempfile.TemporaryDirectory(prefix="edgeagent-") as run_dir:
        async with new_hub(folder) as hub:
            desk = WaryDesk(hub.now.desk, frozenset(Tier), hub.clock, hub.now.around.metrics)
            bench = Bench(hub, desk, Path(run_dir) / "work.sock")
            server = WorkSocket(bench.path, desk, None, hub.clock)
            await server.open()
            try:
                yield bench
            finally:
                bench.close()
                await server.close()
