"""What was stopped by itself and what ended badly: checks of ``edgeagent health`` (SPEC O5)."""

from typing import Final

from edgeagent.contracts.reports.health import Check, Level
from edgeagent.core.blame import Blame
from edgeagent.store import breakers, dead_letters
from edgeagent.store.database import Snapshot

_MANY: Final = 10
_SHOWN: Final = 8


def breaker_checks(db: Snapshot) -> list[Check]:
    """Whether breakers are open, and whether dead letters wait."""
    return [_breakers(db), _letters(db)]


def _breakers(db: Snapshot) -> Check:
    found = [breaker for breaker, _ in breakers.standing(db)]
    if not found:
        return Check(name="breakers", level=Level.OK, summary="no breaker is open")
    told = [f"{each.scope.action} of {each.scope.origin[:_SHOWN]} ({each.why})" for each in found]
    more = f"; and {len(told) - _MANY} more" if len(told) > _MANY else ""
    return Check(
        name="breakers",
        level=Level.WARNING,
        summary=f"commands are not taken as usual: {'; '.join(told[:_MANY])}{more}",
        advice="edgeagent breakers list; edgeagent audit list",
    )


def _letters(db: Snapshot) -> Check:
    found = dead_letters.waiting(db, answered=False)
    total, suspicious = sum(found.values()), found.get(Blame.SUSPICIOUS, 0)
    if not total:
        return Check(name="dead_letters", level=Level.OK, summary="no dead letter waits")
    # A single failure is told to its issuer; many of them are for a person here.
    is_bad = suspicious or total >= _MANY
    return Check(
        name="dead_letters",
        level=Level.WARNING if is_bad else Level.OK,
        summary=f"{total} dead letters wait, {suspicious} of them suspicious",
        advice="edgeagent dead-letters list; then replay or discard them",
    )
