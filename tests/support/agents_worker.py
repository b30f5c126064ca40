"""A venue whose high tier is worked by a process of its own, and that process.

with WorkedVenue(tmp_path) as venue:
venue.open()
worker = venue.new_worker()
worker.start()
toggle = venue.approved(PLUG, ActionName.TOGGLE)
"""

import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from typing_extensions import override

from edgeagent.contracts.actions import ActionName, Arguments
from edgeagent.ids import DeviceId
from edgeagent.issuer.commands import SignedCommand
from tests.support import warm
from tests.support.agents_keys import Keys
from tests.support.agents_venue import BROKER, NOTHING, Venue
from tests.support.brokers import wait_until
from tests.support.warm import WarmProcess

_DEADLINE: Final = 120.0


class WorkerProcess:
    """``edgeagent worker --lane high`` as a process.

    Attributes:
        log_path: where it logs, in all its lives.
    """

    def __init__(self, config: Path, log_path: Path) -> None:
        self._config = config
        self.log_path = log_path
        self._process: WarmProcess | None = None

    @property
    def log(self) -> str:
        """What it has logged."""
        return self.log_path.read_text("utf-8") if self.log_path.exists() else ""

    @property
    def pid(self) -> int:
        """Its process id; it is running."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, and return when it works."""
        words = ("edgeagent", "--config", str(self._config), "worker", "--lane", "high")
        before = self.log.count("worker started")
        with self.log_path.open("ab") as log:
            self._process = warm.start(warm.WORKER, words, stdout=log.fileno(), stderr=log.fileno())
        wait_until(lambda: self.log.count("worker started") > before, "the worker", within=_DEADLINE)

    def stops(self) -> None:
        """SIGSTOP: it stands still, with all that it holds."""
        self._send(signal.SIGSTOP)

    def goes_on(self) -> None:
        """SIGCONT."""
        self._send(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL."""
        self.end(signal.SIGKILL)

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """End it, by default in order.

        Returns:
            Its exit status.
        """
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(how)
        return process.wait(_DEADLINE)

    def _send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)


class WorkedVenue(Venue):
    """A venue whose reboots and toggles are of the high tier, which is worked outside."""

    def __init__(
        self,
        folder: Path,
        *,
        plugs: int = 1,
        terms: Mapping[str, object] | None = None,
        broker_options: tuple[str, ...] = BROKER,
    ) -> None:
        high = frozenset({ActionName.TOGGLE, ActionName.REBOOT})
        keys = Keys(high=high, terms=terms or {})
        super().__init__(folder, plugs=plugs, keys=keys, broker_options=broker_options)
        self._workers: list[WorkerProcess] = []

    def new_worker(self) -> WorkerProcess:
        """One more worker; it does not run yet."""
        log = self.folder / f"worker-{len(self._workers) + 1}.log"
        worker = WorkerProcess(self.agent.config, log)
        self._workers.append(worker)
        self._stack.callback(worker.kill)
        return worker

    def awaits_work(self) -> None:
        """Wait until a worker waits at the agent for a command."""
        wait_until(
            lambda: "waits for commands of the high tier" in self.agent.run("health").stdout,
            "a worker to wait for commands",
            within=_DEADLINE,
        )

    def approved(self, device: DeviceId, action: ActionName, arguments: Arguments = NOTHING) -> SignedCommand:
        """Sign a command, send it, and have somebody at the hub approve it."""
        signed = self.order(device, action, arguments)
        wait_until(lambda: self.approve(signed, device), "the approval", within=_DEADLINE)
        return signed

    def approve(self, order: SignedCommand, device: DeviceId) -> bool:
        """Have somebody at the hub approve a command; False if it has not come yet."""
        words = ("commands", "approve", order.command.id, device, "--yes")
        return self.agent.run(*words).returncode == 0

    @override
    def _sections(self) -> str:
        return f'{super()._sections()}[worker]\nhigh = "outside"\n'
