"""Commands typed at the hub: made, signed with the hub's own key, and sent through the same gate.

Such a command is good for a minute of boot time and needs no wall clock; who typed it is on record by
what the operating system says (SPEC V6). What the hub's key may do is the policy's word.
"""

from datetime import timedelta
from functools import partial
from secrets import randbits, token_hex
from typing import Final

from edgeagent.clock import EPOCH
from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.command import COMMAND_BYTES, COMMAND_TYPE, Command
from edgeagent.contracts.door import decode, encode
from edgeagent.contracts.policy import id_of_key
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Receipt
from edgeagent.contracts.reports.commands import (
    CommandReport,
    CommandsReport,
    SendReport,
    SendRequest,
    UpdateReport,
)
from edgeagent.core.envelope import Signer, sign, unproven_payload
from edgeagent.core.freshness import CHANCE_BITS, BootDeadline
from edgeagent.core.gate.verdict import Refuse
from edgeagent.core.lifecycle import State
from edgeagent.errors import UnknownError
from edgeagent.flows.admission import Admission, Arrival
from edgeagent.flows.surroundings import Surroundings
from edgeagent.ids import CommandId, DeviceId, command_id
from edgeagent.ids import operation as checked_operation
from edgeagent.store import inbox, locks, receipts, updates
from edgeagent.store.database import Database, Snapshot
from edgeagent.store.inbox_row import Now, Row
from edgeagent.values import dataclass

VALID_FOR: Final = timedelta(minutes=1)
"""How long a command typed at the hub is good."""

_MOST_LISTED: Final = 200
_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class LocalCommands:
    """Makes commands in the hub's own name, and tells of all commands."""

    store: Database
    admission: Admission
    key: Signer
    around: Surroundings

    async def send(self, request: SendRequest, actor: str) -> SendReport:
        """Make a command and wait for its end.

        Raises:
            StorageError: it was not stored, and so not done.
        """
        # Never longer than the policy lets any command of the action be valid.
        valid_for = min(VALID_FOR, self.admission.longest_validity(request.action) or VALID_FOR)
        command = await self._command(request, valid_for)
        clock = self.around.clock
        envelope = sign(encode(command), COMMAND_TYPE, [self.key])
        local = BootDeadline(clock.boot_id, clock.boot() + valid_for)
        [admitted] = await self.admission.admit([Arrival(envelope, local, actor)])
        if isinstance(admitted.verdict, Refuse):
            return SendReport(
                refused=admitted.verdict.reason,
                detail=admitted.verdict.detail,
                command=await self._one(command.id, request.device),
            )
        return SendReport(command=await self._end_of(command.id, request.device, request.wait))

    async def recent(self) -> CommandsReport:
        """The commands that came last."""
        return await self.store.read(partial(_recent, now=self.around.present()))

    async def one(self, command: CommandId) -> CommandsReport:
        """One command, on each of its devices.

        Raises:
            RejectedError: none of that id has come.
        """
        found = await self.store.read(partial(_all_of, command=command, now=self.around.present()))
        if not found.commands:
            raise UnknownError(f"no command {command} has come")
        return found

    async def _one(self, command: CommandId, device: DeviceId) -> CommandReport | None:
        return await self.store.read(
            partial(_on_device, command=command, device=device, now=self.around.present())
        )

    async def _end_of(self, command: CommandId, device: DeviceId, wait: timedelta) -> CommandReport | None:
        clock = self.around.clock
        deadline = clock.boot() + wait
        while True:
            records = self.around.outbox.records
            report = await self._one(command, device)
            left = deadline - clock.boot()
            if report is None or report.receipt is not None or left <= timedelta(0):
                return report
            await self.around.outbox.next_record(left, since=records)

    async def _command(self, request: SendRequest, valid_for: timedelta) -> Command:
        wall = self.around.clock.wall()
        own = id_of_key(self.key.public)
        last = await self.store.read(partial(inbox.last_sequence, issuer=own))
        # Later than every earlier one, also after the clock was set back.
        by_time = (wall.best - EPOCH) // _MILLISECOND << CHANCE_BITS | randbits(CHANCE_BITS)
        name = command_id(f"local-{token_hex(8)}")
        return Command(
            id=name,
            hub=self.around.origin.hub,
            epoch=self.around.origin.epoch,
            devices=[request.device],
            action=request.action,
            arguments=request.arguments,
            operation=request.operation or checked_operation(name),
            sequence=max(by_time, last + 1),
            issued_at=wall.best,
            expires_at=wall.best + valid_for,
            precondition=request.precondition,
        )


def _recent(db: Snapshot, now: Now) -> CommandsReport:
    busy = _busy(db, now)
    return CommandsReport(commands=[_report(db, row, busy) for row in inbox.recent(db, _MOST_LISTED)])


def _all_of(db: Snapshot, command: CommandId, now: Now) -> CommandsReport:
    busy = _busy(db, now)
    return CommandsReport(commands=[_report(db, row, busy) for row in inbox.by_command(db, command)])


def _on_device(db: Snapshot, command: CommandId, device: DeviceId, now: Now) -> CommandReport | None:
    row = inbox.of_device(db, command, device)
    return None if row is None else _report(db, row, _busy(db, now))


def _busy(db: Snapshot, now: Now) -> frozenset[DeviceId]:
    return frozenset(held.device for held in locks.held(db, now))


def update_of(db: Snapshot, row: Row) -> UpdateReport | None:
    """How far the update of a command's row is; None where it is none, or has not begun."""
    update = updates.of(db, row.run) if row.action is ActionName.INSTALL else None
    if update is None:
        return None
    return UpdateReport(
        stage=update.stage,
        earlier=update.earlier,
        wanted=update.wanted,
        percent=update.percent,
        runs=update.runs,
    )


def _report(db: Snapshot, row: Row, busy: frozenset[DeviceId]) -> CommandReport:
    # Told and not stored: it comes and goes with every lock (SPEC L4).
    reason = Reason.DEVICE_BUSY if row.state is State.QUEUED and row.device in busy else row.reason
    command = decode(Command, unproven_payload(row.envelope), limit=COMMAND_BYTES)
    receipt = receipts.load(db, row.command, row.device)
    return CommandReport(
        command=row.command,
        device=row.device,
        action=row.action,
        arguments=command.arguments,
        state=row.state,
        reason=reason,
        meaning="" if reason is None else reason.sentence,
        lane=row.lane,
        run=row.ordinal,
        attempts=row.attempts,
        issuer=row.issuer,
        actor=row.actor,
        received_at=EPOCH + timedelta(microseconds=row.received_at),
        expires_at=EPOCH + timedelta(microseconds=row.expires_at),
        last_error=row.last_error,
        update=update_of(db, row),
        sha256=row.sha256,
        receipt=None if receipt is None else decode(Receipt, receipt, limit=COMMAND_BYTES),
    )
