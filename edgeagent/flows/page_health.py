"""Whether the pages of the database hang together: a short look, and what a long one found (SPEC O5, R3)."""

from collections.abc import Sequence

from edgeagent.contracts.reports.health import Check, Level
from edgeagent.errors import StorageError
from edgeagent.flows.store_health import RESTORE
from edgeagent.store.pages import PageLook

_ADVICE = (
    "systemctl restart edgeagent: the file is set aside and a new epoch begins; or put a backup back: "
    "edgeagent backup restore"
)


def page_checks(look: PageLook, known: str = "") -> Sequence[Check]:
    """Look at some pages; blocks.

    Args:
        look: has too little time for a large table, and for what an index holds.
        known: the damage that the last look at all pages has found; empty for none.
    """
    if known:
        return [_damaged(known, RESTORE)]
    try:
        seen = look.look()
    except StorageError as why:
        return [Check(name="pages", level=Level.UNKNOWN, summary=str(why), advice="see the check database")]
    if seen.damage:
        return [_damaged(seen.damage, _ADVICE)]
    summary = f"{seen.tables} of {seen.of} tables looked at, and whole"
    return [Check(name="pages", level=Level.OK, summary=summary)]


def _damaged(damage: str, advice: str) -> Check:
    summary = f"the database is damaged: {damage}"
    return Check(name="pages", level=Level.CRITICAL, summary=summary, advice=advice)
