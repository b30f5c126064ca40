"""A hub with everything that its operator may ask about: health, status, devices, the outbox.

    async with operated_hub(tmp_path, "dev-1") as desk:
        desk.cloud.goes_down()
        report = await desk.operator.health()

It is well: connected, the time proven, a policy in force, nothing waiting. Commands are let in and not
worked; readings come in and go nowhere before ``desk.uploads``.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

from edgeagent.agent.timing import Timing, timing
from edgeagent.clock import ClockSource, Proof, ProvenClock
from edgeagent.contracts.floormark import EpochReason
from edgeagent.contracts.policy import Tier
from edgeagent.contracts.reports.health import Check
from edgeagent.core.retry import BackoffRule
from edgeagent.flows.admission import Admission
from edgeagent.flows.bells import Bell
from edgeagent.flows.beside import Beside
from edgeagent.flows.breakers import Breakers
from edgeagent.flows.brokerwatch import BrokerWatch
from edgeagent.flows.entering import Entering
from edgeagent.flows.floorkeeping import FloorKeeping
from edgeagent.flows.health import Health
from edgeagent.flows.held import Held
from edgeagent.flows.holdtimes import HoldTimes
from edgeagent.flows.local import LocalCommands
from edgeagent.flows.operator import HubOperator
from edgeagent.flows.settling import Settling
from edgeagent.flows.storekeeping import StoreKeeping
from edgeagent.flows.tallies import Tallies
from edgeagent.flows.trust import Trust, TrustSettings
from edgeagent.flows.uplink import Uplink, UplinkSettings
from edgeagent.flows.watching.certificates import CertificateFiles
from edgeagent.flows.watching.lookout import Lookout
from edgeagent.flows.worlds import Worlds
from edgeagent.store.database import Transaction
from edgeagent.store.floorfile import FloorFile
from edgeagent.store.meta import Life, begin_life, next_incarnation
from tests.flows.building import HUB, Hub, new_hub
from tests.flows.policies import signed_policy
from tests.support.clocks import NOON, ManualReadings
from tests.support.fake_cloud import FakeCloud
from tests.support.keys import MemoryKey

VENUE = MemoryKey()
"""The key whose policies count at this hub."""


class HandClock(ProvenClock):
    """The agent's own clock, over clocks that a test moves.

    Attributes:
        readings: those.
    """

    def __init__(self) -> None:
        self.readings = ManualReadings()
        super().__init__(self.readings, floor=NOON - timedelta(days=1))

    def passes(self, length: timedelta) -> None:
        """Let time go on."""
        self.readings.passes(length)

    def is_proven(self) -> None:
        """Somebody who may has said what the time is."""
        error = timedelta(milliseconds=20)
        self.prove(
            Proof(
                source=ClockSource.STATEMENT,
                wall=self.readings.wall(),
                error=error,
                at=self.readings.boot(),
            )
        )


@dataclass(slots=True)
class OperatorDesk:
    """A hub and its operator.

    Attributes:
        hub: the hub.
        clock: its time.
        trust: what it believes.
        cloud: where its events go.
        uplink: how; it does not run.
        watch: looks at the broker, when it is asked to.
        health: looks at everything.
        operator: what is asked.
        time: what knows the time; it asks nobody by itself.
    """

    hub: Hub
    clock: HandClock
    trust: Trust
    cloud: FakeCloud
    uplink: Uplink
    watch: BrokerWatch
    health: Health
    operator: HubOperator
    time: Timing

    async def check(self, name: str) -> Check:
        """One of the checks of a health report."""
        return await check_of(self.health, name)

    @asynccontextmanager
    async def uploads(self) -> AsyncIterator[None]:
        """Let the uplink run."""
        task = asyncio.create_task(self.uplink.run())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def check_of(health: Health, name: str) -> Check:
    """One of the checks of a health report."""
    [found] = [check for check in (await health.report()).checks if check.name == name]
    return found


def _begin(life: Life, tx: Transaction) -> None:
    """As each start of the agent does, the first time."""
    begin_life(tx, life)
    next_incarnation(tx)


@asynccontextmanager
async def operated_hub(folder: Path, *devices: str, with_cloud: bool = True) -> AsyncIterator[OperatorDesk]:
    """A hub that is well.

    Args:
        folder: for its database.
        devices: things that are admitted and online.
        with_cloud: whether one is configured.
    """
    clock = HandClock()
    async with new_hub(folder, *devices, clock=clock) as hub:
        clock.is_proven()
        around, store = hub.around, hub.store
        await store.write(partial(_begin, Life(epoch=around.origin.epoch, reason=EpochReason.FIRST)))
        key, tallies = MemoryKey(), Tallies(hub.store, hub.around)
        trust = Trust(store, clock, around, TrustSettings(signer=VENUE.public))
        await trust.load(signed_policy(VENUE, 3))
        cloud = FakeCloud(HUB, clock)
        hour = timedelta(hours=1)
        settings = UplinkSettings(linger=timedelta(0), backoff=BackoffRule(first=hour, longest=hour))
        uplink = Uplink(store, cloud, around, settings)
        watch = BrokerWatch(store, hub.bus, hub.devices, around)
        keeping = FloorKeeping(store, FloorFile(folder, HUB), trust, around, 0)
        time = timing(store, clock, None, trust, around, keeping)
        upkeep = StoreKeeping(store, Beside(store), around)
        health = Health(
            store=store,
            bus=hub.bus,
            devices=hub.devices,
            holds=HoldTimes(),
            ingest=hub.ingest,
            keeping=upkeep,
            uplink=uplink if with_cloud else None,
            trust=trust,
            watch=watch,
            floor=time.floor,
            epochs=time.epochs,
            around=around,
            lookout=Lookout(store, around, uplink if with_cloud else None, tallies, CertificateFiles({}, {})),
            started=clock.boot(),
        )
        worlds = Worlds(hub.devices, trust, around, key.public)
        lanes = {tier: Bell() for tier in Tier}
        entering = Entering(Settling(hub.devices, around, key, Breakers(around, trust)), lanes)
        admission = Admission(store, worlds, entering, Held(store, worlds, entering), tallies)
        operator = HubOperator(health, clock, LocalCommands(store, admission, key, around))
        yield OperatorDesk(hub, clock, trust, cloud, uplink, watch, health, operator, time)
