"""The hub's parts, built and introduced to each other."""

import asyncio
import random
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry

from edgeagent import settings
from edgeagent.adapters.admin.artifact_routes import artifact_routes
from edgeagent.adapters.admin.clock_routes import clock_routes
from edgeagent.adapters.admin.fetch_routes import fetch_routes
from edgeagent.adapters.admin.route import Route
from edgeagent.adapters.admin.support_routes import support_routes
from edgeagent.adapters.cloud.https import HttpsQueue
from edgeagent.adapters.mqtt.bus import MqttBus
from edgeagent.adapters.mqtt.settings import Means
from edgeagent.agent.artifacts import fetching, file_checks
from edgeagent.agent.beginning import Before, begun, least_policy_version
from edgeagent.agent.commands import Commands
from edgeagent.agent.disk import disk
from edgeagent.agent.doors import WebDoor, open_doors
from edgeagent.agent.drills import drills
from edgeagent.agent.files import both, images_of, lan_files
from edgeagent.agent.identity import identity
from edgeagent.agent.looking import Looking, shown_certificates
from edgeagent.agent.page import shown
from edgeagent.agent.policy import artifact_desk, policy_flows
from edgeagent.agent.reloading import Reloading, reloading
from edgeagent.agent.running import Agent, Door, Flow
from edgeagent.agent.telling import told
from edgeagent.agent.timing import timing
from edgeagent.agent.tracing import trace_flows
from edgeagent.agent.trail import trail
from edgeagent.clock import BUILT_AT, ProvenClock, SystemTime
from edgeagent.config import Config
from edgeagent.contracts.policy import Tier
from edgeagent.flows.admission import Admission
from edgeagent.flows.alerts import Alerts
from edgeagent.flows.approving import Approving
from edgeagent.flows.bells import Bell, OutboxBell
from edgeagent.flows.breaker_desk import HubBreakers
from edgeagent.flows.breakers import Breakers
from edgeagent.flows.brokerwatch import BrokerWatch
from edgeagent.flows.calling_off import CallingOff
from edgeagent.flows.confirmations import Confirmations
from edgeagent.flows.dead_letters import DeadLetters
from edgeagent.flows.desk import Desk
from edgeagent.flows.devices import Devices
from edgeagent.flows.dispatch import Dispatch
from edgeagent.flows.downlink import Downlink, DownlinkSettings
from edgeagent.flows.entering import Entering
from edgeagent.flows.epochs import end_other_epochs
from edgeagent.flows.fetching import Fetching
from edgeagent.flows.floorkeeping import FloorKeeping
from edgeagent.flows.forgetting import Forgetting
from edgeagent.flows.held import Held
from edgeagent.flows.ingest import Ingest
from edgeagent.flows.local import LocalCommands
from edgeagent.flows.lockdesk import Locks
from edgeagent.flows.operator import HubOperator
from edgeagent.flows.policy_facts import PolicyFacts
from edgeagent.flows.probes import Probes
from edgeagent.flows.pulsing import PulsingDesk
from edgeagent.flows.replaying import Replaying
from edgeagent.flows.revalidate import AT_ONCE, Revalidation
from edgeagent.flows.rollout_desk import HubRollouts
from edgeagent.flows.serving import Serving
from edgeagent.flows.settling import Settling
from edgeagent.flows.store_facts import StoreFacts
from edgeagent.flows.surroundings import Surroundings
from edgeagent.flows.switch import KillSwitch
from edgeagent.flows.tallies import Tallies
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
from edgeagent.values import dataclass

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
    clock = await _clock(store, before)
    around = Surroundings(
        origin=await begun(store, config, clock, key.public, before),
        clock=clock,
        chance=random.random,
        metrics=Metrics(CollectorRegistry()),
        crash=crash,
        outbox=OutboxBell(),
    )
    bus = MqttBus(config.hub.id, broker, Means(clock=clock, metrics=around.metrics))
    queue = None if cloud is None else HttpsQueue(cloud, config.hub.id, clock)
    trust = Trust(store, clock, around, settings.trust_settings(config))
    trust.least_version = await store.read(least_policy_version)
    again = reloading(config, path, store, around, bus, queue)
    policy = await policy_flows(config, path, store, trust, around, again)
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
        files=fetching(config, path, store, trust, around, again),
        again=again,
    )
    worlds = Worlds(devices, trust, around, key.public, serves_files=config.firmware is not None)
    return await hub.join(clock, worlds, settling)


async def _clock(store: Database, before: Before) -> ProvenClock:
    floor = await store.read(before.time_floor)
    return ProvenClock(SystemTime(), floor=BUILT_AT if floor is None else floor.moment)


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
    again: Reloading

    async def join(self, clock: ProvenClock, worlds: Worlds, settling: Settling) -> Agent:
        """Build the flows and doors."""
        store, around, config, devices = self.store, self.around, self.config, worlds.devices
        confirmations, web = Confirmations(clock), WebDoor(config)
        ingest = Ingest(store, self.bus, devices, confirmations, around, settings.ingest_settings(config))
        self.again.adopts(settings.ingest_settings, ingest.adopt)
        time = timing(store, clock, self.queue, worlds.trust, around, self.keeping)
        watch = BrokerWatch(store, self.bus, devices, around, settings.broker_access(config))
        watch.is_open = settings.broker_is_open(config)
        flows = dict(self.policy) | {"broker": self.bus.run, "ingest": ingest.run, **time.flows}
        flows |= {"broker-watch": watch.run, **self._attend(devices, confirmations)}
        flows["tallies"] = (tallies := Tallies(store, around)).run
        flows["serving"] = (serving := Serving(store, around)).run
        record = trail(store, settling.key, around, config, self.again)
        site = lan_files(config, serving, around)
        images = images_of(site, worlds, self.files)
        commands = await self._commands(worlds, settling, confirmations, tallies, flows, images)
        kept = disk(store, around, config, self.again)
        lookout = self._lookout(tallies, flows, web)
        health = Looking(config, store, self.bus, around).health(
            worlds, ingest, kept.keeping, lookout, watch, (time, commands.outside)
        )
        operator = HubOperator(health, clock, commands.local)
        view = shown(config, operator, commands)
        flows |= {**told(config, operator), **view.flows, **web.flows}
        flows["alerts"] = Alerts(store, around, health.report).run
        routes = [*commands.routes(), *clock_routes(time.desk), *fetch_routes(self.files)]
        routes += [*self._artifacts(worlds.trust), *support_routes(StoreFacts(store.path, around.metrics))]
        for part in (record, kept, self.again):
            flows |= part.flows
            routes += part.routes
        doors = await open_doors(config, operator, routes, view.page, web)
        return Agent(
            store,
            around,
            flows,
            [commands.drills, *doors, *await self._further(commands), *site],
            last_words=both(tallies.last_words, serving.last_words),
            sign_head=record.checkpoints.sign,
            last=time.last,
        )

    def _artifacts(self, trust: Trust) -> list[Route]:
        """Build what tells people of files for devices."""
        return artifact_routes(artifact_desk(self.config, self.path, self.store, trust, self.around))

    async def _further(self, commands: Commands) -> list[Door]:
        """Let the isolated worker in, where there is to be one; and the way to the cloud."""
        queue: list[Door] = [] if self.queue is None else [self.queue]
        if commands.outside is None:
            return queue
        # 1 MiB that a hub without such a worker has no need of.
        from edgeagent.adapters.work_socket.server import WorkSocket

        user = settings.worker_user(self.config)
        door = WorkSocket(self.config.work_socket, commands.outside, user, self.around.clock)
        await door.open()
        return [door, *queue]

    def _lookout(self, tallies: Tallies, flows: dict[str, Flow], web: WebDoor) -> Lookout:
        """Build what watches the work, and, if there is a cloud, what sends the outbox up; add flows."""
        store, around, uplink = self.store, self.around, None
        if self.queue is not None:
            uplink = Uplink(store, self.queue, around, settings.uplink_settings(self.config))
            self.again.adopts(settings.uplink_settings, uplink.adopt)
            flows["uplink"] = uplink.run
        flows |= trace_flows(self.config, store, around)
        flows["artifacts"] = self.files.run
        certificates = settings.certificate_files(self.config, self.path)
        further = [*file_checks(self.config, self.files), self.again.check, *web.checks]
        further += shown_certificates(self.queue, around.clock)
        further += identity(self.config, self.path, store, around, self.queue, flows)
        return Lookout(store, around, uplink, tallies, certificates, further)

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
    ) -> Commands:
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
        return Commands(
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
        seen = PulsingDesk(desk, around.pulses, around.clock)
        for tier in tiers:
            dispatch = Dispatch(seen, tier, around.clock, around.chance, around.metrics)
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
