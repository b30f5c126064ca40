"""The hub's parts, built and introduced to each other."""

import asyncio
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry

from edgeagent import settings
from edgeagent.adapters.admin.approval_routes import approval_routes
from edgeagent.adapters.admin.artifact_routes import artifact_routes
from edgeagent.adapters.admin.audit_routes import audit_routes
from edgeagent.adapters.admin.breaker_routes import breaker_routes
from edgeagent.adapters.admin.clock_routes import clock_routes
from edgeagent.adapters.admin.drill_routes import drill_routes
from edgeagent.adapters.admin.fetch_routes import fetch_routes
from edgeagent.adapters.admin.hub_routes import hub_routes
from edgeagent.adapters.admin.letter_routes import letter_routes
from edgeagent.adapters.admin.lock_routes import lock_routes
from edgeagent.adapters.admin.policy_routes import policy_routes
from edgeagent.adapters.admin.rollout_routes import rollout_routes
from edgeagent.adapters.admin.route import Route
from edgeagent.adapters.admin.socket import AdminSocket
from edgeagent.adapters.admin.switch_routes import switch_routes
from edgeagent.adapters.admin.trace_routes import trace_routes
from edgeagent.adapters.cloud.https import HttpsQueue
from edgeagent.adapters.last_health import LastHealth
from edgeagent.adapters.mqtt.bus import MqttBus
from edgeagent.adapters.mqtt.settings import Means
from edgeagent.adapters.web.server import WebServer
from edgeagent.adapters.work_socket.server import WorkSocket
from edgeagent.agent.artifacts import fetching
from edgeagent.agent.beginning import Before, begun, least_policy_version
from edgeagent.agent.disk import disk
from edgeagent.agent.drills import drills
from edgeagent.agent.files import both, images_of, lan_files
from edgeagent.agent.policy import artifact_desk, policy_flows
from edgeagent.agent.running import Agent, Door, Flow
from edgeagent.agent.timing import Timing, timing
from edgeagent.agent.tracing import trace_flows
from edgeagent.clock import BUILT_AT, ProvenClock, SystemTime
from edgeagent.config import Config
from edgeagent.contracts.policy import Tier
from edgeagent.errors import ConfigurationError
from edgeagent.flows.admission import Admission
from edgeagent.flows.alerts import Alerts
from edgeagent.flows.approving import Approving
from edgeagent.flows.bells import Bell, OutboxBell
from edgeagent.flows.breaker_desk import HubBreakers
from edgeagent.flows.breakers import Breakers
from edgeagent.flows.brokerwatch import BrokerWatch
from edgeagent.flows.calling_off import CallingOff
from edgeagent.flows.checkpoints import Checkpoints
from edgeagent.flows.confirmations import Confirmations
from edgeagent.flows.dead_letters import DeadLetters
from edgeagent.flows.desk import Desk
from edgeagent.flows.devices import Devices
from edgeagent.flows.dispatch import Dispatch
from edgeagent.flows.downlink import Downlink, DownlinkSettings
from edgeagent.flows.drills.drilling import Drills
from edgeagent.flows.entering import Entering
from edgeagent.flows.epochs import end_other_epochs
from edgeagent.flows.fetching import Fetching
from edgeagent.flows.floorkeeping import FloorKeeping
from edgeagent.flows.forgetting import Forgetting
from edgeagent.flows.health import Health
from edgeagent.flows.held import Held
from edgeagent.flows.ingest import Ingest
from edgeagent.flows.local import LocalCommands
from edgeagent.flows.lockdesk import Locks
from edgeagent.flows.names import HubNames
from edgeagent.flows.operator import HubOperator
from edgeagent.flows.policy_facts import PolicyFacts
from edgeagent.flows.probes import Probes
from edgeagent.flows.replaying import Replaying
from edgeagent.flows.revalidate import AT_ONCE, Revalidation
from edgeagent.flows.rollout_desk import HubRollouts
from edgeagent.flows.serving import Serving
from edgeagent.flows.settling import Settling
from edgeagent.flows.storekeeping import StoreKeeping
from edgeagent.flows.surroundings import Surroundings
from edgeagent.flows.switch import KillSwitch
from edgeagent.flows.tallies import Tallies
from edgeagent.flows.traces import trace
from edgeagent.flows.trail_desk import TrailDesk
from edgeagent.flows.trust import Trust
from edgeagent.flows.upkeep import Upkeep
from edgeagent.flows.uplink import Uplink
from edgeagent.flows.wary import WaryDesk
from edgeagent.flows.watching.lookout import Lookout
from edgeagent.flows.worlds import Worlds
from edgeagent.metrics import Metrics
from edgeagent.ports.crash import CrashPoints
from edgeagent.ports.firmware import Images
from edgeagent.store.database import Database
from edgeagent.store.floorfile import FloorFile
from edgeagent.store.hubkey import hub_key

OUTSIDE: Final = frozenset({Tier.HIGH})
"""The tiers that a worker beside the agent may work."""


async def build(
    config: Config, path: Path, store: Database, crash: CrashPoints, damaged: Path | None
) -> Agent:
    """Make every part and introduce it to those that it needs."""
    # What the operator has to put right is told before this start is written down.
    broker, cloud = settings.mqtt_settings(config, path), settings.cloud_settings(config, path)
    profiles = settings.profiles(config, path)
    file, key = FloorFile(config.hub.state_dir, config.hub.id), hub_key(config.hub.state_dir / "hub.key")
    before = Before(mark=await asyncio.to_thread(file.read), set_aside=damaged)
    floor = await store.read(before.time_floor)
    clock = ProvenClock(SystemTime(), floor=BUILT_AT if floor is None else floor.moment)
    metrics = Metrics(CollectorRegistry())
    around = Surroundings(
        origin=await begun(store, config, clock, key.public, before),
        clock=clock,
        chance=random.random,
        metrics=metrics,
        crash=crash,
        outbox=OutboxBell(),
    )
    bus = MqttBus(config.hub.id, broker, Means(clock=clock, metrics=metrics))
    queue = None if cloud is None else HttpsQueue(cloud, config.hub.id, clock)
    trust = Trust(store, clock, around, settings.trust_settings(config))
    trust.least_version = await store.read(least_policy_version)
    policy = await policy_flows(config, path, store, trust, around)
    devices = Devices(store, bus, profiles, around)
    await devices.load()
    settling = Settling(devices, around, key, Breakers(around, trust))
    await end_other_epochs(store, settling, around.present())
    keeping = FloorKeeping(store, file, trust, around, 0 if before.mark is None else before.mark.sequence)
    await keeping.keep()
    hub = Hub(
        config=config,
        path=path,
        store=store,
        bus=bus,
        queue=queue,
        around=around,
        policy=policy,
        keeping=keeping,
        files=fetching(config, path, store, trust, around),
    )
    worlds = Worlds(devices, trust, around, key.public, serves_files=config.firmware is not None)
    return await hub.join(clock, worlds, settling)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hub:
    """The parts that everything else is built on."""

    config: Config
    path: Path
    store: Database
    bus: MqttBus
    queue: HttpsQueue | None
    around: Surroundings
    policy: Mapping[str, Flow]
    keeping: FloorKeeping
    files: Fetching

    async def join(self, clock: ProvenClock, worlds: Worlds, settling: Settling) -> Agent:
        """Build the flows and doors."""
        store, around, config = self.store, self.around, self.config
        devices, key = worlds.devices, settling.key
        confirmations = Confirmations(clock)
        ingest = Ingest(store, self.bus, devices, confirmations, around, settings.ingest_settings(config))
        time = timing(store, clock, self.queue, worlds.trust, around, self.keeping)
        watch = BrokerWatch(store, self.bus, devices, around)
        flows = dict(self.policy) | {"broker": self.bus.run, "ingest": ingest.run, **time.flows}
        flows |= {"broker-watch": watch.run, **self._attend(devices, confirmations)}
        flows["tallies"] = (tallies := Tallies(store, around)).run
        flows["serving"] = (serving := Serving(store, around)).run
        checkpoints = Checkpoints(store, key, around, settings.audit_settings(config))
        site = lan_files(config, serving, around)
        images = images_of(site, worlds, self.files)
        commands = await self._commands(worlds, settling, confirmations, tallies, flows, images)
        kept = disk(store, around, config)
        lookout = self._lookout(tallies, flows)
        health = self._health(worlds, ingest, kept.keeping, lookout, watch, (time, commands.outside))
        operator = HubOperator(health, clock, commands.local)
        flows |= {"last-health": LastHealth(config.last_health, operator).run, **kept.flows}
        flows |= {"checkpoints": checkpoints.run, "alerts": Alerts(store, around, health.report).run}
        trail = TrailDesk(store, key.public, checkpoints, around)
        routes = [*commands.routes(), *clock_routes(time.desk), *audit_routes(trail), *kept.routes]
        routes += [*self._artifacts(worlds.trust), *fetch_routes(self.files)]
        doors = await _open_doors(config, operator, routes, around.metrics)
        doors += await self._further_doors(commands.outside)
        doors += site
        return Agent(
            store,
            around,
            flows,
            doors,
            last_words=both(tallies.last_words, serving.last_words),
            sign_head=checkpoints.sign,
            last=time.last,
        )

    def _health(
        self,
        worlds: Worlds,
        ingest: Ingest,
        keeping: StoreKeeping,
        lookout: Lookout,
        watch: BrokerWatch,
        others: tuple[Timing, WaryDesk | None],
    ) -> Health:
        """Build what looks at everything."""
        time, outside = others
        return Health(
            store=self.store,
            bus=self.bus,
            devices=worlds.devices,
            holds=worlds.holds,
            ingest=ingest,
            keeping=keeping,
            uplink=lookout.uplink,
            trust=time.desk.trust,
            watch=watch,
            floor=time.floor,
            epochs=time.epochs,
            around=self.around,
            lookout=lookout,
            state_dir=self.config.hub.state_dir,
            started=self.around.clock.boot(),
            workers=None if outside is None else outside.presence,
        )

    def _artifacts(self, trust: Trust) -> list[Route]:
        """Build what tells people of files for devices."""
        return artifact_routes(artifact_desk(self.config, self.path, self.store, trust, self.around))

    async def _further_doors(self, outside: WaryDesk | None) -> list[Door]:
        """Let the isolated worker in, where there is to be one; and the way to the cloud."""
        queue: list[Door] = [] if self.queue is None else [self.queue]
        if outside is None:
            return queue
        user = settings.worker_user(self.config)
        door = WorkSocket(self.config.work_socket, outside, user, self.around.clock)
        await door.open()
        return [door, *queue]

    def _lookout(self, tallies: Tallies, flows: dict[str, Flow]) -> Lookout:
        """Build what watches the work, and, if there is a cloud, what sends the outbox up; add flows."""
        store, around, uplink = self.store, self.around, None
        if self.queue is not None:
            uplink = Uplink(store, self.queue, around, settings.uplink_settings(self.config))
            flows["uplink"] = uplink.run
        flows |= trace_flows(self.config, store, around)
        flows["artifacts"] = self.files.run
        certificates = settings.certificate_files(self.config, self.path)
        return Lookout(store, around, uplink, tallies, certificates, [self.files.check])

    def _attend(self, devices: Devices, confirmations: Confirmations) -> dict[str, Flow]:
        """Build what asks devices how they are, and follows those that go by another name."""
        probes = Probes(self.bus, devices, self.around)
        confirmations.when_back(probes.ask_all)
        confirmations.when_online(probes.ask)
        devices.when_admitted(probes.ask)
        return {"probes": probes.run, "announcements": devices.follow}

    async def _commands(
        self,
        worlds: Worlds,
        settling: Settling,
        confirmations: Confirmations,
        tallies: Tallies,
        flows: dict[str, Flow],
        images: Images,
    ) -> "_Commands":
        """Build what takes commands in and works them; add its flows."""
        around, trust, key = self.around, worlds.trust, settling.key
        lanes = {tier: Bell() for tier in Tier}
        entering = Entering(settling, lanes)
        held = Held(self.store, worlds, entering)
        admission = Admission(self.store, worlds, entering, held, tallies)
        switch = KillSwitch(self.store, worlds, settling, tallies)
        await switch.load()
        switch.when_thrown(self.keeping.ring)
        desk = Desk(self.store, self.bus, worlds, settling, confirmations, lanes, images)
        upkeep = Upkeep(self.store, held, desk, settling, around)
        confirmations.when_online(lambda _device: upkeep.bell.ring())
        confirmations.when_back(upkeep.bell.ring)
        trust.when_proven(upkeep.time_is_surer)
        trust.when_proven(desk.wake)
        flows["upkeep"] = upkeep.run
        hub_breakers = HubBreakers(self.store, settling.breakers, key.public, upkeep.time_is_surer)
        flows["breakers"] = hub_breakers.run
        revalidation = Revalidation(self.store, self.bus, settling, confirmations, desk)
        flows |= {f"revalidate-{number}": revalidation.run for number in range(1, AT_ONCE + 1)}
        flows["forgetting"] = Forgetting(self.store, trust, around).run
        calling_off = CallingOff(self.store, self.bus, confirmations, settling, desk)
        outside = self._outside(desk)
        flows |= self._lanes(desk, set(Tier) if outside is None else set(Tier) - OUTSIDE)
        if self.queue is not None:
            downlink = Downlink(self.queue, admission, switch, around, DownlinkSettings())
            flows["downlink"] = self._fetching(downlink, trust)
        return _Commands(
            local=LocalCommands(self.store, admission, key, around),
            switch=switch,
            approving=Approving(self.store, trust, around, upkeep.time_is_surer),
            desk=PolicyFacts(trust, worlds),
            outside=outside,
            locks=Locks(self.store, desk, around),
            breakers=hub_breakers,
            letters=DeadLetters(self.store, Replaying(worlds, entering), upkeep.bell.ring),
            drills=drills(self.store, around, self.config),
            rollouts=HubRollouts(self.store, desk, settling, worlds, calling_off),
        )

    def _outside(self, desk: Desk) -> WaryDesk | None:
        """Build what deals with the isolated worker; None where the agent works all by itself."""
        is_outside = self.config.worker.high == "outside"
        return WaryDesk(desk, OUTSIDE, self.around.clock, self.around.metrics) if is_outside else None

    def _lanes(self, desk: Desk, tiers: Collection[Tier]) -> dict[str, Flow]:
        """Build what works commands here, by whom it works as."""
        around, flows = self.around, dict[str, Flow]()
        for tier in tiers:
            dispatch = Dispatch(desk, tier, around.clock, around.chance, around.metrics)
            # The policy says how many of them may work at once; more than sixteen it cannot say.
            for number in range(1, 17):
                holder = f"{tier}-{number}"
                flows[holder] = partial(dispatch.run, holder)
        return flows

    def _fetching(self, downlink: Downlink, trust: Trust) -> Flow:
        """Have commands fetched once they can be judged."""
        known = Bell()
        trust.when_proven(known.ring)
        # A policy that is published may come after the first command; of others it is known by now.
        published = self.config.policy is not None and self.config.policy.source is not None
        return partial(downlink.run_when, lambda: trust.policy is not None or not published, known)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Commands:
    """What people at the hub may ask of the flows that take commands in."""

    local: LocalCommands
    switch: KillSwitch
    approving: Approving
    desk: PolicyFacts
    outside: WaryDesk | None
    locks: Locks
    breakers: HubBreakers
    letters: DeadLetters
    drills: Drills
    rollouts: HubRollouts

    def routes(self) -> list[Route]:
        """What of it may be asked at the operator's door, beside what the operator answers."""
        return [
            *switch_routes(self.switch),
            *approval_routes(self.approving),
            *policy_routes(self.desk),
            *lock_routes(self.locks),
            *breaker_routes(self.breakers),
            *letter_routes(self.letters),
            *drill_routes(self.drills),
            *rollout_routes(self.rollouts),
            *trace_routes(partial(trace, self.local.store)),
        ]


async def _open_doors(
    config: Config, operator: HubOperator, routes: Sequence[Route], metrics: Metrics
) -> list[Door]:
    every = [*hub_routes(operator), *routes]
    names = HubNames(operator.look.store, operator.look.devices)
    access = settings.access(config)
    admin = AdminSocket(config.admin_socket, every, access, metrics, names=names, clock=operator.clock)
    await admin.open()
    doors: list[Door] = [admin]
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
