"""Working commands: one at a time for each device, until its end is known.

    claim > gate (ACT) > already so? > send > confirmed? ──────────────> succeeded
                │             │          └─ time over > read back ─┬──> succeeded (verified)
                │             └─ on a live reading only            ├──> other value: again, or failed
                └─ refused, expired, or later                      └──> nothing: again, or unknown

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
from edgeagent.contracts.mqtt import PublishResult
from edgeagent.contracts.policy import Level, Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.confirmation import Confirmed, Contradicted
from edgeagent.core.gate import Accept, Hold, Moment, Refuse, World, judge
from edgeagent.core.profile.decode import AVAILABILITY
from edgeagent.core.retry import delay
from edgeagent.core.shadow import StateReading
from edgeagent.core.work import Answered, Claim, Ending, Later, StepName
from edgeagent.errors import BrokenInvariantError, LostRaceError, RejectedError, TransientError
from edgeagent.ids import ReadingName
from edgeagent.metrics import Metrics
from edgeagent.ports import LinkError, WorkDesk

log = logging.getLogger(__name__)

_RENEW_EVERY: Final = timedelta(seconds=10)
_LISTENS_AGAIN: Final = timedelta(seconds=5)
_AFTER_FAULT: Final = 1.0
_OUTCOMES: Final = {Reason.EXPIRED: Outcome.EXPIRED}

Next = Ending | Later


class Dispatch:
    """Works the commands of one lane, one after the other; run several for more at once."""

    def __init__(
        self, desk: WorkDesk, lane: Tier, clock: Clock, chance: Callable[[], float], metrics: Metrics
    ) -> None:
        self._desk = desk
        self._lane = lane
        self._clock = clock
        self._chance = chance
        self._metrics = metrics

    async def run(self, holder: str) -> None:
        """Claim and work; ends only by cancellation."""
        while True:
            try:
                claim = await self._desk.claim(self._lane, holder)
                await self.work(claim)
            except LostRaceError as why:
                log.info("lock lost", extra={"why": str(why)})
            except TransientError as why:
                # The lease lapses, and the command is taken over with its device read afresh.
                log.warning("command left", extra={"why": str(why)})
                await asyncio.sleep(_AFTER_FAULT)

    async def work(self, claim: Claim) -> None:
        """Bring a claimed command to its end, or give it back.

        Raises:
            LostRaceError: the lock is not ours any more.
            TransientError: the store cannot be written.
        """
        following = await self._carry_out(claim)
        match following:
            case Ending():
                await self._desk.finish(claim, following)
            case Later():
                await self._desk.postpone(claim, following)

    async def _carry_out(self, claim: Claim) -> Next:
        away = self._turned_away(claim, claim.world)
        if claim.sent and (away is not None or not claim.may_be_resent):
            return await self._find_out(claim)
        if away is None and _is_offline(claim.world):
            away = Later(reason=Reason.DEVICE_OFFLINE)
        if away is not None:
            return away
        if claim.force_refresh or _needs_reading(claim, self._clock.boot()):
            return await self._read_first(claim)
        if _shows_wish(claim):
            self._metrics.shadow_answers.labels("hit").inc()
            # What was sent before and shows now is a late answer, not a device that was so by itself.
            reason = None if claim.sent else Reason.ALREADY_SO
            return Ending(outcome=Outcome.SUCCEEDED, reason=reason, level=Level.APPLIED)
        return await self._send(claim)

    async def _read_first(self, claim: Claim) -> Next:
        """Read the device, and act unless it is already so or the gate sees something else now."""
        self._metrics.shadow_answers.labels("miss").inc()
        unasked = await self._learn(claim)
        if unasked is not None:
            return unasked
        seen = await self._read_back(claim)
        if isinstance(seen, Confirmed):
            return _succeeded(seen, Reason.ALREADY_SO)
        # What was read may be what the issuer did not decide on.
        away = self._turned_away(claim, await self._desk.read_device(claim))
        return await self._send(claim) if away is None else away

    def _turned_away(self, claim: Claim, world: World) -> Next | None:
        """What the gate says right before the act; None when it lets the command pass."""
        match judge(claim.asked, world, Moment.ACT):
            case Accept():
                return None
            case Hold(reason):
                return Later(reason=reason)
            case Refuse(reason, detail):
                if reason is Reason.STALE:
                    self._metrics.shadow_answers.labels("stale").inc()
                outcome = _OUTCOMES.get(reason, Outcome.REFUSED)
                return Ending(outcome=outcome, reason=reason, detail=detail)
            case verdict:
                raise BrokenInvariantError(f"the gate says {verdict} at ACT")

    async def _send(self, claim: Claim) -> Next:
        """Send, and wait until the effect is known or the time is over."""
        if claim.attempts:
            self._metrics.retries.inc()
        stopped = await self._publish(claim)
        if stopped is not None:
            return stopped
        answered = await self._await(claim, claim.rule.confirmation)
        confirmed, denied = answered.confirmed, answered.denied
        if denied is not None:
            return Ending(outcome=Outcome.FAILED, reason=denied.reason, detail=denied.words)
        if confirmed is not None and confirmed.level.reaches(claim.rule.confirmation):
            return _succeeded(confirmed, None)
        return await self._after_silence(claim, confirmed)

    async def _publish(self, claim: Claim) -> Next | None:
        """Hand the message to the broker; what follows if it did not go out, else None."""
        try:
            result = await self._desk.publish(claim, StepName.ACT)
        except LinkError as why:
            wait = self._wait(claim, failures=1)
            return Later(reason=Reason.BROKER_AWAY, after=wait, error=str(why), unsent=True)
        except RejectedError as why:
            return Ending(outcome=Outcome.FAILED, reason=Reason.BROKER_REFUSED, detail=str(why))
        if result is PublishResult.NOBODY_LISTENS:
            return Later(
                reason=Reason.DEVICE_OFFLINE, after=_LISTENS_AGAIN, error="nobody listens", unsent=True
            )
        if result is PublishResult.REFUSED:
            return Ending(outcome=Outcome.FAILED, reason=Reason.BROKER_REFUSED)
        return None

    async def _after_silence(self, claim: Claim, confirmed: Confirmed | None) -> Next:
        """Read back, and say what becomes of a command whose effect was not shown in time."""
        seen = await self._read_back(claim)
        if isinstance(seen, Confirmed):
            return _succeeded(seen, None)
        attempts = claim.attempts + 1
        reason = Reason.OTHER_VALUE if isinstance(seen, Contradicted) else Reason.NO_CONFIRMATION
        detail = f"it shows {seen.value}" if isinstance(seen, Contradicted) else ""
        if claim.may_be_resent and attempts < claim.tier.attempts:
            wait = self._wait(claim, failures=attempts)
            return Later(reason=Reason.RETRYING, after=wait, error=detail or reason.sentence)
        outcome = Outcome.FAILED if isinstance(seen, Contradicted) else Outcome.UNKNOWN
        return Ending(
            outcome=outcome,
            reason=reason,
            detail=detail,
            level=None if confirmed is None else confirmed.level,
        )

    async def _find_out(self, claim: Claim) -> Ending:
        """End a command that may have been sent and must not be sent again."""
        seen = await self._read_back(claim)
        match seen:
            case Confirmed():
                return _succeeded(seen, None)
            case Contradicted(value):
                return Ending(outcome=Outcome.FAILED, reason=Reason.OTHER_VALUE, detail=f"it shows {value}")
            case None:
                return Ending(outcome=Outcome.UNKNOWN, reason=Reason.NO_CONFIRMATION)

    async def _learn(self, claim: Claim) -> Later | None:
        """Ask the device for what an action has to know and that no effect of it shows.

        Returns:
            What follows if it could not be asked: sent all the same, its outcome could not be told.
        """
        plan = claim.plan
        if plan is None or plan.wish is not None or not plan.requires:
            return None
        try:
            await self._desk.publish(claim, StepName.READ_BACK)
        except LinkError as why:
            return Later(reason=Reason.BROKER_AWAY, after=self._wait(claim, failures=1), error=str(why))
        except RejectedError:
            return None
        await self._await(claim, Level.ACCEPTED)
        return None

    async def _read_back(self, claim: Claim) -> Confirmed | Contradicted | None:
        """Ask the device for the reading that shows the effect; None when nothing tells."""
        if claim.plan is None or claim.plan.wish is None:
            return None
        try:
            await self._desk.publish(claim, StepName.READ_BACK)
        except (LinkError, RejectedError):
            return None
        return (await self._await(claim, Level.VERIFIED)).seen

    async def _await(self, claim: Claim, level: Level) -> Answered:
        """Wait until the last step's time is over or enough is known, renewing the lease (SPEC L1)."""
        while True:
            answered = await self._desk.await_confirmation(claim, level=level, within=_RENEW_EVERY)
            if answered.is_over or _is_enough(answered, level):
                return answered
            await self._desk.renew(claim)

    def _wait(self, claim: Claim, *, failures: int) -> timedelta:
        tier = claim.tier
        return delay(failures, first=tier.first_delay, longest=tier.longest_delay, chance=self._chance())


def _succeeded(confirmed: Confirmed, reason: Reason | None) -> Ending:
    return Ending(outcome=Outcome.SUCCEEDED, reason=reason, level=confirmed.level)


def _is_enough(answered: Answered, level: Level) -> bool:
    proven = answered.confirmed is not None and answered.confirmed.level.reaches(level)
    return proven or answered.denied is not None or answered.seen is not None


def _is_offline(world: World) -> bool:
    held = None if world.shadow is None else world.shadow.state.get(AVAILABILITY)
    return held is not None and held.value == "offline"


def _shows_wish(claim: Claim) -> bool:
    """Whether the shadow shows what is asked for."""
    wish = None if claim.plan is None else claim.plan.wish
    held = _known(claim, None if wish is None else wish.reading)
    return wish is not None and held is not None and wish.met_by(held.value)


def _needs_reading(claim: Claim, now: timedelta) -> bool:
    """Whether the device has to be read first.

    So it is when it would be already so by a reading that is not live (SPEC M2), or when the action
    wants to know something more freshly than it is known.
    """
    plan = claim.plan
    held = _known(claim, None if plan is None or plan.wish is None else plan.wish.reading)
    if _shows_wish(claim) and held is not None and held.live_at is None:
        return True
    return plan is not None and any(
        (known := _known(claim, needed.reading)) is None
        or known.live_at is None
        or now - timedelta(microseconds=known.live_at // 1000) > needed.fresher_than
        for needed in plan.requires
    )


def _known(claim: Claim, reading: ReadingName | None) -> StateReading | None:
    shadow = claim.world.shadow
    return None if shadow is None or reading is None else shadow.state.get(reading)
