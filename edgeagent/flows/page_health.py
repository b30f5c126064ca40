"""Whether the pages of the database hang together, as far as a short look can tell (SPEC O5, R3)."""

from collections.abc import Sequence

from edgeagent.contracts.reports.health import Check, Level
from edgeagent.errors import StorageError
from edgeagent.store.pages import PageLook

_ADVICE = (
    "systemctl restart edgeagent: the file is set aside and a new epoch begins; or put a backup back: "
    "edgeagent backup restore"
)


def page_checks(look: PageLook) -> Sequence[Check]:
    """Look at some pages; blocks."""
    try:
        seen = look.look()
    except StorageError as why:
        return [Check(name="pages", level=Level.UNKNOWN, summary=str(why), advice="see the check database")]
    if seen.damage:
        summary = f"the database is damaged: {seen.damage}"
        return [Check(name="pages", level=Level.CRITICAL, summary=summary, advice=_ADVICE)]
    summary = f"{seen.tables} of {seen.of} tables looked at, and whole"
    return [Check(name="pages", level=Level.OK, summary=summary)]
