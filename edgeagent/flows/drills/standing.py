"""How the drills stand, for health: the last has failed, or is longer ago than the policy says (SPEC O6)."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from edgeagent.clock import EPOCH
from edgeagent.contracts.reports.drills import DrillKind, DrillStanding
from edgeagent.contracts.reports.health import Check, Level
from edgeagent.errors import StorageError
from edgeagent.flows.store_health import in_words
from edgeagent.store import drills
from edgeagent.store.database import Database
from edgeagent.store.drills import Held

_AHEAD: Final = timedelta(days=1)
_MICROSECOND: Final = timedelta(microseconds=1)


async def drill_standings(store: Database) -> list[DrillStanding] | None:
    """The last drill of each kind; None where the database cannot be read, which has a check of its own."""
    try:
        return [standing(held) for held in await store.read(drills.load)]
    except StorageError:
        return None


def standing(held: Held) -> DrillStanding:
    """A drill as it is told."""
    return DrillStanding(
        kind=held.kind,
        at=_moment(held.at),
        passed=held.passed,
        seconds=held.milliseconds / 1000,
        why=held.why,
        by=held.actor,
        good_at=None if held.good_at is None else _moment(held.good_at),
    )


def drill_checks(
    standings: Sequence[DrillStanding] | None, every: timedelta | None, now: datetime
) -> list[Check]:
    """Look at the drills.

    Args:
        standings: the last of each kind; None where they are not known.
        every: how often the policy wants them held; None where it does not say.
        now: the time of day.

    Returns:
        One check; none where the policy wants no drills and none has failed.
    """
    if standings is None:
        return []
    failed = {
        each.kind: f"{each.kind} failed {in_words(now - each.at)} ago: {each.why}"
        for each in standings
        if not each.passed
    }
    overdue = {} if every is None else _overdue({each.kind: each for each in standings}, every, now)
    # One that has failed is to be looked at, whenever it was.
    wrong = overdue | failed
    if wrong:
        return [
            Check(
                name="drills",
                level=Level.WARNING,
                summary="; ".join(wrong[kind] for kind in DrillKind if kind in wrong),
                advice=f"edgeagent drill {next(kind for kind in DrillKind if kind in wrong)}",
            )
        ]
    if every is None:
        return []
    oldest = min(each.at for each in standings)
    summary = f"all have passed; the oldest was held {in_words(now - oldest)} ago"
    return [Check(name="drills", level=Level.OK, summary=summary)]


def _overdue(known: dict[DrillKind, DrillStanding], every: timedelta, now: datetime) -> dict[DrillKind, str]:
    """Which drills are to be held again, and why."""
    found = {}
    for kind in DrillKind:
        good = known[kind].good_at if kind in known else None
        if good is None:
            found[kind] = f"{kind} was never held" if kind not in known else f"{kind} has never passed"
        elif now - good > every:
            found[kind] = (
                f"{kind} passed {in_words(now - good)} ago, the policy wants it every {in_words(every)}"
            )
        elif good - now > _AHEAD:
            # The clock was wrong then, or is now: that it was held tells nothing.
            found[kind] = f"{kind} is dated {good:%Y-%m-%d}, which is yet to come"
    return found


def _moment(microseconds: int) -> datetime:
    return EPOCH + microseconds * _MICROSECOND
