"""Claiming, as one transaction (SPEC L1).

What was abandoned is taken over, what is due is queued, and the device of the command whose turn it is is
locked, with what it shares with others: one lease, one fence.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from pydantic import JsonValue

from edgeagent.contracts.policy import Tier
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.lifecycle import State
from edgeagent.core.work import Claim
from edgeagent.errors import LostRaceError
from edgeagent.flows.losing import Losing, Lost
from edgeagent.store import audit, inbox, lines, locks
from edgeagent.store.audit import Act, Stamp
from edgeagent.store.database import Transaction
from edgeagent.store.inbox_row import Moved, Now, Row

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
        losing: looks after what holders that are gone have left.
    """

    lane: Tier
    holder: str
    token: str
    most: int
    now: Now
    stamp: Stamp
    losing: Losing


@dataclass(frozen=True, slots=True)
class Found:
    """A command that is ours now.

    Attributes:
        row: as it stood before it was claimed.
        fence: of its lock.
        lost: what was found to have lost its holder.
    """

    row: Row
    fence: int
    lost: tuple[Lost, ...] = ()


@dataclass(frozen=True, slots=True)
class NothingDue:
    """There is nothing to do for this lane.

    Attributes:
        next: when there may be something, in milliseconds of boot time; None until somebody rings.
        lost: what was found to have lost its holder.
    """

    next: int | None
    lost: tuple[Lost, ...] = ()


def claim(wanted: Wanted, tx: Transaction) -> Found | NothingDue:
    """Lock the command of a lane that is next."""
    lost = wanted.losing.take_over(tx, wanted.now)
    acts = []
    for row in lines.due_again(tx, wanted.lane, wanted.now):
        inbox.move(tx, row, Moved(State.QUEUED, row.reason, force_refresh=row.force_refresh))
        acts.append(queued(row))
    found = None
    if lines.running(tx, wanted.lane) < wanted.most:
        found = lines.first(tx, wanted.lane, wanted.now)
    answer: Found | NothingDue = NothingDue(lines.next_due(tx, wanted.lane, wanted.now), lost)
    if found is not None:
        inbox.move(tx, found, Moved(State.RUNNING))
        fence = locks.take(
            tx,
            locks.Key(found.device, wanted.token),
            run=found.run,
            holder=wanted.holder,
            until=wanted.now.milliseconds + found.terms.length // _MILLISECOND,
            now=wanted.now,
            parent=found.parent,
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
        answer = Found(found, fence, lost)
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


def about(claim: Claim, kind: AuditKind, more: dict[str, JsonValue]) -> Act:
    """What is put on record of a claimed command."""
    detail: dict[str, JsonValue] = {"device": claim.device, "run": claim.run, "fence": claim.fence}
    return Act(kind=kind, subject=claim.asked.command.id, actor="agent", detail=detail | more)


def key_of(claim: Claim) -> locks.Key:
    """What proves that a claim's lock is ours."""
    return locks.Key(claim.device, claim.token)


def running(tx: Transaction, run: int) -> Row:
    """The row of a run that is being worked.

    Raises:
        LostRaceError: it is not.
    """
    row = inbox.by_run(tx, run)
    if row is None or row.state is not State.RUNNING:
        raise LostRaceError(f"run {run} is not being worked")
    return row


def fields_of(claim: Claim) -> dict[str, str | int]:
    """What every log line about a command carries (SPEC O3)."""
    return {
        "command": claim.asked.command.id,
        "device": claim.device,
        "run": claim.run,
        "trace": claim.trace.trace,
    }
