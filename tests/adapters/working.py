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
from edgeagent.adapters.work_socket.server import WorkSocket
from edgeagent.contracts.door import Contract, decode, encode
from edgeagent.contracts.policy import Tier
from edgeagent.contracts.work import ANSWER_BYTES, Grip, WorkAnswer
from edgeagent.core.work import Claim
from edgeagent.flows.dispatch import Dispatch
from edgeagent.flows.wary import WaryDesk
from tests.flows.commanding import Hub, new_hub
from tests.support.waiting import DEADLINE

_LENGTH: Final = struct.Struct(">I")


def grip_of(claim: Claim, **changes: object) -> Grip:
    """What proves a claim; or nearly does."""
    fields: dict[str, object] = {"run": claim.run, "token": claim.token, "fence": claim.fence}
    return Grip.model_validate(fields | changes)


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
    """

    hub: Hub
    desk: WaryDesk
    path: Path
    _workers: list[WorkClient] = field(default_factory=list)

    def worker(self) -> WorkClient:
        """A worker with a connection of its own."""
        client = WorkClient(self.path, lambda: 0.0)
        self._workers.append(client)
        return client

    def dispatch(self, desk: WorkClient | None = None, lane: Tier = Tier.LOW) -> Dispatch:
        """What works the commands that such a worker claims, as the worker's process does."""
        around = self.hub.now.around
        return Dispatch(desk or self.worker(), lane, around.clock, around.chance, around.metrics)

    async def stranger(self) -> Stranger:
        """Somebody who connects."""
        return Stranger(*await asyncio.open_unix_connection(self.path, limit=ANSWER_BYTES))

    def close(self) -> None:
        """Have all workers hang up."""
        for each in self._workers:
            each.close()


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
