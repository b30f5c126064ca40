"""A hub's own mosquitto: a folder like ``/etc/mosquitto``, the process that serves it, and how it is told.

It is the installed mosquitto, started on a main file like Debian's; ``reload`` and ``restart`` are what
systemd would do.
"""

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from edgeagent.errors import TransientError
from tests.support.brokers import HOST, BrokerProcess, free_port
from tests.support.private import write_private

# Without a listener of its own it takes port 1883, which is everybody's.
MAIN: Final = """\
persistence true
persistence_location {folder}/lib/
log_type all
listener {spare} {host}
include_dir {folder}/conf.d
"""


class OwnBroker:
    """Implements ``setup.broker.service.BrokerService`` for a process of the test's own.

    Args:
        folder: where its configuration lies.
        state_dir: of the hub.
        more: further keys of ``[broker.managed]``, as TOML.

    Attributes:
        reloads: how often it was told to read its files anew.
        restarts: how often it was started.
    """

    def __init__(self, folder: Path, state_dir: Path, more: str = "") -> None:
        self.folder = folder
        self.agent_port, self.port = free_port(), free_port()
        self.reloads = self.restarts = 0
        self._process: BrokerProcess | None = None
        self._state_dir = state_dir
        self._more = more
        (folder / "conf.d").mkdir(parents=True)
        (folder / "lib").mkdir()
        (folder / "lib").chmod(0o777)
        # Below a folder of root's alone it could not read as its own user; /etc is open to all.
        user = "user root\n" if os.geteuid() == 0 else ""
        self.main.write_text(user + MAIN.format(folder=folder, spare=free_port(), host=HOST), "utf-8")

    @property
    def main(self) -> Path:
        """What it is started with."""
        return self.folder / "mosquitto.conf"

    @property
    def log(self) -> str:
        """What it has said since its last start."""
        return "" if self._process is None else self._process.log

    @property
    def sections(self) -> str:
        """The part of the hub's configuration that asks for it."""
        return (
            f'[broker]\nport = {self.agent_port}\nusername = "edgeagent"\n'
            'password_file = "broker-password"\n\n'
            f'[broker.managed]\nlisten = "{HOST}:{self.port}"\nfolder = "{self.folder}"\n{self._more}'
        )

    def configure(self, path: Path) -> Path:
        """Write a hub's configuration with it."""
        hub = f'[hub]\nid = "venue-7"\nstate_dir = "{self._state_dir}"\nrun_dir = "{self._state_dir}"\n\n'
        write_private(path, hub + self.sections)
        return path

    def files(self) -> Mapping[str, bytes]:
        """All that lies in its folder, but for what it writes itself."""
        return {
            str(path.relative_to(self.folder)): path.read_bytes()
            for path in sorted(self.folder.rglob("*"))
            if path.is_file() and path.parent.name != "lib"
        }

    def reload(self) -> None:
        """SIGHUP."""
        if self._process is None or not self._process.alive:
            raise TransientError("it does not run")
        self.reloads += 1
        seen = self.log.count("Reloading config")
        self._process.send(signal.SIGHUP)
        assert self._process.wait_until(lambda log: log.count("Reloading config") > seen)

    def restart(self) -> None:
        """SIGTERM if it runs, and a start."""
        self.stop()
        self.restarts += 1
        self._process = BrokerProcess(["mosquitto", "-c", str(self.main)])
        if not self._process.wait_for("running"):
            raise TransientError(f"mosquitto does not start: {self.log}")

    def stop(self) -> None:
        """SIGTERM."""
        if self._process is not None:
            self._process.end(signal.SIGTERM)
            self._process = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, why: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
