"""What the agent takes of a small machine, beside thingsboard-gateway in the same run (SPEC H7).

    python -m bench.footprint [--seconds N] [--runs N] [--alone] [--linger MS] [--deb PATH]

Each is started, left alone, and then hears 50 devices, each of which tells something every second. The link
to the cloud stands, and nothing else happens. Memory is told three ways (``bench.processes.Memory``). What is
written is what the kernel counts to disks, a day's worth of what was seen. The agent has the environment of
its unit, and its folder of /run in memory. ``--deb`` adds the size of a package.
"""

import argparse
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Final
from unittest.mock import patch

from bench.figures import Row, table
from bench.native import Load, Tools, compiled
from bench.processes import Watch, cpu_seconds
from bench.rig import QUIET_BROKER, Rig
from bench.systems import DEVICES, SHIPPED, AgentUnderTest, Lingers
from bench.thingsboard import Gateway, Platform, installed
from tests.support.brokers import Mosquitto

ROWS: Final = (
    Row(name="start.ready", title="start: s until READY", digits=2),
    Row(name="start.delivered", title="start: s until the first reading is at the cloud", digits=2),
    Row(name="start.cpu", title="start: s of CPU until then", digits=2),
    Row(name="idle.resident", title="idle: resident memory, MiB", digits=1, most=62),
    Row(name="idle.proportional", title="idle: proportional memory, MiB", digits=1),
    Row(name="idle.private", title="idle: private memory, MiB", digits=1),
    Row(name="idle.cpu", title="idle: CPU, s per hour", digits=1),
    Row(name="idle.written", title="idle: MiB written per day", digits=1),
    Row(name="calm.resident", title="50 devices, 50/s: resident memory, MiB", digits=1, most=72),
    Row(name="calm.proportional", title="50 devices, 50/s: proportional memory, MiB", digits=1),
    Row(name="calm.private", title="50 devices, 50/s: private memory, MiB", digits=1),
    Row(name="calm.cpu", title="50 devices, 50/s: CPU, s per hour", digits=0),
    Row(name="calm.written", title="50 devices, 50/s: MiB written per day", digits=0),
    Row(name="package", title="the package, MiB", digits=1),
    Row(name="installed", title="installed, MiB", digits=1),
)
_UNIT: Final = Path(__file__).parents[1] / "systemd" / "edgeagent.service"
_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - the file system of /run
_SETTLED: Final = 5.0
_PATIENCE: Final = 120.0
_EACH: Final = 0.1
_HOUR, _DAY = timedelta(hours=1).total_seconds(), timedelta(days=1).total_seconds()


@dataclass(frozen=True, slots=True)
class Under:
    """A system with everything around it.

    Attributes:
        launch: starts it.
        watch: looks at its process.
        sends: publishes so many messages at that rate, and waits for their end.
        delivered: how many have come to its cloud.
        ready: waits until it says that it is ready; None where it cannot say so.
    """

    launch: Callable[[], None]
    watch: Callable[[], Watch]
    sends: Callable[[int, float], object]
    delivered: Callable[[], int]
    ready: Callable[[], None] | None = None


def figures_of(system: Under, seconds: float) -> Mapping[str, float]:
    """Start it, leave it alone, and let it hear 50 devices."""
    found: dict[str, float] = {}
    began = time.monotonic()
    system.launch()
    if system.ready is not None:
        system.ready()
        found["start.ready"] = time.monotonic() - began
    deadline = began + _PATIENCE
    while not system.delivered():
        if time.monotonic() > deadline:
            raise TimeoutError("nothing is delivered")
        system.sends(1, 0.0)
        time.sleep(_EACH)
    found["start.delivered"] = time.monotonic() - began
    found["start.cpu"] = cpu_seconds(system.watch().pid)
    system.sends(4 * DEVICES, 4.0 * DEVICES)  # each device is known from now on
    time.sleep(min(seconds, _SETTLED))
    found |= _seen("idle", system.watch(), seconds, lambda: time.sleep(seconds))
    messages = int(seconds * DEVICES)
    return found | _seen("calm", system.watch(), seconds, lambda: system.sends(messages, DEVICES))


def _seen(name: str, watch: Watch, seconds: float, during: Callable[[], object]) -> dict[str, float]:
    """What is used while something happens, and what is held at its end."""
    cpu, written = cpu_seconds(watch.pid), watch.to_disk()
    during()
    memory = watch.memory()
    return {
        f"{name}.resident": memory.resident,
        f"{name}.proportional": memory.proportional,
        f"{name}.private": memory.private,
        f"{name}.cpu": (cpu_seconds(watch.pid) - cpu) / seconds * _HOUR,
        f"{name}.written": (watch.to_disk() - written) / seconds * _DAY / 2**20,
    }


def agent(folder: Path, tools: Tools, seconds: float, lingers: Lingers = SHIPPED) -> Mapping[str, float]:
    """The agent, started with 50 devices admitted."""
    with notified() as told, in_memory(), Rig(AgentUnderTest, folder, tools, lingers) as rig:
        rig.system.kill()
        if isinstance(rig.system, AgentUnderTest):
            rig.system.is_not_counted()
        rig.sink.reset()

        def launch() -> None:
            told.forget()
            rig.system.launch()

        system = Under(
            launch=launch,
            watch=lambda: rig.watch,
            sends=lambda count, rate: rig.load(count, rate=rate).finish(within=_PATIENCE + seconds),
            delivered=lambda: rig.sink.tally().count,
            ready=told.wait,
        )
        return figures_of(system, seconds)


def gateway(folder: Path, tools: Tools, seconds: float) -> Mapping[str, float]:
    """thingsboard-gateway, with the same devices."""
    with ExitStack() as stack:
        broker = stack.enter_context(Mosquitto(folder / "broker", options=QUIET_BROKER))
        platform = stack.enter_context(Platform(folder / "platform"))
        system = Gateway(folder / "gateway", broker.port, platform.port)
        stack.callback(system.close)
        sent = iter(range(0, 2**31, 2**20))

        def sends(count: int, rate: float) -> object:
            load = Load(tools.load, broker.port, count, rate=rate, first=next(sent), folder=folder)
            return load.finish(within=_PATIENCE + seconds)

        under = Under(system.launch, lambda: system.watch, sends, lambda: platform.count)
        return {**figures_of(under, seconds), "installed": installed()}


class Told:
    """Stands in the service manager's place (sd_notify(3))."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel

    def forget(self) -> None:
        """Leave aside what was told so far."""
        self._channel.settimeout(0)
        with suppress(BlockingIOError):
            while self._channel.recv(4096):
                pass

    def wait(self) -> None:
        """Wait until it is told that all is ready."""
        self._channel.settimeout(_PATIENCE)
        while b"READY=1" not in self._channel.recv(4096):
            pass


@contextmanager
def notified() -> Iterator[Told]:
    """Have what is started from here on tell us how it is."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(path := f"{folder}/notify")
        with patch.dict(os.environ, {**unit_environment(), "NOTIFY_SOCKET": path}):
            yield Told(channel)


def unit_environment() -> Mapping[str, str]:
    """The variables that the agent's unit sets."""
    lines = _UNIT.read_text("utf-8").splitlines()
    words = [word for line in lines if line.startswith("Environment=") for word in line[12:].split()]
    return dict(word.split("=", 1) for word in words) | {"PYTHONDONTWRITEBYTECODE": ""}


@contextmanager
def in_memory() -> Iterator[None]:
    """Have folders that are made for a moment be in memory."""
    before, tempfile.tempdir = tempfile.tempdir, str(_MEMORY) if _MEMORY.is_dir() else tempfile.tempdir
    try:
        yield
    finally:
        tempfile.tempdir = before


def package(path: Path | None) -> Mapping[str, float]:
    """How large a package is."""
    if path is None:
        return {}
    words = ["dpkg-deb", "--field", str(path), "Installed-Size"]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return {"package": path.stat().st_size / 2**20, "installed": int(told) / 1024}


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60, help="that each is idle, and hears devices")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--alone", action="store_true", help="leave thingsboard-gateway out")
    parser.add_argument("--linger", type=int, default=SHIPPED.commit, help="ms that a commit waits")
    parser.add_argument("--deb", type=Path, help="a package of the agent")
    arguments = parser.parse_args()
    lingers = replace(SHIPPED, commit=arguments.linger)
    ours: list[Mapping[str, float]] = []
    theirs: list[Mapping[str, float]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)  # mosquitto drops its rights
        tools = compiled(folder / "tools")
        for run in range(arguments.runs):
            figures = agent(folder / f"agent-{run}", tools, arguments.seconds, lingers)
            ours.append({**figures, **package(arguments.deb)})
            if not arguments.alone:
                theirs.append(gateway(folder / f"gateway-{run}", tools, arguments.seconds))
    print(table(ROWS, ours, theirs))
    print("reference: thingsboard-gateway")


if __name__ == "__main__":
    main()
