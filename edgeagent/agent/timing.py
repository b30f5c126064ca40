"""What knows the time, keeps its floor, and tells of the epoch: built together."""

import logging

from edgeagent.agent.running import Flow
from edgeagent.clock import ProvenClock
from edgeagent.errors import StorageError
from edgeagent.flows.clockdesk import HubClockDesk
from edgeagent.flows.epochs import EpochWatch
from edgeagent.flows.floorkeeping import FloorKeeping
from edgeagent.flows.surroundings import Surroundings
from edgeagent.flows.timefloor import TimeFloor
from edgeagent.flows.timekeeping import Timekeeping, TimeSettings
from edgeagent.flows.trust import Trust
from edgeagent.ports.cloud import TimeSource
from edgeagent.store.database import Database
from edgeagent.values import dataclass

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The parts.

    Attributes:
        floor: the floor of time.
        timekeeping: proves the time.
        keeping: writes the floor file.
        desk: answers people.
        epochs: tells of the epoch.
    """

    floor: TimeFloor
    timekeeping: Timekeeping
    keeping: FloorKeeping
    desk: HubClockDesk
    epochs: EpochWatch

    @property
    def flows(self) -> dict[str, Flow]:
        """What of it runs, by name."""
        return {"time": self.timekeeping.run, "floor-file": self.keeping.run}

    async def last(self) -> None:
        """Keep what is known now for the next start, when all else has stopped."""
        try:
            await self.floor.keep(at_once=True)
        except StorageError as why:
            log.warning("floor of time not stored", extra={"why": str(why)})
        await self.keeping.keep()


def timing(
    store: Database,
    clock: ProvenClock,
    source: TimeSource | None,
    trust: Trust,
    around: Surroundings,
    keeping: FloorKeeping,
) -> Timing:
    """Build the parts and introduce them to each other."""
    floor = TimeFloor(store, clock)
    timekeeping = Timekeeping(store, floor, source, trust, around, TimeSettings())
    trust.when_proven(timekeeping.policy_came)
    return Timing(
        floor=floor,
        timekeeping=timekeeping,
        keeping=keeping,
        desk=HubClockDesk(
            store=store, floor=floor, timekeeping=timekeeping, keeping=keeping, trust=trust, around=around
        ),
        epochs=EpochWatch(store, keeping),
    )
