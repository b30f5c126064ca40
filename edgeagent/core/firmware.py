"""An update of firmware: where it stands, and what follows from what is seen of the device (SPEC F4).

    (nothing) ──> staging ──> triggered ──> installing ──> soaking ──> done          succeeded
                   │   ^        │  │  └─────────────────────^ │ │
                   │   └────────┘  │         │                │ │
                   v               v         v                v │
                  kept <──────── the earlier version has stayed │                    failed
                 silent <─────── nobody tells which one runs <──┤                    unknown
                 astray <─────── neither stays <────────────────┘
                   │ ^
                   │ └─ unsent
                   ├──> reverting ──> reverted                                       rolled_back
                   └──────────┴─────> stuck                                          rollback_failed

The outcome is judged by the version that the device is read to run, again and again for a while, and by
nothing else: success is said before a device has booted, progress goes back, and a failure that is told is no
proof that nothing was written. A message that sets something off is recorded before it leaves and is never
sent again, unless it is known not to have left.

Pure: whoever drives it looks, asks what follows, and has that recorded; the hub looks for itself.
"""

from collections.abc import Mapping
from dataclasses import field, replace
from datetime import timedelta
from types import MappingProxyType
from typing import Final

from edgeagent.contracts.receipt import Outcome
from edgeagent.contracts.sources import Value
from edgeagent.contracts.update import Overdue, Runs, Stage
from edgeagent.core.updating import Course
from edgeagent.errors import RejectedError
from edgeagent.ids import ArtifactId, Digest
from edgeagent.values import dataclass

_LONGEST: Final = 64
_SELDOM: Final = timedelta(seconds=30)
_OFTEN: Final = timedelta(milliseconds=250)
_LOOKS: Final = 4
"""How often a device is asked within the time for which a version has to stay."""
_FEW: Final = 16
OUTCOMES: Final[Mapping[Stage, Outcome]] = MappingProxyType(
    {
        Stage.DONE: Outcome.SUCCEEDED,
        Stage.KEPT: Outcome.FAILED,
        Stage.SILENT: Outcome.UNKNOWN,
        Stage.REVERTED: Outcome.ROLLED_BACK,
        Stage.STUCK: Outcome.ROLLBACK_FAILED,
    }
)
"""How a command ends whose update has come to its end."""
NEXT: Final[Mapping[Stage, frozenset[Stage]]] = MappingProxyType(
    {
        Stage.STAGING: frozenset({Stage.STAGING, Stage.TRIGGERED, Stage.KEPT}),
        Stage.TRIGGERED: frozenset(
            {Stage.STAGING, Stage.INSTALLING, Stage.SOAKING, Stage.KEPT, Stage.SILENT, Stage.ASTRAY}
        ),
        Stage.INSTALLING: frozenset({Stage.SOAKING, Stage.KEPT, Stage.SILENT, Stage.ASTRAY}),
        Stage.SOAKING: frozenset({Stage.DONE, Stage.KEPT, Stage.SILENT, Stage.ASTRAY}),
        Stage.ASTRAY: frozenset({Stage.ASTRAY, Stage.REVERTING, Stage.STUCK}),
        Stage.REVERTING: frozenset({Stage.ASTRAY, Stage.REVERTED, Stage.STUCK}),
    }
    | {stage: frozenset[Stage]() for stage in OUTCOMES}
)
"""Which stages may follow which. ``triggered`` and ``reverting`` go back only where nothing has left."""
PREPARING: Final = frozenset({Stage.STAGING, Stage.ASTRAY})
"""Stages in which messages are sent that may be sent again."""
UNDER_WAY: Final = frozenset(
    {Stage.TRIGGERED, Stage.INSTALLING, Stage.SOAKING, Stage.ASTRAY, Stage.REVERTING}
)
"""Stages in which nobody else may have the device, whoever works the update."""
FETCHED_FORWARD: Final = frozenset({Stage.STAGING, Stage.TRIGGERED, Stage.INSTALLING})
"""Stages in which the device may come for the new file."""
FETCHED_BACK: Final = frozenset({Stage.ASTRAY, Stage.REVERTING})
"""Stages in which it may come for the earlier one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """What is recorded of an update.

    Attributes:
        stage: where it stands.
        artifact: the id of the file.
        sha256: of the file.
        earlier: the version before.
        wanted: the version of the file.
        percent: how far the device said that it was.
        runs: the version that it told last; empty for none.
    """

    stage: Stage
    artifact: ArtifactId
    sha256: Digest
    earlier: str
    wanted: str
    percent: int | None = None
    runs: str = ""

    @property
    def is_over(self) -> bool:
        """Whether nothing follows."""
        return self.stage in OUTCOMES

    def becomes(self, stage: Stage) -> "Update":
        """The same at another stage.

        Raises:
            RejectedError: it may not follow.
        """
        if stage not in NEXT[self.stage]:
            raise RejectedError(f"an update that is {self.stage} may not become {stage}")
        return replace(self, stage=stage)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Under which terms a device is updated.

    Attributes:
        soak: how long a version has to stay before it is believed.
        lasts: how long the update may take before that.
        steps: how many messages it takes; the last one sets it off.
        can_go_back: whether the earlier version is at hand and can be installed the same way.
    """

    soak: timedelta
    lasts: timedelta
    steps: int
    can_go_back: bool = False


@dataclass(frozen=True, slots=True)
class Served:
    """An update whose file is served as far as it is needed.

    Attributes:
        update: where it stands.
        terms: of it.
    """

    update: Update
    terms: Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What was seen of a device since its last message left.

    Attributes:
        course: what it said of that message.
        overdue: what it should have said by now.
        is_over: whether nothing more is expected to be said of it.
        runs: what it runs.
        version: the same in its words; empty for none.
        steady: for how long it has told so, from the first to the last time, without going away and without
            a sign that it goes on installing.
        waited: since the message left, or since the hub looks again.
        is_there: whether it is not known to be away.
    """

    course: Course = field(default_factory=Course)
    overdue: Overdue | None = None
    is_over: bool = False
    runs: Runs = Runs.UNKNOWN
    version: str = ""
    steady: timedelta = timedelta(0)
    waited: timedelta = timedelta(0)
    is_there: bool = True

    def has_stayed(self, runs: Runs, soak: timedelta) -> bool:
        """Whether it runs that, and has for long enough."""
        return self.runs is runs and self.steady >= soak

    @property
    def has_begun(self) -> bool:
        """Whether it was seen to do something about its message."""
        course = self.course
        return course.taken or course.done or course.percent is not None or course.gone

    @property
    def has_ended(self) -> bool:
        """Whether no more is to be expected of it, whatever it has come to."""
        course = self.course
        return course.denied is not None or course.back or self.is_over or self.overdue is not None


def pace(terms: Terms) -> timedelta:
    """How often a device is asked which version it runs: often enough to see one stay."""
    return min(max(terms.soak / _LOOKS, _OFTEN), _SELDOM)


def most_questions(terms: Terms) -> int:
    """How often whoever works an update asks it at most, if it goes there and back and takes its time."""
    return _FEW + 2 * ((terms.lasts + 3 * terms.soak) // pace(terms))


def version_told(value: Value | None) -> str:
    """A version as it is recorded and compared, of whatever a device tells; empty for none."""
    return "" if value is None else str(value)[:_LONGEST]


def following(stage: Stage, sight: Sight, terms: Terms) -> Stage:
    """What stage an update is at, by what is seen; the same where nothing follows yet.

    Args:
        stage: where it stood.
        sight: what is seen.
        terms: of the update.
    """
    match stage:
        case Stage.STAGING:
            return Stage.KEPT if _is_declined(sight) else stage
        case Stage.ASTRAY:
            return Stage.STUCK if not terms.can_go_back or _is_declined(sight) else stage
        case Stage.TRIGGERED | Stage.INSTALLING | Stage.SOAKING:
            return _forward(stage, sight, terms)
        case Stage.REVERTING:
            return _backward(stage, sight, terms)
        case _:
            return stage


def _is_declined(sight: Sight) -> bool:
    return sight.course.denied is not None or sight.overdue is not None


def _forward(stage: Stage, sight: Sight, terms: Terms) -> Stage:
    if sight.runs is Runs.WANTED and stage is not Stage.SOAKING:
        return Stage.SOAKING
    if sight.has_stayed(Runs.WANTED, terms.soak):
        return Stage.DONE
    is_late = sight.waited > terms.lasts + 2 * terms.soak
    if sight.has_ended or is_late or stage is Stage.SOAKING:
        if sight.has_stayed(Runs.EARLIER, terms.soak):
            return Stage.KEPT
        if sight.has_stayed(Runs.OTHER, terms.soak):
            return Stage.ASTRAY
    if is_late and not _may_still_stay(sight, terms, Runs.WANTED, Runs.EARLIER):
        # One that stays with nothing is not well; of one that is mute nothing is known.
        return Stage.SILENT if sight.runs is Runs.UNKNOWN else Stage.ASTRAY
    return Stage.INSTALLING if stage is Stage.TRIGGERED and sight.has_begun else stage


def _may_still_stay(sight: Sight, terms: Terms, *well: Runs) -> bool:
    """Whether it has come late to one with which it would be well, and is given the time to stay with it."""
    return sight.waited < terms.lasts + 3 * terms.soak and sight.runs in well


def _backward(stage: Stage, sight: Sight, terms: Terms) -> Stage:
    if sight.has_stayed(Runs.EARLIER, terms.soak):
        return Stage.REVERTED
    is_elsewhere = any(sight.has_stayed(runs, terms.soak) for runs in (Runs.WANTED, Runs.OTHER))
    is_late = sight.waited > terms.lasts + 2 * terms.soak and not _may_still_stay(sight, terms, Runs.EARLIER)
    return Stage.STUCK if is_late or (sight.has_ended and is_elsewhere) else stage
