"""Asks everything that is watched, at once."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial

from edgeagent.contracts.reports.health import Check
from edgeagent.flows.surroundings import Surroundings
from edgeagent.flows.tallies import Tallies
from edgeagent.flows.uplink import Uplink
from edgeagent.flows.watching.certificates import CertificateFiles
from edgeagent.flows.watching.draining import DrainWatch
from edgeagent.flows.watching.lanes import LaneWatch
from edgeagent.flows.watching.locked import LockWatch
from edgeagent.flows.watching.replays import replay_check
from edgeagent.flows.watching.stuck import stuck_check
from edgeagent.store import outbox
from edgeagent.store.database import Database, Snapshot
from edgeagent.store.inbox_row import Now
from edgeagent.values import dataclass


@dataclass(frozen=True, slots=True)
class Lookout:
    """Looks at work that may be stuck, and at what ends by itself.

    Attributes:
        store: the database.
        around: time, and whose hub it is.
        uplink: what sends events up; None without a cloud.
        tallies: counts repeats.
        certificates: the files to look at.
        further: other looks at what is held in memory.
    """

    store: Database
    around: Surroundings
    uplink: Uplink | None
    tallies: Tallies
    certificates: CertificateFiles
    further: Sequence[Callable[[], Check]] = ()
    _lanes: LaneWatch = field(default_factory=LaneWatch)
    _locks: LockWatch = field(default_factory=LockWatch)
    _drain: DrainWatch = field(default_factory=DrainWatch)

    async def checks(self) -> list[Check]:
        """All of it.

        Raises:
            StorageError: the database cannot be read.
        """
        clock, now = self.around.clock, self.around.present()
        certificates = await asyncio.to_thread(self.certificates.check, clock.wall())
        return [
            *await self.store.read(partial(self._of_store, now=now)),
            replay_check(self.tallies.burst, clock.boot()),
            certificates,
            *(look() for look in self.further),
        ]

    def _of_store(self, db: Snapshot, now: Now) -> list[Check]:
        clock, state = self.around.clock, None if self.uplink is None else self.uplink.state
        return [
            stuck_check(db, clock, now),
            *self._lanes.checks(db, clock.boot(), now),
            self._locks.check(db, clock.boot(), now),
            self._drain.check(outbox.depths(db), state, clock.boot()),
        ]
