"""The final commit of a command: state, operation, lock, audit row, receipt, all or nothing (SPEC S3).

The receipt is signed by the hub's key in that commit; it names the audit row, and the row names its
event (SPEC A4).
"""

from dataclasses import field, replace
from typing import Final

from edgeagent.contracts.actions import CATALOGUE, ActionName
from edgeagent.contracts.event import EventType, Stream
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import AuditMark, Outcome, Receipt, StateMark, StepMark
from edgeagent.contracts.update import UpdateMark
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.blame import ANSWERED, blame_of
from edgeagent.core.envelope import Signer
from edgeagent.core.evidence import receipt_bytes
from edgeagent.core.lifecycle import state_of
from edgeagent.core.operation import OperationState
from edgeagent.core.tracing import trace_of, within
from edgeagent.core.work import Ending
from edgeagent.errors import BrokenInvariantError
from edgeagent.flows.bells import Bell
from edgeagent.flows.breakers import Breakers
from edgeagent.flows.burying import Worked, bury
from edgeagent.flows.devices import Devices
from edgeagent.flows.surroundings import Surroundings
from edgeagent.ids import DeviceId, Digest
from edgeagent.store import audit, inbox, locks, operations, outbox, receipts, revalidations, steps, updates
from edgeagent.store.audit import Act
from edgeagent.store.database import Transaction
from edgeagent.store.inbox_row import Moved, Row
from edgeagent.store.outbox import NewEvent
from edgeagent.values import dataclass

_OPERATION: Final = {
    Outcome.SUCCEEDED: OperationState.COMPLETED,
    Outcome.UNKNOWN: OperationState.UNKNOWN,
    # Something of it was done.
    Outcome.ROLLBACK_FAILED: OperationState.UNKNOWN,
}
# Nothing has failed.
_NOBODYS: Final = frozenset({Outcome.SUCCEEDED, Outcome.SUPERSEDED, Outcome.CANCELLED})
_DETAIL: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What the final commit has to know beyond the row.

    Attributes:
        ending: how it ended.
        lock: ours, to be released in the same commit; None if it was never begun.
        fence: under which it was worked; 0 if it was never begun.
        before: the device's state when it was begun.
        after: the device's state now.
        holder: who worked it.
    """

    ending: Ending
    lock: locks.Key | None = None
    fence: int = 0
    before: StateMark | None = None
    after: StateMark | None = None
    holder: str | None = None


@dataclass(frozen=True, slots=True)
class Settling:
    """Writes final results.

    Attributes:
        devices: the admitted devices.
        around: time, and whose hub it is.
        key: the hub's own, which signs receipts.
        breakers: count what ends badly.
        bell: rung when a command is left to itself, so that upkeep looks when its time is over.
    """

    devices: Devices
    around: Surroundings
    key: Signer
    breakers: Breakers
    bell: Bell = field(default_factory=Bell)

    def mark(self, device: DeviceId) -> StateMark | None:
        """The present state of a device, by version and etag. On the event loop only."""
        found = self.devices.get(device)
        return None if found is None else StateMark(version=found.shadow.version, etag=found.shadow.etag)

    def settle(self, tx: Transaction, row: Row, ended: Ended) -> None:
        """End an open command.

        Raises:
            LostRaceError: the lock is somebody else's; nothing is written.
            IllegalTransitionError: it may not end so from where it stands.
        """
        ending = ended.ending
        lock = ended.lock
        if lock is not None:
            ended = replace(ended, holder=locks.holder(tx, lock))
            locks.release(tx, lock)
        inbox.move(
            tx, row, Moved(state_of(ending.outcome), reason=ending.reason, error=ending.detail or None)
        )
        self.record(tx, row, ended)

    def record(self, tx: Transaction, row: Row, ended: Ended) -> None:
        """Write what goes with an end: operation, receipt and audit row."""
        ending = ended.ending
        known = _OPERATION.get(ending.outcome, OperationState.FAILED)
        operations.settle(tx, row.operation, row.run, known)
        if ending.reason is Reason.STALE:
            # The issuer has to decide again: on what the device is found to be (SPEC C3).
            revalidations.ask(tx, row.device, run=row.run, command=row.command)
        letter = bury(tx, row, ending, Worked(ended.fence, ended.holder), self.around)
        # The row names the event and the event the row: nothing comes between in one transaction.
        upcoming = outbox.upcoming(tx, Stream.RECORD)
        refused = ending.outcome is Outcome.REFUSED and row.attempts == 0 and ended.fence == 0
        act = Act(
            kind=AuditKind.COMMAND_REFUSED if refused else AuditKind.COMMAND_SETTLED,
            subject=row.command,
            actor=row.actor,
            detail={
                "device": row.device,
                "action": row.action,
                "issuer": row.issuer,
                "operation": row.operation,
                "sha256": row.sha256,
                "run": row.run,
                "outcome": ending.outcome,
                "reason": ending.reason,
                "blame": None if ending.outcome in _NOBODYS else blame_of(ending.reason),
                "detail": ending.detail[:_DETAIL],
                "level": ending.level,
                "attempts": row.attempts,
                "fence": ended.fence,
                "receipt": upcoming,
                "dead_letter": letter,
            },
        )
        head = audit.append(tx, [act], self.around.stamp())
        mark = AuditMark(number=head.number, hash=Digest(head.hash.hex()))
        self._keep_receipt(tx, row, self._receipt_event(tx, row, ended, mark), (upcoming, head.number))
        self.breakers.ended(tx, row, ending, buried=letter is not None and ending.reason not in ANSWERED)

    def _keep_receipt(self, tx: Transaction, row: Row, event: NewEvent, numbers: tuple[int, int]) -> None:
        """Send a receipt up, and keep it for whoever asks again."""
        incarnation, (upcoming, audited) = self.around.origin.incarnation, numbers
        [number] = outbox.append(tx, [event], incarnation=incarnation)
        if number != upcoming:
            raise BrokenInvariantError("a receipt got another number than its audit row says")
        receipts.save(tx, row.run, number, event, incarnation=incarnation, audit=audited)

    def _receipt_event(self, tx: Transaction, row: Row, ended: Ended, mark: AuditMark) -> NewEvent:
        wall, ending = self.around.clock.wall(), ended.ending
        receipt = Receipt(
            hub=self.around.origin.hub,
            epoch=self.around.origin.epoch,
            command=row.command,
            payload_sha256=row.sha256,
            issuer=row.issuer,
            device=row.device,
            action=row.action,
            run=row.ordinal,
            outcome=ending.outcome,
            reason=ending.reason,
            detail=ending.detail[:_DETAIL] or None,
            level=ending.level,
            attempts=row.attempts,
            fence=ended.fence,
            steps=_steps(tx, row),
            update=_update(tx, row),
            before=ended.before,
            after=ended.after,
            finished_at=wall.best,
            clock=wall.source,
            audit=mark,
        )
        data = receipt_bytes(receipt, self.key)
        trace = within(trace_of(row.traceparent, row.sha256), row.device, row.run, "receipt")
        return NewEvent(
            Stream.RECORD, EventType.RECEIPT, row.device, self.around.event_time(), data, str(trace)
        )


def _update(tx: Transaction, row: Row) -> UpdateMark | None:
    """What became of an update; None where none was begun."""
    update = updates.of(tx, row.run) if row.action is ActionName.INSTALL else None
    if update is None:
        return None
    return UpdateMark(
        sha256=update.sha256,
        stage=update.stage,
        earlier=update.earlier,
        wanted=update.wanted,
        runs=update.runs or None,
    )


def _steps(tx: Transaction, row: Row) -> list[StepMark] | None:
    """What became of the steps of a command that is made of several; None for all others."""
    if not CATALOGUE[row.action].parts:
        return None
    marks = steps.of(tx, row.run)
    return [StepMark(action=ActionName(each.name), phase=each.phase, level=each.level) for each in marks]
