"""Did it work? Judged from what is heard, by rules that no profile can switch off.

An answer counts only if it is live, not our own, heard after the publish, and comes on a topic that the
device answers on: one that carries our number again, or one that only this device may write (SPEC M2).
What was published on a topic never confirms itself by coming back on it.

    hear(expectation, progress, message) -> progress      message by message, in receive order
    read_back(wish, expectation, message) -> Confirmed | Contradicted | None

Another value than the wished one is no refusal: it may be a report that was on its way before the
command arrived. Only what the profile lists as a refusal denies, and nothing denies an effect that has
already been seen. Silence is judged by whoever waits.
"""

from collections.abc import Mapping
from dataclasses import field, replace
from datetime import timedelta
from typing import Final

from edgeagent.contracts.door import ReadingValue
from edgeagent.contracts.policy import Level
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.sources import Value
from edgeagent.core.profile.decode import Decoded
from edgeagent.core.profile.paths import Get, same
from edgeagent.core.profile.predicates import Test
from edgeagent.core.profile.readers import clean
from edgeagent.ids import ReadingName, Topic
from edgeagent.values import dataclass

MOST_WORDS: Final = 200
"""Characters of what a device says of its refusal."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a reading shall be.

    Attributes:
        reading: which.
        value: what.
        tolerance: how far a number, or each part of a colour, may be off.
    """

    reading: ReadingName
    value: Value
    tolerance: float = 0.0

    def met_by(self, value: Value) -> bool:
        """Whether a value is the wished one."""
        wish = self.value
        if isinstance(wish, int | float) and isinstance(value, int | float):
            if isinstance(wish, bool) or isinstance(value, bool):
                return wish is value
            return abs(value - wish) <= self.tolerance
        if self.tolerance and isinstance(wish, str) and isinstance(value, str):
            return _close_colors(wish, value, self.tolerance)
        return same(value, wish)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A message that answers a question or command.

    Attributes:
        topic: where it comes.
        tests: what must hold of it.
        correlate: where it carries our number again; None where it does not.
        number: our number.
        level: what it proves.
    """

    topic: Topic
    tests: tuple[Test, ...]
    correlate: Get | None
    number: int
    level: Level = Level.ACCEPTED

    def fits(self, message: "Heard") -> bool:
        """Whether a message is this answer."""
        if message.topic != self.topic:
            return False
        document = message.decoded.document
        if self.correlate is not None and not _is_number(self.correlate(document), self.number):
            return False
        return all(test(document) for test in self.tests)


@dataclass(frozen=True, slots=True, kw_only=True)
class Echo:
    """A reading that shows the effect.

    Attributes:
        reading: which.
        topics: on which topics, all of them the device's own.
        wish: what it must be; None: any other value than before.
        level: what it proves.
    """

    reading: ReadingName
    topics: frozenset[str]
    wish: Wish | None
    level: Level

    def shown_by(self, value: Value, before: Value | None) -> bool:
        """Whether a value shows the effect. What was unknown cannot be seen to change."""
        if self.wish is not None:
            return self.wish.met_by(value)
        return before is not None and not same(value, before)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A message by which the device says no.

    Attributes:
        answer: which message it is.
        code: where its error code stands.
        reason: where its words stand.
        explain: our words for some of its codes.
    """

    answer: Answer
    code: Get | None = None
    reason: Get | None = None
    explain: Mapping[str, str] = field(default_factory=dict)

    def words(self, document: ReadingValue) -> str:
        """What the device says, in a line for people."""
        code = _line(self.code, document)
        said = self.explain.get(code) or _line(self.reason, document)
        return clean(f"{code}: {said}" if code and said else code or said, MOST_WORDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What may be heard after a message was sent, and what it would prove.

    Attributes:
        published: the topic that we publish on; nothing on it is an answer.
        answers: messages that prove something.
        echoes: readings that prove something.
        cycle: what it proves that the device goes away and comes back; None: nothing.
        refusals: messages that refute.
        within: how long it may take.
        settles: how long the effect takes once the best proof was heard; it can be read back then. None:
            when ``within`` is over.
    """

    published: Topic
    answers: tuple[Answer, ...] = ()
    echoes: tuple[Echo, ...] = ()
    cycle: Level | None = None
    refusals: tuple[Refusal, ...] = ()
    within: timedelta
    settles: timedelta | None = None

    @property
    def best(self) -> Level:
        """The highest level that can be heard."""
        levels = [answer.level for answer in self.answers] + [echo.level for echo in self.echoes]
        return max([*levels, self.cycle or Level.SENT], key=list(Level).index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """A message of the device, as it bears on a confirmation.

    Attributes:
        topic: where it came.
        decoded: what it says.
        retained: whether it is the broker's stored copy.
        after: whether it was heard after the publish.
        own: whether it is known to be our own.
    """

    topic: str
    decoded: Decoded
    retained: bool = False
    after: bool = True
    own: bool = False


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The effect is there.

    Attributes:
        level: how surely.
        value: what the reading shows; None where no reading was looked at.
    """

    level: Level
    value: Value | None = None


@dataclass(frozen=True, slots=True)
class Denied:
    """The device said no.

    Attributes:
        reason: as a code.
        words: what it said, cleaned.
    """

    reason: Reason
    words: str


@dataclass(frozen=True, slots=True)
class Contradicted:
    """Read back, the device shows another value.

    Attributes:
        value: which.
    """

    value: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a confirmation has come.

    Attributes:
        confirmed: the best proof so far.
        denied: the device's refusal.
        gone: whether the device went away after the publish.
        before: the last values known from before it.
    """

    confirmed: Confirmed | None = None
    denied: Denied | None = None
    gone: bool = False
    before: Mapping[ReadingName, Value] = field(default_factory=dict)


def hear(expectation: Expectation, progress: Progress, message: Heard) -> Progress:
    """Take one more message into account."""
    if message.own or message.retained or message.topic == expectation.published:
        return progress
    if not message.after:
        return replace(progress, before={**progress.before, **dict(message.decoded.readings)})
    progress = _hear_cycle(expectation, progress, message)
    for answer in expectation.answers:
        if answer.fits(message):
            progress = _raised(progress, Confirmed(answer.level))
    for echo in expectation.echoes:
        if message.topic in echo.topics:
            before = progress.before.get(echo.reading)
            for name, value in message.decoded.readings:
                if name == echo.reading and echo.shown_by(value, before):
                    progress = _raised(progress, Confirmed(echo.level, value))
    return _hear_refusals(expectation, progress, message)


def read_back(wish: Wish, expectation: Expectation, message: Heard) -> Confirmed | Contradicted | None:
    """Judge a message as the answer to reading the wished reading afresh.

    Returns:
        None when it is not the answer, or does not hold the reading.
    """
    if message.own or message.retained or not message.after:
        return None
    if not any(answer.fits(message) for answer in expectation.answers):
        return None
    values = [value for name, value in message.decoded.readings if name == wish.reading]
    if not values:
        return None
    value = values[-1]
    return Confirmed(Level.VERIFIED, value) if wish.met_by(value) else Contradicted(value)


def _hear_cycle(expectation: Expectation, progress: Progress, message: Heard) -> Progress:
    if expectation.cycle is None or message.decoded.availability is None:
        return progress
    if message.decoded.availability is False:
        return replace(progress, gone=True)
    return _raised(progress, Confirmed(expectation.cycle)) if progress.gone else progress


def _hear_refusals(expectation: Expectation, progress: Progress, message: Heard) -> Progress:
    confirmed = progress.confirmed
    if progress.denied is not None or (confirmed is not None and confirmed.level.reaches(Level.APPLIED)):
        return progress
    for refusal in expectation.refusals:
        if refusal.answer.fits(message):
            words = refusal.words(message.decoded.document)
            return replace(progress, denied=Denied(Reason.DEVICE_REFUSED, words))
    return progress


def _raised(progress: Progress, confirmed: Confirmed) -> Progress:
    """Keep the better proof; of equal ones the first that shows a value."""
    held = progress.confirmed
    if held is None or not held.level.reaches(confirmed.level):
        return replace(progress, confirmed=confirmed)
    shows_more = held.level is confirmed.level and held.value is None and confirmed.value is not None
    return replace(progress, confirmed=confirmed) if shows_more else progress


def _is_number(value: object, number: int) -> bool:
    # A family may give the number back as text; 1.0 and true are not 1.
    return (type(value) is int and value == number) or (isinstance(value, str) and value == str(number))


def _line(get: Get | None, document: ReadingValue) -> str:
    value = None if get is None else get(document)
    return str(value) if isinstance(value, str | int | float) else ""


def _close_colors(wish: str, value: str, tolerance: float) -> bool:
    parts = [(wish[at : at + 2], value[at : at + 2]) for at in (1, 3, 5)]
    try:
        return len(wish) == len(value) and all(
            abs(int(one, 16) - int(other, 16)) <= tolerance for one, other in parts
        )
    except ValueError:
        return False
