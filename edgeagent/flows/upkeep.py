"""Looking after commands that nobody works: waking them, and ending those whose time is over.

A command waits for its device, for the time, or for a later try. This flow is woken when one of these
comes, and when the next expiry is due; it never polls.
"""

import asyncio
import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from edgeagent.clock import EPOCH, Wall
from edgeagent.contracts.command import COMMAND_BYTES, Command
from edgeagent.contracts.door import decode
from edgeagent.contracts.event import Stream
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.envelope import unproven_payload
from edgeagent.core.freshness import begins
from edgeagent.core.lifecycle import State
from edgeagent.core.work import Ending
from edgeagent.errors import TransientError
from edgeagent.flows.claims import queued
from edgeagent.flows.desk import Desk
from edgeagent.flows.held import Held
from edgeagent.flows.settling import Ended, Settling
from edgeagent.flows.surroundings import Surroundings
from edgeagent.store import audit, inbox
from edgeagent.store.database import Database, Snapshot, Transaction
from edgeagent.store.inbox_row import Moved, Row

log = logging.getLogger(__name__)

_AFTER_FAULT: Final = 1.0
_NOTHING: Final = timedelta(0)
# Waiting for what the gate could not tell at the moment of the act.
_FOR_THE_TIME: Final = frozenset(
    {Reason.CLOCK_UNSURE, Reason.NOT_YET_VALID, Reason.NEEDS_APPROVAL, Reason.OUTCOME_UNKNOWN}
)
# A bound on how wrong the arithmetic of an expiry can make us wait.
_LONGEST: Final = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class _Open:
    """The commands that nobody works."""

    held: list[Row]
    queued: list[Row]
    waiting: list[Row]

    @property
    def all(self) -> list[Row]:
        """All of them."""
        return [*self.held, *self.queued, *self.waiting]


class Upkeep:
    """Wakes and ends commands."""

    def __init__(
        self, store: Database, held: Held, desk: Desk, settling: Settling, around: Surroundings
    ) -> None:
        self._store = store
        self._held = held
        self._desk = desk
        self._settling = settling
        self._around = around
        self._surer = True
        self.bell = settling.bell

    def time_is_surer(self) -> None:
        """The time or the policy has become surer: what is held is judged again."""
        self._surer = True
        self.bell.ring()

    async def run(self) -> None:
        """Look whenever something has changed; ends only by cancellation."""
        while True:
            try:
                wait = await self.look()
            except TransientError as why:
                log.warning("upkeep fails", extra={"why": str(why)})
                await asyncio.sleep(_AFTER_FAULT)
                continue
            await self.bell.wait(wait)

    async def look(self) -> timedelta | None:
        """Do what is due.

        Returns:
            When to look again by itself; None: not.

        Raises:
            StorageError: not all of it is done.
        """
        while self._desk.late:
            claim, confirmed = self._desk.late[0]
            await self._desk.correct(claim, confirmed)
            self._desk.late.popleft()
            # What is held for the outcome of that one can be told now.
            self._surer = True
        surer, self._surer = self._surer, False
        try:
            return await self._look_at_open(surer=surer)
        except TransientError:
            self._surer = surer or self._surer
            raise

    async def _look_at_open(self, *, surer: bool) -> timedelta | None:
        found = await self._store.read(_open)
        if surer or any(self._has_begun(row) for row in found.held):
            await self._held.judge_all()
            found = await self._store.read(_open)
        over = [row for row in found.all if self._is_over(row) and not self._cannot_be_asked(row)]
        awake = [row for row in found.waiting if row not in over and self._may_go_on(row, surer=surer)]
        if over or awake:
            await self._store.write(partial(self._move, over, awake))
            self._around.outbox.stored({Stream.RECORD}, len(over))
            self._desk.wake()
        left = [row for row in found.all if row not in over]
        moments = [self._until_over(row) for row in left] + [self._until_begun(row) for row in left]
        return min((moment for moment in moments if moment is not None and moment > _NOTHING), default=None)

    def _cannot_be_asked(self, row: Row) -> bool:
        """Whether what became of a command that was sent cannot be found out before the broker is back."""
        return row.sent and row.reason is Reason.BROKER_AWAY and not self._desk.is_linked

    def _is_over(self, row: Row) -> bool:
        """Whether a command's time has certainly passed, on the clock that counts for it."""
        clock = self._around.clock
        if row.local is not None:
            return row.local.passed(clock.boot_id, clock.boot())
        return clock.wall().earliest >= _expiry(row)

    def _until_over(self, row: Row) -> timedelta:
        clock = self._around.clock
        if row.local is not None:
            return row.local.until - clock.boot()
        wall: Wall = clock.wall()
        return min(max(_expiry(row) - wall.earliest, timedelta(milliseconds=1)), _LONGEST)

    def _until_begun(self, row: Row) -> timedelta | None:
        """How long until what was issued in the future has begun, as the gate sees it; None for all else."""
        latest = self._around.clock.wall().latest
        if row.reason is not Reason.NOT_YET_VALID or latest is None:
            return None
        command = decode(Command, unproven_payload(row.envelope), limit=COMMAND_BYTES)
        return begins(command.issued_at, command.sequence) - latest

    def _has_begun(self, row: Row) -> bool:
        left = self._until_begun(row)
        return left is not None and left <= _NOTHING

    def _may_go_on(self, row: Row, *, surer: bool) -> bool:
        """Whether what a command waits for has come."""
        if row.reason is Reason.DEVICE_OFFLINE and row.available is None:
            device = self._settling.devices.get(row.device)
            return device is None or device.online is not False
        if row.reason is Reason.BROKER_AWAY and row.available is None:
            return self._desk.is_linked
        surer = surer or self._has_begun(row)
        return surer and row.reason in _FOR_THE_TIME and row.available is None

    def _move(self, over: list[Row], awake: list[Row], tx: Transaction) -> None:
        for seen in over:
            row = _unchanged(tx, seen)
            if row is None:
                continue
            if row.sent:
                # It may have worked: whoever claims it finds out, and sends nothing. One that has a time is
                # claimed then.
                if row.state is State.WAITING and row.available is None:
                    inbox.move(tx, row, Moved(State.QUEUED, row.reason, force_refresh=True))
                    audit.append(tx, [queued(row)], self._around.stamp())
                continue
            ending = Ending(outcome=Outcome.EXPIRED, reason=Reason.EXPIRED, detail=row.reason or "")
            self._settling.settle(tx, row, Ended(ending=ending))
        for seen in awake:
            row = _unchanged(tx, seen)
            if row is not None:
                inbox.move(tx, row, Moved(State.QUEUED, row.reason, force_refresh=row.force_refresh))
                audit.append(tx, [queued(row)], self._around.stamp())


def _expiry(row: Row) -> datetime:
    return EPOCH + timedelta(microseconds=row.expires_at)


def _unchanged(tx: Transaction, seen: Row) -> Row | None:
    """The row if it still stands where it was seen."""
    row = inbox.by_run(tx, seen.run)
    return row if row is not None and row.state is seen.state else None


def _open(db: Snapshot) -> _Open:
    return _Open(*(inbox.in_state(db, state) for state in (State.HELD, State.QUEUED, State.WAITING)))
