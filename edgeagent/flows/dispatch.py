"""Working commands: one at a time for each device, until its end is known.

    claim > gate (ACT) > already so? > send > confirmed? ──────────────> succeeded
                │             │          └─ time over > read back ─┬──> succeeded (verified)
                │             └─ on a live reading only            ├──> other value: again, or failed
                └─ refused, expired, or later                      └──> nothing: again, or unknown

A command whose plan has several parts is worked in ``sagas``, an update of firmware in ``firmware``.

An *absolute* action may be sent again, within its lane's attempts. A *one-shot* is sent once: when its
outcome cannot be told it ends as unknown, and never is it sent blindly again (SPEC I3, M2). What a holder
that is gone may have sent is treated as sent.

It knows ports and the core only, so that the isolated worker can run it (DESIGN, floor 7).
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from edgeagent.clock import Clock
from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.mqtt import PublishResult
from edgeagent.contracts.policy import Level, Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.confirmation import Confirmed, Contradicted
from edgeagent.core.knowledge import decided_on, known, lacks, learnt_nothing
from edgeagent.core.work import Answered, Claim, Ending, Later, StepName
from edgeagent.errors import LostRaceError, RejectedError, SuspiciousError, TransientError
from edgeagent.flows.exchange import LISTENS_AGAIN, Exchange, Next, barred, is_offline, turned_away
from edgeagent.flows.firmware import FirmwareUpdates
from edgeagent.flows.sagas import Sagas
from edgeagent.metrics import Metrics
from edgeagent.ports.desk import DeskGoneError, WorkDesk
from edgeagent.ports.links import LinkError

log = logging.getLogger(__name__)

_AFTER_FAULT: Final = 1.0
# What a live reading proves that nobody asked for.
_SHOWN: Final = Level.APPLIED


class Dispatch:
    """Works the commands of one lane, one after the other; run several for more at once."""

    def __init__(
        self, desk: WorkDesk, lane: Tier, clock: Clock, chance: Callable[[], float], metrics: Metrics
    ) -> None:
        self._desk = desk
        self._lane = lane
        self._clock = clock
        self._metrics = metrics
        self._exchange = Exchange(desk, chance)
        self._sagas = Sagas(desk, self._exchange, metrics)
        self._updates = FirmwareUpdates(desk, self._exchange, clock)

    async def run(self, holder: str) -> None:
        """Claim and work; ends only by cancellation."""
        while True:
            claim = None
            try:
                claim = await self._desk.claim(self._lane, holder)
                await self.work(claim)
            except LostRaceError as why:
                self._metrics.late_work.labels(self._lane).inc()
                log.info("lock lost", extra={"why": str(why)})
            except TransientError as why:
                log.warning("command left", extra={"why": str(why)})
                await asyncio.sleep(_AFTER_FAULT)
                if claim is not None and not isinstance(why, DeskGoneError):
                    await self._give_back(claim, why)
            except (RejectedError, SuspiciousError) as why:
                # What the desk refuses us is a mistake of ours. It costs this command its lease, three times
                # at most (SPEC L7), and not all others the agent, again and again.
                log.exception("command left", extra={"why": str(why)})
                await asyncio.sleep(_AFTER_FAULT)

    async def _give_back(self, claim: Claim, why: TransientError) -> None:
        """Queue a command again that the hub's own disk has stopped, as soon as that can be written."""
        later = Later(reason=Reason.TAKEN_OVER, error=str(why))
        while True:
            try:
                await self._desk.postpone(claim, later)
            except (LostRaceError, DeskGoneError, RejectedError, SuspiciousError) as other:
                log.info("command not given back", extra={"why": str(other)})
                return
            except TransientError:
                await asyncio.sleep(_AFTER_FAULT)
            else:
                return

    async def work(self, claim: Claim) -> None:
        """Bring a claimed command to its end, or give it back.

        Raises:
            LostRaceError: the lock is not ours any more.
            TransientError: the store cannot be written.
        """
        try:
            if claim.asked.command.action is ActionName.INSTALL:
                following = await self._updates.carry_out(claim)
            elif claim.plan is not None and claim.plan.parts:
                following = await self._sagas.carry_out(claim, claim.plan)
            else:
                following = await self._carry_out(claim)
        except LinkError as why:
            # The device could not be asked; what was sent before is found out when it can be.
            following = self._exchange.when_linked(claim, why)
        match following:
            case Ending():
                await self._desk.finish(claim, following)
                if following.reason is Reason.STALE:
                    self._metrics.shadow_answers.labels("stale").inc()
            case Later():
                await self._desk.postpone(claim, following)

    async def _carry_out(self, claim: Claim) -> Next:
        away = turned_away(claim, claim.world)
        is_spent = claim.attempts >= claim.tier.attempts
        if claim.sent and (away is not None or is_spent or not claim.may_be_resent):
            return await self._find_out(claim)
        if away is None and is_offline(claim.world):
            away = Later(reason=Reason.DEVICE_OFFLINE)
        if away is not None:
            return away
        if claim.force_refresh or _needs_reading(claim, self._clock.boot()):
            return await self._read_first(claim)
        if _is_told_by_shadow(claim):
            self._metrics.shadow_answers.labels("hit").inc()
        if _shows_wish(claim):
            # What was sent before and shows now is a late answer, not a device that was so by itself.
            reason = None if claim.sent else Reason.ALREADY_SO
            return Ending(outcome=Outcome.SUCCEEDED, reason=reason, level=_SHOWN)
        return await self._send(claim)

    async def _read_first(self, claim: Claim) -> Next:
        """Read the device, and act unless it is already so or the gate sees something else now."""
        self._metrics.shadow_answers.labels("miss").inc()
        whole = claim.asked.command.precondition is not None
        answered = await self._exchange.ask(claim, StepName.REFRESH if whole else StepName.READ_BACK)
        shows = answered.seen if isinstance(answered.seen, Confirmed) else None
        if shows is not None and claim.sent:
            return _succeeded(shows, None)
        # What was read may be what the issuer did not decide on.
        world = await self._desk.read_device(claim)
        away = turned_away(claim, world)
        if away is not None:
            return _as_found(answered) if claim.sent else away
        if shows is not None:
            return _succeeded(shows, Reason.ALREADY_SO)
        if lacks(claim.plan, world, self._clock.boot()) or learnt_nothing(claim, world):
            # Sent all the same, its outcome could not be told.
            wait = self._exchange.wait(claim, failures=1)
            return Later(reason=Reason.RETRYING, after=wait, error="the device does not tell its state")
        return await self._send(claim)

    async def _send(self, claim: Claim) -> Next:
        """Send, and wait until the effect is known or the time is over."""
        if claim.attempts:
            self._metrics.retries.labels(self._lane).inc()
        stopped = await self._publish(claim)
        if stopped is not None:
            return stopped
        answered = await self._exchange.answered(claim)
        return _known_end(claim, answered) or await self._after_silence(claim)

    async def _publish(self, claim: Claim) -> Next | None:
        """Hand the message to the broker; what follows without waiting for the device, else None."""
        try:
            result = await self._desk.publish(claim, StepName.ACT)
        except LinkError as why:
            return self._exchange.when_linked(claim, why, unsent=True)
        except RejectedError as why:
            end = None if claim.sent else barred(why)
            return end or await self._unsendable(claim, str(why))
        if result is PublishResult.NOBODY_LISTENS:
            return Later(
                reason=Reason.DEVICE_OFFLINE, after=LISTENS_AGAIN, error="nobody listens", unsent=True
            )
        if result is PublishResult.REFUSED:
            return await self._unsendable(claim, "")
        if result is PublishResult.TAKEN and claim.rule.confirmation is Level.SENT:
            return _succeeded(Confirmed(Level.SENT), None)
        return None

    async def _unsendable(self, claim: Claim, detail: str) -> Ending:
        """End a command that cannot be sent, unless an earlier try of it was."""
        if claim.sent:
            return await self._find_out(claim)
        world = await self._desk.read_device(claim)
        reason = Reason.DEVICE_UNKNOWN if world.device is None else Reason.BROKER_REFUSED
        return Ending(outcome=Outcome.FAILED, reason=reason, detail=detail)

    async def _after_silence(self, claim: Claim) -> Next:
        """Read back, and say what becomes of a command whose effect was not shown in time."""
        answered = await self._read_back(claim)
        known = _known_end(claim, answered)
        if known is not None:
            return known
        attempts = claim.attempts + 1
        found = _as_found(answered)
        if claim.may_be_resent and attempts < claim.tier.attempts:
            wait = self._exchange.wait(claim, failures=attempts)
            why = found.detail or Reason.NO_CONFIRMATION.sentence
            return Later(reason=Reason.RETRYING, after=wait, error=why)
        return found

    async def _find_out(self, claim: Claim) -> Ending:
        """End a command that may have been sent and must not be sent again."""
        answered = await self._read_back(claim)
        return _known_end(claim, answered) or _as_found(answered)

    async def _read_back(self, claim: Claim) -> Answered:
        """Ask the device for the reading that shows the effect; says nothing where none does."""
        if claim.plan is None or claim.plan.wish is None:
            return Answered(is_over=True)
        return await self._exchange.ask(claim, StepName.READ_BACK)


def _succeeded(confirmed: Confirmed, reason: Reason | None) -> Ending:
    return Ending(outcome=Outcome.SUCCEEDED, reason=reason, level=confirmed.level)


def _known_end(claim: Claim, answered: Answered) -> Ending | None:
    """How a command ends by what the device has said of it; None while it has not said enough."""
    if isinstance(answered.seen, Confirmed):
        return _succeeded(answered.seen, None)
    confirmed, denied = answered.confirmed, answered.denied
    if confirmed is not None and confirmed.level.reaches(claim.rule.confirmation):
        return _succeeded(confirmed, None)
    if denied is not None:
        return Ending(outcome=Outcome.FAILED, reason=denied.reason, detail=denied.words)
    return None


def _as_found(answered: Answered) -> Ending:
    """How a command ends that was sent and not confirmed, by what the device was found to show."""
    level = None if answered.confirmed is None else answered.confirmed.level
    match answered.seen:
        case Contradicted(value):
            detail = f"it shows {value}"
            return Ending(outcome=Outcome.FAILED, reason=Reason.OTHER_VALUE, detail=detail, level=level)
        case _:
            return Ending(outcome=Outcome.UNKNOWN, reason=Reason.NO_CONFIRMATION, level=level)


def _shows_wish(claim: Claim) -> bool:
    """Whether the shadow shows what is asked for."""
    wish = None if claim.plan is None else claim.plan.wish
    held = known(claim.world, None if wish is None else wish.reading)
    return wish is not None and held is not None and wish.met_by(held.value)


def _needs_reading(claim: Claim, now: timedelta) -> bool:
    """Whether the device has to be read first.

    So it is when it would be already so by a reading that is not live (SPEC M2) or proves less than the
    policy asks for, when the issuer decided on what is not live, or when the action wants to know something
    more freshly than it is known.
    """
    if decided_on(claim, claim.world):
        return True
    plan = claim.plan
    held = known(claim.world, None if plan is None or plan.wish is None else plan.wish.reading)
    if _shows_wish(claim) and held is not None:
        return held.live_at is None or not _SHOWN.reaches(claim.rule.confirmation)
    return lacks(plan, claim.world, now)


def _is_told_by_shadow(claim: Claim) -> bool:
    """Whether what is known, and fresh enough, answers for the device: a precondition, or that it is so."""
    has_terms = claim.asked.command.precondition is not None or bool(claim.plan and claim.plan.requires)
    return has_terms or _shows_wish(claim)
