"""A claimed command, and how it can end: what passes between whoever works it and the desk."""

from datetime import timedelta
from enum import StrEnum

from edgeagent.contracts.actions import CATALOGUE, Effect
from edgeagent.contracts.policy import ActionRule, Level, TierRule
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome, StateMark
from edgeagent.contracts.traceparent import Traceparent
from edgeagent.core.confirmation import Confirmed, Contradicted, Denied
from edgeagent.core.firmware import Update
from edgeagent.core.gate.verdict import Opened
from edgeagent.core.gate.world import World
from edgeagent.core.lease import SHORTEST
from edgeagent.core.profile.plan import Plan
from edgeagent.core.saga import Mark
from edgeagent.core.tracing import trace_of, within
from edgeagent.ids import DeviceId
from edgeagent.values import dataclass


class StepName(StrEnum):
    """What is sent to the device."""

    ACT = "act"
    """What changes it."""
    READ_BACK = "read_back"
    """A question for the reading that shows the effect."""
    REFRESH = "refresh"
    """A question for its whole state."""
    UNDO = "undo"
    """What makes it again what it was before a part of the command."""
    UNDO_READ_BACK = "undo_read_back"
    """A question for the reading that shows that."""
    INSTALL = "install"
    """One of the messages of an update."""
    READ_VERSION = "read_version"
    """A question for the version that runs."""

    @property
    def acts(self) -> bool:
        """Whether it changes the device; all else is a question."""
        return self in {StepName.ACT, StepName.UNDO, StepName.INSTALL}

    @property
    def is_backward(self) -> bool:
        """Whether it is about undoing."""
        return self in {StepName.UNDO, StepName.UNDO_READ_BACK}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What was heard of a step so far.

    Attributes:
        confirmed: the best proof of the command itself, whatever was asked since.
        denied: the device's refusal of it.
        seen: what reading back has shown.
        is_over: whether no more is to be expected of the last step.
    """

    confirmed: Confirmed | None = None
    denied: Denied | None = None
    seen: Confirmed | Contradicted | None = None
    is_over: bool = False

    def is_enough(self, level: Level) -> bool:
        """Whether nothing has to be waited for any more, where ``level`` is what has to be proven."""
        proven = self.confirmed is not None and self.confirmed.level.reaches(level)
        return proven or self.denied is not None or self.seen is not None or self.is_over


@dataclass(frozen=True, slots=True, kw_only=True)
class Later:
    """A claim that is given back, to be taken up again.

    Attributes:
        reason: why.
        after: how long from now; None: when its device comes online, or the time is proven. What
            ``is_left`` does not wait.
        error: what went wrong, for people.
        unsent: whether the last step is known not to have left.
    """

    reason: Reason
    after: timedelta | None = None
    error: str = ""
    unsent: bool = False

    @property
    def is_left(self) -> bool:
        """Whether it was left as it is: it is queued at once, and its device is read afresh."""
        return self.reason is Reason.TAKEN_OVER


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A command that is ours to work, and the lock that comes with it.

    Attributes:
        run: its run.
        asked: the command.
        envelope: the bytes that prove it to somebody else.
        world: what the gate judges by, as of the claim.
        rule: how the policy wants it carried out.
        tier: the rule of its lane.
        token: proves that the lock is ours.
        fence: under which every step is sent.
        attempts: how often it was sent before.
        sent: whether this run may have been sent already, by us or by a holder that is gone.
        force_refresh: whether the device has to be read before anything is sent.
        before: the device's state at the claim.
        plan: how the action is carried out on this device; None when it cannot be.
        lease: how long the lock holds without being renewed.
        steps: what is recorded of the parts of the plan, in their order; empty where it has none.
        update: what is recorded of its update; None for another action, and where none has begun.
        traceparent: the place in a trace that came beside the command.
    """

    run: int
    asked: Opened
    envelope: bytes
    world: World
    rule: ActionRule
    tier: TierRule
    token: str
    fence: int
    attempts: int
    sent: bool
    force_refresh: bool
    before: StateMark | None
    plan: Plan | None
    lease: timedelta = SHORTEST
    steps: tuple[Mark, ...] = ()
    update: Update | None = None
    traceparent: str | None = None

    @property
    def device(self) -> DeviceId:
        """Whose lock it is."""
        return self.asked.device

    @property
    def trace(self) -> Traceparent:
        """The trace that it belongs to."""
        return trace_of(self.traceparent, self.asked.verified.sha256)

    def trace_of_step(self, step: StepName, mark: Mark | None = None) -> Traceparent:
        """The place in it of a step that is about to be sent.

        A question is asked within the work under its fence, which has a span of its own.

        Args:
            step: which.
            mark: what is recorded of it, where the plan has several parts.
        """
        if not step.acts:
            return within(self.trace, self.device, self.run, "work", self.fence)
        name = "step" if mark is None else f"step {mark.name} {mark.phase}"
        number = self.attempts + 1 if mark is None else mark.tries
        return within(self.trace, self.device, self.run, name, number)

    @property
    def may_be_resent(self) -> bool:
        """Whether sending it again leads to the same end."""
        return CATALOGUE[self.asked.command.action].effect is Effect.ABSOLUTE


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a command ends.

    Attributes:
        outcome: the final state.
        reason: why, where there is more to say.
        detail: for people; what the device said, cleaned.
        level: how surely a success is known.
    """

    outcome: Outcome
    reason: Reason | None = None
    detail: str = ""
    level: Level | None = None
