"""What is held is judged again: the time or the policy has become surer, a signature or its time has come.

A held command is on the disk and nowhere else. Each judgement reads its envelope anew, by the keys that
count now, and is written in one commit with what follows from it.
"""

from collections.abc import Callable, Collection
from functools import partial
from typing import Final

from pydantic import JsonValue

from edgeagent.contracts.command import COMMAND_BYTES
from edgeagent.contracts.event import Stream
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.envelope import Keyring, RefusedEnvelopeError, Verified, merged
from edgeagent.core.gate.judging import judge
from edgeagent.core.gate.opening import opened_for
from edgeagent.core.gate.verdict import AddSignatures, Duplicate, Hold, Moment, Opened, Refuse, Verdict
from edgeagent.core.gate.world import World
from edgeagent.core.lifecycle import State
from edgeagent.core.work import Ending
from edgeagent.errors import MalformedError
from edgeagent.flows.entering import Admitted, Entering
from edgeagent.flows.settling import Ended
from edgeagent.flows.worlds import Worlds
from edgeagent.ids import KeyId
from edgeagent.store import inbox, inbox_due, receipts
from edgeagent.store.database import Database, Snapshot, Transaction
from edgeagent.store.inbox_row import Moved, Row
from edgeagent.values import dataclass

Judgement = Callable[[Transaction], Verdict | None]
"""Judges a held row; None if it goes on being held, or is not any more."""

_OUTCOMES: Final = {Reason.EXPIRED: Outcome.EXPIRED, Reason.SUPERSEDED: Outcome.SUPERSEDED}


@dataclass(frozen=True, slots=True)
class Held:
    """Judges what is held.

    Attributes:
        store: where it is held.
        worlds: what it is judged by.
        entering: writes what comes of it.
    """

    store: Database
    worlds: Worlds
    entering: Entering

    @property
    def can_judge(self) -> bool:
        """Whether there is a policy to judge by."""
        return self.worlds.trust.policy is not None

    def has_room(self, db: Snapshot, issuer: KeyId) -> bool:
        """Whether one more command of an issuer may be held: none of them can fill the card (SPEC T9)."""
        policy = self.worlds.trust.policy
        return policy is not None and inbox_due.held_of(db, issuer, policy.most_held) < policy.most_held

    async def judge(self, runs: Collection[int]) -> None:
        """Judge those of some runs that are held, in one commit.

        Raises:
            StorageError: all of them are as they were.
        """
        if not runs or not self.can_judge:
            return
        held = await self.store.read(partial(_held_of, runs=runs))
        if not held:
            return
        keys = self.worlds.keys()
        works = [(row, self._judgement(row, keys)) for row in held]
        verdicts = await self.store.write(partial(_each, works))
        told = [(row, verdict) for row, verdict in verdicts if verdict is not None]
        self.worlds.around.outbox.stored({Stream.RECORD}, len(told))
        for row, verdict in told:
            self.entering.tell(Admitted(row.command, verdict, row.device))

    def _judgement(self, row: Row, keys: Keyring) -> Judgement:
        """How a row is to be judged in a transaction. To be called on the event loop."""
        try:
            asked = opened_for(row.device, row.envelope, keys)
        except RefusedEnvelopeError as why:
            return partial(self._refuse, row.run, Refuse(why.reason, str(why)))
        return partial(self.judge_again, row.run, asked, self.worlds.around_device(row.device, row.local))

    def judge_again(self, run: int, asked: Opened, world: World, tx: Transaction) -> Verdict | None:
        """Judge one; None if it goes on being held, or is not any more."""
        row = _held(tx, run)
        _, world = self.worlds.remembered(tx, asked, world)
        verdict = judge(asked, world, Moment.REPLAY)
        if row is None or isinstance(verdict, Duplicate | AddSignatures):
            return None
        if isinstance(verdict, Hold):
            if verdict.reason is not row.reason:
                inbox.hold_for(tx, run, verdict.reason)
            return None
        if isinstance(verdict, Refuse):
            return self._end(tx, row, verdict)
        inbox.move(tx, row, Moved(State.QUEUED))
        self.entering.begin(tx, row, row.run)
        policy = self.worlds.trust.policy
        detail: dict[str, JsonValue] = {
            "issuer": row.issuer,
            "lane": row.lane,
            "run": row.run,
            "policy": None if policy is None else policy.version,
            "held": True,
        }
        self.entering.record(tx, AuditKind.COMMAND_ACCEPTED, asked, row.actor, detail)
        return verdict

    def _refuse(self, run: int, verdict: Refuse, tx: Transaction) -> Verdict | None:
        row = _held(tx, run)
        return None if row is None else self._end(tx, row, verdict)

    def _end(self, tx: Transaction, row: Row, verdict: Refuse) -> Refuse:
        outcome = _OUTCOMES.get(verdict.reason, Outcome.REFUSED)
        ending = Ending(outcome=outcome, reason=verdict.reason, detail=verdict.detail)
        self.entering.settling.settle(tx, row, Ended(ending=ending))
        if verdict.answer is not None:
            receipts.tell_again(tx, verdict.answer, row.device)
        return verdict


def together(row: Row, verified: Verified, envelope: bytes) -> tuple[bytes, tuple[KeyId, ...]]:
    """A held envelope with the signatures of another around the same payload.

    Returns:
        Its bytes, and the keys that are known to have signed.

    Raises:
        MalformedError: it would be larger than a command may be.
    """
    signers = tuple(dict.fromkeys((*row.signers, *verified.signers)))
    whole = merged(row.envelope, envelope)
    if len(whole) > COMMAND_BYTES:
        # Stored, it could not be opened again.
        raise MalformedError(f"{len(whole)} bytes with all signatures, of which {COMMAND_BYTES} are allowed")
    return whole, signers


def _each(works: list[tuple[Row, Judgement]], tx: Transaction) -> list[tuple[Row, Verdict | None]]:
    return [(row, work(tx)) for row, work in works]


def _held_of(db: Snapshot, runs: Collection[int]) -> list[Row]:
    """Those of some runs that are held, in the order in which they came."""
    found = [_held(db, run) for run in sorted(runs)]
    return [row for row in found if row is not None]


def _held(db: Snapshot, run: int) -> Row | None:
    row = inbox.by_run(db, run)
    return row if row is not None and row.state is State.HELD else None
