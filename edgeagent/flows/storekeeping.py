"""Looking after the store: disk trouble told and ended, the log cut short, all pages looked at (SPEC R2).

    well ──a commit fails──> trouble ──a write that reaches the disk──> well, with a row of the trail
           (nothing is taken, acknowledged, claimed or sent: each of these begins with a commit)

While the store is well this looks at two numbers in memory and the length of a file once a minute, and
writes nothing (SPEC Q9). No work here holds up who commits: cutting the log does not wait for readers, and
the look at all pages reads beside the writer.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import Final

from pydantic import JsonValue

from edgeagent.core.audit_chain import AuditKind
from edgeagent.errors import StorageError, TransientError
from edgeagent.flows.beside import LONG_LOG, Beside
from edgeagent.flows.surroundings import Surroundings
from edgeagent.store import audit, meta
from edgeagent.store.audit import Act
from edgeagent.store.database import Database
from edgeagent.store.side import Side
from edgeagent.store.trouble import Fault
from edgeagent.values import dataclass

log = logging.getLogger(__name__)

LOOK: Final = timedelta(minutes=1)
"""How often the length of the log is looked at."""
CALM: Final = 600
"""How many commits between two looks count as calm: then the log is cut."""
CHECK_EVERY: Final = timedelta(days=30)
"""How often all pages are looked at."""

_FIRST_TRY: Final = timedelta(seconds=1)
_LONGEST_TRY: Final = timedelta(seconds=30)
# Trouble that comes back sooner is told of more and more seldom: each time costs a row of the trail.
_WELL: Final = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Ailing:
    """The store takes no writes.

    Attributes:
        fault: what is wrong.
        why: the same in words.
        since: boot time.
        failures: how many commits have failed.
    """

    fault: Fault
    why: str
    since: timedelta
    failures: int


class StoreKeeping:
    """Looks after the store.

    Attributes:
        damage: what of the file does not hang together, found now or before an earlier start; empty when all
            does, or nobody has looked yet.
    """

    def __init__(self, store: Database, beside: Beside, around: Surroundings) -> None:
        self._store = store
        self._beside = beside
        self._around = around
        self._since: timedelta | None = None
        self._wait = _FIRST_TRY
        self._well_since = around.clock.boot()
        self._commits = 0
        # What the start had no time for is done at the first look.
        self._checked = around.clock.boot() if store.is_checked else None
        self.damage = ""

    @property
    def ailing(self) -> Ailing | None:
        """How the store ails; None when it takes writes."""
        trouble = self._store.trouble
        if trouble is None:
            return None
        since = self._around.clock.boot() if self._since is None else self._since
        return Ailing(trouble.fault, trouble.why, since, trouble.failures)

    def lasted(self, ailing: Ailing) -> timedelta:
        """For how long it has ailed."""
        return self._around.clock.boot() - ailing.since

    async def run(self) -> None:
        """Look after it; ends only by cancellation, and then ends work beside the writer."""
        try:
            await self._quietly(self.recall)
            while True:
                try:
                    async with asyncio.timeout(LOOK.total_seconds()):
                        await self._store.failed.wait()
                except TimeoutError:
                    await self._quietly(self.look)
                else:
                    await self._recover()
        finally:
            self._beside.stop()

    async def recall(self) -> None:
        """Take over the damage that was found before this start, and look soon whether it is still there.

        The start's own look does not see an index that does not fit its table.

        Raises:
            StorageError: it cannot be read.
        """
        self.damage = await self._store.read(meta.damage)
        if self.damage:
            self._checked = None

    async def look(self) -> None:
        """Do what is due while the store is well.

        Raises:
            TransientError: not all of it is done.
        """
        commits, self._commits = self._store.commits - self._commits, self._store.commits
        if self._store.log_bytes > LONG_LOG and commits < CALM:
            is_cut = await self._store.checkpoint()
            log.info("log cut" if is_cut else "log not cut: it is being read")
        now = self._around.clock.boot()
        if self._checked is None or now - self._checked >= CHECK_EVERY:
            before, self.damage = self.damage, await self._beside.run(Side.damage)
            if self.damage:
                log.critical("database damaged", extra={"why": self.damage})
            if self.damage != before:
                await self._store.write(partial(meta.note_damage, what=self.damage))
            self._checked = now

    async def _quietly(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except TransientError as why:
            log.warning("upkeep of the store fails", extra={"why": str(why)})

    async def _recover(self) -> None:
        """Try until a write has reached the disk: the row that tells of it."""
        now = self._around.clock.boot()
        if now - self._well_since >= _WELL:
            self._wait = _FIRST_TRY
        self._since = now
        worst = self.ailing
        self._around.metrics.store_writable.set(0)
        log.error("store takes no writes", extra={} if worst is None else {"why": worst.why})
        while True:
            await asyncio.sleep(self._wait.total_seconds())
            self._wait = min(self._wait * 2, _LONGEST_TRY)
            # Others may have been luckier meanwhile; it is told all the same.
            worst = self.ailing or worst
            try:
                await self._record(worst)
            except StorageError:
                continue
            break
        self._since = None
        self._around.metrics.store_writable.set(1)
        self._well_since = self._around.clock.boot()
        self._store.failed.clear()
        log.info("store takes writes again")

    async def _record(self, ailing: Ailing | None) -> None:
        detail: dict[str, JsonValue] = {}
        if ailing is not None:
            detail = {
                "fault": ailing.fault,
                "seconds": int(self.lasted(ailing).total_seconds()),
                "failures": ailing.failures,
            }
        act = Act(kind=AuditKind.STORE_RECOVERED, subject="store", actor="agent", detail=detail)
        stamp = self._around.stamp()
        await self._store.write(lambda tx: audit.append(tx, [act], stamp))
