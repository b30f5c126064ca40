"""The floor of time: who raises it, by how much, and where it is kept (SPEC T6).

Every word on the time is heard here, also one that the clock does not take. The floor rises to what is
then certainly past:

*   beyond what boot time explains by at most a week on one source's word, further when two agree;
*   on the kernel's word only when it was given twice, an hour apart, and means the same;
*   never by a command.

One wrong clock must not expire everything for good, neither at once nor week by week: so the bound
counts from the same instant for as long as the boot lasts, however often the agent is started. It is
stored once an hour at most, and when the agent stops in order.
"""

import asyncio
from datetime import datetime, timedelta
from typing import Final

from edgeagent.clock import DRIFT, ClockSource, FloorSource, Proof, ProvenClock
from edgeagent.store import audit, meta
from edgeagent.store.audit import Act, Stamp
from edgeagent.store.database import Database, Transaction
from edgeagent.store.meta import StoredFloor

_ONE_SOURCE_RISE: Final = timedelta(days=7)
_SOURCES: Final = 2
_HOUR: Final = timedelta(hours=1)


class TimeFloor:
    """Holds the floor of time.

    Attributes:
        clock: whose floor it is.
        source: what it rests on.
        kernel_behind: what the kernel's synchronised clock says although so much is certainly past; None
            while it does not. One of the two is wrong, and a person has to say which.
    """

    def __init__(self, store: Database, clock: ProvenClock) -> None:
        self.clock = clock
        self.source = FloorSource.BUILT
        self.kernel_behind: datetime | None = None
        self._store = store
        self._is_loaded = False
        self._stored = clock.floor
        self._stored_at: timedelta | None = None
        self._writing = asyncio.Lock()
        # When this boot began: by each source's word, and by what is beyond doubt.
        self._began: dict[FloorSource, datetime] = {}
        self._surely_began = clock.floor - clock.boot()
        self._kernel: Proof | None = None

    async def load(self) -> None:
        """Read once what the store knows of the floor and of this boot.

        Raises:
            StorageError: it cannot be read now.
        """
        if self._is_loaded:
            return
        stored, began = await self._store.read(meta.time_floor), await self._store.read(meta.boot_began)
        if stored is not None and stored.moment >= self.clock.floor:
            self.source = stored.source
        if began is not None and began[0] == self.clock.boot_id:
            self._surely_began = began[1]
        self._is_loaded = True

    def hears(self, proof: Proof) -> None:
        """Take note of what somebody says the time is."""
        source = FloorSource(proof.source)
        is_kernel = source is FloorSource.KERNEL
        if proof.wall + proof.error < self.clock.floor:
            if is_kernel:
                self.kernel_behind = proof.wall
            return
        if is_kernel:
            self.kernel_behind = None
        self._began[source] = proof.wall - proof.error - proof.at
        if self.clock.wall().source is not ClockSource.NONE and (not is_kernel or self._is_second(proof)):
            self._raise(source, self.clock.wall().earliest)

    def hears_of_policy(self, issued_at: datetime) -> None:
        """Take note of when the policy in force was issued: that is past."""
        began = issued_at - self.clock.boot()
        self._began[FloorSource.POLICY] = max(began, self._began.get(FloorSource.POLICY, began))
        self._raise(FloorSource.POLICY, issued_at)

    async def keep(self, *, at_once: bool = False) -> None:
        """Store the floor, if it has risen and was not stored within the hour.

        Args:
            at_once: it is the last occasion: what is certainly past by now is stored, however lately
                it was stored before.

        Raises:
            StorageError: it is not stored.
        """
        async with self._writing:
            boot, wall = self.clock.boot(), self.clock.wall()
            if at_once and wall.source is not ClockSource.NONE:
                self._raise_again(FloorSource(wall.source), wall.earliest)
            is_due = at_once or self._stored_at is None or boot - self._stored_at >= _HOUR
            floor = self.clock.floor
            if floor > self._stored and is_due:
                await self._store.write(self._save)
                self._stored, self._stored_at = floor, boot

    async def reset(self, moment: datetime, act: Act, stamp: Stamp) -> None:
        """Set the floor back, as a person wants it; what was said of the time until now counts no more.

        Raises:
            StorageError: it is as it was.
        """
        began = moment - self.clock.boot()

        def save(tx: Transaction) -> None:
            resets = meta.floor_resets(tx) + 1
            meta.set_time_floor(tx, StoredFloor(moment, FloorSource.RESET, resets))
            meta.note_boot_began(tx, self.clock.boot_id, began)
            audit.append(tx, [act], stamp)

        async with self._writing:
            await self._store.write(save)
            self.clock.reset_floor(moment)
            self.source, self.kernel_behind, self._kernel = FloorSource.RESET, None, None
            self._began.clear()
            self._surely_began, self._stored = began, moment

    def _save(self, tx: Transaction) -> None:
        meta.raise_time_floor(tx, self.clock.floor, self.source)
        # In the same commit: a later start in this boot must not count the bound from the risen floor.
        meta.note_boot_began(tx, self.clock.boot_id, self._surely_began)

    def _raise_again(self, source: FloorSource, moment: datetime) -> None:
        """Raise the floor on a word that it was raised on before."""
        if source is self.source:
            self._raise(source, moment)

    def _raise(self, source: FloorSource, moment: datetime) -> None:
        if self._is_past(moment) and self.clock.raise_floor(moment):
            self.source = source

    def _is_past(self, moment: datetime) -> bool:
        """Whether a moment is certainly past, by the words that we have on it."""
        began = moment - self.clock.boot()
        agreeing = sum(word + _ONE_SOURCE_RISE >= began for word in self._began.values())
        if agreeing >= _SOURCES:
            self._surely_began = max(self._surely_began, began)
        return began <= self._surely_began + _ONE_SOURCE_RISE

    def _is_second(self, proof: Proof) -> bool:
        """Whether the kernel has said the same an hour before or earlier."""
        first = self._kernel
        if first is not None:
            passed = proof.at - first.at
            differs = abs((proof.wall - first.wall) - passed)
            if differs <= first.error + proof.error + passed * DRIFT:
                return passed >= _HOUR
        self._kernel = proof
        return False
