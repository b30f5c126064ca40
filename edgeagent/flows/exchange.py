"""What passes between whoever works a command and the desk: a question, its answer, a wait, a judgement.

Knows ports and the core only, as ``dispatch`` does.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from edgeagent.contracts.mqtt import PublishResult
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.gate.judging import judge
from edgeagent.core.gate.verdict import Accept, Hold, Moment, Refuse
from edgeagent.core.gate.world import World
from edgeagent.core.profile.decode import AVAILABILITY
from edgeagent.core.retry import delay
from edgeagent.core.work import Answered, Claim, Ending, Later, StepName
from edgeagent.errors import BrokenInvariantError, RejectedError
from edgeagent.ports.desk import ExpiredError, StoppedError, WorkDesk
from edgeagent.ports.links import LinkError, Trouble

LISTENS_AGAIN: Final = timedelta(seconds=5)
"""How long a device is given to come back that did not listen."""

_OUTCOMES: Final = {Reason.EXPIRED: Outcome.EXPIRED}

Next = Ending | Later
"""What becomes of a claim."""


class Exchange:
    """Asks the desk, and waits."""

    def __init__(self, desk: WorkDesk, chance: Callable[[], float]) -> None:
        self._desk = desk
        self._chance = chance

    async def ask(self, claim: Claim, question: StepName, part: int = 0) -> Answered:
        """Read the device; raises LinkError if it cannot be asked."""
        try:
            result = await self._desk.publish(claim, question, part)
        except RejectedError:
            return Answered(is_over=True)
        if result is PublishResult.NOBODY_LISTENS:
            return Answered(is_over=True)
        return await self.answered(claim)

    async def answered(self, claim: Claim) -> Answered:
        """Wait until the last step's time is over or enough is known, renewing the lease (SPEC L1)."""
        level = claim.rule.confirmation
        while True:
            # Only who sees the work go on renews: a heartbeat of its own would outlive it (SPEC Q5).
            answered = await self._desk.await_confirmation(claim, level=level, within=claim.lease / 3)
            if answered.is_enough(level):
                return answered
            await self._desk.renew(claim)

    def when_linked(self, claim: Claim, why: LinkError, *, unsent: bool = False) -> Later:
        """Go on when the broker is back; when it stands and has too much to do, a little later."""
        after = self.wait(claim, failures=1) if why.trouble is Trouble.BUSY else None
        return Later(reason=Reason.BROKER_AWAY, after=after, error=str(why), unsent=unsent)

    def wait(self, claim: Claim, *, failures: int, longest: timedelta = timedelta(0)) -> timedelta:
        """How long to wait after so many failures, as the claim's tier says, or up to something longer."""
        tier = claim.tier
        longest = max(longest, tier.longest_delay)
        return delay(failures, first=tier.first_delay, longest=longest, chance=self._chance())


def turned_away(claim: Claim, world: World) -> Next | None:
    """What the gate says right before the act; None when it lets the command pass."""
    match judge(claim.asked, world, Moment.ACT):
        case Accept():
            return None
        case Hold(reason):
            return Later(reason=reason)
        case Refuse(reason, detail):
            outcome = _OUTCOMES.get(reason, Outcome.REFUSED)
            return Ending(outcome=outcome, reason=reason, detail=detail)
        case verdict:
            raise BrokenInvariantError(f"the gate says {verdict} at ACT")


def barred(why: RejectedError) -> Ending | None:
    """How a command ends that may be sent no more, and of which nothing was; None if it is something else."""
    match why:
        case StoppedError():
            return Ending(outcome=Outcome.REFUSED, reason=Reason.STOPPED, detail=str(why))
        case ExpiredError():
            return Ending(outcome=Outcome.EXPIRED, reason=Reason.EXPIRED, detail=str(why))
        case _:
            return None


def is_offline(world: World) -> bool:
    """Whether the device is known to be away."""
    held = None if world.shadow is None else world.shadow.state.get(AVAILABILITY)
    return held is not None and held.value == "offline"
