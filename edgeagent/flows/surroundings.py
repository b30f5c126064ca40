"""What every flow is given of the world: time, chance, instruments, and whom it is the hub of."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import field
from datetime import timedelta
from typing import Final

from edgeagent.clock import Clock
from edgeagent.contracts.event import EventTime
from edgeagent.contracts.scalars import timestamp_text
from edgeagent.core.pulses import LONGEST, Pulses
from edgeagent.flows.bells import OutboxBell
from edgeagent.ids import Epoch, HubId
from edgeagent.metrics import Metrics
from edgeagent.ports.crash import CrashPoints
from edgeagent.store.audit import Stamp
from edgeagent.store.inbox_row import Now
from edgeagent.values import dataclass

_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Origin:
    """Whose events these are.

    Attributes:
        hub: the hub.
        epoch: the life of its database.
        incarnation: the start of the agent.
        zone: the venue's time zone.
    """

    hub: HubId
    epoch: Epoch
    incarnation: int
    zone: str = "UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a flow takes from outside without asking a port.

    Attributes:
        origin: whose events it makes.
        clock: time.
        chance: evenly from [0, 1).
        metrics: the instruments.
        crash: told at the named points.
        outbox: told of every event that was stored.
        pulses: told of the work that the watchdog goes by.
    """

    origin: Origin
    clock: Clock
    chance: Callable[[], float]
    metrics: Metrics
    crash: CrashPoints
    outbox: OutboxBell
    pulses: Pulses = field(default_factory=Pulses)

    def at_work(self, flow: str, within: timedelta = LONGEST) -> AbstractContextManager[None]:
        """Be at a piece of work that is over ``within`` a time; whoever takes longer is stuck."""
        return self.pulses.at_work(flow, self.clock.boot() + within)

    def stamp(self) -> Stamp:
        """The present, for an audit row."""
        wall = self.clock.wall()
        return Stamp(timestamp_text(wall.best), wall.source)

    def present(self) -> Now:
        """The present, as leases count it."""
        clock = self.clock
        return Now(clock.boot_id, clock.boot() // _MILLISECOND, self.origin.incarnation)

    def event_time(self) -> EventTime:
        """The present, for an event."""
        return EventTime.of(self.clock.wall(), self.clock.boot())
