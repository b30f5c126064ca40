"""Calling off the update of one device, because a person at the hub says so (SPEC F4).

    nothing was set off ────────────────> it ends: cancelled, or refused where somebody works it already
    set off, and the family can ────────> its message, recorded before it leaves and sent once
    set off, and the family cannot, or
    it is past what can be called off ──> refused: it goes on to its end

What the device or its bridge answers is told to whoever asked, and proves nothing: how the update ends is
judged by the version that runs, by whoever works it, as ever.
"""

import logging
from datetime import timedelta
from functools import partial
from secrets import randbits
from typing import Final

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.event import Stream
from edgeagent.contracts.mqtt import Outgoing, PublishResult
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.contracts.reports.rollouts import CancelAnswer, CancelReport, CancelRequest
from edgeagent.contracts.update import Stage
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.lifecycle import FINAL, State
from edgeagent.core.profile.plan import Step
from edgeagent.core.tracing import trace_of, within
from edgeagent.core.work import Ending
from edgeagent.errors import AmbiguousError, RejectedError, TransientError, UnknownError
from edgeagent.flows.confirmations import Confirmations, Waiter
from edgeagent.flows.desk import Desk
from edgeagent.flows.settling import Ended, Settling
from edgeagent.flows.surroundings import Surroundings
from edgeagent.ids import CommandId, DeviceId
from edgeagent.ports.broker import DeviceBus
from edgeagent.store import audit, inbox, locks, updates
from edgeagent.store.audit import Act
from edgeagent.store.database import Database, Snapshot, Transaction
from edgeagent.store.inbox_row import Row
from edgeagent.values import dataclass

log = logging.getLogger(__name__)

_LONGEST: Final = timedelta(seconds=10)
"""How long whoever asked is kept waiting for an answer."""
_NUMBER_BITS: Final = 31
_STOPPABLE: Final = frozenset({Stage.TRIGGERED, Stage.INSTALLING})


@dataclass(frozen=True, slots=True)
class _Said:
    """What is asked for, and who asks."""

    command: CommandId
    request: CancelRequest
    actor: str


@dataclass(frozen=True, slots=True)
class _Written:
    """What was recorded: the run, the lock that was taken away, and what is to be sent."""

    row: Row
    token: str | None = None
    step: Step | None = None


@dataclass(frozen=True, slots=True)
class CallingOff:
    """Calls updates off.

    Attributes:
        store: where they are.
        bus: the broker.
        confirmations: who waits for devices.
        settling: ends what has not begun.
        desk: claims, which may be out.
    """

    store: Database
    bus: DeviceBus
    confirmations: Confirmations
    settling: Settling
    desk: Desk

    async def call_off(self, command: CommandId, request: CancelRequest, actor: str) -> CancelReport:
        """Call off the update of one device.

        Raises:
            UnknownError: no such update has come.
            AmbiguousError: it is for several devices, and none is named.
            RejectedError: it is over, it cannot be called off any more, or was before; nothing was changed.
            TransientError: the broker cannot be reached; nothing was sent, and it may be tried again.
        """
        said = _Said(command, request, actor)
        found = await self.store.read(partial(_row, said=said))
        written = await self.store.write(partial(self._write, said, self._step(found.device)))
        row, around = written.row, self._around
        log.warning("update called off", extra={"command": command, "device": row.device, "by": actor})
        answer, words = CancelAnswer.NOT_NEEDED, ""
        if written.step is None:
            around.outbox.stored({Stream.RECORD}, 1)
            outcome = Outcome.REFUSED if row.state is State.RUNNING else Outcome.CANCELLED
            around.metrics.commands_settled.labels(outcome).inc()
            if written.token is not None:
                self.desk.forget(written.token, row.device)
            await self.desk.updates.let_go(row.run)
            self.desk.wake()
        else:
            answer, words = await self._send(row, written.step)
        return await self.store.read(partial(_report, run=row.run, answer=answer, words=words))

    @property
    def _around(self) -> Surroundings:
        return self.settling.around

    def _step(self, device: DeviceId) -> Step | None:
        """What calls an update of a device off; None where nothing does."""
        known = self.settling.devices.get(device)
        return None if known is None else known.compiled.cancel(number=randbits(_NUMBER_BITS))

    def _write(self, said: _Said, step: Step | None, tx: Transaction) -> _Written:
        row = _row(tx, said)
        if row.state in FINAL:
            raise RejectedError(f"the update of {row.device} is over: {row.state}")
        if not row.sent:
            return self._end(tx, row, said)
        update = updates.of(tx, row.run)
        stage = None if update is None else update.stage
        if stage not in _STOPPABLE:
            raise RejectedError(f"the update of {row.device} is {stage}: it goes on to its end")
        if step is None:
            raise RejectedError(f"{row.device} is {stage}, and its family cannot call that off")
        if not updates.call_off(tx, row.run):
            raise RejectedError(f"the update of {row.device} was called off before")
        self._record(tx, row, said, stage)
        return _Written(row, step=step)

    def _end(self, tx: Transaction, row: Row, said: _Said) -> _Written:
        """End what nothing was set off of, and take its device from whoever works it."""
        now = self._around.present()
        held = locks.of_device(tx, row.device, now)
        lock = None if held is None or held.run != row.run else locks.Key(row.device, held.token)
        if lock is None:
            locks.clear(tx, row.run, now)
        outcome = Outcome.REFUSED if row.state is State.RUNNING else Outcome.CANCELLED
        ending = Ending(outcome=outcome, reason=Reason.CALLED_OFF, detail=said.request.reason)
        fence = 0 if lock is None or held is None else held.fence
        self.settling.settle(tx, row, Ended(ending=ending, lock=lock, fence=fence))
        self._record(tx, row, said, None)
        return _Written(row, token=None if lock is None else lock.token)

    def _record(self, tx: Transaction, row: Row, said: _Said, stage: Stage | None) -> None:
        act = Act(
            kind=AuditKind.UPDATE_CALLED_OFF,
            subject=row.command,
            actor=said.actor,
            detail={
                "device": row.device,
                "run": row.run,
                "stage": stage,
                "reason": said.request.reason,
            },
        )
        audit.append(tx, [act], self._around.stamp())

    async def _send(self, row: Row, step: Step) -> tuple[CancelAnswer, str]:
        """Send what was recorded, and wait a little for what is said to it."""
        waiter = self.confirmations.open(row.device, step.expectation)
        try:
            waiter.sending(self._around.clock.boot())
            await self._hand_over(row, step)
            wait = min(step.expectation.within, _LONGEST)
            await waiter.until(lambda: _is_answered(waiter), wait)
        finally:
            self.confirmations.close(waiter)
        denied = waiter.progress.denied
        if denied is not None:
            return CancelAnswer.DENIED, denied.words
        return (CancelAnswer.TAKEN if waiter.is_answered else CancelAnswer.NONE), ""

    async def _hand_over(self, row: Row, step: Step) -> None:
        trace = within(trace_of(row.traceparent, row.sha256), row.device, row.run, "call off")
        message = Outgoing(
            topic=step.topic,
            payload=step.payload,
            expires_in=max(1, int(step.expectation.within.total_seconds())),
            traceparent=str(trace),
        )
        try:
            result = await self.bus.publish(message)
        except (TransientError, RejectedError):
            await self._take_back(row)
            raise
        if result in {PublishResult.NOBODY_LISTENS, PublishResult.REFUSED}:
            await self._take_back(row)
            raise RejectedError(f"the broker did not pass it on to {row.device}: {result}")

    async def _take_back(self, row: Row) -> None:
        """Note that it is known not to have left: it may be tried again."""
        await self.store.write(partial(updates.not_called_off, run=row.run))


def _is_answered(waiter: Waiter) -> bool:
    return waiter.is_answered or waiter.progress.denied is not None


def _row(db: Snapshot, said: _Said) -> Row:
    """The last run of the update on its device."""
    command, device = said.command, said.request.device
    rows = inbox.by_command(db, command)
    if not rows or rows[0].action is not ActionName.INSTALL:
        raise UnknownError(f"{command} is no update that has come")
    if device is None and len({row.device for row in rows}) > 1:
        raise AmbiguousError(f"{command} is for several devices: name one")
    meant = [row for row in rows if device in {None, row.device}]
    if not meant:
        raise UnknownError(f"{command} is not for {device}")
    return max(meant, key=lambda row: row.run)


def _report(db: Snapshot, run: int, answer: CancelAnswer, words: str) -> CancelReport:
    row, update = inbox.by_run(db, run), updates.of(db, run)
    if row is None:
        raise UnknownError(f"run {run} is gone")
    return CancelReport(
        command=row.command,
        device=row.device,
        state=row.state,
        stage=None if update is None else update.stage,
        answer=answer,
        words=words,
    )
