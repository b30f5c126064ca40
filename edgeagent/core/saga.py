"""Several steps that stand or fall together: what comes next, by what was recorded so far (SPEC S1, S2).

    (nothing) ──> found                                     it was so already: nothing to do, nothing to undo
        │ └─────> barred                                    never begun: the gate or a stop was before it
        v
      begun ────> done ────┐
        │ │                ├──> undoing ──> undone
        │ └─────> unsure ──┘       └─────> stuck
        └───────> failed                                    known not to have happened

A step is recorded before it is sent and when its end is known. One that is recorded as begun may have been
sent: it is checked before anything else is done, and done again only if that leads to the same end. The
first step that is failed, unsure or barred turns the saga round: what was done is undone, the last first.
A step that cannot be undone keeps none of the others from it.

Pure: whoever drives it writes a mark into the store, and asks again. A step has a part's number in the
plan, from 0 on.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from edgeagent.contracts.policy import Level
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome, StepPhase
from edgeagent.contracts.sources import Value
from edgeagent.errors import RejectedError
from edgeagent.values import dataclass

Phase = StepPhase

# What may follow a step that was not sent; and of what was, each phase.
_UNSENT: Final = frozenset({Phase.FOUND, Phase.BEGUN, Phase.BARRED})
_NEXT: Final[Mapping[Phase, frozenset[Phase]]] = MappingProxyType(
    {
        Phase.BEGUN: frozenset({Phase.BEGUN, Phase.DONE, Phase.FAILED, Phase.UNSURE}),
        Phase.DONE: frozenset({Phase.UNDOING, Phase.STUCK}),
        Phase.UNSURE: frozenset({Phase.UNDOING, Phase.STUCK}),
        Phase.UNDOING: frozenset({Phase.UNDOING, Phase.UNDONE, Phase.STUCK}),
    }
)
_UNDER_WAY: Final = frozenset({Phase.BEGUN, Phase.UNDOING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What is recorded of a step.

    Attributes:
        part: its number in the plan, from 0 on.
        name: the action that it is.
        phase: where it stands.
        tries: how often what it does, or what undoes it, was sent.
        before: what the device showed before it was begun; None when that was not known.
        level: how surely its effect is known.
        reason: why it did not go on.
        detail: the same, for people.
    """

    part: int
    name: str
    phase: Phase
    tries: int = 0
    before: Value | None = None
    level: Level | None = None
    reason: Reason | None = None
    detail: str = ""

    def becomes(self, phase: Phase, level: Level | None, reason: Reason | None, detail: str) -> "Mark":
        """The same step in another phase. Why it turned round stays, however the way back goes."""
        if self.reason is not None:
            reason, detail = self.reason, self.detail
        return replace(self, phase=phase, level=level, reason=reason, detail=detail)

    @property
    def may_have_left(self) -> bool:
        """Whether the message that is under way may have been sent."""
        return self.phase in _UNDER_WAY and self.tries > 0


@dataclass(frozen=True, slots=True)
class Do:
    """Send a step.

    Attributes:
        part: which.
    """

    part: int


@dataclass(frozen=True, slots=True)
class Check:
    """Find out whether a step that may have been sent has happened.

    Attributes:
        part: which.
    """

    part: int


@dataclass(frozen=True, slots=True)
class Undo:
    """Send what undoes a step.

    Attributes:
        part: which.
    """

    part: int


@dataclass(frozen=True, slots=True)
class CheckUndo:
    """Find out whether a step is undone.

    Attributes:
        part: which.
    """

    part: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Over:
    """All is over.

    Attributes:
        outcome: how it ended.
        turned: the step at which it turned round; None when it did not.
        level: how surely all of it is known, of a success.
    """

    outcome: Outcome
    turned: Mark | None = None
    level: Level | None = None


Following = Do | Check | Undo | CheckUndo | Over


def following(count: int, marks: Mapping[int, Mark]) -> Following:
    """What comes next.

    Args:
        count: of how many steps.
        marks: what is recorded of each that was begun, by its number.
    """
    for part in range(count):
        mark = marks.get(part)
        if mark is None or (mark.phase is Phase.BEGUN and not mark.may_have_left):
            return Do(part)
        if mark.phase is Phase.BEGUN:
            return Check(part)
        if mark.phase not in {Phase.FOUND, Phase.DONE}:
            return _backward(marks)
    levels = [mark.level for mark in marks.values() if mark.level is not None]
    return Over(outcome=Outcome.SUCCEEDED, level=min(levels, key=list(Level).index, default=None))


def _backward(marks: Mapping[int, Mark]) -> Following:
    for part in sorted(marks, reverse=True):
        mark = marks[part]
        if mark.phase in {Phase.DONE, Phase.UNSURE}:
            return Undo(part)
        if mark.phase is Phase.UNDOING:
            return CheckUndo(part) if mark.may_have_left else Undo(part)
    return _ended(list(marks.values()))


def _ended(marks: Sequence[Mark]) -> Over:
    """How it ends once nothing is left to be undone."""
    phases = {mark.phase for mark in marks}
    # The turning point is the last step that was come to: later ones have no mark.
    turned = max(marks, key=lambda mark: mark.part)
    if Phase.STUCK in phases:
        outcome = Outcome.ROLLBACK_FAILED
    elif Phase.UNDONE in phases:
        outcome = Outcome.ROLLED_BACK
    elif Phase.FAILED in phases:
        outcome = Outcome.FAILED
    else:
        outcome = Outcome.EXPIRED if turned.reason is Reason.EXPIRED else Outcome.REFUSED
    return Over(outcome=outcome, turned=turned)


def has_begun(marks: Iterable[Mark]) -> bool:
    """Whether anything may have been sent, so that something may have to be undone."""
    idle = {Phase.FOUND, Phase.BEGUN}
    return any(mark.phase not in idle or mark.may_have_left for mark in marks)


def check_end(count: int, marks: Mapping[int, Mark], outcome: Outcome, level: Level | None) -> None:
    """Refuse an end that is not the one to which the marks have come.

    That nothing is known may always be said, and that nothing will be done as long as nothing was.

    Raises:
        RejectedError: it is not over, or over in another way.
    """
    coming = following(count, marks)
    untouched = {Outcome.REFUSED, Outcome.EXPIRED, Outcome.FAILED}
    if outcome is Outcome.UNKNOWN or (outcome in untouched and not has_begun(marks.values())):
        return
    if not isinstance(coming, Over) or (coming.outcome, coming.level) != (outcome, level):
        raise RejectedError(f"its steps have not come to {outcome}")


def check_mark(count: int, marks: Mapping[int, Mark], mark: Mark) -> None:
    """Refuse a mark that is not of the step that comes next, or does not follow what is recorded of it.

    Args:
        count: of how many steps.
        marks: what is recorded.
        mark: what is to be.

    Raises:
        RejectedError: it may not be recorded now.
    """
    coming = following(count, marks)
    is_next = not isinstance(coming, Over) and coming.part == mark.part
    if not is_next or mark.phase not in _allowed(marks.get(mark.part)):
        raise RejectedError(f"step {mark.part + 1} may not be {mark.phase} now")


def _allowed(held: Mark | None) -> frozenset[Phase]:
    if held is None or (held.phase is Phase.BEGUN and not held.may_have_left):
        return _UNSENT
    allowed = _NEXT.get(held.phase, frozenset())
    is_unsent = held.phase is Phase.UNDOING and not held.may_have_left
    return allowed - {Phase.UNDONE} if is_unsent else allowed
