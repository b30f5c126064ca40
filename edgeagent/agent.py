"""The daemon: builds everything, runs it under one TaskGroup, stops it in order.

    lock > database (a damaged one is set aside) > epoch, incarnation, first audit rows
    > devices, trust, broker, cloud, operator's door > READY

It needs neither broker, cloud, network nor a right clock to start (SPEC H3); each is waited for by the
flow that wants it.
"""

import asyncio
import logging
import random
import signal
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry
from pydantic import JsonValue

from edgeagent import settings
from edgeagent.adapters.admin.hub_routes import hub_routes
from edgeagent.adapters.admin.socket import AdminSocket
from edgeagent.adapters.cloud.https import HttpsQueue
from edgeagent.adapters.last_health import LastHealth
from edgeagent.adapters.mqtt.bus import MqttBus
from edgeagent.adapters.mqtt.settings import Means
from edgeagent.adapters.systemd import ServiceManager
from edgeagent.adapters.web.server import WebServer
from edgeagent.clock import BUILT_AT, EPOCH, ProvenClock, SystemTime
from edgeagent.config import Config
from edgeagent.contracts.event import EventTime, EventType, Stream, data_text
from edgeagent.contracts.policy import Tier
from edgeagent.contracts.scalars import timestamp_text
from edgeagent.core.audit_chain import AuditKind
from edgeagent.errors import ConfigurationError
from edgeagent.flows.admission import Admission
from edgeagent.flows.bells import Bell, OutboxBell
from edgeagent.flows.brokerwatch import BrokerWatch
from edgeagent.flows.confirmations import Confirmations
from edgeagent.flows.desk import Desk
from edgeagent.flows.devices import Devices
from edgeagent.flows.dispatch import Dispatch
from edgeagent.flows.downlink import Downlink, DownlinkSettings
from edgeagent.flows.health import Health
from edgeagent.flows.ingest import Ingest
from edgeagent.flows.local import LocalCommands
from edgeagent.flows.operator import HubOperator
from edgeagent.flows.probes import Probes
from edgeagent.flows.settling import Settling
from edgeagent.flows.surroundings import Origin, Surroundings
from edgeagent.flows.timekeeping import Timekeeping, TimeSettings
from edgeagent.flows.trust import Trust
from edgeagent.flows.upkeep import Upkeep
from edgeagent.flows.uplink import Uplink
from edgeagent.flows.worlds import Worlds
from edgeagent.ids import new_epoch
from edgeagent.metrics import Metrics
from edgeagent.ports.crash import CrashPoint, CrashPoints
from edgeagent.store import audit, meta, outbox
from edgeagent.store.audit import Act, Stamp
from edgeagent.store.database import Database, Transaction
from edgeagent.store.files import DamagedFileError, set_aside, sole_owner
from edgeagent.store.hubkey import hub_key
from edgeagent.store.outbox import NewEvent

log = logging.getLogger(__name__)

_FOLDER_MODE: Final = 0o750
Flow = Callable[[], Coroutine[None, None, None]]
"""Something that runs until it is cancelled."""


class NoCrashPoints:
    """The product's observer of the named points: it does nothing."""

    def reached(self, point: CrashPoint) -> None:
        """Go on."""


async def run_agent(config: Config, path: Path, *, crash: CrashPoints | None = None) -> None:
    """Run the agent until SIGTERM or SIGINT.

    Args:
        config: what is configured.
        path: where that stands; files that it names lie beside it.
        crash: told at the named points; a test's.

    Raises:
        ConfigurationError: the operator has to act first.
    """
    _make_folders(config)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    with sole_owner(config.hub.state_dir / "agent.lock"):
        store, damaged = await _open_store(config.database)
        try:
            agent = await _build(config, path, store, crash or NoCrashPoints(), damaged)
            await agent.run(stop)
        finally:
            await store.close()


class Agent:
    """Everything that runs: the hub's parts, its flows and its doors."""

    def __init__(
        self,
        store: Database,
        around: Surroundings,
        flows: Mapping[str, Flow],
        doors: Sequence[AdminSocket | WebServer | HttpsQueue],
        manager: ServiceManager,
    ) -> None:
        self._store = store
        self._around = around
        self._flows = flows
        self._doors = doors
        self._manager = manager

    async def run(self, stop: asyncio.Event) -> None:
        """Run all flows until ``stop`` is set; a flow that fails ends the agent."""
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(flow(), name=name) for name, flow in self._flows.items()]
                tasks.append(group.create_task(self._feed_watchdog(), name="watchdog"))
                self._manager.ready()
                log.info(
                    "started", extra={"hub": self._around.origin.hub, "epoch": self._around.origin.epoch}
                )
                await stop.wait()
                self._manager.stopping()
                for task in tasks:
                    task.cancel()
        finally:
            for door in self._doors:
                await door.close()
        await self._record_stop()
        log.info("stopped")

    async def _feed_watchdog(self) -> None:
        """Tell systemd that we live, as long as the loop turns and the store answers."""
        if self._manager.watchdog is None:
            return
        while True:
            await self._store.read(lambda db: db.row("SELECT 1"))
            self._manager.alive()
            await asyncio.sleep(self._manager.watchdog.total_seconds() / 3)

    async def _record_stop(self) -> None:
        stamp = self._around.stamp()
        act = Act(kind=AuditKind.STOPPED, subject=self._around.origin.hub, actor="agent", detail={})
        await self._store.write(lambda tx: audit.append(tx, [act], stamp))


async def _build(
    config: Config, path: Path, store: Database, crash: CrashPoints, damaged: Path | None
) -> Agent:
    """Make every part and introduce it to those that it needs."""
    floor = await store.read(meta.time_floor)
    clock = ProvenClock(SystemTime(), floor=BUILT_AT if floor is None else floor)
    metrics = Metrics(CollectorRegistry())
    around = Surroundings(
        origin=await _begin(store, config, clock, damaged),
        clock=clock,
        chance=random.random,
        metrics=metrics,
        crash=crash,
        outbox=OutboxBell(),
    )
    bus = MqttBus(config.hub.id, settings.mqtt_settings(config, path), Means(clock=clock, metrics=metrics))
    cloud = settings.cloud_settings(config, path)
    queue = None if cloud is None else HttpsQueue(cloud, config.hub.id, clock)
    trust = Trust(store, clock, around, settings.trust_settings(config))
    await trust.load(settings.offered_policy(config, path))
    devices = Devices(store, bus, settings.profiles(config, path), around)
    await devices.load()
    hub = Hub(config=config, path=path, store=store, bus=bus, queue=queue, around=around)
    return await hub.join(clock, trust, devices)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hub:
    """The parts that everything else is built on."""

    config: Config
    path: Path
    store: Database
    bus: MqttBus
    queue: HttpsQueue | None
    around: Surroundings

    async def join(self, clock: ProvenClock, trust: Trust, devices: Devices) -> Agent:
        """Build the flows and doors."""
        store, around, config = self.store, self.around, self.config
        uplink = None
        if self.queue is not None:
            uplink = Uplink(store, self.queue, around, settings.uplink_settings(config))
        confirmations = Confirmations(clock)
        ingest = Ingest(store, self.bus, devices, confirmations, around, settings.ingest_settings(config))
        watch = BrokerWatch(store, self.bus, devices, around)
        flows = {
            "broker": self.bus.run,
            "ingest": ingest.run,
            "time": Timekeeping(store, clock, self.queue, trust, around, TimeSettings()).run,
            "broker-watch": watch.run,
        }
        probes = Probes(self.bus, devices, around)
        confirmations.when_back(probes.ask_all)
        confirmations.when_online(probes.ask)
        devices.when_admitted(probes.ask)
        flows["probes"] = probes.run
        local = self._commands(trust, devices, confirmations, flows)
        health = Health(
            store=store,
            bus=self.bus,
            devices=devices,
            ingest=ingest,
            uplink=uplink,
            trust=trust,
            watch=watch,
            around=around,
            state_dir=config.hub.state_dir,
            started=clock.boot(),
        )
        operator = HubOperator(health, clock, local)
        flows["last-health"] = LastHealth(config.last_health, operator).run
        if uplink is not None:
            flows["uplink"] = uplink.run
        doors = await _open_doors(config, operator, around.metrics)
        if self.queue is not None:
            doors.append(self.queue)
        return Agent(store, around, flows, doors, ServiceManager.from_environment())

    def _commands(
        self, trust: Trust, devices: Devices, confirmations: Confirmations, flows: dict[str, Flow]
    ) -> LocalCommands:
        """Build what takes commands in and works them; add its flows."""
        around = self.around
        key = hub_key(self.config.hub.state_dir / "hub.key")
        lanes = {tier: Bell() for tier in Tier}
        settling = Settling(devices, around)
        worlds = Worlds(devices, trust, around, key.public)
        admission = Admission(self.store, worlds, settling, lanes)
        desk = Desk(self.store, self.bus, worlds, settling, confirmations, lanes)
        upkeep = Upkeep(self.store, admission, desk, settling, around)
        confirmations.when_online(lambda _device: upkeep.bell.ring())
        confirmations.when_back(upkeep.bell.ring)
        trust.when_proven(upkeep.time_is_surer)
        trust.when_proven(desk.wake)
        flows["upkeep"] = upkeep.run
        for tier in Tier:
            dispatch = Dispatch(desk, tier, around.clock, around.chance, around.metrics)
            # The policy says how many of them may work at once; more than sixteen it cannot say.
            for number in range(1, 17):
                holder = f"{tier}-{number}"
                flows[holder] = partial(dispatch.run, holder)
        if self.queue is not None:
            flows["downlink"] = Downlink(self.queue, admission, around, DownlinkSettings()).run
        return LocalCommands(self.store, admission, key, around)


async def _open_doors(
    config: Config, operator: HubOperator, metrics: Metrics
) -> list[AdminSocket | WebServer | HttpsQueue]:
    admin = AdminSocket(config.admin_socket, hub_routes(operator))
    await admin.open()
    doors: list[AdminSocket | WebServer | HttpsQueue] = [admin]
    if config.web is not None:
        host, _, port = config.web.listen.rpartition(":")
        web = WebServer(host, int(port), metrics, operator)
        try:
            await web.open()
        except OSError as why:
            await admin.close()
            raise ConfigurationError(f"[web] listen {config.web.listen}: {why.strerror}") from why
        doors.append(web)
    return doors


async def _begin(store: Database, config: Config, clock: ProvenClock, damaged: Path | None) -> Origin:
    """Count this start and put it on record."""
    wall = clock.wall()
    new = new_epoch((wall.best - EPOCH) // timedelta(milliseconds=1), random.getrandbits(32))
    stamp = Stamp(timestamp_text(wall.best), wall.source)
    about = {"version": version("edgeagent"), "boot": clock.boot_id}
    hello = NewEvent(
        Stream.RECORD, EventType.HUB_HELLO, None, EventTime.of(wall, clock.boot()), data_text(dict(about))
    )

    def begin(tx: Transaction) -> Origin:
        epoch, created = meta.ensure_epoch(tx, new)
        incarnation = meta.next_incarnation(tx)
        acts = []
        if created:
            aside = {} if damaged is None else {"set_aside": damaged.name}
            acts.append(_act(AuditKind.DATABASE_CREATED, epoch, aside))
        acts.append(_act(AuditKind.STARTED, config.hub.id, {**about, "incarnation": incarnation}))
        audit.append(tx, acts, stamp)
        outbox.append(tx, [hello], incarnation=incarnation)
        return Origin(config.hub.id, epoch, incarnation)

    return await store.write(begin)


def _act(kind: AuditKind, subject: str, detail: Mapping[str, JsonValue]) -> Act:
    return Act(kind=kind, subject=subject, actor="agent", detail=dict(detail))


async def _open_store(path: Path) -> tuple[Database, Path | None]:
    """Open the database; a damaged one is kept under another name, and a new one takes its place.

    Returns:
        The database, and where the damaged one lies.
    """
    migrations = files("edgeagent.store") / "migrations"
    try:
        return await Database.open(path, migrations), None
    except DamagedFileError as why:
        kept = set_aside(path, datetime.now(UTC))
        log.warning("database damaged, set aside", extra={"why": str(why), "kept": str(kept)})
        return await Database.open(path, migrations), kept


def _make_folders(config: Config) -> None:
    for folder in (config.hub.state_dir, config.hub.run_dir):
        try:
            folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        except OSError as why:
            raise ConfigurationError(f"cannot make {folder}: {why.strerror}") from why
