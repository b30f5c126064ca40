"""Drills, put together: the engine's own parts once more, over a scratch file and the drill's broker."""

from datetime import timedelta
from typing import Final

from prometheus_client import CollectorRegistry

from edgeagent.clock import ClockSource, Proof, ProvenClock
from edgeagent.config import Config
from edgeagent.contracts.policy import Tier
from edgeagent.flows.admission import Admission
from edgeagent.flows.bells import Bell, OutboxBell
from edgeagent.flows.breakers import Breakers
from edgeagent.flows.confirmations import Confirmations
from edgeagent.flows.dead_letters import DeadLetters
from edgeagent.flows.desk import Desk
from edgeagent.flows.devices import Devices
from edgeagent.flows.dispatch import Dispatch
from edgeagent.flows.drills.drilling import Drills
from edgeagent.flows.drills.engine import Engine, Outside
from edgeagent.flows.entering import Entering
from edgeagent.flows.held import Held
from edgeagent.flows.ingest import Ingest, IngestSettings
from edgeagent.flows.local import LocalCommands
from edgeagent.flows.lockdesk import Locks
from edgeagent.flows.no_images import NoImages
from edgeagent.flows.replaying import Replaying
from edgeagent.flows.settling import Settling
from edgeagent.flows.surroundings import Surroundings
from edgeagent.flows.tallies import Tallies
from edgeagent.flows.trust import Trust, TrustSettings
from edgeagent.flows.worlds import Worlds
from edgeagent.metrics import Metrics
from edgeagent.store.database import Database
from edgeagent.store.files import MIGRATIONS

_QUICK: Final = IngestSettings(commit_linger=timedelta(milliseconds=1))
_CLOCK_ERROR: Final = timedelta(milliseconds=20)


def drills(store: Database, around: Surroundings, config: Config) -> Drills:
    """Build what holds drills, and remove what one has left that was cut off with its agent."""
    held = Drills(store, around, config.hub.state_dir / "drill", start)
    held.clear()
    return held


async def start(outside: Outside) -> Engine:
    """Start the engine of a drill; see ``Start``."""
    store = await Database.open(outside.file, MIGRATIONS)
    try:
        return await _joined(store, outside)
    except BaseException:
        await store.close()
        raise


async def _joined(store: Database, outside: Outside) -> Engine:
    """Introduce the parts to each other, as ``hub`` does."""
    from edgeagent.flows.drills.appliance import profile

    time, bus = outside.time, outside.bus
    clock = ProvenClock(time)
    clock.prove(Proof(source=ClockSource.STATEMENT, wall=time.wall(), error=_CLOCK_ERROR, at=clock.boot()))
    around = Surroundings(
        origin=outside.origin,
        clock=clock,
        chance=lambda: 0.5,
        metrics=Metrics(CollectorRegistry()),
        crash=outside.points,
        outbox=OutboxBell(),
    )
    trust = Trust(store, clock, around, TrustSettings())
    trust.put_in_force(outside.policy, (outside.policy.issued_at, outside.policy.expires_at))
    known = profile()
    devices = Devices(store, bus, {known.id: known}, around)
    await devices.load()
    confirmations = Confirmations(clock)
    lanes = {tier: Bell() for tier in Tier}
    settling = Settling(devices, around, outside.key, Breakers(around, trust))
    worlds = Worlds(devices, trust, around, outside.key.public)
    entering = Entering(settling, lanes)
    admission = Admission(store, worlds, entering, Held(store, worlds, entering), Tallies(store, around))
    desk = Desk(store, bus, worlds, settling, confirmations, lanes, NoImages())
    return Engine(
        store=store,
        around=around,
        devices=devices,
        ingest=Ingest(store, bus, devices, confirmations, around, _QUICK),
        admission=admission,
        desk=desk,
        dispatch={tier: Dispatch(desk, tier, clock, around.chance, around.metrics) for tier in Tier},
        letters=DeadLetters(store, Replaying(worlds, entering), settling.bell.ring),
        locks=Locks(store, desk, around),
        commands=LocalCommands(store, admission, outside.key, around),
    )
