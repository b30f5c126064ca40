"""Working a command that is made of several parts: one after the other, or all undone (SPEC S1, S2).

    gate > so already? ──> found ──────────────────────────────┐
       │       └─ send > confirmed? ──> done ──────────────────┴─> the next part
       │             └─ time over > read back ─┬─> done
       │                                       └─> again later, or failed, or unsure ──┐
       └─ refused, expired, stopped ──> barred ────────────────────────────────────────┴─> undo, last first

Before a part is sent the gate is asked again: expiry is judged then, and what has begun and may not go on
is undone. What the issuer decided on is judged before the first part only, since each part changes it.
While such commands are stopped nothing leaves, undoing included. What comes next is decided in
``core/saga`` by the marks; each is committed before anything else is done.

It knows ports and the core only, as ``dispatch`` does.
"""

from dataclasses import replace
from typing import Final

from edgeagent.contracts.actions import Effect
from edgeagent.contracts.mqtt import PublishResult
from edgeagent.contracts.policy import Level
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.contracts.sources import Value
from edgeagent.core.confirmation import Confirmed, Contradicted, Denied
from edgeagent.core.gate.world import World
from edgeagent.core.knowledge import begun, known, lacks, learnt_nothing, unmet
from edgeagent.core.profile.plan import Plan
from edgeagent.core.saga import Check, Do, Mark, Over, Phase, Undo, following, has_begun
from edgeagent.core.work import Answered, Claim, Ending, Later, StepName
from edgeagent.errors import RejectedError
from edgeagent.flows.exchange import LISTENS_AGAIN, Exchange, Next, barred, is_offline, turned_away
from edgeagent.metrics import Metrics
from edgeagent.ports.desk import StoppedError, WorkDesk
from edgeagent.ports.links import LinkError

_SHOWN: Final = Level.APPLIED
_FOR_THE_TIME: Final = frozenset({Reason.CLOCK_UNSURE, Reason.NOT_YET_VALID})
_SILENT: Final = "the device does not tell its state"


class Sagas:
    """Works claims whose plan has parts."""

    def __init__(self, desk: WorkDesk, exchange: Exchange, metrics: Metrics) -> None:
        self._desk = desk
        self._exchange = exchange
        self._metrics = metrics

    async def carry_out(self, claim: Claim, plan: Plan) -> Next:
        """Go on where the marks of the claim end, to the end or to what has to be waited for.

        Raises:
            LostRaceError: the lock is not ours any more.
            LinkError: the broker cannot be reached, so that the device cannot be asked.
        """
        if any(
            mark.name != plan.parts[mark.part].action for mark in claim.steps if mark.part < len(plan.parts)
        ):
            # The family's profile was changed in the middle: what was begun is not known any more.
            detail = "its steps are others now"
            return Ending(outcome=Outcome.UNKNOWN, reason=Reason.UNSUPPORTED_ACTION, detail=detail)
        return await _Saga(self._desk, self._exchange, self._metrics, claim, plan).through()


class _Saga:
    """One claim on its way."""

    def __init__(
        self, desk: WorkDesk, exchange: Exchange, metrics: Metrics, claim: Claim, plan: Plan
    ) -> None:
        self._desk = desk
        self._exchange = exchange
        self._metrics = metrics
        self._claim = claim
        self._parts = plan.parts
        self._marks = {mark.part: mark for mark in claim.steps}
        self._level = claim.rule.confirmation
        self._must_read = claim.force_refresh
        self._was_touched = False
        self._before: Value | None = None

    async def through(self) -> Next:
        """Do what comes next until nothing does."""
        while True:
            coming = following(len(self._parts), self._marks)
            if isinstance(coming, Over):
                return self._ended(coming)
            if self._was_touched:
                await self._desk.renew(self._claim)
            match coming:
                case Do(part):
                    ended = await self._do(part)
                case Check(part):
                    ended = await self._check(part)
                case Undo(part):
                    ended = await self._undo(part)
                case _:
                    ended = await self._check_undo(coming.part)
            self._was_touched = True
            if ended is not None:
                return ended

    # Forward.

    async def _do(self, part: int) -> Next | None:
        """Begin a part that was not sent, unless it is so already or may not be."""
        world = self._claim.world if not self._was_touched else await self._desk.read_device(self._claim)
        away = self._turned_away(world)
        if away is not None:
            return await self._bar(part, away)
        if is_offline(world):
            return Later(reason=Reason.DEVICE_OFFLINE)
        if self._must_read or not self._is_known(part, world):
            return await self._read_first(part)
        return await self._begin(part, world, _SHOWN if self._shows(part, world) else None)

    async def _read_first(self, part: int) -> Next | None:
        """Read the device before a part is begun."""
        self._must_read = False
        whole = not self._has_begun and self._claim.asked.command.precondition is not None
        question = StepName.REFRESH if whole else StepName.READ_BACK
        answered = await self._exchange.ask(self._claim, question, part)
        world = await self._desk.read_device(self._claim)
        away = self._turned_away(world)
        if away is not None:
            return await self._bar(part, away)
        planned = self._parts[part]
        if lacks(planned, world, world.boot[1]) or (whole and learnt_nothing(self._claim, world)):
            if not self._has_begun:
                wait = self._exchange.wait(self._claim, failures=1)
                return Later(reason=Reason.RETRYING, after=wait, error=_SILENT)
            return await self._bar(part, _refused(Reason.UNFIT_STATE, _SILENT))
        seen = Level.VERIFIED if isinstance(answered.seen, Confirmed) else None
        return await self._begin(part, world, seen)

    async def _begin(self, part: int, world: World, shown: Level | None) -> Next | None:
        unfit = unmet(self._parts[part].requires, world)
        if unfit:
            return await self._bar(part, _refused(Reason.UNFIT_STATE, unfit))
        if shown is not None:
            await self._mark(part, Phase.FOUND, level=shown)
            return None
        wish = self._parts[part].wish
        held = known(world, None if wish is None else wish.reading)
        self._before = None if held is None or held.live_at is None else held.value
        return await self._send(part)

    async def _send(self, part: int) -> Next | None:
        """Send a part, and wait until its effect is known or its time is over."""
        try:
            result = await self._desk.publish(self._claim, StepName.ACT, part)
        except LinkError as why:
            return self._exchange.when_linked(self._claim, why)
        except RejectedError as why:
            return await self._bar(part, _unsendable(why))
        self._has_left(part, Phase.BEGUN)
        if result is PublishResult.NOBODY_LISTENS:
            return Later(
                reason=Reason.DEVICE_OFFLINE, after=LISTENS_AGAIN, error="nobody listens", unsent=True
            )
        answered = await self._heard(part, result, StepName.READ_BACK)
        level = _proof(answered, self._level)
        if level is not None:
            await self._mark(part, Phase.DONE, level=level)
            return None
        if answered.denied is not None:
            # Of an earlier try nothing is known.
            phase = Phase.FAILED if self._marks[part].tries == 1 else Phase.UNSURE
            await self._mark(part, phase, reason=answered.denied.reason, detail=answered.denied.words)
            return None
        again = self._again(part)
        if again is None:
            await self._give_up(part, answered, None)
        return again

    async def _heard(self, part: int, result: PublishResult, question: StepName) -> Answered:
        """What the device says of a message that was handed over, and shows when it says nothing."""
        if result is PublishResult.REFUSED:
            return Answered(denied=Denied(Reason.BROKER_REFUSED, ""))
        if result is PublishResult.NOBODY_LISTENS:
            return Answered(is_over=True)
        if self._level is Level.SENT:
            return Answered(confirmed=Confirmed(Level.SENT))
        answered = await self._exchange.answered(self._claim)
        if answered.denied is not None or _proof(answered, self._level) is not None:
            return answered
        return await self._exchange.ask(self._claim, question, part)

    async def _check(self, part: int) -> Next | None:
        """Find out what became of a part that may have been sent, and send it again if it did not happen."""
        self._must_read = False
        answered = await self._exchange.ask(self._claim, StepName.READ_BACK, part)
        level = _proof(answered, self._level)
        if level is not None:
            await self._mark(part, Phase.DONE, level=level)
            return None
        world = await self._desk.read_device(self._claim)
        away = self._turned_away(world)
        if isinstance(away, Later) and away.reason in _FOR_THE_TIME:
            return away
        if away is not None or self._again(part) is None:
            await self._give_up(part, answered, away)
            return None
        if is_offline(world):
            return Later(reason=Reason.DEVICE_OFFLINE)
        self._metrics.retries.labels(self._claim.rule.tier).inc()
        return await self._send(part)

    def _again(self, part: int) -> Later | None:
        """When a part is to be tried again; None if it must not be, or was tried often enough."""
        mark, claim = self._marks[part], self._claim
        if mark.phase is Phase.BEGUN and self._parts[part].effect is not Effect.ABSOLUTE:
            return None
        if mark.tries >= claim.tier.attempts:
            return None
        wait = self._exchange.wait(claim, failures=mark.tries)
        why = f"{mark.name}: {Reason.NO_CONFIRMATION.sentence}"
        return Later(reason=Reason.RETRYING, after=wait, error=why)

    async def _give_up(self, part: int, answered: Answered, away: Next | None) -> None:
        """Turn round at a part that was sent and not confirmed."""
        seen, before = answered.seen, self._marks[part].before
        if isinstance(seen, Contradicted):
            reason, detail = Reason.OTHER_VALUE, f"it shows {seen.value}"
        else:
            reason, detail = Reason.NO_CONFIRMATION, Reason.NO_CONFIRMATION.sentence
        if away is not None:
            reason = away.reason or reason
        # Shown as before, it has not happened; all else has to be undone.
        is_as_before = isinstance(seen, Contradicted) and before is not None and seen.value == before
        await self._mark(part, Phase.FAILED if is_as_before else Phase.UNSURE, reason=reason, detail=detail)

    async def _bar(self, part: int, away: Next) -> Next | None:
        """Turn round before a part is sent; with nothing begun there is nothing to turn round."""
        if not self._has_begun or (isinstance(away, Later) and away.reason in _FOR_THE_TIME):
            return away
        detail = away.detail if isinstance(away, Ending) else away.error
        mark = self._marks.get(part)
        phase = Phase.UNSURE if mark is not None and mark.may_have_left else Phase.BARRED
        await self._mark(part, phase, reason=away.reason, detail=detail)
        return None

    # Backward.

    async def _undo(self, part: int) -> Next | None:
        """Make a part what it was before."""
        try:
            result = await self._desk.publish(self._claim, StepName.UNDO, part)
        except LinkError as why:
            return self._exchange.when_linked(self._claim, why)
        except RejectedError as why:
            reason = Reason.STOPPED if isinstance(why, StoppedError) else None
            await self._mark(part, Phase.STUCK, reason=reason, detail=str(why))
            return None
        self._has_left(part, Phase.UNDOING)
        # That nobody listens counts as a try: a device that never comes back must not keep it open for ever.
        return await self._undone(part, await self._heard(part, result, StepName.UNDO_READ_BACK))

    async def _undone(self, part: int, answered: Answered) -> Next | None:
        """Say whether a part is undone; silence is tried again."""
        level, denied = _proof(answered, self._level), answered.denied
        if level is not None:
            await self._mark(part, Phase.UNDONE, level=level)
            return None
        if denied is not None:
            await self._mark(part, Phase.STUCK, reason=denied.reason, detail=denied.words)
            return None
        again = self._again(part)
        if again is None:
            detail = Reason.NO_CONFIRMATION.sentence
            await self._mark(part, Phase.STUCK, reason=Reason.NO_CONFIRMATION, detail=detail)
        return again

    async def _check_undo(self, part: int) -> Next | None:
        """Find out whether a part is undone, and try again if it is not."""
        answered = await self._exchange.ask(self._claim, StepName.UNDO_READ_BACK, part)
        if _proof(answered, self._level) is None and self._again(part) is not None:
            self._metrics.retries.labels(self._claim.rule.tier).inc()
            return await self._undo(part)
        return await self._undone(part, answered)

    # What is known.

    @property
    def _has_begun(self) -> bool:
        """Whether anything may have been sent, so that something may have to be undone."""
        return has_begun(self._marks.values())

    def _turned_away(self, world: World) -> Next | None:
        """What the gate says; the issuer's precondition counts until something was begun."""
        claim = self._claim
        if self._has_begun:
            claim = replace(claim, asked=begun(claim.asked))
        return turned_away(claim, world)

    def _is_known(self, part: int, world: World) -> bool:
        """Whether what a part changes is known live, and surely enough where it is so already."""
        planned = self._parts[part]
        if planned.wish is None:
            return not lacks(planned, world, world.boot[1])
        held = known(world, planned.wish.reading)
        is_live = held is not None and held.live_at is not None
        is_enough = not self._shows(part, world) or _SHOWN.reaches(self._level)
        return is_live and is_enough and not lacks(planned, world, world.boot[1])

    def _shows(self, part: int, world: World) -> bool:
        wish = self._parts[part].wish
        held = known(world, None if wish is None else wish.reading)
        return wish is not None and held is not None and held.live_at is not None and wish.met_by(held.value)

    def _has_left(self, part: int, phase: Phase) -> None:
        """Follow what the desk has recorded of a message that left."""
        held = self._marks.get(part)
        if held is None:
            held = Mark(part=part, name=self._parts[part].action, phase=phase, before=self._before)
        tries = held.tries + 1 if held.phase is phase else 1
        self._marks[part] = replace(held, phase=phase, tries=tries)

    def _ended(self, over: Over) -> Ending:
        """How the command ends."""
        turned, marks = over.turned, self._marks.values()
        if turned is None:
            reason = Reason.ALREADY_SO if all(mark.phase is Phase.FOUND for mark in marks) else None
            return Ending(outcome=over.outcome, reason=reason, level=over.level)
        stuck = [mark.name for mark in marks if mark.phase is Phase.STUCK]
        detail = f"{turned.name}: {turned.detail or (turned.reason.sentence if turned.reason else '')}"
        if stuck:
            detail = f"not undone: {', '.join(stuck)}; {detail}"
        return Ending(outcome=over.outcome, reason=turned.reason, detail=detail)

    async def _mark(
        self,
        part: int,
        phase: Phase,
        *,
        level: Level | None = None,
        reason: Reason | None = None,
        detail: str = "",
    ) -> None:
        """Have a mark recorded, and go by it."""
        held = self._marks.get(part) or Mark(part=part, name=self._parts[part].action, phase=phase)
        mark = held.becomes(phase, level, reason, detail)
        await self._desk.checkpoint(self._claim, mark)
        self._marks[part] = mark


def _proof(answered: Answered, level: Level) -> Level | None:
    """How surely it is known that a part has worked; None when it is not."""
    if isinstance(answered.seen, Confirmed):
        return answered.seen.level
    confirmed = answered.confirmed
    return confirmed.level if confirmed is not None and confirmed.level.reaches(level) else None


def _refused(reason: Reason, detail: str) -> Ending:
    return Ending(outcome=Outcome.REFUSED, reason=reason, detail=detail)


def _unsendable(why: RejectedError) -> Ending:
    """How a command ends of which nothing was sent, and whose first part cannot be."""
    return barred(why) or Ending(outcome=Outcome.FAILED, reason=Reason.BROKER_REFUSED, detail=str(why))
