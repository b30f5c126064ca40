"""Whether the isolated worker comes for its commands, for health (SPEC Q7)."""

from datetime import timedelta
from functools import partial
from typing import Final

from edgeagent.contracts.policy import Tier
from edgeagent.contracts.reports.health import Check, Level
from edgeagent.flows.wary import Presence
from edgeagent.store import lines
from edgeagent.store.database import Database

PATIENCE: Final = timedelta(minutes=1)
"""How long commands may wait while no worker asks for them."""
_ADVICE: Final = 'systemctl status edgeagent-worker, or [worker] high = "inside"'


async def worker_check(
    store: Database, presence: Presence | None, now: timedelta, started: timedelta
) -> list[Check]:
    """Look whether somebody works the commands of the high tier; nothing where the agent does it itself.

    Args:
        store: the database.
        presence: whether workers come; None where there are to be none.
        now: boot time.
        started: that of the agent's start.
    """
    if presence is None:
        return []
    if presence.waiting:
        return [_check(Level.OK, "waits for commands of the high tier")]
    away = now - (presence.seen or started)
    queued = await store.read(partial(lines.queued, lane=Tier.HIGH))
    if away <= PATIENCE:
        return [_check(Level.OK, "is at work, or was there a moment ago")]
    if not queued:
        return [_check(Level.WARNING, f"no worker has come for {_minutes(away)}", _ADVICE)]
    summary = f"{queued} commands of the high tier wait, and no worker has come for {_minutes(away)}"
    return [_check(Level.CRITICAL, summary, _ADVICE)]


def _minutes(length: timedelta) -> str:
    return f"{length // timedelta(minutes=1)} min"


def _check(level: Level, summary: str, advice: str = "") -> Check:
    return Check(name="worker", level=level, summary=summary, advice=advice)
