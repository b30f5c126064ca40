"""Whether a command is unfinished well past its time (SPEC Q7).

Upkeep ends what is over within moments. What stands longer is held by something else: it cannot be found
out what became of it, or nobody looks.
"""

from datetime import timedelta
from typing import Final

from edgeagent.clock import EPOCH, Clock
from edgeagent.contracts.reports.health import Check, Level
from edgeagent.store import inbox_watch
from edgeagent.store.database import Snapshot
from edgeagent.store.inbox_row import Now

BOUND: Final = timedelta(minutes=5)
"""How long after its time a command may be unfinished: it may be confirmed for that long."""
_MOST: Final = 5


def stuck_check(db: Snapshot, clock: Clock, now: Now) -> Check:
    """Look for commands that should have been over."""
    found = inbox_watch.overdue(
        db,
        before=(clock.wall().earliest - BOUND - EPOCH) // timedelta(microseconds=1),
        until=(clock.boot() - BOUND) // timedelta(milliseconds=1),
        now=now,
        most=_MOST + 1,
    )
    if not found:
        return Check(name="stuck", level=Level.OK, summary="no command is unfinished past its time")
    told = [f"{each.command} on {each.device} ({each.reason or each.state})" for each in found[:_MOST]]
    more = " and more" if len(found) > _MOST else ""
    return Check(
        name="stuck",
        level=Level.WARNING,
        summary=f"unfinished more than 5 min past their time: {', '.join(told)}{more}",
        advice=f"edgeagent commands trace {found[0].command}",
    )
