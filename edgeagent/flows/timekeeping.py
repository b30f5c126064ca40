"""What time it is: who is asked, what is believed, what goes on record.

The time is proven by the kernel's word or by a statement that a key of the policy's role ``time`` has
signed over our nonce (SPEC T5). A proof raises the floor of time: beyond what boot time explains by at
most a week on one source's word, further when two sources agree (SPEC T6). One wrong clock must not
expire everything for good, neither at once nor week by week.
"""

import asyncio
import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from secrets import token_hex
from typing import Final

from edgeagent.clock import ClockSource, Proof, ProvenClock
from edgeagent.contracts.door import decode
from edgeagent.contracts.timestatement import TIME_BYTES, TIME_TYPE, TimeStatement
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.envelope import verify
from edgeagent.core.retry import Backoff, BackoffRule
from edgeagent.errors import RejectedError, StorageError
from edgeagent.flows.surroundings import Surroundings
from edgeagent.flows.trust import Trust
from edgeagent.ports.cloud import TimeSource
from edgeagent.ports.links import LinkError, Trouble
from edgeagent.store import audit, meta
from edgeagent.store.audit import Act
from edgeagent.store.database import Database

log = logging.getLogger(__name__)

_ONE_SOURCE_RISE: Final = timedelta(days=7)
_SOURCES: Final = 2
_STORE_FLOOR_EVERY: Final = timedelta(hours=1)
_MILLISECOND: Final = timedelta(milliseconds=1)
# Years of boot time can be added to it before datetime overflows.
_LAST_TIME: Final = datetime(9000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSettings:
    """How the time is asked for.

    Attributes:
        refresh: how often a proven time is proven again.
        backoff: after failures to prove it.
    """

    refresh: timedelta = timedelta(hours=1)
    backoff: BackoffRule = field(
        default_factory=lambda: BackoffRule(first=timedelta(seconds=2), longest=timedelta(minutes=2))
    )


class Timekeeping:
    """Keeps the time proven.

    Args:
        store: where the floor and what goes on record are kept.
        clock: takes the proofs.
        source: who signs the time; None for nobody.
        trust: whose word on it counts; told whenever the time has become surer.
        around: whose hub it is.
        settings: how often.
    """

    def __init__(
        self,
        store: Database,
        clock: ProvenClock,
        source: TimeSource | None,
        trust: Trust,
        around: Surroundings,
        settings: TimeSettings,
    ) -> None:
        self._store = store
        self._clock = clock
        self._source = source
        self._trust = trust
        self._around = around
        self._settings = settings
        self._backoff = Backoff(settings.backoff)
        self._is_recorded = False
        self._stored_floor = clock.floor
        self._floor_stored_at: timedelta | None = None
        # When this boot began: by each source's word, and by what is beyond doubt.
        self._began: dict[ClockSource, datetime] = {}
        self._surely_began = clock.floor - clock.boot()

    async def run(self) -> None:
        """Keep the time proven; ends only by cancellation."""
        while True:
            try:
                known = await self._prove()
            except StorageError as why:
                # The time is known all the same; that it is goes on record when the disk takes it.
                log.warning("proof of the time not recorded", extra={"why": str(why)})
                known = False
            if known:
                self._backoff.worked(self._clock.boot())
                wait = self._settings.refresh
            else:
                wait = self._backoff.failed(self._clock.boot(), chance=self._around.chance())
            await asyncio.sleep(wait.total_seconds())

    async def _prove(self) -> bool:
        """Ask every source once.

        Returns:
            Whether the clock rests on a proof now.
        """
        if self._clock.ask_kernel():
            self._proved(ClockSource.KERNEL)
        if self._source is not None and self._trust.time_keys():
            try:
                await self._ask(self._source)
            except LinkError as why:
                log.info("no statement of the time", extra={"trouble": why.trouble, "why": str(why)})
        if self._clock.wall().source is ClockSource.NONE:
            return False
        await self._put_on_record()
        return True

    async def _ask(self, source: TimeSource) -> None:
        nonce = token_hex(16)
        asked = self._clock.boot()
        envelope = await source.statement(nonce)
        answered = self._clock.boot()
        try:
            verified = verify(envelope, self._trust.time_keys(), TIME_TYPE, limit=TIME_BYTES)
            statement = decode(TimeStatement, verified.payload, limit=TIME_BYTES)
        except RejectedError as why:
            raise LinkError(Trouble.BROKEN_ANSWER, str(why)) from why
        if statement.nonce != nonce or statement.hub != self._around.origin.hub:
            raise LinkError(Trouble.BROKEN_ANSWER, "an answer to another question")
        if statement.time > _LAST_TIME:
            raise LinkError(Trouble.BROKEN_ANSWER, "a time that no calendar of ours carries on")
        # It was signed some time in between; which, only the round trip bounds.
        trip = answered - asked
        proof = Proof(
            source=ClockSource.STATEMENT,
            wall=statement.time + trip / 2,
            error=trip / 2 + _MILLISECOND,
            at=answered,
        )
        if self._clock.prove(proof):
            self._proved(ClockSource.STATEMENT)

    def _proved(self, source: ClockSource) -> None:
        """Take note of a proof that the clock has just taken."""
        wall = self._clock.wall()
        self._around.metrics.clock_error.set(-1 if wall.error is None else wall.error.total_seconds())
        self._began[source] = wall.earliest - self._clock.boot()
        if self._is_past(wall.earliest):
            self._clock.raise_floor(wall.earliest)
        self._trust.tell()

    async def _put_on_record(self) -> None:
        """Store that the time is known, once, and the floor, not too often."""
        wall, boot = self._clock.wall(), self._clock.boot()
        if not self._is_recorded:
            detail = {"error": None if wall.error is None else wall.error.total_seconds()}
            await self._record(
                Act(kind=AuditKind.CLOCK_PROVEN, subject="clock", actor=wall.source, detail={**detail})
            )
            self._is_recorded = True
            log.info("time is known", extra={"source": wall.source})
        floor, stored_at = self._clock.floor, self._floor_stored_at
        if floor > self._stored_floor and (stored_at is None or boot - stored_at >= _STORE_FLOOR_EVERY):
            await self._store.write(lambda tx: meta.raise_time_floor(tx, floor))
            self._stored_floor, self._floor_stored_at = floor, boot

    def _is_past(self, moment: datetime) -> bool:
        """Whether a moment is certainly past, by the words that we have on it."""
        began = moment - self._clock.boot()
        agreeing = sum(word + _ONE_SOURCE_RISE >= began for word in self._began.values())
        if agreeing >= _SOURCES:
            self._surely_began = max(self._surely_began, began)
        return began <= self._surely_began + _ONE_SOURCE_RISE

    async def _record(self, act: Act) -> None:
        stamp = self._around.stamp()
        await self._store.write(lambda tx: audit.append(tx, [act], stamp))
