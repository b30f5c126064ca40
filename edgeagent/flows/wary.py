"""The desk as it deals with a worker that is a process of its own (SPEC W1, DESIGN decision 9).

    worker ──> asks ──> is it the next step? does the gate still say so? ──> desk ──> lock? switch? send
    worker ──> says ──> has the hub seen that itself? ────────────────────> desk ──> the final commit

A worker may be slow, stopped or gone, which the desk survives by lease and fence; and it may lie. It gets
commands of its own lanes only, has the step that changes a device sent once a claim, and is believed
nothing that the hub has not seen (``core/testimony``). What the gate refuses meanwhile is ended here,
whatever the worker makes of it.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Final

from edgeagent.clock import Clock
from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.mqtt import PublishResult
from edgeagent.contracts.policy import Level, Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.contracts.update import Stage
from edgeagent.core.firmware import UNDER_WAY, Served, Sight, Update, most_questions
from edgeagent.core.gate.judging import judge
from edgeagent.core.gate.verdict import Accept, Hold, Moment, Refuse
from edgeagent.core.gate.world import World
from edgeagent.core.knowledge import begun
from edgeagent.core.saga import Mark, Phase, has_begun
from edgeagent.core.testimony import Evidence, doubt, doubt_mark
from edgeagent.core.work import Answered, Claim, Ending, Later, StepName
from edgeagent.errors import BrokenInvariantError, LostRaceError, RejectedError, SuspiciousError
from edgeagent.metrics import Metrics
from edgeagent.ports.desk import LendingDesk
from edgeagent.values import dataclass

log = logging.getLogger(__name__)

_OUTCOMES: Final = {Reason.EXPIRED: Outcome.EXPIRED}


@dataclass(slots=True)
class Presence:
    """Whether workers come, for health.

    Attributes:
        waiting: how many wait for a command now.
        seen: boot time at which one was last heard of; None for never since the start.
    """

    waiting: int = 0
    seen: timedelta | None = None


class WaryDesk:
    """Lends commands of some lanes to workers that are not believed. A ``LendingDesk``.

    Attributes:
        presence: whether workers come.
    """

    def __init__(self, desk: LendingDesk, lanes: frozenset[Tier], clock: Clock, metrics: Metrics) -> None:
        self._desk = desk
        self._lanes = lanes
        self._clock = clock
        self._metrics = metrics
        self._seen: dict[str, Evidence] = {}
        self.presence = Presence()

    async def claim(self, lane: Tier, holder: str) -> Claim:
        """Wait for a command of one of its lanes and lock its device."""
        if lane not in self._lanes:
            raise SuspiciousError(f"the lane {lane} is not worked outside")
        self._waits(1)
        try:
            claim = await self._desk.claim(lane, holder)
        finally:
            self._waits(-1)
        self._seen[claim.token] = Evidence(
            worlds=(claim.world,), has_begun=has_begun(claim.steps), update=claim.update
        )
        return claim

    async def renew(self, claim: Claim) -> None:
        """Lengthen the lease."""
        self._evidence(claim)
        await self._desk.renew(claim)

    async def publish(self, claim: Claim, step: StepName, part: int = 0) -> PublishResult:
        """Send a step, if it is the next one and the gate still says so."""
        evidence = self._evidence(claim).of(part, backward=step.is_backward)
        if not step.acts:
            if evidence.questions >= evidence.most_questions:
                raise SuspiciousError("it asks the device too much")
            self._note(claim, lambda _: replace(evidence, questions=evidence.questions + 1))
            return await self._desk.publish(claim, step, part)
        if step is StepName.INSTALL:
            # Which of its messages may be sent, and how often, the desk knows.
            if evidence.update is None or evidence.update.stage not in UNDER_WAY:
                await self._judge(claim)
            return await self._desk.publish(claim, step, part)
        if evidence.is_acted or (claim.sent and not claim.may_be_resent):
            raise SuspiciousError("the plan has no such step any more")
        tries = _tries(claim, step, part)
        if tries >= claim.tier.attempts:
            raise SuspiciousError("its attempts are spent")
        if not step.is_backward:
            await self._judge(claim)
        if tries:
            self._metrics.retries.labels(claim.rule.tier).inc()
        self._note(claim, lambda _: replace(evidence, is_acted=True))
        result = await self._desk.publish(claim, step, part)
        self._note(claim, lambda seen: replace(seen, result=result, has_begun=True))
        return result

    async def checkpoint(self, claim: Claim, mark: Mark) -> None:
        """Record what became of a part, if the hub has seen what is said of it."""
        self._believe(claim, doubt_mark(claim, mark, self._evidence(claim)))
        await self._desk.checkpoint(claim, mark)

    async def await_confirmation(self, claim: Claim, *, level: Level, within: timedelta) -> Answered:
        """Wait until the last step is proven to ``level``, denied, read back or over; at most so long."""
        evidence = self._evidence(claim)
        if not evidence.is_acted and not evidence.questions:
            raise SuspiciousError("nothing was sent that could be answered")
        answered = await self._desk.await_confirmation(claim, level=level, within=within)
        self._note(claim, lambda seen: seen.told(answered))
        return answered

    async def serve(self, claim: Claim) -> Served:
        """Have an update's file served to its device, and say where the update stands."""
        self._evidence(claim)
        served = await self._desk.serve(claim)
        most = most_questions(served.terms)
        self._note(claim, lambda seen: replace(seen, update=served.update, most_questions=most))
        return served

    async def await_progress(self, claim: Claim, *, within: timedelta) -> Sight:
        """Wait until more is seen of an update; at most so long."""
        self._evidence(claim)
        return await self._desk.await_progress(claim, within=within)

    async def enter(self, claim: Claim, stage: Stage) -> Update:
        """Record which stage an update is at, if the hub has seen that."""
        self._evidence(claim)
        try:
            update = await self._desk.enter(claim, stage)
        except SuspiciousError as why:
            self._believe(claim, str(why))
            raise
        self._note(claim, lambda seen: replace(seen, update=update))
        return update

    async def read_device(self, claim: Claim) -> World:
        """What is known now of everything that the gate judges by."""
        self._evidence(claim)
        world = await self._desk.read_device(claim)
        self._note(claim, lambda seen: replace(seen, worlds=(claim.world, world)))
        return world

    async def finish(self, claim: Claim, ending: Ending) -> None:
        """End the command, if the hub has seen what is said of it."""
        self._check(claim, ending)
        try:
            await self._desk.finish(claim, ending)
        except RejectedError as why:
            if _is_update(claim):
                self._believe(claim, str(why))
            raise
        self._seen.pop(claim.token, None)

    async def postpone(self, claim: Claim, later: Later) -> None:
        """Give the command back, to be taken up again later."""
        self._check(claim, later)
        await self._desk.postpone(claim, later)
        self._seen.pop(claim.token, None)

    async def abandon(self, claim: Claim) -> None:
        """Let a claim go whose holder is gone, or is not believed any more."""
        self._seen.pop(claim.token, None)
        await self._desk.abandon(claim)

    async def _judge(self, claim: Claim) -> None:
        """Ask the gate once more, right before the act.

        Raises:
            LostRaceError: it says something else than at the claim; the command is not the worker's any more.
        """
        is_begun = bool(claim.plan and claim.plan.parts) and self._evidence(claim).has_begun
        asked = begun(claim.asked) if is_begun else claim.asked
        verdict = judge(asked, await self._desk.read_device(claim), Moment.ACT)
        match verdict:
            case Accept():
                return
            case Refuse() | Hold() if is_begun:
                # What was done of it has to be undone; that is for the next claim.
                await self._desk.abandon(claim)
            case Refuse() if claim.sent:
                # What became of it has to be found out; that is for the next claim.
                await self._desk.abandon(claim)
            case Refuse(reason, detail):
                outcome = _OUTCOMES.get(reason, Outcome.REFUSED)
                await self._desk.finish(claim, Ending(outcome=outcome, reason=reason, detail=detail))
            case Hold(reason):
                await self._desk.postpone(claim, Later(reason=reason))
            case _:
                raise BrokenInvariantError(f"the gate says {verdict} at ACT")
        self._seen.pop(claim.token, None)
        raise LostRaceError(f"the gate says otherwise now: {verdict.reason}")

    def _waits(self, more: int) -> None:
        self.presence.waiting += more
        self.presence.seen = self._clock.boot()
        self._metrics.workers_waiting.set(self.presence.waiting)

    def _check(self, claim: Claim, said: Ending | Later) -> None:
        has_parts = bool(claim.plan and claim.plan.parts) or _is_update(claim)
        # To which end its parts have come, the desk knows.
        is_known = has_parts and isinstance(said, Ending)
        self._believe(claim, "" if is_known else doubt(claim, said, self._evidence(claim)))

    def _believe(self, claim: Claim, why: str) -> None:
        """Go on, unless there is a doubt."""
        if why:
            self._metrics.workers_disbelieved.inc()
            log.warning(
                "worker not believed",
                extra={"command": claim.asked.command.id, "device": claim.device, "why": why},
            )
            raise SuspiciousError(why)

    def _evidence(self, claim: Claim) -> Evidence:
        evidence = self._seen.get(claim.token)
        if evidence is None:
            raise LostRaceError(f"the lock of {claim.device} is lost")
        self.presence.seen = self._clock.boot()
        return evidence

    def _note(self, claim: Claim, change: Callable[[Evidence], Evidence]) -> None:
        """Take what was seen into account, if the claim is still out."""
        evidence = self._seen.get(claim.token)
        if evidence is not None:
            self._seen[claim.token] = change(evidence)


def _is_update(claim: Claim) -> bool:
    return claim.asked.command.action is ActionName.INSTALL


def _tries(claim: Claim, step: StepName, part: int) -> int:
    """How often a step was sent before this claim."""
    if claim.plan is None or not claim.plan.parts:
        return claim.attempts
    under_way = Phase.UNDOING if step.is_backward else Phase.BEGUN
    return sum(mark.tries for mark in claim.steps if mark.part == part and mark.phase is under_way)
