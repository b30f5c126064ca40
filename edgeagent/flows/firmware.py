"""Working an update of firmware: from the gate to the version that has stayed (SPEC F4, S1, S2).

    gate > online? > which version runs? > file served > prepared > set off ──> seen ... stayed ──> over
      └─ refused, expired, later                              │                   └─ neither ──> the way back
                                                              └─ from here on the device is nobody else's

Until the message that sets it off has left, everything may be given up or put off. From then on it is only
looked, for minutes: by whoever works it, or by whoever takes over from him. That message is sent once.
What follows from what is seen is decided in ``core/firmware``.

It knows ports and the core only, as ``dispatch`` does.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Final

from edgeagent.clock import Clock
from edgeagent.contracts.mqtt import PublishResult
from edgeagent.contracts.policy import Level
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.contracts.update import Stage
from edgeagent.core.firmware import OUTCOMES, PREPARING, Sight, Terms, Update, following, pace, version_told
from edgeagent.core.gate.world import World
from edgeagent.core.knowledge import known
from edgeagent.core.profile.facts import Facts
from edgeagent.core.work import Claim, Ending, Later, StepName
from edgeagent.errors import RejectedError, TransientError
from edgeagent.flows.exchange import LISTENS_AGAIN, Exchange, Next, barred, is_offline, turned_away
from edgeagent.ids import ReadingName
from edgeagent.ports.desk import WorkDesk
from edgeagent.ports.links import LinkError

_SILENT: Final = "the device does not tell which version runs"
_LONGEST_WAIT: Final = timedelta(minutes=10)
"""How long is waited at the longest between two tries to begin: each is on record, and may go on for days."""
_REMEMBERED: Final = 256
_PATIENCE: Final = 20
"""How often the way back is tried that cannot be sent."""
_BETWEEN: Final = timedelta(seconds=30)
"""How long is waited between two such tries: brokers and devices take a while to come back."""


class FirmwareUpdates:
    """Works claims of the action ``install``."""

    def __init__(self, desk: WorkDesk, exchange: Exchange, clock: Clock) -> None:
        self._desk = desk
        self._exchange = exchange
        self._clock = clock
        self._put_off: dict[int, int] = {}

    async def carry_out(self, claim: Claim) -> Next:
        """Go on where the update stands, to its end or to what has to be waited for.

        Raises:
            LostRaceError: the lock is not ours any more.
            LinkError: the broker cannot be reached, and nothing was set off.
            TransientError: something else does not work now; the update goes on with whoever claims it next.
        """
        update = claim.update
        if update is None or update.stage is Stage.STAGING:
            early = await self._before(claim)
            if early is not None:
                return early
        try:
            served = await self._desk.serve(claim)
        except RejectedError as why:
            return _refused(Reason.UNFIT_STATE, str(why))
        except TransientError as why:
            if update is not None and update.stage is not Stage.STAGING:
                raise
            return self._later(claim, str(why))
        work = _Work(self._desk, self._exchange, self._clock, claim, served.update)
        following = await work.through(served.terms)
        if isinstance(following, Later) and following.after is not None:
            return replace(following, after=max(following.after, self._waits(claim)))
        self._put_off.pop(claim.run, None)
        return following

    async def _before(self, claim: Claim) -> Next | None:
        """See to it that the update may begin: the gate, the device, the version that runs."""
        away = turned_away(claim, claim.world)
        if away is not None:
            return away
        if is_offline(claim.world):
            return Later(reason=Reason.DEVICE_OFFLINE)
        try:
            await self._exchange.ask(claim, StepName.READ_VERSION)
        except RejectedError as why:
            return _refused(Reason.UNFIT_STATE, str(why))
        world = await self._desk.read_device(claim)
        away = turned_away(claim, world)
        if away is not None:
            return away
        if not _tells_version(world):
            return self._later(claim, _SILENT)
        return None

    def _later(self, claim: Claim, why: str) -> Later:
        return Later(reason=Reason.RETRYING, after=self._waits(claim), error=why)

    def _waits(self, claim: Claim) -> timedelta:
        """How long to wait before the next try to begin: longer each time."""
        failures = self._put_off.pop(claim.run, 0) + 1
        self._put_off[claim.run] = failures
        while len(self._put_off) > _REMEMBERED:
            del self._put_off[next(iter(self._put_off))]
        return self._exchange.wait(claim, failures=failures, longest=_LONGEST_WAIT)


class _Work:
    """One update on its way."""

    def __init__(
        self, desk: WorkDesk, exchange: Exchange, clock: Clock, claim: Claim, update: Update
    ) -> None:
        self._desk = desk
        self._exchange = exchange
        self._clock = clock
        self._claim = claim
        self._update = update
        self._sight = Sight()
        self._renewed = clock.boot()
        self._asked: timedelta | None = None
        self._waited = 0

    async def through(self, terms: Terms) -> Next:
        """Do what comes next until nothing does."""
        while not self._update.is_over:
            if self._update.stage in PREPARING:
                ended = await self._set_off(terms)
                if ended is not None:
                    return ended
            else:
                await self._look(terms)
            if self._update.stage is Stage.ASTRAY:
                # What is sent from here on has another file's address in it; if anything can be sent.
                served = await self._desk.serve(self._claim)
                self._update, terms = served.update, served.terms
        return self._ended()

    async def _set_off(self, terms: Terms) -> Next | None:
        """Send one message after the other; the last sets it off."""
        for part in range(terms.steps):
            is_last = part == terms.steps - 1
            if following(self._update.stage, Sight(), terms) is not self._update.stage:
                await self._enter(Stage.STUCK)
                return None
            if is_last and self._update.stage is Stage.STAGING:
                away = turned_away(self._claim, await self._desk.read_device(self._claim))
                if away is not None:
                    return away
            await self._renew()
            result = await self._send(part)
            if result is not None:
                if self._update.stage is Stage.STAGING:
                    return result
                await self._look_on(terms)
                return None
            if not is_last and not await self._is_prepared(terms):
                return None
        going = self._update.stage is Stage.STAGING
        self._update = self._update.becomes(Stage.TRIGGERED if going else Stage.REVERTING)
        return None

    async def _send(self, part: int) -> Next | None:
        """Send a message; what follows where it did not leave."""
        claim = self._claim
        try:
            result = await self._desk.publish(claim, StepName.INSTALL, part)
        except LinkError as why:
            return self._exchange.when_linked(claim, why)
        except RejectedError as why:
            ended = barred(why)
            return ended or Ending(outcome=Outcome.FAILED, reason=Reason.BROKER_REFUSED, detail=str(why))
        if result is PublishResult.NOBODY_LISTENS:
            return Later(reason=Reason.DEVICE_OFFLINE, after=LISTENS_AGAIN, error="nobody listens")
        if result is PublishResult.REFUSED:
            return Ending(outcome=Outcome.FAILED, reason=Reason.BROKER_REFUSED)
        return None

    async def _is_prepared(self, terms: Terms) -> bool:
        """Wait until a message that sets nothing off is answered; whether the next may follow."""
        while True:
            stage = await self._see(terms)
            if stage is not self._update.stage:
                await self._enter(stage)
                return False
            if self._sight.is_over:
                return True

    async def _look_on(self, terms: Terms) -> None:
        """Wait for a better moment for the way back, but not for ever."""
        self._waited += 1
        if self._waited >= _PATIENCE:
            await self._enter(Stage.STUCK)
            return
        until = self._clock.boot() + _BETWEEN
        while self._clock.boot() < until:
            stage = await self._see(terms)
            if stage is not self._update.stage:
                await self._enter(stage)
                return

    async def _look(self, terms: Terms) -> None:
        """See what the device is at, and ask it which version runs."""
        stage = await self._see(terms)
        if stage is not self._update.stage:
            await self._enter(stage)
            return
        now = self._clock.boot()
        is_due = self._asked is None or now - self._asked >= pace(terms)
        if is_due and self._sight.is_there:
            self._asked = now
            try:
                await self._desk.publish(self._claim, StepName.READ_VERSION)
            except (LinkError, RejectedError):
                # Asked again soon; what the device says by itself counts as well.
                return

    async def _see(self, terms: Terms) -> Stage:
        """Wait until more is seen, and say at which stage the update is by that."""
        await self._renew()
        within = min(self._claim.lease / 3, pace(terms))
        self._sight = await self._desk.await_progress(self._claim, within=within)
        return following(self._update.stage, self._sight, terms)

    async def _enter(self, stage: Stage) -> None:
        self._update = await self._desk.enter(self._claim, stage)

    async def _renew(self) -> None:
        """Lengthen the lease when a third of it is over: who does not see the work go on loses it."""
        now = self._clock.boot()
        if now - self._renewed >= self._claim.lease / 3:
            await self._desk.renew(self._claim)
            self._renewed = now

    def _ended(self) -> Ending:
        """How the command ends, and what somebody has to know who goes there."""
        update, denied = self._update, self._sight.course.denied
        runs = update.runs or "nobody knows what"
        words = f": {denied.words}" if denied is not None and denied.words else ""
        outcome = OUTCOMES[update.stage]
        match update.stage:
            case Stage.DONE:
                return Ending(outcome=outcome, level=Level.VERIFIED, detail=f"{update.earlier} to {runs}")
            case Stage.KEPT:
                reason = Reason.OTHER_VALUE if denied is None else Reason.DEVICE_REFUSED
                detail = f"it runs {update.earlier}, as before{words}"
            case Stage.REVERTED:
                reason, detail = Reason.OTHER_VALUE, f"it was taken back to {update.earlier}{words}"
            case Stage.SILENT:
                reason = Reason.NO_CONFIRMATION
                detail = f"it does not tell what it runs; look at it before another update{words}"
            case _:
                reason = Reason.NO_CONFIRMATION
                detail = (
                    f"go to the device: it runs {runs} and cannot be taken back from here; "
                    f"install {update.earlier} by hand{words}"
                )
        return Ending(outcome=outcome, reason=reason, detail=detail)


def _tells_version(world: World) -> bool:
    """Whether it is known live which version runs."""
    facts = world.device
    recipe = facts.compiled.profile.firmware if isinstance(facts, Facts) else None
    held = None if recipe is None else known(world, ReadingName(recipe.running))
    return held is not None and held.live_at is not None and bool(version_told(held.value))


def _refused(reason: Reason, detail: str) -> Ending:
    return Ending(outcome=Outcome.REFUSED, reason=reason, detail=detail)
