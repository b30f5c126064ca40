"""What the desk records of the steps that it sends: before each, and of a plan's parts what became of them.

Whoever works a command says which step is to come; whether it is the next of the plan is decided here, by
what is recorded, and so is what the device showed before it (SPEC S1, W1).
"""

from collections.abc import Mapping
from dataclasses import replace

from pydantic import JsonValue

from edgeagent.contracts.sources import Value
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.profile.plan import Plan
from edgeagent.core.saga import Mark, Phase, check_mark
from edgeagent.core.work import Claim, StepName
from edgeagent.errors import RejectedError
from edgeagent.flows.claims import about, key_of
from edgeagent.ids import ReadingName, Topic
from edgeagent.store import audit, inbox, locks, steps
from edgeagent.store.audit import Stamp
from edgeagent.store.database import Transaction
from edgeagent.store.inbox_row import Now
from edgeagent.values import dataclass

_DETAIL = 200


@dataclass(frozen=True, slots=True)
class Recorder:
    """Writes under the lock of a claim.

    Attributes:
        claim: whose.
        now: the present, as leases count it.
        stamp: the same, for the audit trail.
    """

    claim: Claim
    now: Now
    stamp: Stamp

    def sending(self, tx: Transaction, topic: Topic, mark: Mark | None) -> None:
        """Record that a step is about to be sent; only under a lock that is ours."""
        claim = self.claim
        self._check(tx)
        inbox.note_sent(tx, claim.run)
        attempt = claim.attempts + 1
        detail: dict[str, JsonValue] = {"topic": topic, "attempt": attempt}
        if mark is not None:
            steps.save(tx, claim.run, mark, at=self.stamp.at)
            detail = {"topic": topic, "step": mark.name, "phase": mark.phase, "attempt": mark.tries}
        self._audit(tx, AuditKind.STEP_SENT, detail)

    def checkpoint(self, tx: Transaction, mark: Mark) -> None:
        """Record what became of a part; only under a lock that is ours."""
        self._check(tx)
        steps.save(tx, self.claim.run, mark, at=self.stamp.at)
        detail: dict[str, JsonValue] = {"step": mark.name, "phase": mark.phase, "level": mark.level}
        self._audit(tx, AuditKind.STEP_ENDED, detail | {"reason": mark.reason, "detail": mark.detail})

    def _check(self, tx: Transaction) -> None:
        locks.check(tx, key_of(self.claim), self.now)

    def _audit(self, tx: Transaction, kind: AuditKind, more: dict[str, JsonValue]) -> None:
        audit.append(tx, [about(self.claim, kind, more)], self.stamp)


def unsent(tx: Transaction, run: int) -> None:
    """Take back that a step is about to be sent: it is known not to have left."""
    inbox.note_unsent(tx, run)
    steps.note_unsent(tx, run)


def coming(
    plan: Plan, step: StepName, part: int, marks: Mapping[int, Mark], live: Mapping[ReadingName, Value]
) -> Mark | None:
    """What is recorded of a part right before it is sent; None for a plan without parts, and for a question.

    Args:
        plan: the whole plan.
        step: what is to be sent.
        part: of which part.
        marks: what is recorded.
        live: what the device shows.

    Raises:
        RejectedError: it is not the next of the plan.
    """
    if not plan.parts or not step.acts:
        return None
    planned, held = plan.parts[part], marks.get(part)
    phase = Phase.UNDOING if step.is_backward else Phase.BEGUN
    if held is None:
        before = None if planned.wish is None else live.get(planned.wish.reading)
        held = Mark(part=part, name=planned.action, phase=phase, before=before)
    tries = held.tries + 1 if held.phase is phase else 1
    mark = replace(held, phase=phase, tries=tries)
    check_mark(len(plan.parts), marks, mark)
    return mark


def became(plan: Plan, mark: Mark, marks: Mapping[int, Mark]) -> Mark:
    """What is recorded of a part once its end is known: of what is said only what cannot be known here.

    Raises:
        RejectedError: it is not next, or may not become that.
    """
    if not 0 <= mark.part < len(plan.parts):
        raise RejectedError(f"the plan has no part {mark.part + 1}")
    if mark.phase in {Phase.BEGUN, Phase.UNDOING}:
        raise RejectedError("a step begins by being sent")
    check_mark(len(plan.parts), marks, mark)
    unsent = Mark(part=mark.part, name=plan.parts[mark.part].action, phase=mark.phase)
    held = marks.get(mark.part, unsent)
    return held.becomes(mark.phase, mark.level, mark.reason, mark.detail[:_DETAIL])
