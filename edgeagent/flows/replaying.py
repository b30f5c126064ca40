"""A dead letter runs again: judged anew, and, if it may, as a new run of the same command (SPEC D2).

Nothing is trusted because it was here before: signatures, policy, validity and order are judged by what holds
now. The run has the person who asked for it on record, so that nobody approves what he has replayed.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Final, assert_never

from pydantic import JsonValue

from edgeagent.clock import EPOCH
from edgeagent.contracts.actions import CATALOGUE, Effect, slot_of
from edgeagent.contracts.policy import Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.reports.dead_letters import DealtReport
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.envelope import Keyring, RefusedEnvelopeError
from edgeagent.core.freshness import begins
from edgeagent.core.gate.judging import judge
from edgeagent.core.gate.opening import opened_for
from edgeagent.core.gate.verdict import Accept, AddSignatures, Duplicate, Hold, Moment, Opened, Refuse
from edgeagent.core.gate.world import World
from edgeagent.core.lease import ANY, Terms
from edgeagent.core.lifecycle import FINAL, State
from edgeagent.core.operation import OperationState, operation_key
from edgeagent.core.tracing import follows
from edgeagent.errors import BrokenInvariantError
from edgeagent.flows.entering import Entering
from edgeagent.flows.worlds import Worlds
from edgeagent.ids import KeyId
from edgeagent.store import audit, dead_letters, inbox
from edgeagent.store.audit import Act
from edgeagent.store.database import Snapshot, Transaction
from edgeagent.store.dead_letters import Dealt, Letter
from edgeagent.store.inbox_row import Again, NewCommand
from edgeagent.values import dataclass

Judged = Accept | Hold | Refuse
"""What the gate can say of a dead letter."""

_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Case:
    """A letter that is to run again, with what it is judged by.

    Attributes:
        letter: the letter.
        world: everything but what the store remembers.
        asked: what it asks; why not, where nothing in it can be believed any more.
        terms: under which its device would be locked for it.
        alone: whether it was named by its number, and not picked by a filter.
    """

    letter: Letter
    world: World
    asked: Opened | Refuse
    terms: Terms
    alone: bool


@dataclass(frozen=True, slots=True)
class Replaying:
    """Judges letters and makes new runs of them.

    Attributes:
        worlds: what they are judged by.
        entering: puts what may run into its lane.
    """

    worlds: Worlds
    entering: Entering

    def case(self, letter: Letter, keys: Keyring, *, alone: bool) -> Case:
        """Make ready to judge a letter. To be called on the event loop."""
        world = self.worlds.around_device(letter.device, letter.local)
        try:
            asked = opened_for(letter.device, letter.envelope, keys)
        except RefusedEnvelopeError as why:
            return Case(letter, world, Refuse(why.reason, str(why)), ANY, alone)
        return Case(letter, world, asked, self.worlds.terms(asked), alone)

    def judged(self, db: Snapshot, case: Case) -> tuple[KeyId, Judged]:
        """What the gate says now.

        Returns:
            The key in whose name, and the verdict.
        """
        asked, letter = case.asked, case.letter
        if isinstance(asked, Refuse):
            return letter.issuer, asked
        issuer, world = self.worlds.remembered(db, asked, case.world)
        known = None if world.known is None else world.known.sha256
        if known not in {None, asked.verified.sha256}:
            return issuer, Refuse(Reason.ID_CONFLICT)
        row = inbox.of_device(db, letter.command, letter.device)
        if row is not None and row.state not in FINAL:
            return issuer, Refuse(Reason.OPERATION_RUNNING, f"run {row.ordinal} of it is open")
        # Whoever has agreed to an earlier run has not agreed to this one.
        world = replace(world, approvals=())
        state, said_by = world.operation or (OperationState.FAILED, asked.command.id)
        if state is OperationState.COMPLETED and said_by == asked.command.id:
            return issuer, Refuse(Reason.OPERATION_DONE, "it has worked after all")
        one_shot = CATALOGUE[asked.command.action].effect is Effect.ONE_SHOT
        if state is OperationState.UNKNOWN and one_shot and not case.alone:
            # It may have worked: a person has to have looked at this very one (SPEC I3).
            return issuer, Refuse(Reason.OUTCOME_UNKNOWN, "name it by its number")
        verdict = judge(asked, world, Moment.REPLAY)
        if isinstance(verdict, Duplicate | AddSignatures):
            raise BrokenInvariantError(f"the gate says {verdict} at REPLAY")
        return issuer, verdict

    def run(self, tx: Transaction, case: Case, actor: str) -> DealtReport:
        """Have a letter run again, if the gate lets it; one that it refuses stays as it is."""
        letter = case.letter
        standing = dead_letters.find(tx, letter.number)
        if standing is None or standing.dealt is not None:
            return told(letter, Refuse(Reason.REPLAYED, "somebody has dealt with it meanwhile"))
        issuer, verdict = self.judged(tx, case)
        if isinstance(case.asked, Refuse) or isinstance(verdict, Refuse):
            refusal = case.asked if isinstance(case.asked, Refuse) else verdict
            self._record(tx, letter, actor, told(letter, refusal))
            return told(letter, refusal)
        new = self._new(case, case.asked, (issuer, actor), verdict.rule.tier)
        row = inbox.of_device(tx, letter.command, letter.device)
        # One that the inbox has forgotten, or that never had a row, is the first of its name there again.
        again = None if row is None else Again(row.ordinal + 1, row.run)
        is_held = isinstance(verdict, Hold)
        state = State.HELD if is_held else State.QUEUED
        run = inbox.insert(tx, new, state, verdict.reason if isinstance(verdict, Hold) else None, again)
        if not is_held:
            self.entering.begin(tx, new, run)
        at = self.worlds.around.event_time().at
        dead_letters.deal(tx, letter.number, Dealt(how="replayed", by=actor, at=at, run=run))
        self._record(tx, letter, actor, told(letter, verdict, run))
        return told(letter, verdict, run)

    def _new(self, case: Case, asked: Opened, names: tuple[KeyId, str], lane: Tier) -> NewCommand:
        command, letter = asked.command, case.letter
        issuer, actor = names
        return NewCommand(
            command=letter.command,
            device=letter.device,
            issuer=issuer,
            signers=asked.verified.signers,
            sequence=command.sequence,
            action=command.action,
            slot=slot_of(command.action, command.arguments),
            lane=lane,
            operation=operation_key(command, letter.device),
            sha256=asked.verified.sha256,
            envelope=letter.envelope,
            expires_at=letter.expires_at,
            begins_at=(begins(command.issued_at, command.sequence) - EPOCH) // _MICROSECOND,
            local=letter.local,
            terms=case.terms,
            actor=actor,
            received_at=self.worlds.around.event_time().at,
            traceparent=str(follows(letter.traceparent, letter.sha256, letter.device, letter.run)),
        )

    def _record(self, tx: Transaction, letter: Letter, actor: str, dealt: DealtReport) -> None:
        detail: dict[str, JsonValue] = {
            "dead_letter": letter.number,
            "device": letter.device,
            "action": letter.action,
            "issuer": letter.issuer,
            "sha256": letter.sha256,
            "replay_of": letter.run,
            "run": dealt.run,
            "said": dealt.done,
            "reason": dealt.reason,
            "detail": dealt.detail,
        }
        act = Act(kind=AuditKind.DEAD_LETTER_REPLAYED, subject=letter.command, actor=actor, detail=detail)
        audit.append(tx, [act], self.worlds.around.stamp())


def told(letter: Letter, verdict: Judged, run: int | None = None) -> DealtReport:
    """What became of a letter, or would."""
    done, reason, detail = "queued", None, ""
    match verdict:
        case Hold():
            done, reason = "held", verdict.reason
        case Refuse():
            done, reason, detail = "refused", verdict.reason, verdict.detail
        case Accept():
            pass
        case _:
            assert_never(verdict)
    return DealtReport(
        number=letter.number,
        command=letter.command,
        device=letter.device,
        done=done,
        reason=reason,
        detail=detail,
        run=run,
    )
