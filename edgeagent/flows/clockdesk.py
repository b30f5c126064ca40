"""What a person at the hub may do about the time: the ``ClockDesk`` port.

Both are put on record before they count. A person's word proves the time within an error that is said
with it, ranks below every other proof, and raises the floor as one source's word does. Whoever sets the
floor back revives no command: what has come before is known by its id and its sequence (SPEC T4, T6).
"""

from datetime import UTC, datetime
from typing import Final

from edgeagent.clock import BUILT_AT, ClockSource, Proof
from edgeagent.contracts.reports.clock import ClockStanding, ConfirmRequest, ResetFloorRequest
from edgeagent.contracts.scalars import timestamp_text
from edgeagent.core.audit_chain import AuditKind
from edgeagent.errors import RejectedError
from edgeagent.flows.floorkeeping import FloorKeeping
from edgeagent.flows.surroundings import Surroundings
from edgeagent.flows.timefloor import TimeFloor
from edgeagent.flows.timekeeping import LAST_TIME, Timekeeping
from edgeagent.flows.trust import Trust
from edgeagent.store import audit, inbox
from edgeagent.store.audit import Act
from edgeagent.store.database import Database
from edgeagent.values import dataclass

_RESET_ADVICE: Final = "if the floor is wrong: edgeagent clock reset-floor"


@dataclass(frozen=True, slots=True, kw_only=True)
class HubClockDesk:
    """Answers for the clock.

    Attributes:
        store: where what is done goes on record.
        floor: the floor of time, with its clock.
        timekeeping: takes proofs.
        keeping: writes the floor file.
        trust: tells who waits for the time.
        around: whose hub it is.
    """

    store: Database
    floor: TimeFloor
    timekeeping: Timekeeping
    keeping: FloorKeeping
    trust: Trust
    around: Surroundings

    async def clock(self) -> ClockStanding:
        """What is known of the time, and what that rests on."""
        await self.floor.load()
        waiting = await self.store.read(inbox.waiting_for_time)
        clock = self.floor.clock
        wall, proof, (kernel, kernel_error) = clock.wall(), clock.proof, clock.kernel()
        return ClockStanding(
            source=wall.source,
            best=wall.best,
            earliest=wall.earliest,
            latest=wall.latest,
            error=None if wall.error is None else wall.error.total_seconds(),
            proven=None if proof is None else max(0.0, (clock.boot() - proof.at).total_seconds()),
            kernel=kernel,
            kernel_error=None if kernel_error is None else kernel_error.total_seconds(),
            floor=clock.floor,
            floor_source=self.floor.source,
            kernel_is_behind=self.floor.kernel_behind is not None,
            boot_id=clock.boot_id,
            boot=clock.boot().total_seconds(),
            waiting=waiting,
        )

    async def confirm(self, request: ConfirmRequest, actor: str) -> ClockStanding:
        """Take a person's word for the time."""
        await self.floor.load()
        clock = self.floor.clock
        kernel, _ = clock.kernel()
        proof = Proof(
            source=ClockSource.OPERATOR,
            wall=kernel if request.time is None else request.time,
            error=request.within,
            at=clock.boot(),
        )
        self._check(proof)
        act = Act(
            kind=AuditKind.CLOCK_CONFIRMED,
            subject="clock",
            actor=actor,
            detail={
                "time": timestamp_text(proof.wall),
                "within": proof.error.total_seconds(),
                "typed": request.time is not None,
                "kernel": timestamp_text(kernel),
            },
        )
        stamp = self.around.stamp()
        await self.store.write(lambda tx: audit.append(tx, [act], stamp))
        # What a better source has said meanwhile stands.
        self.timekeeping.heard(proof)
        await self.floor.keep()
        return await self.clock()

    async def reset_floor(self, request: ResetFloorRequest, actor: str) -> ClockStanding:
        """Set the floor of time back."""
        await self.floor.load()
        present, moment = self.floor.clock.floor, request.time or BUILT_AT
        if moment < BUILT_AT:
            raise RejectedError(f"this software was made at {timestamp_text(BUILT_AT)}: that much is past")
        if moment >= present:
            raise RejectedError(f"the floor is {timestamp_text(present)} and is only ever set back")
        act = Act(
            kind=AuditKind.FLOOR_RESET,
            subject="clock",
            actor=actor,
            detail={"from": timestamp_text(present), "to": timestamp_text(moment)},
        )
        await self.floor.reset(moment, act, self.around.stamp())
        # Before anybody is told: a start that found the old floor in the file would take it for good.
        await self.keeping.keep()
        self.timekeeping.ask_again()
        self.trust.tell()
        return await self.clock()

    def _check(self, proof: Proof) -> None:
        """Refuse a person's word that could not count."""
        clock = self.floor.clock
        if not datetime(1970, 1, 2, tzinfo=UTC) < proof.wall < LAST_TIME:
            raise RejectedError("not a time of our days")
        if proof.wall + proof.error < clock.floor:
            raise RejectedError(
                f"{timestamp_text(proof.wall)} is over: {timestamp_text(clock.floor)} is certainly past, "
                f"by {self.floor.source}; {_RESET_ADVICE}"
            )
        if not clock.would_take(proof):
            wall = clock.wall()
            raise RejectedError(
                f"the time is known better: {timestamp_text(wall.best)} within {wall.error}, "
                f"from {wall.source}"
            )
