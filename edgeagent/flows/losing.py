"""Commands whose holder is gone: taken over, or given up when that happens again and again (SPEC L3, L7).

A command that makes whoever works it crash or hang would do so for ever. After three losses it ends: as
unknown if something was sent, as failed if not; and an alert says so.
"""

import logging
from collections.abc import Sequence
from dataclasses import field
from typing import Final

from edgeagent.contracts.event import EventType, Stream, data_text
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.lifecycle import State
from edgeagent.core.work import Ending
from edgeagent.flows.settling import Ended, Settling
from edgeagent.store import audit, inbox, locks, outbox
from edgeagent.store.audit import Act
from edgeagent.store.database import Transaction
from edgeagent.store.inbox_row import Moved, Now, Row
from edgeagent.store.outbox import NewEvent
from edgeagent.values import dataclass

log = logging.getLogger(__name__)

MOST_LOSSES: Final = 3
"""How often a command may lose whoever works it."""


@dataclass(frozen=True, slots=True)
class Lost:
    """A command whose holder was gone.

    Attributes:
        row: as it was left.
        outcome: how it has ended; None where it was taken over.
    """

    row: Row
    outcome: Outcome | None


@dataclass(frozen=True, slots=True)
class Losing:
    """Looks after what holders that are gone have left.

    Attributes:
        settling: ends commands.
        excused: runs whose holder could not give them back, as the store took no writes: that is no loss.
    """

    settling: Settling
    excused: set[int] = field(default_factory=set)

    def tell(self, lost: Sequence[Lost]) -> bool:
        """Count and log what was found, after its commit.

        Returns:
            Whether there was anything.
        """
        around = self.settling.around
        for each in lost:
            row = each.row
            self.excused.discard(row.run)
            around.metrics.lease_losses.labels(row.lane).inc()
            fields = {"command": row.command, "device": row.device, "run": row.run}
            log.warning("command lost its holder", extra=fields | {"outcome": each.outcome})
            if each.outcome is not None:
                around.metrics.commands_settled.labels(each.outcome).inc()
                around.outbox.stored({Stream.RECORD}, 2)
        return bool(lost)

    def take_over(self, tx: Transaction, now: Now) -> tuple[Lost, ...]:
        """Queue what was left, its device to be read before anything is sent; end what is lost too often.

        No attempt is counted: what was sent has been counted when it was recorded (SPEC L3, L4).
        """
        return tuple(self._take_over(tx, row, now) for row in inbox.abandoned(tx, now))

    def _take_over(self, tx: Transaction, row: Row, now: Now) -> Lost:
        counted = row.run not in self.excused and inbox.note_lost(tx, row.run, now)
        # It may end without being claimed again: nothing of its lock must stay.
        locks.clear(tx, row.run, now)
        if counted:
            self.settling.breakers.lease_lost(tx, row)
        if counted and row.losses + 1 >= MOST_LOSSES:
            return Lost(row, self._give_up(tx, row))
        inbox.move(tx, row, Moved(State.QUEUED, Reason.TAKEN_OVER, force_refresh=True))
        audit.append(tx, [taken_over(row, "agent")], self.settling.around.stamp())
        return Lost(row, None)

    def _give_up(self, tx: Transaction, row: Row) -> Outcome:
        """End a command that loses its holder again and again, and tell it."""
        outcome = Outcome.UNKNOWN if row.sent else Outcome.FAILED
        detail = f"{MOST_LOSSES} times whoever worked on it was gone"
        ending = Ending(outcome=outcome, reason=Reason.LEASE_LOST, detail=detail)
        self.settling.settle(tx, row, Ended(ending=ending, fence=locks.fence(tx, row.device)))
        around = self.settling.around
        data = data_text({"reason": Reason.LEASE_LOST, "command": row.command, "losses": MOST_LOSSES})
        event = NewEvent(Stream.RECORD, EventType.ALERT, row.device, around.event_time(), data)
        outbox.append(tx, [event], incarnation=around.origin.incarnation)
        return outcome


def taken_over(row: Row, actor: str) -> Act:
    """What is put on record when a command is taken from whoever worked it."""
    return Act(
        kind=AuditKind.COMMAND_TAKEN_OVER,
        subject=row.command,
        actor=actor,
        detail={"device": row.device, "run": row.run, "sent": row.sent, "attempts": row.attempts},
    )
