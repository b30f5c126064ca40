"""Claiming, as one transaction (SPEC L1).

What was abandoned is taken over, what is due is queued, and the oldest command whose device nobody works
is locked: one lease, one fence.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from edgeagent.contracts.policy import Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.lifecycle import State
from edgeagent.store import audit, inbox, locks
from edgeagent.store.audit import Act, Stamp
from edgeagent.store.database import Transaction
from edgeagent.store.inbox_row import Moved, Now, Row

LEASE: Final = timedelta(seconds=30)
"""How long a lock holds without being renewed; whoever works renews at a third of it."""

_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Who wants a command.

    Attributes:
        lane: of which lane.
        holder: in whose name the lock is taken.
        token: by which it will be held.
        most: how many commands of the lane may be worked at once.
        now: the present.
        stamp: the same, for the audit trail.
    """

    lane: Tier
    holder: str
    token: str
    most: int
    now: Now
    stamp: Stamp


@dataclass(frozen=True, slots=True)
class Found:
    """A command that is ours now.

    Attributes:
        row: as it stood before it was claimed.
        fence: of its lock.
    """

    row: Row
    fence: int


@dataclass(frozen=True, slots=True)
class NothingDue:
    """There is nothing to do for this lane.

    Attributes:
        next: when there may be something, in milliseconds of boot time; None until somebody rings.
    """

    next: int | None


def claim(wanted: Wanted, tx: Transaction) -> Found | NothingDue:
    """Lock the oldest due command of a lane."""
    acts = _take_over(tx, wanted.now)
    for row in inbox.due_again(tx, wanted.lane, wanted.now):
        inbox.move(tx, row, Moved(State.QUEUED, row.reason, force_refresh=row.force_refresh))
        acts.append(queued(row))
    found = None
    if inbox.running(tx, wanted.lane) < wanted.most:
        found = inbox.oldest_due(tx, wanted.lane, wanted.now)
    answer: Found | NothingDue = NothingDue(inbox.next_due(tx, wanted.lane, wanted.now))
    if found is not None:
        inbox.move(tx, found, Moved(State.RUNNING))
        fence = locks.take(
            tx,
            locks.Key(found.device, wanted.token),
            run=found.run,
            holder=wanted.holder,
            until=wanted.now.milliseconds + LEASE // _MILLISECOND,
            now=wanted.now,
        )
        acts.append(
            Act(
                kind=AuditKind.COMMAND_CLAIMED,
                subject=found.command,
                actor="agent",
                detail={
                    "device": found.device,
                    "run": found.run,
                    "fence": fence,
                    "holder": wanted.holder,
                    "lane": wanted.lane,
                    "attempts": found.attempts,
                },
            )
        )
        answer = Found(found, fence)
    if acts:
        audit.append(tx, acts, wanted.stamp)
    return answer


def queued(row: Row) -> Act:
    """What is put on record when a waiting command is due again."""
    return Act(
        kind=AuditKind.COMMAND_QUEUED,
        subject=row.command,
        actor="agent",
        detail={"device": row.device, "run": row.run, "reason": row.reason, "attempts": row.attempts},
    )


def _take_over(tx: Transaction, now: Now) -> list[Act]:
    """Queue what a holder that is gone has left, its device to be read before anything is sent.

    No attempt is counted: what was sent has been counted when it was recorded (SPEC L3, L4).
    """
    acts = []
    for row in inbox.abandoned(tx, now):
        inbox.move(tx, row, Moved(State.QUEUED, Reason.TAKEN_OVER, force_refresh=True))
        # It may end without being claimed again: nothing of its lock must stay.
        locks.clear(tx, row.run, now)
        acts.append(
            Act(
                kind=AuditKind.COMMAND_TAKEN_OVER,
                subject=row.command,
                actor="agent",
                detail={"device": row.device, "run": row.run, "sent": row.sent, "attempts": row.attempts},
            )
        )
    return acts
