"""The hub of a venue: the real agent and its worker, processes of their own, to be killed and started again.

It is asked and told by its command line alone, as a technician would. What it says of itself is for
people; no statement of the verdict rests on it.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from firmware_sim.fields import Fields, InputError, Json, parse
from firmware_sim.venue.appliances import Appliance
from firmware_sim.venue.broker import Broker
from firmware_sim.venue.children import Child, Children, Finished
from firmware_sim.venue.cloud import EDGEAGENT, Cloud
from firmware_sim.venue.errors import VenueError
from firmware_sim.venue.loopback import HOST, free_port
from firmware_sim.venue.policy import HUB

_STARTING: Final = 30.0
_LOOK: Final = 0.1
_SOCKET: Final = "admin.sock"
# A byte less than ``sun_path`` has (unix(7)).
_LONGEST_SOCKET: Final = 107
_AT_ONCE: Final = 3


class Hub:
    """See the module's docstring.

    Args:
        folder: for its configuration and state.
        children: where its processes belong.
    """

    def __init__(self, folder: Path, children: Children) -> None:
        self.config = folder / "hub.toml"
        self.web = f"{HOST}:{free_port()}"
        self._folder = folder
        self._children = children
        self._child: Child | None = None
        self._worker: Child | None = None

    @property
    def worker(self) -> Child:
        """The process that works the high tier."""
        assert self._worker is not None, "no worker is started"  # noqa: S101 - our own mistake
        return self._worker

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self._running().pid

    def prepare(self, broker: Broker, line: str, shelf: str, cloud: Cloud) -> None:
        """Write its configuration.

        Args:
            broker: where its appliances are.
            line: the address under which it reaches the cloud.
            shelf: the address from which it fetches files for devices.
            cloud: whose login it has, and whose policy it reads.
        """
        self._folder.mkdir()
        token = self._folder / "queue.token"
        token.touch(mode=0o600)
        token.write_text(cloud.token("hub").read_text("utf-8"), "utf-8")
        (self._folder / "root.json").write_bytes((cloud.repository / "metadata/1.root.json").read_bytes())
        self.config.write_text(
            _CONFIG.format(
                hub=HUB,
                state=_quoted(self._folder / "state"),
                run=_quoted(self._folder / "run"),
                port=broker.port,
                broker=_quoted(broker.config),
                line=line,
                repository=_quoted(cloud.repository),
                shelf=shelf,
                lan=f"{HOST}:{free_port()}",
                web=self.web,
            ),
            "utf-8",
        )

    async def start(self) -> None:
        """Start the agent, and return once it is connected to the broker.

        Raises:
            VenueError: it ends, or does not get there.
        """
        command = [*EDGEAGENT, "--config", str(self.config), "run"]
        child = self._child = await self._children.start("hub", command)
        try:
            async with asyncio.timeout(_STARTING):
                while not await self._is_connected():
                    if not child.alive:
                        raise child.trouble("has ended")
                    await asyncio.sleep(_LOOK)
        except TimeoutError as why:
            raise child.trouble(f"is not connected within {_STARTING:g} s") from why

    async def start_worker(self) -> Child:
        """Start a worker of the high tier beside the agent; it waits for the agent's socket.

        Raises:
            VenueError: there is no such program.
        """
        command = [*EDGEAGENT, "--config", str(self.config), "worker", "--lane", "high"]
        self._worker = await self._children.start("worker", command)
        return self._worker

    async def take_policy(self, version: int) -> None:
        """Wait until it goes by a policy: it looks for another one every five seconds, by a process.

        Raises:
            VenueError: it does not.
        """
        deadline = asyncio.get_running_loop().time() + _STARTING
        while (held := await self._policy()) != version:
            if asyncio.get_running_loop().time() > deadline:
                raise VenueError(f"the hub goes by version {held} of the policy, not {version}")
            await asyncio.sleep(5 * _LOOK)

    async def approve(self, appliance: Appliance, command: str) -> None:
        """``edgeagent commands approve``, as soon as the command has come.

        Raises:
            VenueError: the hub takes no approval of it.
        """
        deadline = asyncio.get_running_loop().time() + _STARTING
        while True:
            told = await self.ask("commands", "approve", command, appliance.id, "--yes")
            if not told.status:
                return
            if asyncio.get_running_loop().time() > deadline:
                raise VenueError(f"the hub takes no approval of {command}: {told.err.strip()}")
            await asyncio.sleep(_LOOK)

    async def kill(self) -> None:
        """SIGKILL: as the power goes."""
        await self._running().kill()

    async def ended(self) -> None:
        """Wait until it has ended, by whoever's hand."""
        await self._running().ended()

    async def restart(self) -> None:
        """Stop it in good order, and start it again."""
        await self._running().stop()
        await self.start()

    async def ask(self, *words: str) -> Finished:
        """``edgeagent …``, with its configuration."""
        return await self._children.run([*EDGEAGENT, "--config", str(self.config), *words])

    async def proposed(self) -> set[str]:
        """The devices that have shown themselves and wait for admission."""
        report = Fields(parse((await self.ask("--json", "devices", "list")).out, "devices"), "devices")
        return {fields.text("device") for fields in report.items("proposals")}

    async def admit(self, appliances: Sequence[Appliance]) -> None:
        """Admit appliances under their names.

        Raises:
            VenueError: one is refused.
        """
        few = asyncio.Semaphore(_AT_ONCE)

        async def admit(appliance: Appliance) -> None:
            async with few:
                told = await self.ask("devices", "admit", appliance.id, "--label", appliance.name)
            if told.status:
                raise VenueError(f"{appliance.name} is not admitted: {told.err.strip()}")

        async with asyncio.TaskGroup() as group:
            for appliance in appliances:
                group.create_task(admit(appliance))

    async def send(self, appliance: Appliance, action: str, *arguments: str) -> str:
        """``edgeagent send``: typed at the hub itself, without the cloud.

        Returns:
            The command's id; empty if it was not let in.

        Raises:
            InputError: it was not even judged.
        """
        told = await self.ask("--json", "send", appliance.id, action, *arguments)
        report = Fields(parse(told.out, "send"), "send")
        if report.has("error"):
            raise InputError(f"edgeagent send: {report.nested('error').text('message')}")
        command = report.take("command") if report.has("command") else None
        return "" if command is None else Fields(command, "command").text("command")

    async def _is_connected(self) -> bool:
        told = await self.ask("--json", "status")
        if told.status:
            return False
        try:
            broker = Fields(parse(told.out, "status"), "status").nested("broker")
        except InputError as why:
            raise VenueError(f"edgeagent status: {why}") from why
        sessions = [broker.nested(name) for name in broker.names()]
        return bool(sessions) and all(session.flag("connected", default=False) for session in sessions)

    async def _policy(self) -> Json:
        """The version that it goes by."""
        told = await self.ask("--json", "status")
        if told.status:
            return None
        policy = Fields(parse(told.out, "status"), "status").nested("policy")
        return policy.take("version") if policy.has("version") else None

    def _running(self) -> Child:
        assert self._child is not None, "it is not started"  # noqa: S101 - our own mistake
        return self._child


def socket_fits(folder: Path) -> bool:
    """Whether the path of the agent's socket below a folder is short enough for Linux."""
    return len(str(folder / "hub" / "run" / _SOCKET)) <= _LONGEST_SOCKET


def program() -> str:
    """How a person at this place types ``edgeagent``."""
    beside = Path(sys.executable).with_name("edgeagent")
    if not beside.exists():
        return f"{sys.executable} -m edgeagent"
    return str(beside.relative_to(Path.cwd()) if beside.is_relative_to(Path.cwd()) else beside)


def _quoted(path: Path) -> str:
    # A JSON text of a path is a TOML text.
    return json.dumps(str(path), ensure_ascii=False)


_CONFIG: Final = """[hub]
id = "{hub}"
state_dir = {state}
run_dir = {run}

[broker]
host = "127.0.0.1"
port = {port}
config_file = {broker}

[cloud]
url = "{line}"
token_file = "queue.token"

[policy]
source = {repository}
root = "root.json"
refresh = "5s"

[artifacts]
source = "{shelf}"

[firmware]
listen = "{lan}"

[worker]
high = "outside"

[uplink]
linger = "200ms"
longest_backoff = "2s"

[web]
listen = "{web}"
"""
