"""Letting commands in: the gate at the moment ADMIT, and one commit for what it says.

A command that comes is judged inside the transaction that stores it, so that nothing that it was judged
by can change in between. One for a list of devices is taken whole, in that one commit, and judged for each
device on its own. Accepted, held or refused, it is on record before anybody is told that we have it
(SPEC Q3, T3). What no known key has signed, and what has come before, is counted by the minute, as
``flows/tallies`` says: a flood of it fills no card (SPEC T9).
"""

from collections.abc import Sequence
from dataclasses import field, replace
from datetime import timedelta
from typing import Final, assert_never

from pydantic import JsonValue

from edgeagent.clock import EPOCH
from edgeagent.contracts.actions import ActionName, slot_of
from edgeagent.contracts.command import MOST_DEVICES
from edgeagent.contracts.event import EventType, Stream, data_text
from edgeagent.contracts.policy import Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.breaker import Scope
from edgeagent.core.envelope import Keyring, RefusedEnvelopeError
from edgeagent.core.freshness import BootDeadline, begins
from edgeagent.core.gate.judging import judge
from edgeagent.core.gate.opening import opened_for
from edgeagent.core.gate.roles import issues
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
from edgeagent.core.lease import Terms
from edgeagent.core.lifecycle import State
from edgeagent.core.operation import operation_key
from edgeagent.core.tracing import trace_of
from edgeagent.core.work import Ending
from edgeagent.errors import BrokenInvariantError, RejectedError
from edgeagent.flows.burying import bury_beside
from edgeagent.flows.entering import Admitted, Entering
from edgeagent.flows.held import Held, together
from edgeagent.flows.settling import Ended
from edgeagent.flows.tallies import Counts, Source, Tallies
from edgeagent.flows.worlds import Worlds
from edgeagent.ids import DeviceId, Digest, KeyId
from edgeagent.ports.crash import CrashPoint
from edgeagent.store import audit, inbox, outbox, receipts
from edgeagent.store.audit import Act
from edgeagent.store.database import Database, Transaction
from edgeagent.store.inbox_row import NewCommand
from edgeagent.store.outbox import NewEvent
from edgeagent.values import dataclass

_MICROSECOND: Final = timedelta(microseconds=1)
# How many of those that were refused without a row are known when they come again.
_CLASHES: Final = 1024


@dataclass(frozen=True, slots=True)
class Arrival:
    """A command that came.

    Attributes:
        envelope: as it came.
        local: until when it is good, if it was typed at this hub.
        actor: who typed it; None for one from elsewhere, on record under its key.
        traceparent: the place in a trace that came beside it; nothing but tracing looks at it.
    """

    envelope: bytes
    local: BootDeadline | None = None
    actor: str | None = None
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class _Asked:
    """What an arrival asks of one device, with what it is judged by.

    Attributes:
        arrival: the whole.
        opened: what is asked.
        world: everything but what the store remembers.
        keys: whose signatures count.
        terms: under which its device would be locked for it.
    """

    arrival: Arrival
    opened: Opened
    world: World
    keys: Keyring
    terms: Terms


@dataclass(frozen=True, slots=True)
class _Read:
    """An arrival whose signatures were looked at.

    Attributes:
        arrival: the whole.
        what: what it asks of each of its devices, or why nothing in it can be believed.
    """

    arrival: Arrival
    what: list[_Asked] | Refuse

    def __len__(self) -> int:
        return 1 if isinstance(self.what, Refuse) else len(self.what)


_Clash = tuple[Digest, DeviceId, Reason]
"""What was refused without a row: the payload, for which device, and why."""


@dataclass(frozen=True, slots=True)
class _Noted:
    """What is known once a commit is done, beside its rows.

    Attributes:
        counts: what is only counted.
        clashes: what was refused without a row.
    """

    counts: Counts
    clashes: dict[_Clash, None] = field(default_factory=dict)


class Admission:
    """Judges what comes, and stores it."""

    def __init__(
        self, store: Database, worlds: Worlds, entering: Entering, held: Held, tallies: Tallies
    ) -> None:
        self._store = store
        self._worlds = worlds
        self._entering = entering
        self._held = held
        self._tallies = tallies
        self._around = worlds.around
        self._breakers = entering.settling.breakers
        self._clashes: dict[_Clash, None] = {}

    async def admit(self, arrivals: Sequence[Arrival]) -> list[Admitted]:
        """Judge and store commands: each in one commit, which it shares with others while they are few.

        Returns:
            What became of each, in order, on each of its devices in the order of its list. All of it is on
            the disk.

        Raises:
            StorageError: not all of it is; whatever is known as a repeat when it comes again.
        """
        admitted: list[Admitted] = []
        together: list[_Read] = []
        devices = 0
        for arrival in arrivals:
            read = self._read(arrival)
            if devices + len(read) > MOST_DEVICES:
                # The one writer has readings to store too.
                admitted += await self._store_all(together)
                together, devices = [], 0
            together.append(read)
            devices += len(read)
        return admitted + await self._store_all(together)

    def longest_validity(self, action: ActionName) -> timedelta | None:
        """How long a command of an action may be valid by the policy in force; None where it has no rule."""
        policy = self._worlds.trust.policy
        rule = None if policy is None else policy.actions.get(action)
        return None if rule is None else rule.longest_validity

    async def _store_all(self, together: Sequence[_Read]) -> list[Admitted]:
        """Judge and store what was read, in one commit."""
        wall, known = self._around.clock.wall(), self._tallies.open
        unverified = Counts()
        for read in together:
            if isinstance(read.what, Refuse):
                actor = read.arrival.actor or "unknown"
                source = Source(AuditKind.COMMANDS_UNVERIFIED, actor, read.what.reason)
                unverified.note(source, read.arrival.envelope)

        def take(tx: Transaction) -> tuple[list[Admitted], _Noted]:
            noted = _Noted(unverified.copied())
            done = [each for read in together for each in self._take_all(read, tx, noted)]
            self._tallies.write(tx, noted.counts.without(known))
            return done, noted

        admitted = [Admitted(None, read.what) for read in together if isinstance(read.what, Refuse)]
        noted = _Noted(unverified)
        if len(admitted) < len(together) or unverified.without(known):
            # A flood that is only to be counted costs no commit.
            admitted, noted = await self._store.write(take)
            self._around.outbox.stored({Stream.RECORD}, len(admitted))
        self._around.crash.reached(CrashPoint.COMMAND_ADMITTED)
        self._tallies.counted(noted.counts, unwritten=known)
        self._clashes = dict(list((self._clashes | noted.clashes).items())[-_CLASHES:])
        for each in admitted:
            self._entering.tell(each)
        if any(isinstance(each.verdict, Hold) for each in admitted):
            self._worlds.trust.tell_again(wall)
        return admitted

    def _read(self, arrival: Arrival) -> _Read:
        keys = self._worlds.keys()
        try:
            asked = self._worlds.openings.opened(arrival.envelope, keys)
        except RefusedEnvelopeError as why:
            return _Read(arrival, self._unread(arrival, why))
        worlds = [self._worlds.around_device(one.device, arrival.local) for one in asked]
        return _Read(
            arrival,
            [
                _Asked(arrival, one, world, keys, self._worlds.terms(one))
                for one, world in zip(asked, worlds, strict=True)
            ],
        )

    def _take_all(self, read: _Read, tx: Transaction, noted: _Noted) -> list[Admitted]:
        if isinstance(read.what, Refuse):
            return [Admitted(None, read.what)]
        return [self._take(asked, tx, noted) for asked in read.what]

    def _take(self, asked: _Asked, tx: Transaction, noted: _Noted) -> Admitted:
        issuer, world = self._worlds.remembered(tx, asked.opened, asked.world)
        verdict = self._judged(tx, asked.opened, world)
        command, device = asked.opened.command, asked.opened.device
        actor = asked.arrival.actor or issuer
        match verdict:
            case Duplicate():
                receipts.tell_again(tx, command.id, device)
                _note_repeat(noted, asked, issuer)
            case AddSignatures():
                verdict = self._add_signatures(tx, asked, issuer, noted)
            case Refuse(Reason.TOO_MANY_HELD as reason):
                _note(noted, AuditKind.HOLD_REFUSED, reason, asked, issuer)
            case Refuse(Reason.BREAKER_OPEN as reason) if not self._breakers.puts_aside(
                tx, Scope(issuer, command.action)
            ):
                _note(noted, AuditKind.BREAKER_REFUSED, reason, asked, issuer)
            case Refuse(reason, detail, answer):
                is_new = world.known is None and world.sequence_of is None
                # An approver's signature that is here before its issuer's leaves the way open for that.
                if is_new and issues(asked.opened, world):
                    self._refuse(tx, self._new(asked, issuer, Tier.LOW), reason, detail)
                else:
                    verdict = self._refuse_beside(tx, asked, issuer, verdict, noted)
                if answer is not None:
                    receipts.tell_again(tx, answer, device)
            case Hold(reason, issuer, rule):
                inbox.insert(tx, self._new(asked, issuer, rule.tier), State.HELD, reason)
                held = {"issuer": issuer, "reason": reason, "lane": rule.tier, "policy": self._version}
                self._entering.record(tx, AuditKind.COMMAND_HELD, asked.opened, actor, {**held})
            case Accept(issuer, rule):
                self._accept(tx, self._new(asked, issuer, rule.tier), asked.opened)
            case _:
                assert_never(verdict)
        trace = trace_of(asked.arrival.traceparent, asked.opened.verified.sha256)
        return Admitted(command.id, verdict, device, trace.trace)

    def _judged(self, tx: Transaction, asked: Opened, world: World) -> Verdict:
        """What the gate says, and whether there is room for it."""
        verdict = judge(asked, world, Moment.ADMIT)
        if isinstance(verdict, Refuse) and _came_before(asked, world):
            # One for another hub is refused before its identity is looked at; it is the same all the same.
            return Duplicate()
        if isinstance(verdict, Hold) and not self._held.has_room(tx, verdict.issuer):
            return Refuse(Reason.TOO_MANY_HELD)
        return verdict

    @property
    def _version(self) -> int | None:
        """The version of the policy that is in force."""
        policy = self._worlds.trust.policy
        return None if policy is None else policy.version

    def _new(self, asked: _Asked, issuer: KeyId, lane: Tier) -> NewCommand:
        command, device, verified = asked.opened.command, asked.opened.device, asked.opened.verified
        return NewCommand(
            command=command.id,
            device=device,
            issuer=issuer,
            signers=verified.signers,
            sequence=command.sequence,
            action=command.action,
            slot=slot_of(command.action, command.arguments),
            lane=lane,
            operation=operation_key(command, device),
            sha256=verified.sha256,
            envelope=asked.arrival.envelope,
            expires_at=(command.expires_at - EPOCH) // _MICROSECOND,
            begins_at=(begins(command.issued_at, command.sequence) - EPOCH) // _MICROSECOND,
            local=asked.arrival.local,
            actor=asked.arrival.actor or issuer,
            received_at=self._around.event_time().at,
            terms=asked.terms,
            traceparent=asked.arrival.traceparent,
        )

    def _accept(self, tx: Transaction, new: NewCommand, asked: Opened) -> None:
        run = inbox.insert(tx, new, State.QUEUED, None)
        self._entering.begin(tx, new, run)
        accepted: dict[str, JsonValue] = {"issuer": new.issuer, "lane": new.lane, "run": run}
        accepted["policy"] = self._version
        self._entering.record(tx, AuditKind.COMMAND_ACCEPTED, asked, new.actor, accepted)

    def _add_signatures(self, tx: Transaction, asked: _Asked, issuer: KeyId, noted: _Noted) -> Verdict:
        """Add signatures to a held command, and judge it again with all of them."""
        command, device = asked.opened.command, asked.opened.device
        row = inbox.of_device(tx, command.id, device)
        if row is None:
            raise BrokenInvariantError(f"{command.id} is gone")
        try:
            signed = together(row, asked.opened.verified, asked.arrival.envelope)
        except RejectedError as why:
            return self._refuse_beside(tx, asked, issuer, Refuse(Reason.MALFORMED, str(why)), noted)
        inbox.add_signatures(tx, row.run, signed)
        actor = asked.opened.verified.signers[0]
        self._entering.record(tx, AuditKind.COMMAND_SIGNED, asked.opened, actor, {"run": row.run})
        again = opened_for(device, signed[0], asked.keys)
        # A command that was typed here stays one, by whatever way its signatures come.
        world = replace(asked.world, local=row.local)
        return self._held.judge_again(row.run, again, world, tx) or AddSignatures()

    def _refuse(self, tx: Transaction, new: NewCommand, reason: Reason, detail: str) -> None:
        """Put a refusal on record."""
        run = inbox.insert(tx, new, State.REFUSED, reason)
        row = inbox.by_run(tx, run)
        if row is None:
            raise BrokenInvariantError(f"run {run} is gone")
        ending = Ending(outcome=Outcome.REFUSED, reason=reason, detail=detail)
        self._entering.settling.record(tx, row, Ended(ending=ending))

    def _refuse_beside(
        self, tx: Transaction, asked: _Asked, issuer: KeyId, refusal: Refuse, noted: _Noted
    ) -> Verdict:
        """Put a refusal on record without a row: the id or the sequence is that of another.

        It is remembered for a while, so that whoever recorded such a one cannot fill the record with it.
        """
        new = self._new(asked, issuer, Tier.LOW)
        clash: _Clash = (new.sha256, new.device, refusal.reason)
        if clash in self._clashes or clash in noted.clashes:
            _note_repeat(noted, asked, issuer)
            return Duplicate()
        noted.clashes[clash] = None
        why: dict[str, JsonValue] = {"reason": refusal.reason, "detail": refusal.detail}
        data = data_text({"command": new.command, "payload_sha256": new.sha256, **why, "issuer": new.issuer})
        event = NewEvent(Stream.RECORD, EventType.REFUSED, new.device, self._around.event_time(), data)
        outbox.append(tx, [event], incarnation=self._around.origin.incarnation)
        ending = Ending(outcome=Outcome.REFUSED, reason=refusal.reason, detail=refusal.detail)
        letter = bury_beside(tx, new, ending, self._around)
        named = {} if letter is None else {"dead_letter": letter}
        act = Act(
            kind=AuditKind.COMMAND_REFUSED,
            subject=new.command,
            actor=new.actor,
            detail={"device": new.device, **why, "sha256": new.sha256, **named},
        )
        audit.append(tx, [act], self._around.stamp())
        if issues(asked.opened, asked.world):
            self._breakers.refused(tx, Scope(new.issuer, new.action), new.command, refusal)
        return refusal

    def _unread(self, arrival: Arrival, why: RefusedEnvelopeError) -> Refuse:
        """What is said of an envelope that proves nothing."""
        if self._worlds.trust.policy is None:
            # Nobody's key is known then; that it proves nothing says no more.
            is_told = why.reason is not Reason.BAD_SIGNATURE
            return Refuse(Reason.NO_POLICY, str(why) if is_told else "")
        if arrival.local is not None and why.reason is Reason.BAD_SIGNATURE:
            return Refuse(Reason.NOT_ALLOWED, "the policy gives this hub's own key no role")
        return Refuse(why.reason, str(why))


def _note_repeat(noted: _Noted, asked: _Asked, issuer: KeyId) -> None:
    _note(noted, AuditKind.COMMAND_REPLAYED, Reason.REPLAYED, asked, issuer)


def _note(noted: _Noted, kind: AuditKind, reason: Reason, asked: _Asked, issuer: KeyId) -> None:
    source = Source(kind, issuer, reason)
    noted.counts.note(source, asked.arrival.envelope, asked.opened.command.id)


def _came_before(asked: Opened, world: World) -> bool:
    return world.known is not None and world.known.sha256 == asked.verified.sha256
