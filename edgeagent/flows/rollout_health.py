"""Whether the update of a list is held up by a person or by bad ends: a check of ``edgeagent health``."""

from typing import Final

from edgeagent.contracts.reports.health import Check, Level
from edgeagent.core.rollout import Course
from edgeagent.store import rollouts
from edgeagent.store.database import Snapshot

_MANY: Final = 5


def rollout_check(db: Snapshot) -> Check:
    """Look at the lists of which anything is left to begin."""
    held_up = [
        (command, saying)
        for command, saying in rollouts.sayings(db).items()
        if saying.word.course is not Course.GOING and rollouts.tally(db, command).left
    ]
    if not held_up:
        return Check(name="rollouts", level=Level.OK, summary="no update of a list is held up")
    told = [f"{command} is {saying.word.course} ({saying.why})" for command, saying in held_up[:_MANY]]
    more = f"; and {len(held_up) - _MANY} more" if len(held_up) > _MANY else ""
    return Check(
        name="rollouts",
        level=Level.WARNING,
        summary=f"{'; '.join(told)}{more}",
        advice="edgeagent firmware status; then edgeagent firmware resume or abort",
    )
