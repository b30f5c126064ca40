"""A venue whose appliances are updated: an issuer's repository beside queue, broker, agent and worker.

with UpdatingVenue(tmp_path, appliances=[...], images=[Released(...)]) as venue:
    venue.opens("02A1B2000001")
    order = venue.installs("02A1B2000001", "plug-14.2.0")
    assert venue.end_of(order).outcome is Outcome.SUCCEEDED
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from pydantic import JsonValue
from typing_extensions import override

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.door import decode
from edgeagent.contracts.reports.artifacts import ArtifactsShown
from edgeagent.ids import ArtifactId, DeviceId, Digest
from edgeagent.issuer.commands import SignedCommand
from firmware_sim.fields import Json
from tests.cli.building import typed
from tests.firmware_sim.process import FleetProcess
from tests.support.agents_venue import BROKER
from tests.support.agents_worker import WorkedVenue
from tests.support.brokers import free_port, wait_until
from tests.support.private import write_private
from tests.support.stores import query

_PATIENCE: Final = 120.0
_POLICY: Final = """
version = {version}
hubs = "*"
valid_for = "30d"

[keys]
desk = "{desk}"
clock = "{clock}"

[roles.operators]
kind = "command"
keys = ["desk"]
actions = "*"
devices = "*"

[roles.clocks]
kind = "time"
keys = ["clock"]

[roles.staff]
kind = "local_operator"
hubs = ["venue-7"]
actions = "*"
devices = "*"

[actions.install]
tier = "high"
approvals = {{ at_hub = true }}

[actions.power]
tier = "low"

[firmware]
soak = "{soak}"
patience = "{patience}"
{rule}

[tiers.high]
concurrency = 16
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """An image that is signed for and approved.

    Attributes:
        name: its id.
        image: its bytes.
        family: the profile of the devices that it is for.
        version: what they tell once it runs.
        floor: the earliest version that may be installed from now on; empty for any.
    """

    name: str
    image: bytes
    family: str
    version: str
    floor: str = ""

    @property
    def digest(self) -> Digest:
        """The sha256 of its bytes."""
        return Digest(sha256(self.image).hexdigest())


class UpdatingVenue(WorkedVenue):
    """See the module's docstring. Entering starts all but the agent and its worker.

    Args:
        folder: for all files.
        appliances: as ``firmware_sim`` takes them.
        images: what may be installed.
        faults: of the appliances, as ``firmware_sim`` takes them.
        maker: the public key of whoever signs images.
        soak: how long a version has to stay.
        patience: how long an update may take.
        retry: how long an appliance waits before it tries a download again.
        broker_options: lines of mosquitto's configuration.
        rule: further lines of the policy's section ``firmware``.
        source: where the agent finds what the issuer publishes; the issuer's own folder if absent.
        refresh: how often it looks there after its start. Each look is a process that fetches.

    Attributes:
        worker: the worker.
        repository: what the issuer publishes.
        files_port: where the agent serves files.
    """

    def __init__(
        self,
        folder: Path,
        *,
        appliances: Sequence[dict[str, JsonValue]],
        images: Sequence[Released],
        faults: Sequence[dict[str, JsonValue]] = (),
        maker: bytes | None = None,
        soak: str = "2s",
        patience: str = "40s",
        retry: str = "200ms",
        broker_options: tuple[str, ...] = BROKER,
        rule: str = "",
        source: str | None = None,
        refresh: str = "1h",
    ) -> None:
        artifacts = {ArtifactId(each.name): frozenset({each.digest}) for each in images}
        super().__init__(folder, terms={"artifacts": artifacts}, broker_options=broker_options)
        self._appliances = list(appliances)
        self._images = {each.name: each for each in images}
        self._faults = list(faults)
        self._maker = maker
        self._soak = soak
        self._patience = patience
        self._retry = retry
        self._rule = rule
        self.repository = folder / "issuer" / "repository"
        self._source = source or str(self.repository)
        self._refresh = refresh
        # One that stays, so that a device may go on fetching from an agent that has started anew.
        self.files_port = free_port()

    @override
    def open(self) -> None:
        """Start agent and worker, and admit every appliance that shows itself."""
        self.agent.has_fetching_unit()
        self.agent.start()
        self.worker = self.new_worker()
        self.worker.start()
        self.agent.wait_for_broker()
        self.knows()

    def opens(self, *devices: str) -> None:
        """Start agent and worker, and admit these."""
        self.open()
        for device in devices:
            # What is told of these when they come is kept by nobody for who comes later.
            if device.startswith("shellyplug"):
                self.agent.admit_by_hand(device, "shelly-gen2", switches=[0])
            elif device.startswith("display-"):
                self.agent.admit_by_hand(device, "url-update", topic=f"display/{device}")
            else:
                self.agent.admit(device)
        wait_until(lambda: all(self.agent.device(device).online for device in devices), "the devices")
        wait_until(lambda: self.cloud.has_heard, "the hub's hello at the cloud")

    def knows(self) -> None:
        """Wait until the agent would install all of the images."""

        def released() -> bool:
            said = self.agent.run("artifacts", "list", "--json").stdout
            known = decode(ArtifactsShown, said.encode(), limit=1_000_000)
            return set(self._images) <= {
                one.artifact for one in known.artifacts if one.standing == "released"
            }

        wait_until(released, "the agent to know the files", within=_PATIENCE)

    def installs(self, device: str, name: str) -> SignedCommand:
        """Order an update, and have somebody at the hub approve it."""
        arguments = {"artifact": name, "digest": str(self._images[name].digest)}
        return self.approved(DeviceId(device), ActionName.INSTALL, arguments)

    def stages(self, order: SignedCommand) -> list[str]:
        """The stages of an update, oldest first."""
        rows = query(
            self.agent.database,
            "SELECT subject, detail FROM audit WHERE kind IN ('update_moved', 'step_sent') ORDER BY number",
        )
        told = [json.loads(str(detail))["stage"] for subject, detail in rows if subject == order.command.id]
        return [stage for number, stage in enumerate(told) if not number or told[number - 1] != stage]

    def runs(self, device: str) -> object:
        """The version that truly runs on an appliance with one flash."""
        state: Json = self.fleet.state(device)
        for name in ("flash", "flash", "running", "version"):
            assert isinstance(state, Mapping)
            state = state[name]
        return state

    @override
    def plug_in(self) -> None:
        """Let the appliances come, and wait until they listen."""
        specifications, faults = self.folder / "appliances.json", self.folder / "faults.json"
        specifications.write_text(json.dumps({"appliance": self._appliances}))
        faults.write_text(json.dumps({"fault": self._faults}))
        words = [
            *("--broker", f"{self.broker.host}:{self.broker.port}"),
            *("--specifications", str(specifications), "--journal", str(self._journal_path)),
            *("--period", "1h", "--transfer", "200ms", "--retry", self._retry),
        ]
        if self._faults:
            words += ["--faults", str(faults)]
        if self._maker is not None:
            (self.folder / "maker.pub").write_text(self._maker.hex())
            words += ["--maker", str(self.folder / "maker.pub")]
        self.fleet = FleetProcess(words)
        self.fleet.until_ready()

    @override
    def _sections(self) -> str:
        root = self.folder / "hub" / "root.json"
        lines = super()._sections().splitlines()
        kept = [line for line in lines if not line.startswith(("[policy]", "file = ", "signer = "))]
        self._publish()
        root.write_bytes((self.repository / "metadata/1.root.json").read_bytes())
        policy = f'[policy]\nsource = "{self._source}"\nroot = "{root.name}"\nrefresh = "{self._refresh}"\n'
        firmware = f'[firmware]\nlisten = "127.0.0.1:{self.files_port}"\n'
        return "\n".join(kept) + "\n" + policy + firmware

    def rules(self, rule: str) -> None:
        """Publish other lines of the policy's section, and wait until the agent goes by them."""
        version = self.agent.status().policy.version
        assert version is not None
        listed = "".join(f'"{each.name}" = ["{each.digest}"]\n' for each in self._images.values())
        policy = self._written(version + 1, rule, f"[artifacts]\n{listed}")
        self._types("policy", "publish", str(policy), "--folder", str(self.folder / "issuer"))
        wait_until(lambda: self.agent.status().policy.version == version + 1, "the policy", within=_PATIENCE)

    def _written(self, version: int, rule: str, more: str = "") -> Path:
        """The policy as the issuer writes it."""
        policy = self.folder / "policy.toml"
        keys = {"desk": self.keys.desk.public.hex(), "clock": self.keys.time.public.hex()}
        times = {"soak": self._soak, "patience": self._patience}
        policy.write_text(_POLICY.format(**keys, **times, version=version, rule=rule) + more)
        return policy

    def _publish(self) -> None:
        """Make the issuer's repository, with all images."""
        venue = self.folder / "issuer"
        write_private(self.folder / "passphrase", "correct horse battery\n")
        self._types("init", str(venue), "--policy", str(self._written(1, self._rule)))
        groups = {each.family.partition("-")[0]: each.family for each in self._images.values()}
        for group, family in sorted(groups.items()):
            self._types("artifact", "role", "add", group, "--for", family, "--folder", str(venue))
        for each in self._images.values():
            file = self.folder / f"{each.name}.image"
            file.write_bytes(each.image)
            self._types(
                *("artifact", "add", str(file), "--id", each.name, "--family", each.family),
                *("--group", each.family.partition("-")[0], "--model", "*", "--version", each.version),
                *(("--floor", each.floor) if each.floor else ()),
                *("--folder", str(venue)),
            )
            self._types("artifact", "release", each.name, "--folder", str(venue))

    def _types(self, *words: str) -> None:
        said = typed("issuer", *words, "--passphrase-file", str(self.folder / "passphrase"))
        assert (said.status, said.err) == (0, ""), said
