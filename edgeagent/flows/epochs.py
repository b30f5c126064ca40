"""A new life of the database: what was open in the one before ends, and people are told what to do.

Commands are signed for one epoch. In a new one the hub takes readings, does what is typed at it, and
refuses what was signed for another, until its issuers sign for the new one (SPEC T8, R3).
"""

from functools import partial
from typing import Final

from edgeagent.contracts.command import COMMAND_BYTES, Command
from edgeagent.contracts.door import decode
from edgeagent.contracts.event import Stream
from edgeagent.contracts.floormark import EpochReason
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.contracts.reports.health import Check, Level
from edgeagent.core.envelope import unproven_payload
from edgeagent.core.lifecycle import OPEN, State
from edgeagent.core.work import Ending
from edgeagent.flows.floorkeeping import FloorKeeping
from edgeagent.flows.settling import Ended, Settling
from edgeagent.ids import Epoch
from edgeagent.store import inbox, locks, meta
from edgeagent.store.database import Database, Snapshot, Transaction
from edgeagent.store.inbox_row import Moved, Now, Row
from edgeagent.values import dataclass

_WORDS: Final = {
    EpochReason.FIRST: "the first of this hub",
    EpochReason.LOST: "the database was lost",
    EpochReason.DAMAGED: "the database was damaged and set aside",
    EpochReason.RESTORED: "an earlier copy of the database was put back",
}


async def end_other_epochs(store: Database, settling: Settling, now: Now) -> int:
    """End what is open and was signed for another epoch. To be called before anything is worked.

    What was sent once is left to whoever claims it: the gate lets nothing more be sent, and the device is
    asked what became of it.

    Returns:
        How many commands have ended.

    Raises:
        StorageError: none has.
    """
    count = await store.write(partial(_end_all, settling, now))
    settling.around.outbox.stored({Stream.RECORD}, count)
    return count


@dataclass(frozen=True, slots=True)
class EpochWatch:
    """Tells how the present epoch stands.

    Attributes:
        store: where it is on record.
        keeping: of the floor file.
    """

    store: Database
    keeping: FloorKeeping

    async def check(self) -> Check:
        """Whether the issuers know of the present epoch, and whether the floor file is written.

        Raises:
            StorageError: the store cannot be read.
        """
        if self.keeping.trouble:
            return Check(
                name="epoch",
                level=Level.WARNING,
                summary=f"a restored backup may go unnoticed: {self.keeping.trouble}",
                advice="see the check disk; the agent writes it again within the hour and at its next start",
            )
        life, has_accepted = await self.store.read(_look)
        if life is not None and has_accepted:
            # The command itself may be forgotten one day.
            await self.store.write(meta.note_life_known)
        if life is None or has_accepted or life.is_known or life.reason is EpochReason.FIRST:
            return Check(
                name="epoch", level=Level.OK, summary="commands signed for this hub's epoch are taken"
            )
        return Check(
            name="epoch",
            level=Level.WARNING,
            summary=f"new epoch {life.epoch}: {_WORDS[life.reason]}; commands signed before are refused, "
            "readings go on",
            advice=_admit_again(life.reason)
            + "sign what is still wanted anew: edgeagent issuer command resign; "
            "at the hub edgeagent send works",
        )


def _admit_again(reason: EpochReason) -> str:
    """What else is to be done where nothing of the earlier database is left."""
    return "" if reason is EpochReason.RESTORED else "admit the devices again: edgeagent devices list; "


def _look(db: Snapshot) -> tuple[meta.Life | None, bool]:
    """The present life, and whether a first command of it was accepted that is not on record yet."""
    life = meta.life(db)
    if life is None or life.is_known or life.reason is EpochReason.FIRST:
        return life, False
    return life, inbox.has_accepted(db, after=life.first_run)


def _end_all(settling: Settling, now: Now, tx: Transaction) -> int:
    rows = [row for state in sorted(OPEN) for row in inbox.in_state(tx, state)]
    old = [row for row in rows if not row.sent and _epoch_of(row) != settling.around.origin.epoch]
    for row in old:
        left = row
        if row.state is State.RUNNING:
            # Its holder was an earlier start, so that nobody works it.
            inbox.move(tx, row, Moved(State.QUEUED, Reason.TAKEN_OVER, force_refresh=True))
            locks.clear(tx, row.run, now)
            left = inbox.by_run(tx, row.run) or row
        ending = Ending(
            outcome=Outcome.REFUSED,
            reason=Reason.WRONG_EPOCH,
            detail=f"this hub's epoch is {settling.around.origin.epoch}; here nothing was sent, what a later "
            "copy of the database may have known is lost",
        )
        settling.settle(tx, left, Ended(ending=ending))
    return len(old)


def _epoch_of(row: Row) -> Epoch:
    return decode(Command, unproven_payload(row.envelope), limit=COMMAND_BYTES).epoch
