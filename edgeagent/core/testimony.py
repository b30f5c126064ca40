"""What the isolated worker says of a command, held against what the hub has seen itself (SPEC W1).

The worker may decline a command, put it off, or say that it does not know; nobody is harmed by that. That
something has happened, or has not, it may say only where the hub has told it so: every proof of it has
come by the hub's own connection to the broker.
"""

from dataclasses import field, replace

from edgeagent.contracts.mqtt import PublishResult
from edgeagent.contracts.policy import Level
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.confirmation import Confirmed, Contradicted
from edgeagent.core.firmware import Update
from edgeagent.core.gate.world import World
from edgeagent.core.profile.plan import Plan
from edgeagent.core.saga import Mark, Phase
from edgeagent.core.work import Answered, Claim, Ending, Later
from edgeagent.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the hub has seen of a command since it was claimed.

    Attributes:
        is_acted: whether the worker has asked for the step that changes the device.
        result: what the broker said to it; None where it was never reached, or not asked.
        answers: what was heard, in the order in which it was told to the worker.
        worlds: what was known of the device, at the claim and later.
        questions: how often the device was asked something.
        most_questions: how often it may be.
        about: the part of the plan that the last step was about, and whether that undoes it: what was
            heard of another part says nothing of it.
        has_begun: whether anything of it may have been sent, by this claim or an earlier one.
        update: what is recorded of its update.
    """

    is_acted: bool = False
    result: PublishResult | None = None
    answers: tuple[Answered, ...] = ()
    worlds: tuple[World, ...] = field(default=())
    questions: int = 0
    most_questions: int = 16
    about: tuple[int, bool] = (0, False)
    has_begun: bool = False
    update: Update | None = None

    def of(self, part: int, *, backward: bool) -> "Evidence":
        """With the next step about a part: what was heard of another is forgotten."""
        if self.about == (part, backward):
            return self
        return replace(self, about=(part, backward), is_acted=False, result=None, answers=())

    @property
    def may_have_left(self) -> bool:
        """Whether the step that changes the device may have gone out since the claim."""
        return self.result in {PublishResult.TAKEN, PublishResult.NO_ANSWER}

    def told(self, answered: Answered) -> "Evidence":
        """With one more answer; of equal ones one is kept."""
        if answered in self.answers:
            return self
        return replace(self, answers=(*self.answers, answered))


def doubt(claim: Claim, said: Ending | Later, evidence: Evidence) -> str:
    """Why what a worker says cannot be so; empty when it can."""
    if isinstance(said, Later):
        is_known = evidence.is_acted and not evidence.may_have_left
        return "" if is_known or not said.unsent else "it was not seen that the step did not leave"
    match said.outcome:
        case Outcome.UNKNOWN:
            return ""
        case Outcome.REFUSED | Outcome.EXPIRED:
            has_begun = claim.sent or evidence.may_have_left
            return "it was sent, so that it has begun" if has_begun else ""
        case Outcome.SUCCEEDED:
            return "" if _is_proven(claim, said.level, evidence) else "nobody has seen that it has worked"
        case Outcome.FAILED:
            return "" if _is_refuted(claim, evidence) else "nobody has seen that it has not worked"
        case _:
            return f"no worker says {said.outcome}"


def doubt_mark(claim: Claim, said: Mark, evidence: Evidence) -> str:
    """Why a part cannot have become what a worker says; empty when it can.

    It may always turn round, since what is undone is as it was: but what is done, or undone, was seen.
    """
    part = None if claim.plan is None or said.part >= len(claim.plan.parts) else claim.plan.parts[said.part]
    needed = claim.rule.confirmation
    backward = said.phase is Phase.UNDONE
    if said.phase not in {Phase.FOUND, Phase.DONE, Phase.UNDONE, Phase.FAILED}:
        return ""
    if said.phase is not Phase.FAILED and (said.level is None or not said.level.reaches(needed)):
        return f"the policy asks for {needed}"
    is_no_more = said.level is not None and Level.APPLIED.reaches(said.level)
    if said.phase is Phase.FOUND and is_no_more and any(_shows_wish(part, each) for each in evidence.worlds):
        return ""
    if evidence.about != (said.part, backward):
        return "nobody was asked about that part"
    if said.phase is Phase.FAILED:
        is_refused = evidence.result is PublishResult.REFUSED
        return "" if is_refused or _is_denied(evidence) else "nobody has seen that it has not worked"
    return "" if _is_seen(said.level, evidence) else "nobody has seen that it has worked"


def _is_proven(claim: Claim, level: Level | None, evidence: Evidence) -> bool:
    """Whether the hub has seen an effect of at least this level."""
    if level is None:
        return False
    if _is_seen(level, evidence):
        return True
    is_sent = level is Level.SENT
    shown = any(_shows_wish(claim.plan, world) for world in evidence.worlds)
    return not is_sent and Level.APPLIED.reaches(level) and shown


def _is_seen(level: Level | None, evidence: Evidence) -> bool:
    """Whether the hub has heard a proof of at least this level."""
    if level is None or level is Level.SENT:
        return level is not None and evidence.result is PublishResult.TAKEN
    heard = [each for answered in evidence.answers for each in (answered.confirmed, answered.seen)]
    return any(isinstance(each, Confirmed) and each.level.reaches(level) for each in heard)


def _shows_wish(plan: Plan | None, world: World) -> bool:
    wish, shadow = None if plan is None else plan.wish, world.shadow
    held = None if wish is None or shadow is None else shadow.state.get(wish.reading)
    return wish is not None and held is not None and held.live_at is not None and wish.met_by(held.value)


def _is_refuted(claim: Claim, evidence: Evidence) -> bool:
    if not claim.sent and not evidence.may_have_left:
        return True
    return _is_denied(evidence)


def _is_denied(evidence: Evidence) -> bool:
    """Whether the hub has heard that it has not worked."""
    return any(
        answered.denied is not None or isinstance(answered.seen, Contradicted)
        for answered in evidence.answers
    )
