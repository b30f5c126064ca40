"""Whether lanes are worked, and how far they are behind (SPEC Q7).

A worker's sign of life is its work: it renews the lock that it holds, and takes what is due.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from edgeagent.contracts.reports.health import Check, Level
from edgeagent.flows.watching.since import Since
from edgeagent.store import inbox_watch
from edgeagent.store.database import Snapshot
from edgeagent.store.inbox_row import Now
from edgeagent.store.inbox_watch import Line, Silent

IDLE: Final = timedelta(minutes=1)
"""How long something due may wait in a lane in which nobody works anything."""
BEHIND: Final = timedelta(minutes=5)
"""How long the first of a lane may wait for its turn."""
SILENT: Final = timedelta(seconds=30)
"""How long after its lease a lock may stand."""


class LaneWatch:
    """Looks at the lanes; remembers since when the first of each has been the first."""

    def __init__(self) -> None:
        self._first: Since[tuple[str, int]] = Since()

    def checks(self, db: Snapshot, boot: timedelta, now: Now) -> list[Check]:
        """Look at all of them.

        Args:
            db: the database.
            boot: boot time.
            now: the same, as locks count it.
        """
        lines = inbox_watch.queued(db, now)
        lasted = self._first.look([(line.lane, line.run) for line in lines], boot)
        waited = [(line, lasted[line.lane, line.run]) for line in lines]
        before = (boot - SILENT) // timedelta(milliseconds=1)
        silent = inbox_watch.silent(db, now, before=before)
        idle = [line for line, length in waited if length > IDLE and line.is_free and not line.running]
        behind = [line for line, length in waited if length > BEHIND]
        return [_workers(silent, idle), _behind(behind)]


def _workers(silent: Sequence[Silent], idle: Sequence[Line]) -> Check:
    told = [f"{each.holder} has not renewed its lock of {each.device}" for each in silent]
    told += [f"nobody works lane {line.lane}, where {line.command} is due" for line in idle]
    if not told:
        return Check(name="workers", level=Level.OK, summary="every worker shows signs of life")
    return Check(
        name="workers",
        level=Level.CRITICAL,
        summary="; ".join(told),
        advice="see the log of the agent and of its worker; a restart takes over what was left",
    )


def _behind(lines: Sequence[Line]) -> Check:
    if not lines:
        return Check(name="lanes", level=Level.OK, summary="no lane is behind")
    told = [f"{line.lane}: {line.number} are queued, first {line.command}" for line in lines]
    return Check(
        name="lanes",
        level=Level.WARNING,
        summary=f"behind for more than 5 min: {'; '.join(told)}",
        advice="edgeagent commands list; the policy's tier says how many of a lane are worked at once",
    )
