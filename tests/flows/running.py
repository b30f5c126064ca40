"""One process of a hub, put together as the agent does."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from edgeagent.contracts.policy import Tier
from edgeagent.core.envelope import Signer
from edgeagent.flows.admission import Admission
from edgeagent.flows.approving import Approving
from edgeagent.flows.bells import Bell
from edgeagent.flows.breaker_desk import HubBreakers
from edgeagent.flows.breakers import Breakers
from edgeagent.flows.checkpoints import AuditSettings, Checkpoints
from edgeagent.flows.confirmations import Confirmations
from edgeagent.flows.dead_letters import DeadLetters
from edgeagent.flows.desk import Desk
from edgeagent.flows.devices import Devices
from edgeagent.flows.dispatch import Dispatch
from edgeagent.flows.entering import Entering
from edgeagent.flows.held import Held
from edgeagent.flows.ingest import Ingest, IngestSettings
from edgeagent.flows.local import LocalCommands
from edgeagent.flows.no_images import NoImages
from edgeagent.flows.replaying import Replaying
from edgeagent.flows.revalidate import Revalidation
from edgeagent.flows.settling import Settling
from edgeagent.flows.surroundings import Surroundings
from edgeagent.flows.switch import KillSwitch
from edgeagent.flows.tallies import Tallies
from edgeagent.flows.trail_desk import TrailDesk
from edgeagent.flows.trust import Trust
from edgeagent.flows.upkeep import Upkeep
from edgeagent.flows.worlds import Worlds
from edgeagent.ports.firmware import Images
from edgeagent.store.database import Database
from tests.support.fake_bus import FakeBus

_QUICK: Final = IngestSettings(commit_linger=timedelta(milliseconds=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """One process of a hub: everything that is gone when it ends."""

    store: Database
    around: Surroundings
    devices: Devices
    trust: Trust
    confirmations: Confirmations
    admission: Admission
    tallies: Tallies
    switch: KillSwitch
    approving: Approving
    worlds: Worlds
    settling: Settling
    breakers: HubBreakers
    letters: DeadLetters
    desk: Desk
    upkeep: Upkeep
    revalidation: Revalidation
    local: LocalCommands
    checkpoints: Checkpoints
    trail: TrailDesk
    dispatch: dict[Tier, Dispatch]
    ingest: Ingest
    taking_in: asyncio.Task[None]


def joined(
    store: Database,
    bus: FakeBus,
    key: Signer,
    around: Surroundings,
    trust: Trust,
    devices: Devices,
    images: Images | None = None,
) -> Running:
    """Build what works commands, as the agent does, and take readings in from now on.

    Args:
        store: the open database.
        bus: the broker.
        key: the hub's own.
        around: time, chance and the named points.
        trust: the policy.
        devices: the devices.
        images: the files that they may be updated with; none by default.
    """
    clock = around.clock
    confirmations = Confirmations(clock)
    lanes = {tier: Bell() for tier in Tier}
    breakers = Breakers(around, trust)
    settling = Settling(devices, around, key, breakers)
    worlds = Worlds(devices, trust, around, key.public)
    entering = Entering(settling, lanes)
    held = Held(store, worlds, entering)
    tallies = Tallies(store, around)
    admission = Admission(store, worlds, entering, held, tallies)
    desk = Desk(store, bus, worlds, settling, confirmations, lanes, images or NoImages())
    upkeep = Upkeep(store, held, desk, settling, around)
    confirmations.when_online(lambda _: upkeep.bell.ring())
    confirmations.when_back(upkeep.bell.ring)
    trust.when_proven(upkeep.time_is_surer)
    trust.when_proven(desk.wake)
    ingest = Ingest(store, bus, devices, confirmations, around, _QUICK)
    checkpoints = Checkpoints(store, key, around, AuditSettings())
    return Running(
        store=store,
        around=around,
        devices=devices,
        trust=trust,
        confirmations=confirmations,
        admission=admission,
        tallies=tallies,
        switch=KillSwitch(store, worlds, settling, tallies),
        approving=Approving(store, trust, around, upkeep.time_is_surer),
        worlds=worlds,
        settling=settling,
        breakers=HubBreakers(store, breakers, key.public, upkeep.time_is_surer),
        letters=DeadLetters(store, Replaying(worlds, entering), upkeep.bell.ring),
        desk=desk,
        upkeep=upkeep,
        revalidation=Revalidation(store, bus, settling, confirmations, desk),
        local=LocalCommands(store, admission, key, around),
        checkpoints=checkpoints,
        trail=TrailDesk(store, key.public, checkpoints, around),
        dispatch={tier: Dispatch(desk, tier, clock, around.chance, around.metrics) for tier in Tier},
        ingest=ingest,
        taking_in=asyncio.create_task(ingest.run()),
    )
