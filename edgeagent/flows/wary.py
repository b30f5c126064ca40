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
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from edgeagent.clock import Clock
from edgeagent.contracts.mqtt import PublishResult
from edgeagent.contracts.policy import Level, Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.gate.judging import judge
from edgeagent.core.gate.verdict import Accept, Hold, Moment, Refuse
from edgeagent.core.gate.world import World
from edgeagent.core.testimony import Evidence, doubt
from edgeagent.core.work import Answered, Claim, Ending, Later, StepName
from edgeagent.errors import BrokenInvariantError, LostRaceError, SuspiciousError
from edgeagent.metrics import Metrics
from edgeagent.ports.desk import LendingDesk

log = logging.getLogger(__name__)

_MOST_QUESTIONS: Final = 16
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
        self._seen[claim.token] = Evidence(worlds=(claim.world,))
        return claim

    async def renew(self, claim: Claim) -> None:
        """Lengthen the lease."""
        self._evidence(claim)
        await self._desk.renew(claim)

    async def publish(self, claim: Claim, step: StepName) -> PublishResult:
        """Send a step, if it is the next one and the gate still says so."""
        evidence = self._evidence(claim)
        if step is not StepName.ACT:
            if evidence.questions >= _MOST_QUESTIONS:
                raise SuspiciousError("it asks the device too much")
            self._note(claim, lambda seen: replace(seen, questions=seen.questions + 1))
            return await self._desk.publish(claim, step)
        if evidence.is_acted or (claim.sent and not claim.may_be_resent):
            raise SuspiciousError("the plan has no such step any more")
        if claim.attempts >= claim.tier.attempts:
            raise SuspiciousError("its attempts are spent")
        await self._judge(claim)
        if claim.attempts:
            self._metrics.retries.labels(claim.rule.tier).inc()
        self._note(claim, lambda seen: replace(seen, is_acted=True))
        result = await self._desk.publish(claim, step)
        self._note(claim, lambda seen: replace(seen, result=result))
        return result

    async def await_confirmation(self, claim: Claim, *, level: Level, within: timedelta) -> Answered:
        """Wait until the last step is proven to ``level``, denied, read back or over; at most so long."""
        evidence = self._evidence(claim)
        if not evidence.is_acted and not evidence.questions:
            raise SuspiciousError("nothing was sent that could be answered")
        answered = await self._desk.await_confirmation(claim, level=level, within=within)
        self._note(claim, lambda seen: seen.told(answered))
        return answered

    async def read_device(self, claim: Claim) -> World:
        """What is known now of everything that the gate judges by."""
        self._evidence(claim)
        world = await self._desk.read_device(claim)
        self._note(claim, lambda seen: replace(seen, worlds=(claim.world, world)))
        return world

    async def finish(self, claim: Claim, ending: Ending) -> None:
        """End the command, if the hub has seen what is said of it."""
        self._check(claim, ending)
        await self._desk.finish(claim, ending)
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
        verdict = judge(claim.asked, await self._desk.read_device(claim), Moment.ACT)
        match verdict:
            case Accept():
                return
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
        why = doubt(claim, said, self._evidence(claim))
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
