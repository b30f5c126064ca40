"""A venue in one machine: the package installed from its file, a cloud, appliances, all as systemd runs them.

The cloud (``edgeagent issuer serve`` with its own authority) and the appliances (``firmware_sim``) are units
of the machine too, since it has no network but its loopback. What is typed is what the pages of docs/ say.
"""

import json
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import libfaketime

from edgeagent.issuer.authority import AuthorityFolder
from tests.support.containers import Container, booted, debian
from tests.support.packages import package
from tests.support.private import write_private

ROOT: Final = Path(__file__).parents[2]
HUB: Final = "venue-7"
CLOUD: Final = "/srv/cloud"
ADDRESS: Final = "203.0.113.1"
"""Where the cloud is: not on loopback, which is shut to what fetches; known there alone (RFC 5737)."""
QUEUE: Final = "https://cloud.example:8443"
RELAY: Final = "shellyplugsg3-02aabbcc0002"
"""The other appliance."""
_FAKETIME: Final = "/opt/faketime"
_PATIENCE: Final = 120.0
_STEP: Final = 0.3
_POLICY: Final = """
version = 1
valid_for = "365d"

[keys]
desk = "keys/desk.pem.pub"
clock = "keys/clock.pem.pub"

[roles.desk]
kind = "command"
keys = ["desk"]
actions = "*"
devices = "*"

[roles.staff]
kind = "local_operator"
hubs = ["venue-7"]
actions = ["power"]
devices = "*"

[roles.clock]
kind = "time"
keys = ["clock"]

[actions.power]
tier = "low"
"""
_UNIT: Final = """
[Unit]
After=mosquitto.service
[Service]
ExecStartPre=+/usr/sbin/ip address replace {address}/32 dev lo
WorkingDirectory={folder}
ExecStart={command}
Restart=always
RestartSec=1
Environment=PYTHONPATH=/opt/sim:/opt/edgeagent/lib PYTHONDONTWRITEBYTECODE=1
StandardInput=null
[Install]
WantedBy=multi-user.target
"""
_APPLIANCES: Final = {
    "appliance": [
        {"model": "tasmota-plug", "mac": "02AABBCC0001"},
        {"model": "shelly-plug", "mac": "02AABBCC0002"},
    ]
}
PLUG: Final = "02AABBCC0001"
"""The appliance that is told to do things."""
_BEGINNING: Final = """
umask 077
edgeagent issuer init venue --policy policy.toml --passphrase-file secret
edgeagent issuer ca init --passphrase-file secret
edgeagent issuer ca server cloud.example
edgeagent issuer token new backend issuer --tokens tokens.toml > backend.token
"""


@dataclass(frozen=True, slots=True)
class InstalledVenue:
    """A machine with the package, and around it a cloud and two appliances."""

    machine: Container

    def begin(self) -> None:
        """Install, and have cloud and appliances run."""
        self.machine.run("sh", "-c", "apt-get install --yes /media/package/*.deb")
        with self.machine.inside("/etc/hosts").open("a") as hosts:
            hosts.write(f"{ADDRESS} cloud.example\n")
        cloud = self.machine.inside(CLOUD)
        cloud.mkdir()
        (cloud / "policy.toml").write_text(_POLICY)
        write_private(cloud / "secret", "correct horse battery")
        (cloud / "appliances.json").write_text(json.dumps(_APPLIANCES))
        self.machine.run("sh", "-ec", f"cd {CLOUD}; {_BEGINNING}")
        self._unit(
            "cloud",
            f"/opt/edgeagent/bin/edgeagent issuer serve --listen {ADDRESS}:8443 --database queue.db "
            "--tokens tokens.toml --time-key keys/clock.pem --repository venue/repository --ca ca",
        )
        self._unit(
            "appliances",
            "/usr/bin/python3 -m firmware_sim --broker 127.0.0.1:1883 --specifications appliances.json "
            "--journal journal.jsonl --period 500ms",
        )

    def _unit(self, name: str, command: str) -> None:
        unit = self.machine.inside(f"/etc/systemd/system/{name}.service")
        unit.write_text(_UNIT.format(folder=CLOUD, command=command, address=ADDRESS))
        self.machine.run("systemctl", "enable", "--now", name)

    def issuer(self, *words: str, says: str = "") -> str:
        """What whoever issues commands types, at the queue, until it says that; what it says."""
        queue = f"--queue {QUEUE} --token-file backend.token --ca-file ca/root.pem"
        line = f"cd {CLOUD}; edgeagent issuer {' '.join(words)} {queue}"
        return self.machine.eventually("sh", "-ec", line, says=says)

    def is_known(self) -> None:
        """Wait until the cloud knows the hub's present epoch, for which commands are signed."""
        epoch = json.loads(self.machine.run("edgeagent", "status", "--json").stdout)["epoch"]
        self.issuer("hub", "show", HUB, says=epoch)

    def set_up(self) -> str:
        """Make the machine a hub by a claim code, as its technician does; what that says."""
        root = "venue/repository/metadata/1.root.json"
        code = self.issuer("claim", "new", HUB, "--zone", "Europe/Berlin", "--root", root)
        words = ("edgeagent", "setup", "--claim", "-", "--broker", "guest", "--yes")
        return self.machine.run(*words, given=code).stdout

    def switches(self, on: str) -> None:
        """Have the cloud switch the plug, and wait until it is done."""
        signed = f"edgeagent issuer command sign {PLUG} power on={on} --key keys/desk.pem --hub {HUB}"
        queue = f"--queue {QUEUE} --token-file backend.token --ca-file ca/root.pem"
        self.machine.run("sh", "-ec", f"cd {CLOUD}; {signed} {queue} > command.json")
        command = self.issuer("command", "send", "command.json").split()[0]
        self.issuer("watch", HUB, command)

    def effects(self) -> int:
        """How often the plug was told to switch, by its own word."""
        journal = self.machine.inside(f"{CLOUD}/journal.jsonl").read_text().splitlines()
        return sum("/POWER" in line.upper() and '"what":"heard"' in line for line in journal)

    def health(self) -> Mapping[str, tuple[str, str]]:
        """Of each check its level and what it says, with what to do."""
        report = json.loads(self.machine.run("edgeagent", "health", "--json", check=False).stdout)
        return {
            check["name"]: (check["level"], f"{check['summary']}; next: {check['advice']}")
            for check in report["checks"]
        }

    def sees(self, check: str, level: str, words: str = "") -> None:
        """Wait until health says this of a check.

        Raises:
            TimeoutError: it does not; with what it says.
        """
        end = time.monotonic() + _PATIENCE
        while (seen := self.health().get(check, ("missing", "")))[0] != level or words not in seen[1]:
            if time.monotonic() > end:
                raise TimeoutError(f"{check} is to be {level} with {words!r}, and is {seen}")
            time.sleep(_STEP)

    def is_well(self) -> None:
        """Wait until health has nothing to say.

        Raises:
            TimeoutError: it has.
        """
        end = time.monotonic() + _PATIENCE
        while wrong := {name: seen for name, seen in self.health().items() if seen[0] != "ok"}:
            if time.monotonic() > end:
                raise TimeoutError(str(wrong))
            time.sleep(_STEP)

    def clock_of_the_agent(self, to: str | None) -> None:
        """Start the agent anew with a clock that stands there; None for the machine's own."""
        folder = self.machine.inside("/etc/systemd/system/edgeagent.service.d")
        if to is None:
            shutil.rmtree(folder)
        else:
            folder.mkdir()
            (folder / "clock.conf").write_text(
                f"[Service]\nExecPaths={_FAKETIME}\n"
                f"Environment=LD_PRELOAD={_FAKETIME}/libfaketime.so.1 DONT_FAKE_MONOTONIC=1\n"
                f"Environment='FAKETIME=@{to}'\n"
            )
        self.machine.run("systemctl", "daemon-reload")
        self.machine.run("systemctl", "restart", "edgeagent")

    def certify_cloud(self, lifetime: timedelta) -> None:
        """Have the queue show another certificate, that ends so long from now."""
        AuthorityFolder(self.machine.inside(f"{CLOUD}/ca")).certify_server(
            ["cloud.example"], datetime.now(UTC), lifetime
        )


@contextmanager
def installed_venue(folder: Path) -> Iterator[InstalledVenue]:
    """A venue whose hub is installed, and not set up yet."""
    faketime = Path(libfaketime.__file__).parent / "vendor" / "libfaketime" / "src"
    binds = {
        package().parent: "/media/package",
        ROOT / "firmware_sim": "/opt/sim/firmware_sim",
        faketime: _FAKETIME,
    }
    with booted(debian(), folder, binds=binds, volumes={"/var/lib/edgeagent": 400}) as machine:
        venue = InstalledVenue(machine)
        venue.begin()
        yield venue
