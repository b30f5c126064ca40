"""How far is an update? Judged from what is heard, step by step, by rules that no profile can switch off.

    sent > taken > progress … > done > gone > back          any of them may be missing; denied ends it

    follow(step, course, message) -> course                 message by message, in receive order
    overdue(step, course, …) -> Overdue | None              what silence means, for whoever waits
    Verification.of(value) -> Running                       the only proof: the version that runs

"Done" is what the device says before it boots, so that it is no proof (SPEC F4). Progress may go back, be
told again out of a bridge's memory, or come late: only a change of it is a sign of life.
"""

import math
from dataclasses import replace
from datetime import timedelta
from enum import StrEnum
from typing import Final, assert_never

from edgeagent.contracts.door import ReadingValue
from edgeagent.contracts.firmware import VersionScheme
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.sources import Value
from edgeagent.contracts.update import Overdue
from edgeagent.core.confirmation import Answer, Denied, Heard, Refusal
from edgeagent.core.profile.paths import Get
from edgeagent.core.profile.predicates import Test
from edgeagent.core.versions import Order, compare, is_of
from edgeagent.ids import ReadingName, Topic
from edgeagent.values import dataclass

_WHOLE: Final = 100.0
_LONGEST: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class Meter:
    """A message that tells how far it has come.

    Attributes:
        topic: where it comes.
        tests: what must hold of it.
        percent: where the part that is done stands.
        remaining: where the seconds that are left stand.
    """

    topic: Topic
    tests: tuple[Test, ...]
    percent: Get | None
    remaining: Get | None

    def read(self, message: Heard) -> tuple[float | None, timedelta | None]:
        """What a message tells; nothing when it is another, or holds no such numbers."""
        document = message.decoded.document
        if message.topic != self.topic or not all(test(document) for test in self.tests):
            return None, None
        percent, left = _number(self.percent, document), _number(self.remaining, document)
        return (
            percent if percent is not None and percent <= _WHOLE else None,
            timedelta(seconds=left) if left is not None and left <= _LONGEST.total_seconds() else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateStep:
    """One message of an update, and what may be heard after it.

    Attributes:
        name: of the profile.
        topic: where to.
        payload: what. Never retained, expires at the deadline (SPEC M3).
        taken: messages that say that it is begun.
        done: messages that say that it is done.
        refusals: messages that refute it.
        meters: messages that tell how far it has come.
        stall: how long it may be taken without any progress; None for no bound.
        within: how long it may take until it is done, or taken where nothing says that it is done.
        returns: how long the device may then take to go away and come back; None: it stays.
    """

    name: str
    topic: Topic
    payload: bytes
    taken: tuple[Answer, ...]
    done: tuple[Answer, ...]
    refusals: tuple[Refusal, ...]
    meters: tuple[Meter, ...]
    stall: timedelta | None
    within: timedelta
    returns: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """How far a step has come.

    Attributes:
        taken: whether the device said that it has begun, or showed it by progress.
        done: whether it said that it is done.
        denied: its refusal, or the failure that it told.
        percent: what it told last.
        remaining: what it told last.
        signs: how often there was a sign of life; a stall is counted from the last one.
        gone: whether it went away after the message was sent.
        back: whether it came back from that.
    """

    taken: bool = False
    done: bool = False
    denied: Denied | None = None
    percent: float | None = None
    remaining: timedelta | None = None
    signs: int = 0
    gone: bool = False
    back: bool = False

    def is_over(self, step: UpdateStep) -> bool:
        """Whether there is nothing more to wait for. What runs then is to be asked."""
        if self.denied is not None or self.back:
            return True
        if step.returns is not None:
            return False
        return self.done if step.done else self.taken


class Running(StrEnum):
    """What a version that is told means for an update."""

    WANTED = "wanted"
    """The one that was to be installed."""
    INTERIM = "interim"
    """One that goes on to another by itself."""
    OTHER = "other"
    """Another one."""
    UNKNOWN = "unknown"
    """None that can be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The last step of every update: which version runs?

    Attributes:
        reading: that tells it.
        version: that is wanted.
        scheme: of both.
        interim: texts which in a version say that more is to come.
        settles: how long it may take to be told.
    """

    reading: ReadingName
    version: str
    scheme: VersionScheme
    interim: tuple[str, ...]
    settles: timedelta

    def can_be_told(self) -> bool:
        """Whether the wanted version has the shape of the family's, and is none on the way to another."""
        return is_of(self.scheme, self.version) and not any(mark in self.version for mark in self.interim)

    def of(self, value: Value | None) -> Running:
        """What a value of the reading means."""
        text = "" if value is None or isinstance(value, bool | float) else str(value)
        if text and any(mark in text for mark in self.interim):
            return Running.INTERIM
        if not is_of(self.scheme, text):
            return Running.UNKNOWN
        return Running.WANTED if compare(text, self.version) is Order.SAME else Running.OTHER


def follow(step: UpdateStep, course: Course, message: Heard) -> Course:
    """Take one more message into account."""
    if message.own or message.retained or not message.after or message.topic == step.topic:
        return course
    course = _measured(step, _moved(course, message), message)
    if any(answer.fits(message) for answer in step.taken):
        course = replace(course, taken=True, signs=course.signs + (not course.taken))
    if any(answer.fits(message) for answer in step.done):
        course = replace(course, taken=True, done=True, signs=course.signs + (not course.done))
    if course.denied is None and not course.done:
        for refusal in step.refusals:
            if refusal.answer.fits(message):
                words = refusal.words(message.decoded.document)
                return replace(course, denied=Denied(Reason.DEVICE_REFUSED, words))
    return course


def overdue(
    step: UpdateStep, course: Course, *, since_sent: timedelta, since_sign: timedelta
) -> Overdue | None:
    """What silence means.

    Args:
        step: that was sent.
        course: how far it has come.
        since_sent: how long ago it was sent.
        since_sign: how long ago ``course.signs`` changed last, or it was sent.
    """
    if course.is_over(step):
        return None
    if course.done or (course.taken and not step.done and step.returns is not None):
        # What is left is the way down and up.
        longest = step.within if step.returns is None or not course.done else step.returns
        return Overdue.AWAY if since_sign > longest else None
    if since_sent > step.within:
        return Overdue.LATE if course.taken else Overdue.UNANSWERED
    if course.taken and step.stall is not None and since_sign > step.stall:
        return Overdue.STALLED
    return None


def _moved(course: Course, message: Heard) -> Course:
    match message.decoded.availability:
        case None:
            return course
        case False:
            return replace(course, gone=True)
        case True:
            return replace(course, back=True) if course.gone else course
        case never:
            assert_never(never)


def _measured(step: UpdateStep, course: Course, message: Heard) -> Course:
    for meter in step.meters:
        percent, left = meter.read(message)
        if percent is None and left is None:
            continue
        # What a bridge repeats out of its memory is no progress.
        told = (percent, left) if percent is None else percent
        held = (course.percent, course.remaining) if percent is None else course.percent
        return replace(
            course, taken=True, percent=percent, remaining=left, signs=course.signs + (told != held)
        )
    return course


def _number(get: Get | None, document: ReadingValue) -> float | None:
    value = None if get is None else get(document)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) and value >= 0 else None
