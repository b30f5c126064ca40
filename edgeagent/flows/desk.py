"""The desk: commands are claimed here, worked under a lock, and brought back.

    claim ──> a command of the lane, its device locked: one transaction, one lease, one fence
    publish ─> recorded, then, in one stretch of the loop: lock still ours? lease still running? send
    finish ──> the final commit;    postpone ──> back into the lane, or waiting

Implements ``ports.WorkDesk`` on the store. Whoever works may be slow, stopped or gone: every step is
checked here, under the token and fence of the claim (SPEC L2), and what a holder that is gone has left
is taken over with the device read afresh (SPEC L3).
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Final

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.event import Stream
from edgeagent.contracts.mqtt import PublishResult, Session
from edgeagent.contracts.policy import ActionRule, Level, Tier, TierRule
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.contracts.update import Stage
from edgeagent.core.confirmation import Confirmed
from edgeagent.core.envelope import RefusedEnvelopeError
from edgeagent.core.firmware import Served, Sight, Update
from edgeagent.core.gate.roles import speaker
from edgeagent.core.gate.verdict import Opened
from edgeagent.core.gate.world import World
from edgeagent.core.saga import Mark
from edgeagent.core.shadow import StateReading
from edgeagent.core.work import Answered, Claim, Ending, Later, StepName
from edgeagent.errors import BrokenInvariantError
from edgeagent.flows import claims
from edgeagent.flows.bells import Bell
from edgeagent.flows.claims import Found, Taker, Wanted, fields_of, key_of, running
from edgeagent.flows.confirmations import Confirmations
from edgeagent.flows.corrections import correct
from edgeagent.flows.giving_back import GivingBack
from edgeagent.flows.holdtimes import Kind
from edgeagent.flows.loans import Loan, Loans
from edgeagent.flows.losing import Losing
from edgeagent.flows.postponing import Postponing
from edgeagent.flows.rollouts import Rollouts
from edgeagent.flows.sending import Sending
from edgeagent.flows.settling import Ended, Settling
from edgeagent.flows.steps import Steps
from edgeagent.flows.takers import Answer, Takers
from edgeagent.flows.updates import Updates
from edgeagent.flows.worlds import Worlds
from edgeagent.flows.writes import Writes
from edgeagent.ids import DeviceId, ReadingName
from edgeagent.ports.broker import DeviceBus
from edgeagent.ports.crash import CrashPoint
from edgeagent.ports.firmware import Images
from edgeagent.store import locks, steps, updates
from edgeagent.store.database import Database, Transaction
from edgeagent.store.inbox_row import Now, Row

log = logging.getLogger(__name__)

_MILLISECOND: Final = timedelta(milliseconds=1)


class Desk:
    """Lends commands out and takes them back."""

    def __init__(
        self,
        store: Database,
        bus: DeviceBus,
        worlds: Worlds,
        settling: Settling,
        confirmations: Confirmations,
        lanes: Mapping[Tier, Bell],
        images: Images,
    ) -> None:
        self._store = store
        self._bus = bus
        self._worlds = worlds
        self._around = worlds.around
        self._settling = settling
        self._confirmations = confirmations
        self._lanes = lanes
        self._takers = {
            lane: Takers(bell, partial(self._ask, lane), self._give_back) for lane, bell in lanes.items()
        }
        self._loans = Loans(confirmations, worlds.holds, worlds.around.metrics)
        self._steps = Steps(settling.devices)
        self._sending = Sending(store, bus, worlds, self._loans, self._steps)
        self.updates = Updates(store, worlds, self._loans, confirmations, self._sending, images)
        # Confirmations that came after their command had ended as unknown.
        self.late: deque[tuple[Claim, Confirmed]] = deque()
        self._let_go_of: list[Callable[[DeviceId], None]] = []
        self._stale: list[Callable[[], None]] = []
        self.losing = Losing(settling)
        self._giving_back = GivingBack(store, self._around, self.losing)
        self.rollouts = Rollouts(settling.devices, worlds.trust, worlds.around)
        self.writes = Writes(worlds.around)

    @property
    def is_linked(self) -> bool:
        """Whether a step could be handed to the broker."""
        return self._bus.state(Session.CONTROL).connected

    def when_let_go(self, tell: Callable[[DeviceId], None]) -> None:
        """Have ``tell`` called whenever a device is worked no more."""
        self._let_go_of.append(tell)

    def when_stale(self, tell: Callable[[], None]) -> None:
        """Have ``tell`` called whenever a command was refused as stale."""
        self._stale.append(tell)

    async def claim(self, lane: Tier, holder: str) -> Claim:
        """Wait for a command of a lane and lock its device."""
        while True:
            claim = await self._takers[lane].lend(holder, self._lent)
            if claim is not None:
                return claim

    async def _ask(self, lane: Tier, takers: Sequence[Taker]) -> Answer:
        """Claim for all who wait for a lane."""
        policy = self._worlds.trust.policy
        if policy is None:
            return Answer()
        wanted = Wanted(
            lane=lane,
            takers=takers,
            most=self._settling.breakers.most(lane, policy.tier_rule(lane).concurrency),
            now=self._around.present(),
            wall=self._around.clock.wall(),
            stamp=self._around.stamp(),
            losing=self.losing,
            rollouts=self.rollouts,
        )
        with self._around.at_work("desk"):
            await self.updates.let_go_of_ended()
            claimed = await self._store.write(partial(claims.claim, wanted))
        if self.losing.tell(claimed.lost):
            self.wake()
        if claimed.events:
            self._around.outbox.stored({Stream.RECORD}, claimed.events)
        for taker, found in zip(takers, claimed.found, strict=False):
            self._loans.begin(taker.token, self._loan(found.row, wanted.now))
        outlook = claimed.outlook
        if outlook is None:
            return Answer(claimed.found)
        left = None if outlook.next is None else (outlook.next - wanted.now.milliseconds) * _MILLISECOND
        return Answer(claimed.found, left, outlook.is_left)

    async def renew(self, claim: Claim) -> None:
        """Lengthen the lease."""
        loan = self._loans.of(claim)
        until = self._around.clock.boot() + loan.lease
        renew = partial(
            locks.renew, key=key_of(claim), until=until // _MILLISECOND, now=self._around.present()
        )
        await self._store.write(renew)
        loan.until = until

    async def publish(self, claim: Claim, step: StepName, part: int = 0) -> PublishResult:
        """Send a step, recorded before it leaves; and begin to wait for what answers it."""
        if step is StepName.INSTALL:
            return await self.updates.publish(claim, part)
        return await self._sending.publish(claim, step, part)

    async def checkpoint(self, claim: Claim, mark: Mark) -> None:
        """Record what became of the part that is next."""
        await self._sending.checkpoint(claim, mark)

    async def await_confirmation(self, claim: Claim, *, level: Level, within: timedelta) -> Answered:
        """Wait until the last step is proven to ``level``, denied, read back or over; at most so long."""
        loan = self._loans.of(claim)
        waiter, act = loan.last, loan.act
        if waiter is None:
            raise BrokenInvariantError(f"nothing was sent for run {claim.run}")
        # A question that looks for nothing in particular is over once it is answered.
        is_open_question = waiter is not act and waiter.looks_for is None

        def answered() -> Answered:
            return Answered(
                confirmed=None if act is None else act.progress.confirmed,
                denied=None if act is None else act.progress.denied,
                seen=waiter.seen,
                is_over=is_open_question and waiter.is_answered,
            )

        left, settling = waiter.left(self._around.clock.boot()), waiter.is_settling

        def shortened() -> bool:
            return waiter.is_settling is not settling

        # What the device says stirs all who wait for it, so that one of the two may be watched.
        await waiter.until(lambda: answered().is_enough(level) or shortened(), min(within, left))
        found = answered()
        if waiter is not act and waiter.sent_at is not None:
            self.writes.read_back(claim.device, self._state(claim.device), since=waiter.sent_at)
        return replace(found, is_over=found.is_over or (left <= within and not shortened()))

    async def serve(self, claim: Claim) -> Served:
        """Have an update's file served to its device, and say where the update stands."""
        return await self.updates.serve(claim)

    async def await_progress(self, claim: Claim, *, within: timedelta) -> Sight:
        """Wait until more is seen of an update; at most so long."""
        return await self.updates.await_progress(claim, within)

    async def enter(self, claim: Claim, stage: Stage) -> Update:
        """Record which stage an update is at, by what was seen last."""
        return await self.updates.enter(claim, stage)

    async def read_device(self, claim: Claim) -> World:
        """What is known now of everything that the gate judges by."""
        world = self._worlds.around_device(claim.device, claim.world.local)
        _, world = await self._store.read(partial(self._worlds.remembered, asked=claim.asked, world=world))
        return world

    async def finish(self, claim: Claim, ending: Ending) -> None:
        """End the command, in one commit."""
        self._sending.check_end(claim, ending)
        is_update = claim.asked.command.action is ActionName.INSTALL
        if is_update:
            self.updates.check_end(claim, ending.outcome, ending.level)
        if ending.outcome is Outcome.SUCCEEDED:
            self._around.crash.reached(CrashPoint.EFFECT_CONFIRMED)
        ended = Ended(
            ending=ending,
            lock=key_of(claim),
            fence=claim.fence,
            before=claim.before,
            after=self._settling.mark(claim.device),
        )
        await self._store.write(lambda tx: self._settling.settle(tx, running(tx, claim.run), ended))
        self._around.crash.reached(CrashPoint.COMMAND_SETTLED)
        self._around.metrics.commands_settled.labels(ending.outcome).inc()
        extra = {**fields_of(claim), "outcome": ending.outcome, "reason": ending.reason}
        log.info("command ended", extra=extra)
        for tell in self._stale if ending.reason is Reason.STALE else ():
            tell()
        self._loans.brought_back(claim.token, self._around.clock.boot())
        act = self._loans.end(claim.token)
        wish = None if claim.plan is None else claim.plan.wish
        if ending.outcome is Outcome.SUCCEEDED and act is not None and wish is not None:
            self.writes.confirmed(claim.device, wish)
        if ending.outcome is Outcome.UNKNOWN and act is not None:
            tell = partial(self._confirmed_late, claim)
            self._confirmations.keep_late(claim.run, act, claim.rule.confirmation, tell)
        if is_update:
            await self.updates.let_go(claim.run)
        self._let_go(claim.token, claim.device)

    async def postpone(self, claim: Claim, later: Later) -> None:
        """Give the command back, to be taken up again later."""
        if later.is_left:
            await self._giving_back.left(claim, later)
        else:
            self.updates.check_given_back(claim)
            postponing = Postponing(later, self._around.present(), self._around, self._settling.breakers)
            too_often = await self._store.write(partial(postponing.write, claim))
            postponing.tell(claim, too_often=too_often)
            await self.updates.let_go(claim.run)
        self._let_go(claim.token, claim.device)
        # Whoever waits for work is to know when it is due.
        self.wake()
        # Its time may be over before it is due; and what it waits for may have come while this was written.
        self._settling.bell.ring()
        self._worlds.trust.tell_again(claim.world.wall)

    async def abandon(self, claim: Claim) -> None:
        """Let a claim go whose holder is gone: it is taken over at once, not when its lease lapses."""
        now = self._around.present()
        # The lease ends, and whoever takes the command over counts it as lost.
        await self._store.write(partial(locks.renew, key=key_of(claim), until=now.milliseconds, now=now))
        self._let_go(claim.token, claim.device)
        self.wake()

    async def _give_back(self, taker: Taker, found: Found) -> None:
        """Queue a command again that was claimed for somebody who is gone: that is no loss."""
        await self._giving_back.unbegun(taker, found)
        self._let_go(taker.token, found.row.device)
        self.wake()

    async def correct(self, claim: Claim, confirmed: Confirmed) -> None:
        """Note that a command whose outcome was unknown has worked after all."""
        await correct(self._store, self._around, claim, confirmed)

    def forget(self, token: str, device: DeviceId) -> None:
        """Have a claim whose lock was taken away send nothing more, and its command be claimed anew."""
        self._let_go(token, device)
        self.wake()

    def wake(self) -> None:
        """Have every lane look for work."""
        for bell in self._lanes.values():
            bell.ring()

    async def _lent(self, found: Found, taker: Taker) -> Claim | None:
        """Put a claim together; None if the command cannot be believed any more, and is ended."""
        self._around.crash.reached(CrashPoint.COMMAND_CLAIMED)
        row = found.row
        try:
            asked = self._worlds.openings.opened_for(row.device, row.envelope, self._worlds.keys())
        except RefusedEnvelopeError as why:
            await self._end_unbelieved(found, taker, why)
            return None
        policy = self._worlds.trust.policy
        rule = None if policy is None else policy.actions.get(asked.command.action)
        world = await self._world(found, asked)
        plan = self._steps.plan(asked)
        marks: tuple[Mark, ...] = ()
        if plan is not None and plan.parts:
            marks = await self._store.read(partial(steps.of, run=row.run))
        update = None
        if asked.command.action is ActionName.INSTALL:
            update = await self._store.read(partial(updates.of, run=row.run))
        claim = Claim(
            run=row.run,
            asked=asked,
            envelope=row.envelope,
            world=world,
            rule=rule or ActionRule(tier=row.lane),
            tier=TierRule() if policy is None else policy.tier_rule(row.lane),
            token=taker.token,
            fence=found.fence,
            attempts=row.attempts,
            sent=row.sent,
            force_refresh=row.force_refresh,
            before=self._settling.mark(row.device),
            plan=plan,
            steps=marks,
            update=update,
            lease=row.terms.length,
            traceparent=row.traceparent,
        )
        self._loans.of(claim).marks.update({mark.part: mark for mark in marks})
        return claim

    async def _world(self, found: Found, asked: Opened) -> World:
        """What the gate judges by at ACT."""
        row = found.row
        world = self._worlds.around_device(row.device, row.local)
        if speaker(asked, world) == row.issuer:
            return self._worlds.recalled(asked, world, found.memory)
        # By the policy of now it speaks in another name than when it came.
        _, world = await self._store.read(partial(self._worlds.remembered, asked=asked, world=world))
        return world

    def _loan(self, row: Row, now: Now) -> Loan:
        """What is kept of a claim; and how long its command has waited for it."""
        since, lease = now.milliseconds * _MILLISECOND, row.terms.length
        if not (row.attempts or row.losses or row.reason):
            waited = max(0, self._around.event_time().at - row.received_at) / 1_000_000
            self._around.metrics.lock_wait.labels(row.lane).observe(waited)
        device = self._worlds.devices.get(row.device)
        kind = None if device is None else Kind(device.admitted.profile, row.action)
        return Loan(since + lease, lease, since, row.lane, kind)

    async def _end_unbelieved(self, found: Found, taker: Taker, why: RefusedEnvelopeError) -> None:
        """End a command whose keys the policy no longer knows."""
        outcome = Outcome.UNKNOWN if found.row.sent else Outcome.REFUSED
        ended = Ended(
            ending=Ending(outcome=outcome, reason=why.reason, detail=str(why)),
            lock=locks.Key(found.row.device, taker.token),
            fence=found.fence,
        )

        def end(tx: Transaction) -> None:
            self._settling.settle(tx, running(tx, found.row.run), ended)

        await self._store.write(end)
        self._around.metrics.commands_settled.labels(outcome).inc()
        self._let_go(taker.token, found.row.device)

    def _state(self, device: DeviceId) -> Mapping[ReadingName, StateReading]:
        """What is known of a device."""
        found = self._worlds.devices.get(device)
        return {} if found is None else found.shadow.state

    def _confirmed_late(self, claim: Claim, confirmed: Confirmed) -> None:
        self.late.append((claim, confirmed))
        self._settling.bell.ring()

    def _let_go(self, token: str, device: DeviceId) -> None:
        """Forget a claim that is over, and wake whoever waits for its device or its end."""
        self._loans.brought_back(token, self._around.clock.boot())
        for tell in self._let_go_of:
            tell(device)
        self._loans.end(token)
        self._around.outbox.stored({Stream.RECORD}, 1)
        for takers in self._takers.values():
            takers.let_go()
