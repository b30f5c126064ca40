"""Somebody at the hub who types commands, and the agent that answers: in one process, over the real socket.

async with terminal(tmp_path, "dev-1") as typing:
    said = await typing.types("devices", "list")
    assert said.status == 0
"""

import asyncio
import io
import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import JsonValue

from edgeagent.adapters.admin.clock_routes import clock_routes
from edgeagent.adapters.admin.hub_routes import hub_routes
from edgeagent.adapters.admin.socket import AdminSocket
from edgeagent.adapters.admin.support_routes import support_routes
from edgeagent.cli.main import main
from edgeagent.contracts.door import Contract, decode
from edgeagent.flows.names import HubNames
from edgeagent.flows.store_facts import StoreFacts
from tests.flows.operating import OperatorDesk, operated_hub

C = TypeVar("C", bound=Contract)


@dataclass(frozen=True, slots=True)
class Said:
    """What a command line came to.

    Attributes:
        status: its exit status.
        out: what it printed.
        err: what it complained of.
    """

    status: int
    out: str
    err: str

    @property
    def json(self) -> JsonValue:
        """What it printed, as JSON."""
        value: JsonValue = json.loads(self.out)
        return value

    def report(self, contract: type[C]) -> C:
        """What it printed, as a report."""
        return decode(contract, self.out.encode(), limit=1_000_000)


def typed(*words: str) -> Said:
    """What a command line comes to, typed as it is."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        try:
            status = main(words)
        except SystemExit as end:  # how argparse ends: wrong words, or help
            status = int(end.code or 0)
    return Said(status, out.getvalue(), err.getvalue())


@dataclass(frozen=True, slots=True)
class Terminal:
    """Where commands are typed.

    Attributes:
        config: the configuration that they use.
        run_dir: where the agent's socket is.
    """

    config: Path
    run_dir: Path

    async def types(self, *words: str) -> Said:
        """Type a command."""
        return await asyncio.to_thread(typed, "--config", str(self.config), *words)


@dataclass(frozen=True, slots=True)
class Attended(Terminal):
    """A terminal at a hub whose agent answers.

    Attributes:
        desk: the hub.
    """

    desk: OperatorDesk


@asynccontextmanager
async def lonely_terminal(tmp_path: Path) -> AsyncIterator[Terminal]:
    """A hub on which no agent runs."""
    # Not below the test's own folder: the path of a Unix socket has at most 107 bytes (unix(7)).
    with tempfile.TemporaryDirectory(prefix="edgeagent-") as run_dir:
        config = tmp_path / "config.toml"
        config.write_text(
            f'[hub]\nid = "venue-7"\nstate_dir = "{tmp_path / "state"}"\nrun_dir = "{run_dir}"\n', "utf-8"
        )
        yield Terminal(config, Path(run_dir))


@asynccontextmanager
async def terminal(tmp_path: Path, *devices: str) -> AsyncIterator[Attended]:
    """A hub that is well, with these devices."""
    async with lonely_terminal(tmp_path) as lonely, operated_hub(tmp_path, *devices) as desk:
        facts = StoreFacts(desk.hub.path, desk.hub.around.metrics)
        admin = AdminSocket(
            lonely.run_dir / "admin.sock",
            [*hub_routes(desk.operator), *clock_routes(desk.time.desk), *support_routes(facts)],
            names=HubNames(desk.hub.store, desk.hub.devices),
            clock=desk.clock,
        )
        await admin.open()
        try:
            yield Attended(lonely.config, lonely.run_dir, desk)
        finally:
            await admin.close()


@asynccontextmanager
async def something_else(socket: Path, answer: bytes) -> AsyncIterator[None]:
    """Something that listens in the agent's place and answers everything with these bytes."""

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    handler: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]] = reply
    server = await asyncio.start_unix_server(handler, str(socket))
    try:
        yield
    finally:
        server.close()
        await server.wait_closed()


def http(status: str, body: bytes, *, missing: int = 0) -> bytes:
    """An answer of HTTP, of which so many bytes do not come."""
    length = len(body) + missing
    return f"HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n".encode() + body
