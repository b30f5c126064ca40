"""Which devices of a signed list may be updated now (SPEC F5).

    no window open ──> window          somebody paused it ──> paused        too many ended badly ──> stopped
    the first are not done ──> canary  as many as may be are under way ──> limit      else: it may begin

Judged anew each time from the rows of the command, so that a restart changes nothing. What is under way is
never held back. A bad end among the first stops the rest: they were to show that it goes well.
"""

from datetime import timedelta
from enum import StrEnum
from typing import Final

from edgeagent.contracts.firmware import FirmwareRecipe
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.rollout import FirmwareRule
from edgeagent.values import dataclass

HOLDING: Final = frozenset(
    {
        Reason.ROLLOUT_WINDOW,
        Reason.ROLLOUT_CANARY,
        Reason.ROLLOUT_LIMIT,
        Reason.ROLLOUT_PAUSED,
        Reason.ROLLOUT_STOPPED,
    }
)
"""Why a device of a list is not begun yet."""


class Course(StrEnum):
    """What was said of a rollout last."""

    GOING = "going"
    """It goes on."""
    PAUSED = "paused"
    """A person paused it."""
    STOPPED = "stopped"
    """Too many ended badly; a person has to look."""


@dataclass(frozen=True, slots=True)
class Word:
    """The last word on a rollout.

    Attributes:
        course: whether it goes on.
        forgiven: how many bad ends a person has seen who let it go on.
    """

    course: Course = Course.GOING
    forgiven: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How the devices of one command stand, each by its last run.

    Attributes:
        succeeded: how many have the new version.
        bad: how many failed, were rolled back or could not be, or ended nobody knows how.
        under_way: how many are being updated.
        queued: how many may be begun and are not.
        left: how many are not begun in all.
        never: how many ended without having been begun.
    """

    succeeded: int = 0
    bad: int = 0
    under_way: int = 0
    queued: int = 0
    left: int = 0
    never: int = 0


@dataclass(frozen=True, slots=True)
class Room:
    """How many more may begin; none for a reason."""

    number: int
    why: Reason | None = None


def is_too_bad(rule: FirmwareRule, tally: Tally, word: Word) -> bool:
    """Whether so many have ended badly that the rest is not begun."""
    new = tally.bad - word.forgiven
    is_tried = tally.succeeded >= rule.canary
    return new > 0 and (not is_tried or (rule.stop_after is not None and new >= rule.stop_after))


def places_for_updates(concurrency: int) -> int:
    """How many of a lane's places updates may have: with more than one, one stays free of them.

    An update takes minutes to hours, for which nothing else of its lane may have to wait.
    """
    return max(1, concurrency - 1)


def room(rule: FirmwareRule, tally: Tally, word: Word, *, at_hub: int, places: int | None = None) -> Room:
    """How many devices of a command may begin now, the windows aside.

    Args:
        rule: of the policy.
        tally: of the command.
        word: the last one on it.
        at_hub: how many devices are being updated at this hub, by whatever command.
        places: how many may be at once by the lane; None where that is not looked at.
    """
    if word.course is Course.PAUSED:
        return Room(0, Reason.ROLLOUT_PAUSED)
    if word.course is Course.STOPPED or is_too_bad(rule, tally, word):
        return Room(0, Reason.ROLLOUT_STOPPED)
    number = tally.left
    if tally.succeeded < rule.canary:
        number = min(number, rule.canary - tally.succeeded - tally.under_way)
        if number <= 0:
            return Room(0, Reason.ROLLOUT_CANARY)
    for limit in (rule.parallel, places):
        if limit is not None:
            number = min(number, limit - at_hub)
            if number <= 0:
                return Room(0, Reason.ROLLOUT_LIMIT)
    return Room(number)


def reckoned(rule: FirmwareRule, recipe: FirmwareRecipe | None) -> timedelta:
    """How long an update is reckoned to last: by the rule; else all that the profile and the rule allow it.

    It is over when the new version has stayed.
    """
    if rule.longest is not None or recipe is None:
        return rule.longest or timedelta(0)
    allowed = sum((step.within + (step.returns or timedelta(0)) for step in recipe.steps), recipe.settles)
    return min(allowed, rule.patience) + rule.soak
