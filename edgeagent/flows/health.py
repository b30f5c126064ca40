"""How the hub stands: each check says what was seen and what to do next (SPEC O5)."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from edgeagent.contracts.reports.health import Check, HealthReport, Level, worst_first
from edgeagent.errors import StorageError
from edgeagent.flows.broker_health import broker_checks
from edgeagent.flows.brokerwatch import BrokerWatch
from edgeagent.flows.clock_health import clock_check
from edgeagent.flows.cloud_health import cloud_check
from edgeagent.flows.devices import Devices
from edgeagent.flows.drills.standing import drill_checks, drill_standings
from edgeagent.flows.epochs import EpochWatch
from edgeagent.flows.holdtimes import HoldTimes
from edgeagent.flows.ingest import Ingest
from edgeagent.flows.machine.probe import Probe
from edgeagent.flows.outbox_health import outbox_check
from edgeagent.flows.policy_health import policy_check
from edgeagent.flows.queue_health import queue_check
from edgeagent.flows.standing_checks import standing_checks
from edgeagent.flows.store_health import store_check
from edgeagent.flows.storekeeping import StoreKeeping
from edgeagent.flows.surroundings import Surroundings
from edgeagent.flows.timefloor import TimeFloor
from edgeagent.flows.trust import Trust
from edgeagent.flows.uplink import Uplink
from edgeagent.flows.wary import Presence
from edgeagent.flows.watching.lookout import Lookout
from edgeagent.flows.worker_health import worker_check
from edgeagent.ports.broker import DeviceBus
from edgeagent.store import lines, outbox
from edgeagent.store.database import Database
from edgeagent.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Looks at everything; owns nothing."""

    store: Database
    bus: DeviceBus
    devices: Devices
    holds: HoldTimes
    ingest: Ingest
    keeping: StoreKeeping
    uplink: Uplink | None
    trust: Trust
    watch: BrokerWatch
    floor: TimeFloor
    epochs: EpochWatch
    around: Surroundings
    lookout: Lookout
    started: timedelta
    workers: Presence | None = None
    probes: Sequence[Probe] = ()

    async def report(self) -> HealthReport:
        """All checks, worst first."""
        wall, policy, drills = self.around.clock.wall(), self.trust.policy, await drill_standings(self.store)
        checks = [
            *broker_checks(self.bus, self.watch, self.devices, self.around.clock.boot()),
            *await self._store_checks(),
            cloud_check(None if self.uplink is None else self.uplink.state, self.around.clock.boot()),
            clock_check(self.floor, wall),
            policy_check(self.trust, wall),
            *drill_checks(drills, None if policy is None else policy.drill_every, wall.best),
            *await self._machine(),
            self.holds.check(),
            self._proposals(),
        ]
        return HealthReport(at=wall.best, checks=worst_first(checks), drills=drills or [])

    async def _machine(self) -> list[Check]:
        """What may hang is looked at side by side, so that it takes as long as the slowest."""
        found = await asyncio.gather(*(probe.checks() for probe in self.probes))
        return [check for checks in found for check in checks]

    async def _store_checks(self) -> list[Check]:
        """What the store tells; where it does not, whichever of it, that alone."""
        try:
            return await self._stored_checks()
        except StorageError as why:
            return [store_check(self.keeping, str(why))]

    async def _stored_checks(self) -> list[Check]:
        depths = await self.store.read(outbox.depths)
        epoch = await self.epochs.check()
        return [
            store_check(self.keeping, self.ingest.store_trouble),
            outbox_check(depths, None if self.uplink is None else self.uplink.state, self.around),
            epoch,
            queue_check(await self.store.read(lines.pending), self.around.event_time().at),
            *await self.store.read(standing_checks),
            *await worker_check(self.store, self.workers, self.around.clock.boot(), self.started),
            *await self.lookout.checks(),
        ]

    def _proposals(self) -> Check:
        count = len(self.devices.proposals)
        if not count:
            return Check(name="discovery", level=Level.OK, summary="no device waits for admission")
        return Check(
            name="discovery",
            level=Level.OK,
            summary=f"{count} device{'s wait' if count > 1 else ' waits'} for admission",
            advice="edgeagent devices list; edgeagent devices admit ID",
        )
