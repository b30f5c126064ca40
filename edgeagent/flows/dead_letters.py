"""Dealing with dead letters: looked at, run again, put away, handed out (SPEC D2, D3).

    waits ──replay──> the gate, at the moment REPLAY ──> queued or held: a new run of the same command
      │                                          └─────> refused: the letter stays as it is
      └──discard────> put away, with a reason

Every look into a letter and everything that is done with one is on record.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from pydantic import JsonValue

from edgeagent.clock import EPOCH
from edgeagent.contracts.command import COMMAND_BYTES, Command
from edgeagent.contracts.door import decode
from edgeagent.contracts.envelope import Envelope
from edgeagent.contracts.event import Stream
from edgeagent.contracts.reports.dead_letters import (
    DealtReport,
    DealtsReport,
    DiscardRequest,
    LetterReport,
    LettersReport,
    LettersWanted,
    ReplayRequest,
)
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.envelope import unproven_payload
from edgeagent.core.saga import Mark
from edgeagent.core.work import StepName
from edgeagent.errors import RejectedError, UnknownError
from edgeagent.flows.replaying import Replaying, told
from edgeagent.store import audit, dead_letters, steps
from edgeagent.store.audit import Act
from edgeagent.store.database import Database, Snapshot, Transaction
from edgeagent.store.dead_letters import Dealt, Letter, Picked
from edgeagent.values import dataclass

_MICROSECOND: Final = timedelta(microseconds=1)
_ALL: Final = "dead_letters"


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Deals with dead letters.

    Attributes:
        store: where they lie.
        replaying: has them run again.
        tell: called when something was queued or held.
    """

    store: Database
    replaying: Replaying
    tell: Callable[[], None]

    async def letters(self, wanted: LettersWanted) -> LettersReport:
        """The letters that are meant, without what is in them."""
        found = await self.store.read(partial(_meant, wanted=wanted))
        return LettersReport(letters=[_report(letter) for letter in found])

    async def show(self, number: int, actor: str) -> LettersReport:
        """One letter, whole."""

        def show(tx: Transaction) -> LetterReport:
            letter = dead_letters.find(tx, number)
            if letter is None:
                raise UnknownError(f"there is no dead letter {number}")
            detail: dict[str, JsonValue] = {"dead_letter": number, "device": letter.device}
            self._record(tx, AuditKind.DEAD_LETTER_SHOWN, letter.command, actor, detail)
            return _whole(letter, steps.of(tx, letter.run))

        return LettersReport(letters=[await self.store.write(show)])

    async def export(self, wanted: LettersWanted, actor: str) -> LettersReport:
        """Letters, whole."""

        def export(tx: Transaction) -> list[LetterReport]:
            found = _meant(tx, wanted)
            if found:
                detail: dict[str, JsonValue] = {"letters": [letter.number for letter in found]}
                self._record(tx, AuditKind.DEAD_LETTERS_EXPORTED, _ALL, actor, detail)
            return [_whole(letter, steps.of(tx, letter.run)) for letter in found]

        return LettersReport(letters=await self.store.write(export))

    async def replay(self, request: ReplayRequest, actor: str) -> DealtsReport:
        """Have letters run again, each judged by the gate."""
        found = await self._to_deal_with(request.wanted)
        worlds, alone = self.replaying.worlds, request.wanted.number is not None
        keys = worlds.keys()
        cases = [self.replaying.case(letter, keys, alone=alone) for letter in found]
        if request.dry_run:

            def look(db: Snapshot) -> list[DealtReport]:
                return [told(case.letter, self.replaying.judged(db, case)[1]) for case in cases]

            return DealtsReport(dry_run=True, letters=await self.store.read(look))

        def run(tx: Transaction) -> list[DealtReport]:
            return [self.replaying.run(tx, case, actor) for case in cases]

        dealt = await self.store.write(run)
        worlds.around.outbox.stored({Stream.RECORD}, len(dealt))
        for bell in self.replaying.entering.lanes.values():
            bell.ring()
        self.tell()
        return DealtsReport(dry_run=False, letters=dealt)

    async def discard(self, request: DiscardRequest, actor: str) -> DealtsReport:
        """Put letters away."""
        found = await self._to_deal_with(request.wanted)
        if request.dry_run:
            return DealtsReport(dry_run=True, letters=[_done(letter) for letter in found])
        at = self.replaying.worlds.around.event_time().at
        dealt = Dealt(how="discarded", by=actor, at=at, why=request.why)

        def discard(tx: Transaction) -> list[DealtReport]:
            gone = [letter for letter in found if dead_letters.deal(tx, letter.number, dealt)]
            for letter in gone:
                detail: dict[str, JsonValue] = {
                    "dead_letter": letter.number,
                    "device": letter.device,
                    "why": request.why,
                }
                self._record(tx, AuditKind.DEAD_LETTER_DISCARDED, letter.command, actor, detail)
            return [_done(letter) for letter in gone]

        return DealtsReport(dry_run=False, letters=await self.store.write(discard))

    async def _to_deal_with(self, wanted: LettersWanted) -> list[Letter]:
        """The letters that are meant and wait.

        Raises:
            RejectedError: nothing says which, or the one that is named does not wait.
        """
        if not wanted.is_explicit:
            raise RejectedError("say which: by number, or by action, device, reason, since")
        found = await self.store.read(partial(_meant, wanted=_waiting(wanted)))
        if wanted.number is not None and not found:
            raise UnknownError(f"no dead letter {wanted.number} waits")
        return found

    def _record(
        self, tx: Transaction, kind: AuditKind, subject: str, actor: str, detail: dict[str, JsonValue]
    ) -> None:
        act = Act(kind=kind, subject=subject, actor=actor, detail=detail)
        audit.append(tx, [act], self.replaying.worlds.around.stamp())


def _waiting(wanted: LettersWanted) -> LettersWanted:
    """The same, without those that somebody has dealt with."""
    return wanted.model_copy(update={"dealt": False})


def _meant(db: Snapshot, wanted: LettersWanted) -> list[Letter]:
    since = None if wanted.since is None else (wanted.since - EPOCH) // _MICROSECOND
    picked = Picked(
        action=wanted.action,
        device=wanted.device,
        reason=wanted.reason,
        since=since,
        dealt=wanted.dealt,
        after=wanted.after if wanted.number is None else wanted.number - 1,
        most=wanted.most if wanted.number is None else 1,
    )
    return [each for each in dead_letters.pick(db, picked) if wanted.number in {None, each.number}]


def _done(letter: Letter) -> DealtReport:
    return DealtReport(number=letter.number, command=letter.command, device=letter.device, done="discarded")


def _moment(microseconds: int) -> datetime:
    return EPOCH + microseconds * _MICROSECOND


def _report(letter: Letter) -> LetterReport:
    dealt = letter.dealt
    return LetterReport(
        number=letter.number,
        command=letter.command,
        device=letter.device,
        action=letter.action,
        issuer=letter.issuer,
        actor=letter.actor,
        lane=letter.lane,
        sha256=letter.sha256,
        run=letter.ordinal,
        outcome=letter.outcome,
        blame=letter.blame,
        reason=letter.reason,
        meaning="" if letter.reason is None else letter.reason.sentence,
        detail=letter.detail,
        attempts=letter.attempts,
        steps=[StepName.ACT] * letter.attempts,
        fence=letter.fence,
        worker=letter.holder,
        received_at=_moment(letter.received_at),
        buried_at=_moment(letter.buried_at),
        expires_at=_moment(letter.expires_at),
        dealt=None if dealt is None else dealt.how,
        dealt_by=None if dealt is None else dealt.by,
        dealt_at=None if dealt is None else _moment(dealt.at),
        dealt_why="" if dealt is None else dealt.why,
        replayed_as=None if dealt is None else dealt.run,
    )


def _whole(letter: Letter, marks: Sequence[Mark]) -> LetterReport:
    """A letter with what is in it; of a command that is made of several, what became of each step."""
    command = decode(Command, unproven_payload(letter.envelope), limit=COMMAND_BYTES)
    envelope = decode(Envelope, letter.envelope, limit=COMMAND_BYTES)
    whole: dict[str, object] = {"arguments": command.arguments, "envelope": envelope}
    if marks:
        whole["steps"] = [f"{mark.name} {mark.phase}" for mark in marks]
    return _report(letter).model_copy(update=whole)
