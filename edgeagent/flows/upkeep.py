"""Looking after commands that nobody works: waking them, and ending those whose time is over.

A command waits for its device, for the time, or for a later try. This flow is woken when one of these
comes, and when the next expiry is due; it never polls. Each look does at most so much, in commits that hold
up nobody for long, and is followed by another at once while more is due.
"""

import asyncio
import logging
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from edgeagent.clock import EPOCH
from edgeagent.contracts.event import Stream
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.lifecycle import State
from edgeagent.core.work import Ending
from edgeagent.errors import TransientError
from edgeagent.flows.claims import queued
from edgeagent.flows.desk import Desk
from edgeagent.flows.held import Held
from edgeagent.flows.settling import Ended, Settling
from edgeagent.flows.surroundings import Surroundings
from edgeagent.ids import DeviceId
from edgeagent.store import audit, inbox, inbox_due
from edgeagent.store.database import Database, Transaction
from edgeagent.store.inbox_due import Due, View
from edgeagent.store.inbox_row import Moved, Row

log = logging.getLogger(__name__)

MOST: Final = 10
"""How many commands are ended, woken or judged again in one commit."""

_AFTER_FAULT: Final = 1.0
_AT_ONCE: Final = timedelta(0)
_MICROSECOND: Final = timedelta(microseconds=1)
_MILLISECOND: Final = timedelta(milliseconds=1)
_UNWORKED: Final = frozenset({State.HELD, State.QUEUED, State.WAITING})
# A bound on how wrong the arithmetic of an expiry can make us wait.
_LONGEST: Final = timedelta(minutes=10)


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
        # What is unsure is looked through once for each time that it was told to be surer: to the end, so
        # that whoever stands there last is reached however often it is told.
        self._surer = True
        self._after: int | None = None
        self.bell = settling.bell

    def time_is_surer(self) -> None:
        """The time or the policy has become surer: what is held is judged again."""
        self._surer = True
        self.bell.ring()

    async def run(self) -> None:
        """Look whenever something has changed; ends only by cancellation."""
        while True:
            try:
                with self._around.at_work("upkeep"):
                    wait = await self.look()
            except TransientError as why:
                log.warning("upkeep fails", extra={"why": str(why)})
                await asyncio.sleep(_AFTER_FAULT)
                continue
            await self.bell.wait(wait)

    async def look(self) -> timedelta | None:
        """Do what is due, as far as one look goes.

        Returns:
            When to look again by itself, zero while more is due; None: not.

        Raises:
            StorageError: not all of it is done.
        """
        while self._desk.late:
            claim, confirmed = self._desk.late[0]
            await self._desk.correct(claim, confirmed)
            self._desk.late.popleft()
            # What is held for the outcome of that one can be told now.
            self._surer = True
        if self._surer and self._after is None:
            self._surer, self._after = False, 0
        view = self._view()
        found = await self._store.read(partial(inbox_due.due, view=view))
        arrived = await self._arrived(found, view)
        unsure = {*found.begun, *found.unsure}
        await self._move(found.over, [*arrived, *sorted(each.run for each in unsure if not each.held)])
        await self._held.judge({each.run for each in unsure if each.held})
        self._after = found.unsure[-1].run if len(found.unsure) == view.most else None
        lists = (found.over, arrived, found.begun, found.unsure)
        if any(len(each) >= view.most for each in lists) or self._surer:
            return _AT_ONCE
        return _next(found, view)

    def _view(self) -> View:
        clock = self._around.clock
        wall = clock.wall()
        return View(
            earliest=_microseconds(wall.earliest),
            # Without a policy nothing can be judged, and nothing has begun.
            latest=None if wall.latest is None or not self._held.can_judge else _microseconds(wall.latest),
            boot=clock.boot_id,
            now=clock.boot() // _MILLISECOND,
            linked=self._desk.is_linked,
            after=self._after,
            most=MOST,
        )

    async def _arrived(self, found: Due, view: View) -> list[int]:
        """What waited for a device or the broker that is there now."""
        there = [device for device in found.awaited if self._is_there(device)]
        if not there:
            return found.for_broker
        woken = await self._store.read(partial(inbox_due.for_devices, devices=there, most=view.most))
        return [*found.for_broker, *woken]

    def _is_there(self, device: DeviceId) -> bool:
        """Whether a device may be there; one that was let go is waited for no more either."""
        found = self._settling.devices.get(device)
        return found is None or found.online is not False

    async def _move(self, over: list[int], awake: list[int]) -> None:
        """End what is over and have the rest of what waits go on."""
        if not over and not awake:
            return
        ended, woken = await self._store.write(partial(self._write, over, awake))
        if ended or woken:
            self._around.outbox.stored({Stream.RECORD}, ended)
            self._desk.wake()

    def _write(self, over: list[int], awake: list[int], tx: Transaction) -> tuple[int, int]:
        ended = woken = 0
        for run in over:
            row = inbox.by_run(tx, run)
            if row is None or row.state not in _UNWORKED:
                continue
            ended += 1
            if row.sent:
                # It may have worked: whoever claims it finds out, and sends nothing.
                self._go_on(tx, row, force_refresh=True)
                continue
            ending = Ending(outcome=Outcome.EXPIRED, reason=Reason.EXPIRED, detail=row.reason or "")
            self._settling.settle(tx, row, Ended(ending=ending))
        for run in awake:
            row = inbox.by_run(tx, run)
            if row is not None and row.state is State.WAITING and row.available is None:
                woken += 1
                self._go_on(tx, row, force_refresh=row.force_refresh)
        return ended, woken

    def _go_on(self, tx: Transaction, row: Row, *, force_refresh: bool) -> None:
        """Put a waiting command into its lane, unless it stands there."""
        if row.state is State.WAITING and row.available is None:
            inbox.move(tx, row, Moved(State.QUEUED, row.reason, force_refresh=force_refresh))
            audit.append(tx, [queued(row)], self._around.stamp())


def _next(found: Due, view: View) -> timedelta | None:
    """How long until something is due by itself."""
    moments: list[timedelta] = []
    if found.next_over is not None:
        moments.append(min((found.next_over - view.earliest) * _MICROSECOND, _LONGEST))
    if found.next_over_here is not None:
        moments.append((found.next_over_here - view.now) * _MILLISECOND)
    if found.next_begun is not None and view.latest is not None:
        moments.append((found.next_begun - view.latest) * _MICROSECOND)
    return min(moments, default=None)


def _microseconds(moment: datetime) -> int:
    return (moment - EPOCH) // _MICROSECOND
