"""How many commands are open and how old the oldest is, by what they wait for (SPEC O5, Q7)."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from edgeagent.contracts.policy import Tier
from edgeagent.contracts.reports.health import Check, Level, Measure
from edgeagent.core.lifecycle import OPEN, State
from edgeagent.flows.store_health import in_words

LONG: Final = timedelta(days=7)
"""How old an open command may be before somebody should look; a list of updates waits for its windows."""
_ORDER: Final = sorted(OPEN)


def queue_check(pending: Mapping[tuple[Tier, State], tuple[int, int]], now: int) -> Check:
    """Look at the open commands.

    Args:
        pending: by lane and state, how many there are and when the oldest came, in microseconds since 1970.
        now: the same clock's present.
    """
    told, measures, oldest = [], [], timedelta(0)
    for state in _ORDER:
        found = [entry for (_, each), entry in pending.items() if each is state]
        count = sum(number for number, _ in found)
        came = min((moment for _, moment in found), default=now)
        age = timedelta(microseconds=max(0, now - came))
        measures += [
            Measure(name=f"commands_{state}", value=count),
            Measure(name=f"commands_{state}_age", value=age.total_seconds(), unit="s"),
        ]
        oldest = max(oldest, age)
        if count:
            told.append(f"{count} {state}, the oldest for {in_words(age)}")
    is_old = oldest > LONG
    return Check(
        name="queue",
        level=Level.WARNING if is_old else Level.OK,
        summary="; ".join(told) or "no command is open",
        advice="edgeagent commands list says what they wait for; edgeagent commands trace ID"
        if is_old
        else "",
        measures=measures,
    )
