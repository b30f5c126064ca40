"""A whole venue out of real processes: mosquitto, the queue server, appliances, and the agent between them.

    with Venue(tmp_path) as venue:
        venue.open()                       # the agent runs, every plug is admitted
        burst = venue.burst(20_000)
        venue.agent.kill()
        venue.agent.start()
        burst.finish()
        venue.catch_up()
        assert venue.judgement() == Judgement()

What happened is judged from outside: by what the appliances' journal says that the broker acknowledged and
that was carried out, and by what the queue server gives to an issuer. Each message of a burst carries a
number of its own (``firmware_sim.burst``), so a lost one and one that was stored under two event ids show.
"""

import json
import sqlite3
from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, Self

from pydantic import JsonValue

from edgeagent.clock import Clock, ProvenClock, SystemTime
from edgeagent.contracts.actions import ActionName, Arguments
from edgeagent.contracts.command import Precondition
from edgeagent.contracts.event import Stream
from edgeagent.contracts.receipt import Receipt
from edgeagent.core.audit_chain import Break
from edgeagent.ids import DeviceId, HubId
from edgeagent.issuer.commands import Intent, Issuer, SignedCommand
from edgeagent.issuer.keys import PrivateKey
from edgeagent.store import audit
from edgeagent.store.database import Snapshot
from firmware_sim.journal import Line, What, read
from tests.firmware_sim.process import FleetProcess
from tests.support.agents import AgentProcess
from tests.support.agents_burst import Burst, Judgement, judged, numbers
from tests.support.agents_cloud import FIRST, Cloud
from tests.support.agents_keys import Keys
from tests.support.brokers import Mosquitto, wait_until
from tests.support.private import write_private
from tests.support.queue_server import QueueServer

HUB: Final = HubId("venue-7")
PLUG: Final = DeviceId("02A1B2000001")
"""The first plug, which is what most stories need."""

SHELLY: Final = DeviceId("shellyplugsg3-02a1b2000000")
"""The Shelly plug of a venue that has one."""

LAMP: Final = DeviceId("02A1B2000101")
"""The Tasmota lamp of a venue that has one: its brightness and its white can be set."""

BRIDGE: Final = "02A1B2000201"
"""The Zigbee2MQTT bridge of a venue that has one, with a device of each model behind it."""

NOTHING: Final[Arguments] = MappingProxyType({})
"""No arguments."""
_CATCH_UP: Final = 120.0
_SHOWN: Final = 4000
_NAMED: Final = 20
# Bursts are told by PUBACK, so nothing may be dropped in the broker (its own limit is 1,000 messages).
BROKER: Final = (
    "max_queued_messages 0",
    "log_type none",
    "log_type error",
    "log_type warning",
    "log_type information",
)
"""What a venue's broker is told, if nothing else matters."""


class Venue:
    """See the module's docstring. Entering starts broker, queue and appliances, but not the agent.

    Args:
        folder: for all files.
        plugs: how many Tasmota plugs there are. Their telemetry comes over the telemetry session.
        shelly: whether there is a Shelly plug too. Its telemetry comes over the control session, since the
            same topic confirms commands.
        lamp: whether there is a lamp too.
        bridge: whether there is a Zigbee2MQTT bridge too. Nobody admits its devices.
        broker_options: lines of mosquitto's configuration.
        state_dir: the agent's state, if that is to lie on another file system.
        cloud_port: where the agent looks for the queue, if something stands before it.
        broker_port: where the agent looks for the broker, if something stands before it.
        keys: who signs, and under which policy, if that matters.

    Attributes:
        broker: the hub's broker.
        server: the queue server.
        fleet: the appliances.
        agent: the agent.
        cloud: the queue, as an issuer sees it.
        keys: who signs.
        devices: the Tasmota plugs' ids.
    """

    def __init__(
        self,
        folder: Path,
        *,
        plugs: int = 1,
        shelly: bool = False,
        lamp: bool = False,
        bridge: bool = False,
        broker_options: tuple[str, ...] = BROKER,
        state_dir: Path | None = None,
        cloud_port: int | None = None,
        broker_port: int | None = None,
        keys: Keys | None = None,
    ) -> None:
        self.folder = folder
        self.keys = keys or Keys()
        self.broker = Mosquitto(folder / "broker", options=broker_options)
        self.server = QueueServer(folder / "queue", policy=self.keys.policy(HUB))
        self.server.time_key = self.keys.time
        self.devices = [DeviceId(f"02A1B2{number:06X}") for number in range(1, plugs + 1)]
        self._shelly = shelly
        self._lamps = [LAMP] if lamp else []
        self._bridges = [BRIDGE] if bridge else []
        self._state_dir = state_dir
        self._cloud_port = cloud_port
        self._broker_port = broker_port
        self._issuer = Issuer([self.keys.desk], ProvenClock(SystemTime()))
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.broker)
            stack.enter_context(self.server)
            self.cloud = Cloud(self.server, HUB)
            self.agent = AgentProcess(self.folder / "hub", self._sections(), state_dir=self._state_dir)
            stack.callback(self.agent.close)
            self.plug_in()
            stack.callback(self.unplug)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, why: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def open(self) -> None:
        """Start the agent, and admit every plug."""
        self.agent.start()
        self.settle()

    def settle(self) -> None:
        """Let the running agent find everybody, and admit every plug."""
        self.agent.wait_for_broker()
        for device in (*self.devices, *self._lamps):
            self.agent.admit(device)
        if self._shelly:
            # It told what it is when it came, and nobody keeps that for whoever comes later.
            self.agent.admit_by_hand(SHELLY, "shelly-gen2", switches=[0])
        wait_until(
            lambda: all(device.online for device in self.agent.devices().devices), "the plugs to be online"
        )
        wait_until(lambda: self.cloud.has_heard, "the hub's hello at the cloud")

    def plug_in(self) -> None:
        """Let the appliances come, and wait until they listen."""
        venue = self.folder / "venue.json"
        appliances: list[dict[str, JsonValue]] = [
            {"model": "tasmota-plug", "mac": str(device)} for device in self.devices
        ]
        appliances += [
            {"model": "tasmota-light", "mac": str(lamp), "settings": {"light": "ct"}} for lamp in self._lamps
        ]
        appliances += [{"model": "zigbee2mqtt", "mac": bridge} for bridge in self._bridges]
        if self._shelly:
            appliances.append({"model": "shelly-plug", "mac": SHELLY.rpartition("-")[2].upper()})
        venue.write_text(json.dumps({"appliance": appliances}))
        where = f"{self.broker.host}:{self.broker.port}"
        files = ("--specifications", str(venue), "--journal", str(self._journal_path))
        self.fleet = FleetProcess(["--broker", where, *files, "--period", "1h"])
        self.fleet.until_ready()

    def unplug(self) -> None:
        """Let the appliances go without a word; the broker tells their last will."""
        with self.fleet.process:
            self.fleet.process.kill()

    def burst(self, count: int, *, rate: float = 0.0, first: int = FIRST) -> Burst:
        """Let the plugs send numbered telemetry at QoS 1, from ``FIRST`` on."""
        return Burst(self.fleet, count, rate, first)

    def sign(
        self,
        device: DeviceId,
        action: ActionName,
        arguments: Arguments = NOTHING,
        *,
        by: PrivateKey | None = None,
        clock: Clock | None = None,
        valid_for: timedelta = timedelta(minutes=5),
        precondition: Precondition | None = None,
    ) -> SignedCommand:
        """Sign a command as the desk does, or another key; with another clock, as it did then."""
        issuer = self._issuer
        if by is not None or clock is not None:
            issuer = Issuer([by or self.keys.desk], clock or ProvenClock(SystemTime()))
        return issuer.sign(
            Intent(
                hub=HUB,
                epoch=self.cloud.epoch,
                devices=[device],
                action=action,
                arguments=arguments,
                valid_for=valid_for,
                precondition=precondition,
            )
        )

    def order(self, device: DeviceId, action: ActionName, arguments: Arguments = NOTHING) -> SignedCommand:
        """Sign a command and put it into the queue."""
        signed = self.sign(device, action, arguments)
        self.cloud.send(signed.envelope)
        return signed

    def end_of(self, order: SignedCommand, *, within: float = _CATCH_UP) -> Receipt:
        """Wait for a command's end at the cloud; there is one receipt of it, and no second one."""
        try:
            wait_until(lambda: self._is_over(order), "the command's end", within=within)
        except TimeoutError as why:
            raise AssertionError(
                f"{self.cloud.command(order.command.id)}\n{self.agent.log[-_SHOWN:]}"
            ) from why
        [told] = self.cloud.receipts(order.command.id)
        return Receipt.model_validate(told.data)

    def effects(self, device: DeviceId, action: ActionName) -> int:
        """How often a plug has carried an action out for a command, as its journal says."""
        return sum(
            line.what is What.EFFECT
            and line.appliance == device
            and line.details["action"] == action
            and line.details["cause"] == "command"
            for line in self.journal()
        )

    def journal(self) -> list[Line]:
        """What the appliances wrote down."""
        return read(self._journal_path)

    def acknowledged(self) -> frozenset[int]:
        """The numbers that the broker has acknowledged to their plug."""
        return numbers(self.journal(), What.ACKNOWLEDGED)

    def progress(self, events: int) -> None:
        """Wait until the agent has stored so many telemetry events since the beginning of its database."""
        wait_until(
            lambda: self.agent.outbox().streams[Stream.TELEMETRY].next > events,
            f"{events} telemetry events",
            within=_CATCH_UP,
        )

    def catch_up(self, *, within: float = _CATCH_UP) -> None:
        """Wait until the cloud has all that was acknowledged and the outbox is empty."""
        wanted = self.acknowledged()
        try:
            wait_until(
                lambda: wanted.issubset(self.cloud.numbers()) and self._outbox_is_empty(),
                "everything acknowledged to be at the cloud",
                within=within,
            )
        except TimeoutError as why:
            missing = sorted(wanted - self.cloud.numbers())
            raise AssertionError(
                f"{len(missing)} of {len(wanted)} are not at the cloud: {missing[:_NAMED]}\n"
                f"{self.agent.outbox()}\n{self.agent.log[-_SHOWN:]}"
            ) from why

    def judgement(self) -> Judgement:
        """Hold what the cloud has against what was sent."""
        return judged(self.journal(), self.cloud.stored_numbers())

    def records_are_whole(self) -> bool:
        """Whether the cloud has every number of the record stream, from the first on (SPEC U1)."""
        return self.cloud.stream(Stream.RECORD).contiguous

    def audit_break(self) -> Break | None:
        """Follow the audit trail's chain in the file that the agent has left; None when it is whole."""
        with closing(sqlite3.connect(f"{self.agent.database.as_uri()}?mode=ro", uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            return audit.verify(Snapshot(connection))

    @property
    def _journal_path(self) -> Path:
        return self.folder / "journal.jsonl"

    def _is_over(self, order: SignedCommand) -> bool:
        return self.cloud.command(order.command.id).state.is_over

    def _outbox_is_empty(self) -> bool:
        return not any(stream.events for stream in self.agent.outbox().streams.values())

    def _sections(self) -> str:
        hub, folder = self.server.new_hub(HUB), self.folder / "hub"
        port = self._cloud_port or self.server.port
        folder.mkdir(parents=True, exist_ok=True)
        token, policy = folder / "queue.token", folder / "policy.json"
        write_private(token, hub.token)
        policy.write_bytes(self.keys.policy(HUB))
        return (
            f'[broker]\nhost = "{self.broker.host}"\nport = {self._broker_port or self.broker.port}\n'
            f'[cloud]\nurl = "http://127.0.0.1:{port}"\ntoken_file = "{token.name}"\n'
            f'[policy]\nfile = "{policy.name}"\nsigner = "{self.keys.root.public.hex()}"\n'
            '[uplink]\nlinger = "100ms"\nlongest_backoff = "1s"\n'
        )
