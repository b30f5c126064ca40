"""Dead letters are laid down in the commit of the ending that they tell of (SPEC D1)."""

from typing import Final

from pydantic import JsonValue

from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.blame import ANSWERED, blame_of, is_buried
from edgeagent.core.work import Ending
from edgeagent.flows.surroundings import Surroundings
from edgeagent.store import audit, dead_letters
from edgeagent.store.audit import Act
from edgeagent.store.database import Transaction
from edgeagent.store.dead_letters import NewLetter
from edgeagent.store.inbox_row import NewCommand, Row
from edgeagent.values import dataclass

_DETAIL: Final = 200


@dataclass(frozen=True, slots=True)
class Worked:
    """Who worked a command, and under which lock.

    Attributes:
        fence: of the lock; 0 if it was never claimed.
        holder: who; None if nobody.
    """

    fence: int = 0
    holder: str | None = None


def bury(tx: Transaction, row: Row, ending: Ending, worked: Worked, around: Surroundings) -> int | None:
    """Keep a command that has ended badly.

    Returns:
        The number of its letter; None where its ending leaves none.
    """
    aside = ending.outcome is Outcome.REFUSED and ending.reason is Reason.BREAKER_OPEN
    at_worker = worked.fence > 0
    if not aside and not is_buried(ending.outcome, ending.reason, at_worker=at_worker):
        return None
    return _add(tx, _letter(row, (row.run, row.ordinal), ending, around, worked, row), around)


def bury_beside(tx: Transaction, new: NewCommand, ending: Ending, around: Surroundings) -> int | None:
    """Keep a command that got no row of its own, where its refusal is suspicious.

    Returns:
        The number of its letter; None where its ending leaves none.
    """
    if not is_buried(ending.outcome, ending.reason, at_worker=False):
        return None
    return _add(tx, _letter(new, (0, 0), ending, around, Worked(), None), around)


def _letter(
    new: NewCommand,
    run: tuple[int, int],
    ending: Ending,
    around: Surroundings,
    worked: Worked,
    row: Row | None,
) -> NewLetter:
    return NewLetter(
        run=run[0],
        ordinal=run[1],
        command=new.command,
        device=new.device,
        action=new.action,
        issuer=new.issuer,
        actor=new.actor,
        lane=new.lane,
        sha256=new.sha256,
        envelope=new.envelope,
        expires_at=new.expires_at,
        local=new.local,
        outcome=ending.outcome,
        blame=blame_of(ending.reason),
        reason=ending.reason,
        detail=ending.detail[:_DETAIL],
        attempts=0 if row is None else row.attempts,
        sent=row is not None and row.sent,
        fence=worked.fence,
        holder=worked.holder,
        received_at=new.received_at,
        buried_at=around.event_time().at,
        traceparent=new.traceparent,
        answered=ending.outcome is Outcome.REFUSED and ending.reason in ANSWERED,
    )


def _add(tx: Transaction, new: NewLetter, around: Surroundings) -> int:
    number, gone = dead_letters.add(tx, new)
    if gone:
        detail: dict[str, JsonValue] = {
            "letters": [*gone],
            "why": f"at most {dead_letters.MOST} are kept",
        }
        act = Act(kind=AuditKind.DEAD_LETTER_DISCARDED, subject="dead_letters", actor="agent", detail=detail)
        audit.append(tx, [act], around.stamp())
    return number
