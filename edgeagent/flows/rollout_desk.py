"""What people may ask of lists of devices that are updated: the ``RolloutDesk`` port.

What a person says is kept and put on record in one commit. Whatever is under way is left to its end.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.command import COMMAND_BYTES, Command
from edgeagent.contracts.door import decode
from edgeagent.contracts.event import Stream
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.contracts.reports.rollouts import (
    CancelReport,
    CancelRequest,
    PlanReport,
    PlanRequest,
    RolloutDevice,
    RolloutReport,
    RolloutsReport,
    SteerRequest,
)
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.envelope import unproven_payload
from edgeagent.core.lifecycle import State
from edgeagent.core.rollout import HOLDING, Course, Word, is_too_bad
from edgeagent.core.work import Ending
from edgeagent.errors import RejectedError, UnknownError
from edgeagent.flows.calling_off import CallingOff
from edgeagent.flows.desk import Desk
from edgeagent.flows.local import update_of
from edgeagent.flows.planning import Planning
from edgeagent.flows.settling import Ended, Settling
from edgeagent.flows.worlds import Worlds
from edgeagent.ids import ArtifactId, CommandId, artifact_id
from edgeagent.store import audit, inbox, rollouts
from edgeagent.store.audit import Act
from edgeagent.store.database import Database, Snapshot, Transaction
from edgeagent.store.inbox_row import Row
from edgeagent.store.rollouts import Saying
from edgeagent.values import dataclass

log = logging.getLogger(__name__)

_LISTED: Final = 50
_UNBEGUN: Final = frozenset({State.HELD, State.QUEUED, State.WAITING})

Said = tuple[SteerRequest, str]
"""What is asked for, and who asks."""


@dataclass(frozen=True, slots=True)
class HubRollouts:
    """Shows and steers lists.

    Attributes:
        store: where they are.
        desk: claims, and is woken when more may begin.
        settling: ends what is cancelled.
        worlds: what is known of the devices.
        calling_off: calls off the update of one device.
    """

    store: Database
    desk: Desk
    settling: Settling
    worlds: Worlds
    calling_off: CallingOff

    async def report(self) -> RolloutsReport:
        """Those that came last."""

        def look(db: Snapshot) -> list[RolloutReport]:
            sayings = rollouts.sayings(db)
            return [self._shown(db, each, sayings, whole=False) for each in rollouts.known(db, _LISTED)]

        return RolloutsReport(rollouts=await self.store.read(look))

    async def one(self, command: CommandId) -> RolloutReport:
        """One of them, with its devices."""
        return await self.store.read(lambda db: self._shown(db, command, rollouts.sayings(db), whole=True))

    async def plan(self, request: PlanRequest) -> PlanReport:
        """What would become of an update."""
        return Planning(self.worlds, self.desk.rollouts).plan(request.artifact, request.devices, succeeded=0)

    async def plan_of(self, command: CommandId) -> PlanReport:
        """What will become of what is not begun of a list."""
        rows = await self.store.read(partial(_rows, command=command))
        tally = await self.store.read(partial(rollouts.tally, command=command))
        left = [row.device for row in rows if row.state in _UNBEGUN and not row.sent]
        planning = Planning(self.worlds, self.desk.rollouts)
        return planning.plan(_artifact(rows[0]), left, succeeded=tally.succeeded + tally.under_way)

    async def pause(self, command: CommandId, request: SteerRequest, actor: str) -> RolloutReport:
        """Begin nothing more of a list."""
        return await self._steer(command, (request, actor), self._pause)

    async def resume(self, command: CommandId, request: SteerRequest, actor: str) -> RolloutReport:
        """Let a list go on."""
        return await self._steer(command, (request, actor), self._resume)

    async def abort(self, command: CommandId, request: SteerRequest, actor: str) -> RolloutReport:
        """Cancel what is not begun of a list."""
        return await self._steer(command, (request, actor), self._abort)

    async def cancel(self, command: CommandId, request: CancelRequest, actor: str) -> CancelReport:
        """Call off the update of one device."""
        return await self.calling_off.call_off(command, request, actor)

    async def _steer(
        self, command: CommandId, said: Said, steer: Callable[[Transaction, CommandId, Said], int]
    ) -> RolloutReport:
        def write(tx: Transaction) -> int:
            _rows(tx, command)
            return steer(tx, command, said)

        ended = await self.store.write(write)
        around = self.worlds.around
        if ended:
            around.outbox.stored({Stream.RECORD}, ended)
            around.metrics.commands_settled.labels(Outcome.CANCELLED).inc(ended)
        log.warning("rollout steered", extra={"command": command, "by": said[1], "cancelled": ended})
        self.desk.wake()
        return await self.one(command)

    def _pause(self, tx: Transaction, command: CommandId, said: Said) -> int:
        word = self._word(tx, command)
        if word.course is not Course.GOING:
            raise RejectedError(f"{command} is {word.course} as it is")
        if not rollouts.tally(tx, command).left:
            raise RejectedError(f"nothing of {command} is left to begin")
        self._say(tx, command, Word(Course.PAUSED, word.forgiven), said, AuditKind.ROLLOUT_PAUSED)
        return 0

    def _resume(self, tx: Transaction, command: CommandId, said: Said) -> int:
        word = self._word(tx, command)
        if word.course is Course.GOING:
            raise RejectedError(f"{command} is neither paused nor stopped")
        bad = rollouts.tally(tx, command).bad
        self._say(tx, command, Word(Course.GOING, bad), said, AuditKind.ROLLOUT_RESUMED)
        return 0

    def _abort(self, tx: Transaction, command: CommandId, said: Said) -> int:
        left = [row for row in _rows(tx, command) if row.state in _UNBEGUN and not row.sent]
        if not left:
            raise RejectedError(f"nothing of {command} is left to begin")
        request, actor = said
        ending = Ending(outcome=Outcome.CANCELLED, reason=Reason.ROLLOUT_ABORTED, detail=request.reason)
        for row in left:
            self.settling.settle(tx, row, Ended(ending=ending))
        self._record(tx, command, said, AuditKind.ROLLOUT_ABORTED)
        log.info("rollout called off", extra={"command": command, "by": actor, "devices": len(left)})
        return len(left)

    def _word(self, db: Snapshot, command: CommandId) -> Word:
        """The last word; also where nobody has asked for work since too many ended badly."""
        word, tally = rollouts.word(db, command), rollouts.tally(db, command)
        is_stopped = word.course is Course.GOING and is_too_bad(self.desk.rollouts.rule, tally, word)
        return Word(Course.STOPPED, word.forgiven) if is_stopped else word

    def _say(self, tx: Transaction, command: CommandId, word: Word, said: Said, kind: AuditKind) -> None:
        request, actor = said
        at = self.worlds.around.event_time().at
        rollouts.say(tx, command, Saying(word=word, actor=actor, why=request.reason, at=at))
        self._record(tx, command, said, kind)

    def _record(self, tx: Transaction, command: CommandId, said: Said, kind: AuditKind) -> None:
        request, actor = said
        act = Act(kind=kind, subject=command, actor=actor, detail={"reason": request.reason})
        audit.append(tx, [act], self.worlds.around.stamp())

    def _shown(
        self, db: Snapshot, command: CommandId, sayings: dict[CommandId, Saying], *, whole: bool
    ) -> RolloutReport:
        rows = _rows(db, command)
        tally, said, word = rollouts.tally(db, command), sayings.get(command), self._word(db, command)
        artifact = _artifact(rows[0])
        listed = self.worlds.trust.catalogue.listed.get(artifact)
        left = [row for row in rows if row.state in _UNBEGUN and not row.sent]
        waits = self._waits(db, command, left)
        return RolloutReport(
            command=command,
            artifact=artifact,
            version=None if listed is None else listed.facts.version,
            issuer=rows[0].issuer,
            course=word.course,
            by="" if said is None else said.actor,
            why="" if said is None else said.why,
            succeeded=tally.succeeded,
            bad=tally.bad,
            under_way=tally.under_way,
            left=len(left),
            never=tally.never,
            waits=waits,
            devices=[self._device(db, row, waits) for row in rows] if whole else [],
        )

    def _waits(self, db: Snapshot, command: CommandId, left: list[Row]) -> Reason | None:
        if not left:
            return None
        rolling, wall = self.desk.rollouts, self.worlds.around.clock.wall()
        why = rolling.standing(db, command).why
        is_open = any(rolling.opening(row.device, wall).is_open for row in left)
        return why or (None if is_open else Reason.ROLLOUT_WINDOW)

    def _device(self, db: Snapshot, row: Row, waits: Reason | None) -> RolloutDevice:
        appliance = self.worlds.around_device(row.device, row.local).appliance
        # Its row has what held it back when work was asked for last.
        reason = waits if row.state is State.WAITING and row.reason in HOLDING else row.reason
        return RolloutDevice(
            device=row.device,
            state=row.state,
            reason=reason,
            meaning="" if reason is None else reason.sentence,
            runs=None if appliance is None else appliance.version,
            update=update_of(db, row),
        )


def _rows(db: Snapshot, command: CommandId) -> list[Row]:
    rows = inbox.by_command(db, command)
    if not rows or rows[0].action is not ActionName.INSTALL:
        raise UnknownError(f"{command} is no update that has come")
    return rows


def _artifact(row: Row) -> ArtifactId:
    command = decode(Command, unproven_payload(row.envelope), limit=COMMAND_BYTES)
    return artifact_id(str(command.arguments["artifact"]))
