"""What time it is: who is asked, what is believed, what goes on record.

The time is proven by the kernel's word, by a statement that a key of the policy's role ``time`` has
signed over our nonce, or by a person at the hub (SPEC T5). What a word does for the floor of time is
told in ``flows/timefloor``.
"""

import logging
from dataclasses import field
from datetime import UTC, datetime, timedelta
from secrets import token_hex
from typing import Final

from edgeagent.clock import ClockSource, Proof
from edgeagent.contracts.door import decode
from edgeagent.contracts.timestatement import TIME_BYTES, TIME_TYPE, TimeStatement
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.envelope import verify
from edgeagent.core.retry import Backoff, BackoffRule
from edgeagent.errors import RejectedError, StorageError
from edgeagent.flows.bells import Bell
from edgeagent.flows.surroundings import Surroundings
from edgeagent.flows.timefloor import TimeFloor
from edgeagent.flows.trust import Trust
from edgeagent.ports.cloud import TimeSource
from edgeagent.ports.links import LinkError, Trouble
from edgeagent.store import audit
from edgeagent.store.audit import Act
from edgeagent.store.database import Database
from edgeagent.values import dataclass

log = logging.getLogger(__name__)

_MILLISECOND: Final = timedelta(milliseconds=1)
LAST_TIME: Final = datetime(9000, 1, 1, tzinfo=UTC)
"""No later time is believed: years of boot time can be added to it before datetime overflows."""


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
        store: where what goes on record is kept.
        floor: hears every word, and takes the proofs' clock along.
        source: who signs the time; None for nobody.
        trust: whose word on it counts; told whenever the time has become surer.
        around: whose hub it is.
        settings: how often.
    """

    def __init__(
        self,
        store: Database,
        floor: TimeFloor,
        source: TimeSource | None,
        trust: Trust,
        around: Surroundings,
        settings: TimeSettings,
    ) -> None:
        self._store = store
        self._floor = floor
        self._clock = floor.clock
        self._source = source
        self._trust = trust
        self._around = around
        self._settings = settings
        self._backoff = Backoff(settings.backoff)
        self._is_recorded = False
        self._lacked_keys = False
        self._bell = Bell()

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
            await self._bell.wait(wait)

    def heard(self, proof: Proof) -> bool:
        """Take note of what somebody says the time is.

        Returns:
            Whether the clock rests on it now.
        """
        is_taken = self._clock.prove(proof)
        self._floor.hears(proof)
        if is_taken:
            error = self._clock.wall().error
            self._around.metrics.clock_error.set(-1 if error is None else error.total_seconds())
            self._trust.tell()
        return is_taken

    def ask_again(self) -> None:
        """Ask every source at once: what was known of the time is not any more."""
        self._is_recorded = False
        self._bell.ring()

    def policy_came(self) -> None:
        """Ask at once, if nobody's word on the time counted before and somebody's does now."""
        if self._lacked_keys and self._trust.time_keys():
            self._lacked_keys = False
            self._bell.ring()

    async def _prove(self) -> bool:
        """Ask every source once.

        Returns:
            Whether the clock rests on a proof now.
        """
        await self._floor.load()
        kernel = self._clock.kernels_word()
        if kernel is not None:
            self.heard(kernel)
        if self._trust.policy is not None:
            self._floor.hears_of_policy(self._trust.policy.issued_at)
        self._lacked_keys = not self._trust.time_keys()
        if self._source is not None and not self._lacked_keys:
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
        if statement.time > LAST_TIME:
            raise LinkError(Trouble.BROKEN_ANSWER, "a time that no calendar of ours carries on")
        # It was signed some time in between; which, only the round trip bounds.
        trip = answered - asked
        proof = Proof(
            source=ClockSource.STATEMENT,
            wall=statement.time + trip / 2,
            error=trip / 2 + _MILLISECOND,
            at=answered,
        )
        self.heard(proof)

    async def _put_on_record(self) -> None:
        """Store that the time is known, once, and the floor, not too often."""
        wall = self._clock.wall()
        if not self._is_recorded:
            detail = {"error": None if wall.error is None else wall.error.total_seconds()}
            await self._record(
                Act(kind=AuditKind.CLOCK_PROVEN, subject="clock", actor=wall.source, detail={**detail})
            )
            self._is_recorded = True
            log.info("time is known", extra={"source": wall.source})
        await self._floor.keep()

    async def _record(self, act: Act) -> None:
        stamp = self._around.stamp()
        await self._store.write(lambda tx: audit.append(tx, [act], stamp))
