"""What appliances did about an update, by their own journal: set off, booted, how many at once.

    set off ──> boots … ──> the last boot      or gone for good

An appliance is at it from the message that it begins at until the last boot that follows.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from firmware_sim.journal import Line, What
from firmware_sim.venue.verdict import Statement

_BEGINS: Final = "/Upgrade"
_UP: Final = "up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What an appliance did.

    Attributes:
        begun: the numbers of the journal's lines at which it was told to begin.
        over: the number of the line of its last boot since; None while there is none.
        runs: the version that booted then; empty while none has.
    """

    begun: Sequence[int]
    over: int | None = None
    runs: str = ""


def courses(journal: Sequence[Line]) -> dict[str, Course]:
    """What each appliance did that was told to begin, by id."""
    begun: dict[str, list[int]] = {}
    boots: dict[str, tuple[int, str]] = {}
    for line in journal:
        if line.what is What.HEARD and str(line.details.get("topic", "")).endswith(_BEGINS):
            begun.setdefault(line.appliance, []).append(line.number)
        elif line.what is What.BOOTED and line.appliance in begun and line.details.get("outcome") == _UP:
            boots[line.appliance] = (line.number, str(line.details.get("version")))
    return {
        appliance: Course(begun=numbers)
        if appliance not in boots
        else Course(begun=numbers, over=boots[appliance][0], runs=boots[appliance][1])
        for appliance, numbers in begun.items()
    }


def most_at_once(seen: Mapping[str, Course]) -> int:
    """How many were at it at once at most."""
    now = most = 0
    for _, step in sorted(_turns(seen)):
        now += step
        most = max(most, now)
    return most


def runs_after(seen: Mapping[str, Course], appliance: str, version: str, *, name: str) -> Statement:
    """Whether an appliance was set off once, and runs that version since."""
    course = seen.get(appliance, Course(begun=()))
    return Statement(
        f"{name} was set off once, and what booted then is {version}.",
        f"set off {len(course.begun)} x, runs {course.runs or 'nothing new'}",
        len(course.begun) == 1 and course.runs == version,
    )


def not_too_many(seen: Mapping[str, Course], limit: int) -> Statement:
    """Whether never more than so many were at it at once."""
    most = most_at_once(seen)
    return Statement(f"Never more than {limit} were at it at once.", f"at most {most}", 0 < most <= limit)


def first_alone(seen: Mapping[str, Course], first: int) -> Statement:
    """Whether the others began when so many had booted what is new."""
    order = sorted(seen.values(), key=lambda course: course.begun[0])
    ends = [course.over for course in order[:first]]
    others = [course.begun[0] for course in order[first:]]
    holds = bool(others) and all(end is not None and end < min(others) for end in ends)
    words = f"The others began after the first {'one' if first == 1 else first} had booted."
    return Statement(words, f"{len(ends)} before {len(others)}", holds)


def _turns(seen: Mapping[str, Course]) -> Iterator[tuple[int, int]]:
    for course in seen.values():
        yield course.begun[0], 1
        if course.over is not None:
            yield course.over, -1
