"""The real agent as a process of its own: started, killed, stopped, asked, judged by its files.

    agent = AgentProcess(tmp_path / "hub", configuration)
    agent.start()            # returns once the admin socket answers
    agent.kill()             # SIGKILL, as the out-of-memory killer does
    agent.start()            # the same state
    agent.stop()             # SIGTERM; its exit status

It is asked the way an operator asks: over its admin socket or by the command line. The program under test
is ``python -m edgeagent``, or, to die at a named point, ``tests.support.crash_agent`` around the same
``run_agent``. It is forked from a process that has read its modules (``tests.support.warm``).
"""

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Final, TypeVar

from pydantic import JsonValue

from edgeagent.cli.asking import Agent
from edgeagent.cli.failing import AgentDownError
from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.door import Contract
from edgeagent.contracts.reports.approvals import ApprovalReport, ApproveRequest
from edgeagent.contracts.reports.commands import SendReport, SendRequest
from edgeagent.contracts.reports.devices import AdmitRequest, DeviceReport, DevicesReport
from edgeagent.contracts.reports.status import OutboxReport, StatusReport
from edgeagent.ids import CommandId, DeviceId, Digest, Label
from edgeagent.ports.crash import CrashPoint
from tests.support import warm
from tests.support.brokers import wait_until
from tests.support.fetch_unit import FetchUnit
from tests.support.warm import WarmProcess

ROOT: Final = Path(__file__).parents[2]
"""The checkout; processes are started here, so that they find the packages."""

_DEADLINE: Final = 120.0
C = TypeVar("C", bound=Contract)


class AgentProcess:
    """One hub's agent.

    Args:
        folder: where its configuration and state lie.
        sections: TOML of everything but ``[hub]``, ``[web]`` and ``[log]``.
        hub: its id.
        state_dir: its state, if that is to lie on another file system.

    Attributes:
        environment: variables that are added to this process's own; a test's, for the recorder. With any, it
            starts from nothing.
        state_dir: the folder of its database.
    """

    def __init__(
        self, folder: Path, sections: str, *, hub: str = "venue-7", state_dir: Path | None = None
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.environment: dict[str, str] = {}
        self.state_dir = state_dir or folder / "state"
        # Not below the test's own folder: the path of a Unix socket has at most 107 bytes (unix(7)).
        self._run_dir = tempfile.TemporaryDirectory(prefix="edgeagent-")
        self._process: subprocess.Popen[bytes] | WarmProcess | None = None
        self._beside = ExitStack()
        self.config.write_text(
            f'[hub]\nid = "{hub}"\nstate_dir = "{self.state_dir}"\nrun_dir = "{self._run_dir.name}"\n'
            f'[web]\nlisten = "127.0.0.1:0"\n[log]\nlevel = "info"\n{sections}'
        )

    def has_fetching_unit(self) -> None:
        """Have a unit fetch for it, in the place of children of its own; before its start."""
        unit = FetchUnit(Path(self._run_dir.name) / "fetch.sock")
        self._beside.enter_context(unit)
        with self.config.open("a") as config:
            config.write(unit.section)

    @property
    def config(self) -> Path:
        """Its configuration file."""
        return self.folder / "config.toml"

    @property
    def database(self) -> Path:
        """Its database."""
        return self.state_dir / "hub.db"

    @property
    def socket(self) -> Path:
        """Its operator's door."""
        return Path(self._run_dir.name) / "admin.sock"

    @property
    def log(self) -> str:
        """What it has logged in all its lives."""
        path = self.folder / "agent.log"
        return path.read_text("utf-8") if path.exists() else ""

    @property
    def pid(self) -> int:
        """Its process id; it is running."""
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.poll() is None

    def has_open(self, name: str) -> bool:
        """Whether it runs and has a file of its state open."""
        if not self.alive:
            return False
        try:
            handles = list(Path(f"/proc/{self.pid}/fd").iterdir())
        except OSError:  # ended while we looked
            return False
        return any(_target(handle).name == name for handle in handles)

    def start(self, *, crash: tuple[CrashPoint, int] | None = None, from_nothing: bool = False) -> None:
        """Start it, and return once it answers its operator.

        Args:
            crash: have it kill itself at this passing of this point.
            from_nothing: as a program of its own, where the process itself is looked at.
        """
        self.launch(crash=crash, from_nothing=from_nothing)
        self.wait_for_answer()

    def wait_for_answer(self) -> None:
        """Wait until it answers its operator."""
        wait_until(self._answers, "the agent's admin socket", within=_DEADLINE)

    def launch(self, *, crash: tuple[CrashPoint, int] | None = None, from_nothing: bool = False) -> None:
        """Start it, and return at once."""
        program = ["edgeagent", "--config", str(self.config), "run"]
        if crash is not None:
            point, nth = crash
            program = ["tests.support.crash_agent", str(self.config), point, str(nth)]
        with (self.folder / "agent.log").open("ab") as log:
            if not from_nothing and not self.environment:
                self._process = warm.start(warm.AGENT, program, stdout=log.fileno(), stderr=log.fileno())
                return
            self._process = subprocess.Popen(
                [sys.executable, "-m", *program],
                cwd=ROOT,
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def stops(self) -> None:
        """SIGSTOP: it stands still; what a thread of it has asked the kernel for goes on."""
        os.kill(self.pid, signal.SIGSTOP)
        wait_until(lambda: _stands_still(Path("/proc", str(self.pid))), "the agent to stand still")

    def stops_between_calls(self) -> None:
        """SIGSTOP, and wait until the kernel has done what any thread has asked it for."""
        self.stops()
        threads = Path(f"/proc/{self.pid}/task")
        wait_until(lambda: all(map(_stands_still, threads.iterdir())), "the agent's threads to stand still")

    def goes_on(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """End it on the spot: SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Ask it to end: SIGTERM.

        Returns:
            Its exit status.
        """
        return self._end(signal.SIGTERM)

    def wait_for_end(self) -> int:
        """Wait until it has ended by itself.

        Returns:
            Its exit status; minus the number of the signal that ended it.
        """
        assert self._process is not None
        status = self._process.wait(_DEADLINE)
        self._process = None
        return status

    def close(self) -> None:
        """End it, and take its run directory away."""
        self.kill()
        self._beside.close()
        self._run_dir.cleanup()

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run ``edgeagent`` with its configuration, as people at the hub do, and let it end."""
        program = ["edgeagent", "--config", str(self.config), *words]
        return warm.run(warm.WORDS, program, within=_DEADLINE)

    def status(self) -> StatusReport:
        """The hub at a glance."""
        return self._get("/v1/status", StatusReport)

    def outbox(self) -> OutboxReport:
        """How much waits for the cloud."""
        return self._get("/v1/outbox", OutboxReport)

    def devices(self) -> DevicesReport:
        """The admitted devices and those that wait."""
        return self._get("/v1/devices", DevicesReport)

    def device(self, device: str) -> DeviceReport:
        """One device."""
        return self._get(f"/v1/devices/{device}", DeviceReport)

    def admit(self, device: str) -> DeviceReport:
        """Take a device in that has shown itself."""
        wait_until(
            lambda: device in {proposal.device for proposal in self.devices().proposals},
            f"{device} to show itself",
        )
        return self._agent.post(
            "/v1/devices", AdmitRequest(device=DeviceId(device)), DeviceReport, patience=_DEADLINE
        )

    def admit_by_hand(self, device: str, profile: str, **parameters: JsonValue) -> DeviceReport:
        """Take a device in of which nothing was heard yet."""
        request = AdmitRequest(
            device=DeviceId(device), label=Label(device), profile=profile, parameters=parameters
        )
        return self._agent.post("/v1/devices", request, DeviceReport, patience=_DEADLINE)

    def send(self, device: str, action: ActionName, *, wait: timedelta = timedelta(seconds=30)) -> SendReport:
        """Have the hub's own operator do something, and wait for its end."""
        request = SendRequest(device=DeviceId(device), action=action, wait=wait)
        return self._agent.post("/v1/commands", request, SendReport, patience=_DEADLINE + _DEADLINE)

    def approve(self, command: CommandId, device: str, sha256: Digest) -> ApprovalReport:
        """Have somebody at the hub agree to a command for one of its devices."""
        request = ApproveRequest(sha256=sha256, device=DeviceId(device))
        return self._agent.post(
            f"/v1/commands/{command}/approve", request, ApprovalReport, patience=_DEADLINE
        )

    def wait_for_broker(self) -> None:
        """Wait until both connections to the broker stand."""
        wait_until(
            lambda: all(link.connected for link in self.status().broker.values()),
            "the agent's connections to the broker",
        )

    @property
    def _agent(self) -> Agent:
        return Agent(self.socket)

    def _get(self, path: str, answer: type[C]) -> C:
        return self._agent.get(path, answer, patience=_DEADLINE)

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(f"the agent does not start:\n{self.log}")
        try:
            self.status()
        except AgentDownError:
            return False
        return True

    def _end(self, how: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(how)
        return process.wait(_DEADLINE)


def _target(handle: Path) -> Path:
    try:
        return handle.readlink()
    except OSError:  # closed while we looked
        return Path()


def _stands_still(task: Path) -> bool:
    """Whether a thread is stopped by a signal; its state follows its name in brackets (proc_pid_stat(5))."""
    try:
        return task.joinpath("stat").read_text("utf-8").rpartition(")")[2].split()[0] == "T"
    except OSError:  # ended while we looked
        return True
