"""Real brokers on free loopback ports: mosquitto, and iotcore as a second opinion.

    with Mosquitto(tmp_path) as broker:
        ...                # broker.host, broker.port
        broker.stop()      # SIGTERM: keeps its sessions on disk
        broker.start()     # the same port and sessions

Each runs as a process of its own in a folder of its own; only that process is ever signalled.
"""

import itertools
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from typing_extensions import override

HOST: Final = "127.0.0.1"
_DEADLINE: Final = 120.0
_AGAIN: Final = 2.0
_PORTS: Final = range(12_000, 28_000)
"""Below the range from which the kernel gives ports to clients, and those of ``firmware_sim``."""


def _ours() -> Iterator[int]:
    """Ports in turn that no other process of these tests is given (pytest-xdist names each and their count).

    One that was free a moment ago and is not listened on yet, or no more for a while, stays whose it is.
    """
    place = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    ours = _PORTS[place :: int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))]
    # Who runs tests twice at a time on one machine is not to meet either.
    begin = random.randrange(len(ours))  # noqa: S311 - not a secret
    return itertools.cycle([*ours[begin:], *ours[:begin]])


_TURNS: Final = _ours()


def free_port() -> int:
    """A loopback port that nobody listens on, nor is given to anybody else."""
    while True:
        port = next(_TURNS)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port


def wait_until(
    condition: Callable[[], bool], what: str, *, within: float = _DEADLINE, longest_step: float = 0.1
) -> None:
    """Wait for a condition of another process, which is looked at again after some steps of time.

    Raises:
        TimeoutError: it did not come true in time.
    """
    began = time.monotonic()
    while not condition():
        waited = time.monotonic() - began
        if waited > within:
            raise TimeoutError(f"waited in vain for {what}")
        # Who looks all the time takes the processors from those who are waited for.
        time.sleep(min(max(0.01, waited / 20), longest_step))


class BrokerProcess:
    """A broker's process and what it prints."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self._lines: list[str] = []
        self._told = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def log(self) -> str:
        """All that it has printed."""
        with self._told:
            return "".join(self._lines)

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    def wait_for(self, text: str, *, within: float = _DEADLINE) -> bool:
        """Wait until it has printed ``text``; False when it has ended without."""
        return self.wait_until(lambda log: text in log, within=within)

    def wait_until(self, told: Callable[[str], bool], *, within: float = _DEADLINE) -> bool:
        """Wait until what it has printed is so; False when it has ended without."""
        with self._told:
            found = self._told.wait_for(lambda: told("".join(self._lines)) or not self.alive, within)
            return found and told("".join(self._lines))

    def send(self, what: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(what)

    def end(self, how: signal.Signals) -> None:
        """Signal it and wait until it is gone.

        A mosquitto that has just said that it runs forgets a signal that comes before its loop does: it is
        signalled again.
        """
        deadline = time.monotonic() + _DEADLINE
        while self.alive:
            self._process.send_signal(how)
            try:
                self._process.wait(_AGAIN)
            except subprocess.TimeoutExpired:
                if time.monotonic() > deadline:
                    raise
        self._reader.join(_DEADLINE)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._told:
                self._lines.append(line)
                self._told.notify_all()
        self._process.wait()
        with self._told:
            self._told.notify_all()


class _Broker:
    """What both brokers have in common."""

    host: Final = HOST

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.port = free_port()
        self._process: BrokerProcess | None = None
        self._log = ""

    @property
    def log(self) -> str:
        """What it has printed, over all its starts."""
        return self._log + (self._process.log if self._process is not None else "")

    def start(self) -> None:
        """Start it, and return once it listens."""
        raise NotImplementedError

    def stop(self) -> None:
        """Ask it to end (SIGTERM); mosquitto writes its sessions down."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it on the spot (SIGKILL)."""
        self._end(signal.SIGKILL)

    def wait_for_log(self, text: str, *, within: float = _DEADLINE) -> None:
        """Wait until it has printed ``text`` since its last start."""
        assert self._process is not None
        assert self._process.wait_for(text, within=within), self.log

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, why: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.end(how)
            self._log = self.log
            self._process = None


class Mosquitto(_Broker):
    """mosquitto, with persistence.

    Args:
        folder: for its configuration and database.
        options: lines of its configuration, after the listener's line.
        anonymous: whether clients may come without a name.
    """

    def __init__(self, folder: Path, *, options: Sequence[str] = (), anonymous: bool = True) -> None:
        super().__init__(folder)
        self.options = list(options)
        self._anonymous = anonymous

    @property
    def configuration(self) -> Path:
        """Its configuration file."""
        return self.folder / "mosquitto.conf"

    @override
    def start(self) -> None:
        """Start it, and return once it listens."""
        for _ in range(5):
            self._write_configuration()
            self._process = BrokerProcess(["mosquitto", "-c", str(self.configuration)])
            if self._process.wait_for("running"):
                return
            self._end(signal.SIGKILL)
            if "in use" not in self._log:
                break
            self.port = free_port()
        raise RuntimeError(f"mosquitto does not start:\n{self._log}")

    def _write_configuration(self) -> None:
        lines = [
            # As root it would become a user who may not write here.
            *(["user root"] if os.geteuid() == 0 else []),
            "persistence true",
            f"persistence_location {self.folder}/",
            "log_type all",
            "sys_interval 1",
            f"listener {self.port} {self.host}",
            f"allow_anonymous {str(self._anonymous).lower()}",
            *self.options,
        ]
        self.configuration.write_text("\n".join(lines) + "\n", encoding="utf-8")


class Iotcore(_Broker):
    """iotcore: MQTT 5 on ``port``, MQTT 3.1.1 on ``port_v4``; sessions in memory only."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.port_v4 = free_port()

    @override
    def start(self) -> None:
        """Start it, and return once it listens."""
        configuration = self.folder / "iotcore.toml"
        configuration.write_text(
            _IOTCORE.format(host=self.host, port=self.port, port_v4=self.port_v4), encoding="utf-8"
        )
        self._process = BrokerProcess([sys.executable, "-m", "iotcore", "--config", str(configuration)])
        wait_until(lambda: _listens(self.port) and _listens(self.port_v4), "iotcore")


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


_IOTCORE: Final = """
id = 0
[router]
id = 0
max_connections = 100
max_outgoing_packet_count = 200
max_segment_size = 104857600
max_segment_count = 10
[v5.1]
name = "v5"
listen = "{host}:{port}"
next_connection_delay_ms = 1
[v5.1.connections]
connection_timeout_ms = 60000
max_payload_size = 1048576
max_inflight_count = 500
dynamic_filters = true
[v4.1]
name = "v4"
listen = "{host}:{port_v4}"
next_connection_delay_ms = 1
[v4.1.connections]
connection_timeout_ms = 60000
max_payload_size = 1048576
max_inflight_count = 500
dynamic_filters = true
"""
