"""Claiming, as one transaction for all who ask at once (SPEC L1).

What was abandoned is taken over, what is due is queued, and for each who asks the device of the command whose
turn it is is locked, with what it shares with others: one lease, one fence. What the gate will want to know
of the store is read in the same transaction.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from pydantic import JsonValue

from edgeagent.clock import Wall
from edgeagent.contracts.policy import Tier
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.lifecycle import State
from edgeagent.core.rollout import places_for_updates
from edgeagent.core.work import Claim
from edgeagent.errors import LostRaceError
from edgeagent.flows.losing import Losing, Lost
from edgeagent.flows.rollouts import Outcome, Rollouts
from edgeagent.flows.worlds import last_of_now
from edgeagent.store import audit, inbox, lines, locks, rollouts
from edgeagent.store.audit import Act, Stamp
from edgeagent.store.database import Transaction
from edgeagent.store.inbox_row import Moved, Now, Row
from edgeagent.store.lines import Outlook
from edgeagent.store.memory import Memory, Question, recall
from edgeagent.values import dataclass

_MILLISECOND: Final = timedelta(milliseconds=1)
_MOST_HELD_BACK: Final = 256
"""In one transaction."""


@dataclass(frozen=True, slots=True)
class Taker:
    """Who wants a command.

    Attributes:
        holder: in whose name the lock is taken.
        token: by which it will be held.
    """

    holder: str
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is wanted of a lane.

    Attributes:
        lane: which.
        takers: who ask, each for one command.
        most: how many commands of the lane may be worked at once.
        now: the present.
        wall: what is known of the time.
        stamp: the present, for the audit trail.
        losing: looks after what holders that are gone have left.
        rollouts: hold back what is not to be updated yet.
    """

    lane: Tier
    takers: Sequence[Taker]
    most: int
    now: Now
    wall: Wall
    stamp: Stamp
    losing: Losing
    rollouts: Rollouts


@dataclass(frozen=True, slots=True)
class Found:
    """A command that is ours now.

    Attributes:
        row: as it stood before it was claimed.
        fence: of its lock.
        memory: what the store remembers of it, in the name of the issuer of its row.
    """

    row: Row
    fence: int
    memory: Memory


@dataclass(frozen=True, slots=True)
class Claimed:
    """What was found for those who asked.

    Attributes:
        found: a command for each of the first of them.
        lost: what was found to have lost its holder.
        outlook: what the others wait for; None where there are none.
        events: how many events of the stream of records were stored.
    """

    found: Sequence[Found]
    lost: tuple[Lost, ...]
    outlook: Outlook | None
    events: int = 0


def claim(wanted: Wanted, tx: Transaction) -> Claimed:
    """Lock the commands of a lane that are next, one for each who asks."""
    lost = wanted.losing.take_over(tx, wanted.now)
    acts = []
    for row in lines.due_again(tx, wanted.lane, wanted.now):
        inbox.move(tx, row, Moved(State.QUEUED, row.reason, force_refresh=row.force_refresh))
        acts.append(queued(row))
    told = Outcome(acts, places_for_updates(wanted.most))
    wanted.rollouts.let_go_on(tx, wanted.lane, wanted.now, wanted.wall, told)
    found: list[Found] = []
    room = _places(tx, wanted)
    for taker in wanted.takers[: max(0, room)]:
        first = _first(tx, wanted, told)
        if first is None:
            break
        found.append(_lock(tx, wanted, taker, first))
        acts.append(_claimed(wanted, taker, found[-1]))
    outlook = None
    if len(found) < len(wanted.takers):
        outlook = _later(lines.outlook(tx, wanted.lane, wanted.now), wanted.now, told)
    if acts:
        audit.append(tx, acts, wanted.stamp)
    return Claimed(found, lost, outlook, told.stopped)


def _places(tx: Transaction, wanted: Wanted) -> int:
    """How many more of a lane may be worked; where there are but updates, one at least."""
    running = lines.running(tx, wanted.lane)
    are_updates = running and running == rollouts.running(tx, wanted.lane)
    return max(wanted.most - running, 1 if are_updates else 0)


def _first(tx: Transaction, wanted: Wanted, told: Outcome) -> Row | None:
    """The command that is next and may begin; those before it that may not, wait from now on."""
    for _ in range(_MOST_HELD_BACK):
        first = lines.first(tx, wanted.lane, wanted.now)
        if first is None or not wanted.rollouts.holds_back(tx, first, wanted.wall, told):
            return first
    # There are more: the others are looked at in a transaction of their own.
    told.within = timedelta(0)
    return None


def _later(outlook: Outlook, now: Now, told: Outcome) -> Outlook:
    """What a lane waits for, with what is held back in it: the end of another may let it go on."""
    if not told.held:
        return outlook
    due = now.milliseconds - (-told.within // _MILLISECOND)
    return Outlook(due if outlook.next is None else min(due, outlook.next), is_left=True)


def _lock(tx: Transaction, wanted: Wanted, taker: Taker, row: Row) -> Found:
    inbox.move(tx, row, Moved(State.RUNNING))
    fence = locks.take(
        tx,
        locks.Key(row.device, taker.token),
        run=row.run,
        holder=taker.holder,
        until=wanted.now.milliseconds + row.terms.length // _MILLISECOND,
        now=wanted.now,
        parent=row.parent,
    )
    question = Question(
        command=row.command,
        sha256=row.sha256,
        device=row.device,
        issuer=row.issuer,
        action=row.action,
        sequence=row.sequence,
        slot=row.slot,
        largest=last_of_now(wanted.wall, is_local=row.local is not None),
        operation=row.operation,
    )
    return Found(row, fence, recall(tx, question))


def _claimed(wanted: Wanted, taker: Taker, found: Found) -> Act:
    row = found.row
    return Act(
        kind=AuditKind.COMMAND_CLAIMED,
        subject=row.command,
        actor="agent",
        detail={
            "device": row.device,
            "run": row.run,
            "fence": found.fence,
            "holder": taker.holder,
            "lane": wanted.lane,
            "attempts": row.attempts,
        },
    )


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
