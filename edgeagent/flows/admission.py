"""Letting commands in: the gate at the moment ADMIT, and one commit for what it says.

A command that comes is judged inside the transaction that stores it, so that nothing that it was judged
by can change in between. Accepted, held or refused, it is on record before anybody is told that we have
it (SPEC Q3). What no known key has signed is counted, one row for many: a flood of it fills no card
(SPEC T9).
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final, assert_never

from pydantic import JsonValue

from edgeagent.clock import EPOCH
from edgeagent.contracts.actions import ActionName, slot_of
from edgeagent.contracts.command import COMMAND_BYTES, Command
from edgeagent.contracts.event import EventType, Stream, data_text
from edgeagent.contracts.policy import Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.envelope import RefusedEnvelopeError, merged
from edgeagent.core.freshness import BootDeadline
from edgeagent.core.gate.judging import judge
from edgeagent.core.gate.opening import opened
from edgeagent.core.gate.verdict import (
    Accept,
    AddSignatures,
    Duplicate,
    Hold,
    Moment,
    Opened,
    Refuse,
    Verdict,
)
from edgeagent.core.gate.world import World
from edgeagent.core.lifecycle import State
from edgeagent.core.operation import operation_key
from edgeagent.core.work import Ending
from edgeagent.errors import BrokenInvariantError, MalformedError, RejectedError
from edgeagent.flows.bells import Bell
from edgeagent.flows.settling import Ended, Settling
from edgeagent.flows.worlds import Worlds
from edgeagent.ids import CommandId, KeyId
from edgeagent.ports.crash import CrashPoint
from edgeagent.store import audit, inbox, operations, outbox, receipts
from edgeagent.store.audit import Act
from edgeagent.store.database import Database, Transaction
from edgeagent.store.inbox_row import Moved, NewCommand, Row
from edgeagent.store.outbox import NewEvent

log = logging.getLogger(__name__)

_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Admitted:
    """What became of a command that came.

    Attributes:
        command: its id; None when nothing in it could be believed.
        verdict: the gate's.
    """

    command: CommandId | None
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Arrival:
    """A command that came.

    Attributes:
        envelope: as it came.
        local: until when it is good, if it was typed at this hub.
        actor: who typed it; None for one from elsewhere, on record under its key.
    """

    envelope: bytes
    local: BootDeadline | None = None
    actor: str | None = None


class Admission:
    """Judges what comes, and stores it."""

    def __init__(
        self, store: Database, worlds: Worlds, settling: Settling, lanes: Mapping[Tier, Bell]
    ) -> None:
        self._store = store
        self._worlds = worlds
        self._settling = settling
        self._around = worlds.around
        self._lanes = lanes

    async def admit(self, arrivals: Sequence[Arrival]) -> list[Admitted]:
        """Judge and store commands, all in one commit.

        Returns:
            What became of each, in order. All of it is on the disk.

        Raises:
            StorageError: nothing of it is.
        """
        keys, wall = self._worlds.keys(), self._around.clock.wall()
        unverified: Counter[tuple[Reason, str]] = Counter()
        works: list[Admitted | Callable[[Transaction], Admitted]] = []
        for arrival in arrivals:
            try:
                asked = opened(arrival.envelope, keys)
            except RefusedEnvelopeError as why:
                refusal = self._unread(arrival, why)
                unverified[refusal.reason, arrival.actor or "unknown"] += 1
                works.append(Admitted(None, refusal))
                continue
            world = self._worlds.around_device(asked.command.device, arrival.local)
            works.append(partial(self._take, arrival, asked, world))

        def take(tx: Transaction) -> list[Admitted]:
            done = [work if isinstance(work, Admitted) else work(tx) for work in works]
            self._count_unverified(tx, unverified)
            return done

        admitted = await self._store.write(take)
        self._around.crash.reached(CrashPoint.COMMAND_ADMITTED)
        self._around.outbox.stored({Stream.RECORD}, len(admitted))
        for each in admitted:
            self._tell(each)
        if any(isinstance(each.verdict, Hold) for each in admitted):
            self._worlds.trust.tell_again(wall)
        return admitted

    def longest_validity(self, action: ActionName) -> timedelta | None:
        """How long a command of an action may be valid by the policy in force; None where it has no rule."""
        policy = self._worlds.trust.policy
        rule = None if policy is None else policy.actions.get(action)
        return None if rule is None else rule.longest_validity

    async def judge_held(self) -> None:
        """Judge what is held again: the time or the policy has become surer, or its time has come.

        Raises:
            StorageError: nothing has changed.
        """
        if self._worlds.trust.policy is None:
            return
        held = await self._store.read(partial(inbox.in_state, state=State.HELD))
        keys = self._worlds.keys()
        for row in held:
            try:
                asked = opened(row.envelope, keys)
            except RefusedEnvelopeError as why:
                refusal = Refuse(why.reason, str(why))
                judge_it: Callable[[Transaction], Verdict | None]
                judge_it = partial(self._refuse_held, row.run, refusal)
            else:
                world = self._worlds.around_device(row.device, row.local)
                judge_it = partial(self._judge_held, row.run, asked, world)
            verdict = await self._store.write(judge_it)
            if verdict is not None:
                self._around.outbox.stored({Stream.RECORD}, 1)
                self._tell(Admitted(row.command, verdict))

    def _take(self, arrival: Arrival, asked: Opened, world: World, tx: Transaction) -> Admitted:
        issuer, world = self._worlds.remembered(tx, asked, world)
        verdict = judge(asked, world, Moment.ADMIT)
        command = asked.command
        if isinstance(verdict, Refuse) and _came_before(asked, world):
            # One for another hub is refused before its identity is looked at; it is the same all the same.
            verdict = Duplicate()
        match verdict:
            case Duplicate():
                receipts.tell_again(tx, command.id)
                self._audit(tx, AuditKind.COMMAND_REPLAYED, command, arrival.actor or issuer, {})
            case AddSignatures():
                try:
                    inbox.add_signatures(tx, command.id, _together(tx, arrival, asked))
                except RejectedError as why:
                    new = self._new(arrival, asked, issuer, Tier.LOW)
                    self._refuse_beside(tx, new, Reason.MALFORMED, str(why))
                    return Admitted(command.id, Refuse(Reason.MALFORMED, str(why)))
            case Refuse(reason, detail, answer):
                new = self._new(arrival, asked, issuer, Tier.LOW)
                if world.known is None and world.sequence_of is None:
                    self._refuse(tx, new, reason, detail)
                else:
                    self._refuse_beside(tx, new, reason, detail)
                if answer is not None:
                    receipts.tell_again(tx, answer)
            case Hold(reason, issuer, rule):
                inbox.insert(tx, self._new(arrival, asked, issuer, rule.tier), State.HELD, reason)
                self._audit(tx, AuditKind.COMMAND_HELD, command, arrival.actor or issuer, {"reason": reason})
            case Accept(issuer, rule):
                self._accept(tx, self._new(arrival, asked, issuer, rule.tier), command)
            case _:
                assert_never(verdict)
        return Admitted(command.id, verdict)

    def _new(self, arrival: Arrival, asked: Opened, issuer: KeyId, lane: Tier) -> NewCommand:
        command = asked.command
        return NewCommand(
            command=command.id,
            device=command.device,
            issuer=issuer,
            signers=asked.verified.signers,
            sequence=command.sequence,
            action=command.action,
            slot=slot_of(command.action, command.arguments),
            lane=lane,
            operation=operation_key(command),
            sha256=asked.verified.sha256,
            envelope=arrival.envelope,
            expires_at=(command.expires_at - EPOCH) // _MICROSECOND,
            local=arrival.local,
            actor=arrival.actor or issuer,
            received_at=self._around.event_time().at,
        )

    def _accept(self, tx: Transaction, new: NewCommand, command: Command) -> None:
        run = inbox.insert(tx, new, State.QUEUED, None)
        if not operations.begin(tx, new.operation, new.command, run):
            raise BrokenInvariantError(f"the operation of {new.command} is another's")
        self._supersede_earlier(tx, new)
        self._audit(
            tx,
            AuditKind.COMMAND_ACCEPTED,
            command,
            new.actor,
            {
                "issuer": new.issuer,
                "sequence": new.sequence,
                "sha256": new.sha256,
                "lane": new.lane,
                "run": run,
            },
        )

    def _supersede_earlier(self, tx: Transaction, new: NewCommand) -> None:
        if new.slot is None:
            return
        for row in inbox.earlier_in_slot(tx, new.issuer, new.device, new.slot, new.sequence):
            ending = Ending(outcome=Outcome.SUPERSEDED, reason=Reason.SUPERSEDED, detail=f"by {new.command}")
            self._settling.settle(tx, row, Ended(ending=ending))

    def _refuse(self, tx: Transaction, new: NewCommand, reason: Reason, detail: str) -> None:
        """Put a refusal on record."""
        run = inbox.insert(tx, new, State.REFUSED, reason)
        row = inbox.by_run(tx, run)
        if row is None:
            raise BrokenInvariantError(f"run {run} is gone")
        ending = Ending(outcome=Outcome.REFUSED, reason=reason, detail=detail)
        self._settling.record(tx, row, Ended(ending=ending))

    def _refuse_beside(self, tx: Transaction, new: NewCommand, reason: Reason, detail: str) -> None:
        """Put a refusal on record without a row: the id or the sequence is that of another."""
        data = data_text(
            {
                "command": new.command,
                "payload_sha256": new.sha256,
                "reason": reason,
                "detail": detail,
                "issuer": new.issuer,
            }
        )
        event = NewEvent(Stream.RECORD, EventType.REFUSED, new.device, self._around.event_time(), data)
        outbox.append(tx, [event], incarnation=self._around.origin.incarnation)
        act = Act(
            kind=AuditKind.COMMAND_REFUSED,
            subject=new.command,
            actor=new.actor,
            detail={"device": new.device, "reason": reason, "detail": detail, "sha256": new.sha256},
        )
        audit.append(tx, [act], self._around.stamp())

    def _judge_held(self, run: int, asked: Opened, world: World, tx: Transaction) -> Verdict | None:
        """Judge a held command; None if it goes on being held, or is not any more."""
        row = _held(tx, run)
        _, world = self._worlds.remembered(tx, asked, world)
        verdict = judge(asked, world, Moment.REPLAY)
        if row is None or isinstance(verdict, Hold | Duplicate | AddSignatures):
            return None
        if isinstance(verdict, Refuse):
            return self._end_held(tx, row, verdict)
        if not operations.begin(tx, row.operation, row.command, row.run):
            raise BrokenInvariantError(f"the operation of {row.command} is another's")
        inbox.move(tx, row, Moved(State.QUEUED))
        self._supersede_earlier(tx, row)
        self._audit(tx, AuditKind.COMMAND_ACCEPTED, asked.command, row.actor, {"run": run, "held": True})
        return verdict

    def _refuse_held(self, run: int, verdict: Refuse, tx: Transaction) -> Verdict | None:
        row = _held(tx, run)
        return None if row is None else self._end_held(tx, row, verdict)

    def _end_held(self, tx: Transaction, row: Row, verdict: Refuse) -> Refuse:
        outcome = {Reason.EXPIRED: Outcome.EXPIRED, Reason.SUPERSEDED: Outcome.SUPERSEDED}.get(
            verdict.reason, Outcome.REFUSED
        )
        ending = Ending(outcome=outcome, reason=verdict.reason, detail=verdict.detail)
        self._settling.settle(tx, row, Ended(ending=ending))
        if verdict.answer is not None:
            receipts.tell_again(tx, verdict.answer)
        return verdict

    def _unread(self, arrival: Arrival, why: RefusedEnvelopeError) -> Refuse:
        """What is said of an envelope that proves nothing."""
        if self._worlds.trust.policy is None:
            return Refuse(Reason.NO_POLICY, str(why))
        if arrival.local is not None and why.reason is Reason.BAD_SIGNATURE:
            return Refuse(Reason.NOT_ALLOWED, "the policy gives this hub's own key no role")
        return Refuse(why.reason, str(why))

    def _count_unverified(self, tx: Transaction, counts: Mapping[tuple[Reason, str], int]) -> None:
        """One audit row for each reason and actor, however many came together."""
        acts = [
            Act(
                kind=AuditKind.COMMANDS_UNVERIFIED,
                subject="commands",
                actor=actor,
                detail={"reason": reason, "count": count},
            )
            for (reason, actor), count in counts.items()
        ]
        if acts:
            audit.append(tx, acts, self._around.stamp())

    def _audit(
        self, tx: Transaction, kind: AuditKind, command: Command, actor: str, more: dict[str, JsonValue]
    ) -> None:
        detail: dict[str, JsonValue] = {
            "device": command.device,
            "action": command.action,
            "arguments": dict(command.arguments),
            "operation": command.operation,
        }
        act = Act(kind=kind, subject=command.id, actor=actor, detail=detail | more)
        audit.append(tx, [act], self._around.stamp())

    def _tell(self, admitted: Admitted) -> None:
        """Count, log and wake."""
        word = type(admitted.verdict).__name__.lower()
        metrics = self._around.metrics
        match admitted.verdict:
            case Accept(_, rule):
                self._lanes[rule.tier].ring()
            case Hold():
                # It is to end when its time is over, or to go on when its time has come.
                self._settling.bell.ring()
            case Refuse(reason, detail):
                metrics.commands_refused.labels(reason).inc()
                log.warning(
                    "command refused", extra={"command": admitted.command, "reason": reason, "why": detail}
                )
                return
            case Duplicate() | AddSignatures():
                pass
        metrics.commands_admitted.labels(word).inc()
        log.info("command came", extra={"command": admitted.command, "verdict": word})


def _came_before(asked: Opened, world: World) -> bool:
    return world.known is not None and world.known.sha256 == asked.verified.sha256


def _held(tx: Transaction, run: int) -> Row | None:
    row = inbox.by_run(tx, run)
    return row if row is not None and row.state is State.HELD else None


def _together(tx: Transaction, arrival: Arrival, asked: Opened) -> tuple[bytes, tuple[KeyId, ...]]:
    """The held envelope with the signatures of both, and the keys that are known to have signed."""
    row = inbox.by_command(tx, asked.command.id)
    if row is None:
        raise BrokenInvariantError(f"{asked.command.id} is gone")
    signers = tuple(dict.fromkeys((*row.signers, *asked.verified.signers)))
    envelope = merged(row.envelope, arrival.envelope)
    if len(envelope) > COMMAND_BYTES:
        # Stored, it could not be opened again.
        raise MalformedError(
            f"{len(envelope)} bytes with all signatures, of which {COMMAND_BYTES} are allowed"
        )
    return envelope, signers
