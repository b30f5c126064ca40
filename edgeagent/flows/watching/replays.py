"""Whether somebody sends known commands again and again (SPEC T4, O4)."""

from datetime import timedelta
from typing import Final

from edgeagent.contracts.reports.health import Check, Level
from edgeagent.flows.tallies import Burst

LASTS: Final = timedelta(minutes=10)
"""How long after its last minute a burst is told."""


def replay_check(burst: Burst | None, boot: timedelta) -> Check:
    """Look at the last burst of repeats.

    Args:
        burst: that one; None since the start.
        boot: boot time.
    """
    if burst is None or boot - burst.at > LASTS:
        return Check(name="replays", level=Level.OK, summary="nobody floods the hub with known commands")
    return Check(
        name="replays",
        level=Level.WARNING,
        summary=f"{burst.count} repeats within a minute, signed by {burst.actor}; none was done again",
        advice="edgeagent audit list --kind command_replayed: a queue that forgets, or a recording",
    )
