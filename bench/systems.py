"""What is measured: the agent, as it is installed, and the reference program beside it.

Both connect to a broker at ``broker_port``, take ``tele/+/data`` at QoS 1 and upload to ``cloud_port``.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from bench.native import Tools
from bench.processes import Watch
from edgeagent.cli.failing import AgentDownError
from edgeagent.ids import HubId
from tests.support.agents import ROOT, AgentProcess
from tests.support.brokers import wait_until

DEVICES: Final = 50
"""How many devices ``native/load.c`` plays."""
HUB: Final = HubId("bench")
"""The agent's hub."""
_PROFILE: Final = "flat-json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lingers:
    """How long readings wait for others, in milliseconds.

    Attributes:
        commit: for a commit.
        upload: for an upload.
        reference_commit: for a commit of the reference.
    """

    commit: int
    upload: int
    reference_commit: int


BUSY: Final = Lingers(commit=100, upload=0, reference_commit=20)
"""For full speed, where whatever waits waits for work and not for time."""
SHIPPED: Final = Lingers(commit=100, upload=1000, reference_commit=100)
"""The agent's defaults, and the same for the reference."""
EAGER: Final = Lingers(commit=100, upload=0, reference_commit=0)
"""The reference commits what is there, and waits for nothing more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a system runs.

    Attributes:
        folder: for its files.
        tools: the compiled instruments.
        broker_port: its broker.
        cloud_port: its cloud.
        token: by which the cloud knows it.
        lingers: how long it may wait.
    """

    folder: Path
    tools: Tools
    broker_port: int
    cloud_port: int
    token: str
    lingers: Lingers

    @property
    def counts(self) -> Path:
        """The file into which writes and syncs are counted."""
        return self.folder / "counts"

    @property
    def environment(self) -> dict[str, str]:
        """Has the process's writes and syncs counted, and its modules compiled once, as an installer does.

        Without compiled modules a start takes a second more and 2 MiB that never come back.
        """
        return {
            "LD_PRELOAD": str(self.tools.counter),
            "IOCOUNT_FILE": str(self.counts),
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": str(self.tools.counter.with_name("pycache")),
        }


class System(Protocol):
    """One of the two."""

    def launch(self) -> None:
        """Start it, and return at once."""
        ...

    def meet(self) -> None:
        """Make it know the devices, the first time that it runs."""
        ...

    def kill(self) -> None:
        """End it on the spot: SIGKILL."""
        ...

    def close(self) -> None:
        """End it and clear up."""
        ...

    @property
    def watch(self) -> Watch:
        """Its process."""
        ...


class AgentUnderTest:
    """The agent, with the profile that ``docs/profiles.md`` gives as an example.

    Args:
        place: where it runs.
        sections: further TOML of its configuration.
    """

    def __init__(self, place: Place, sections: str = "") -> None:
        folder = place.folder
        (folder / "profiles").mkdir(parents=True, exist_ok=True)
        (folder / "profiles" / f"{_PROFILE}.toml").write_text(_example_profile(), "utf-8")
        token = folder / "queue.token"
        token.touch(mode=0o600)
        token.write_text(place.token, "ascii")
        self._counts = place.counts
        self._process = AgentProcess(
            folder,
            f'[broker]\nhost = "127.0.0.1"\nport = {place.broker_port}\n'
            f'[cloud]\nurl = "http://127.0.0.1:{place.cloud_port}"\ntoken_file = "{token.name}"\n'
            f'[ingest]\ncommit_linger = "{place.lingers.commit}ms"\n'
            f'[uplink]\nlinger = "{place.lingers.upload}ms"\nlongest_backoff = "1s"\n'
            f'[profiles]\ndirectory = "profiles"\n{sections}',
            hub=HUB,
        )
        self._process.environment = place.environment

    def launch(self) -> None:
        """Start it, and return at once."""
        self._process.launch()

    def is_not_counted(self) -> None:
        """Start from now on without the counter: the file that it maps is written to a disk itself."""
        counting = {"LD_PRELOAD", "IOCOUNT_FILE"}
        told = self._process.environment
        self._process.environment = {name: told[name] for name in told.keys() - counting}

    def meet(self) -> None:
        """Admit every device."""
        self.answers()
        for number in range(DEVICES):
            self._process.admit_by_hand(f"dev-{number:02d}", _PROFILE)

    def meet_lamps(self, count: int) -> None:
        """Admit the lamps of ``bench.echo``, and wait until they are online."""
        self.answers()
        for number in range(count):
            self._process.admit_by_hand(f"lamp-{number:03d}", "tasmota", topic=f"lamp-{number:03d}")
        wait_until(lambda: all(lamp.online for lamp in self._process.devices().devices), "the lamps")

    def answers(self) -> None:
        """Wait until it answers and has its broker."""
        wait_until(self._is_there, "the agent to answer")
        self._process.wait_for_broker()

    def kill(self) -> None:
        """End it on the spot: SIGKILL."""
        self._process.kill()

    def close(self) -> None:
        """End it and clear up."""
        self._process.close()

    @property
    def watch(self) -> Watch:
        """Its process."""
        return Watch(self._process.pid, self._counts)

    def _is_there(self) -> bool:
        try:
            self._process.status()
        except AgentDownError:
            return False
        return True


class ReferenceUnderTest:
    """The reference program.

    Args:
        place: where it runs.
        words: of its command line, where they are not those of ``bench.reference``.
    """

    def __init__(self, place: Place, words: Sequence[str] = ()) -> None:
        place.folder.mkdir(parents=True, exist_ok=True)
        self._place = place
        self._words = words or (
            *("bench.reference", "--broker", str(place.broker_port), "--cloud", str(place.cloud_port)),
            *("--database", str(place.folder / "outbox.db")),
            *("--commit-linger", str(place.lingers.reference_commit / 1000)),
            *("--upload-linger", str(place.lingers.upload / 1000)),
        )
        self._process: subprocess.Popen[bytes] | None = None

    def launch(self) -> None:
        """Start it, and return at once."""
        place = self._place
        with (place.folder / "reference.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *self._words],
                cwd=ROOT,
                env={**os.environ, **place.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def meet(self) -> None:
        """Know nobody: it takes what comes."""

    def kill(self) -> None:
        """End it on the spot: SIGKILL."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.wait()

    def close(self) -> None:
        """End it and clear up."""
        self.kill()

    @property
    def watch(self) -> Watch:
        """Its process."""
        if self._process is None:
            raise RuntimeError("the reference does not run")
        return Watch(self._process.pid, self._place.counts)


def _example_profile() -> str:
    """The profile that the documentation gives as an example."""
    found = re.search(r"```toml\n(.*?)```", (ROOT / "docs" / "profiles.md").read_text("utf-8"), re.DOTALL)
    if found is None:
        raise RuntimeError("docs/profiles.md has no example")
    return found[1]
