"""Drills: which there are, what one has shown, and when each was held last."""

from enum import StrEnum

from pydantic import Field

from edgeagent.contracts.door import Contract
from edgeagent.contracts.scalars import Timestamp


class DrillKind(StrEnum):
    """What is tried."""

    DEAD_LETTER = "dead-letter"
    """A command that fails is kept, and runs again once its appliance is well."""
    LOCK = "lock"
    """One works an appliance at a time, and who has lost its lease is refused."""
    CRASH = "crash"
    """Work that is cut off goes on at the next start: nothing is lost, nothing done twice."""
    DUPLICATE = "duplicate"
    """What comes again has no further effect."""


class DrillRequest(Contract):
    """Asks for a drill to be held."""

    kind: DrillKind = Field(strict=False)


class DrillLine(Contract):
    """One thing that was tried.

    Attributes:
        done: what was done.
        expected: what was to follow.
        seen: what did.
        passed: whether that is the same.
    """

    done: str
    expected: str
    seen: str
    passed: bool


class DrillReport(Contract):
    """A drill that is over.

    Attributes:
        kind: which.
        passed: whether everything was as expected, and is on record.
        why: what was not; empty when it passed.
        at: when it began.
        seconds: how long it took.
        recorded: whether it is on record.
        lines: what was tried, in order; one that fails is the last.
    """

    kind: DrillKind = Field(strict=False)
    passed: bool
    why: str
    at: Timestamp
    seconds: float
    recorded: bool
    lines: list[DrillLine]


class DrillStanding(Contract):
    """When a drill was held last.

    Attributes:
        kind: which.
        at: when the last one began.
        passed: whether it passed.
        seconds: how long it took.
        why: why it did not pass; empty when it did.
        by: who had it held.
        good_at: when the last one began that passed; absent for never.
    """

    kind: DrillKind = Field(strict=False)
    at: Timestamp
    passed: bool
    seconds: float
    why: str
    by: str
    good_at: Timestamp | None = None


class DrillsReport(Contract):
    """The last drill of each kind that was ever held."""

    drills: list[DrillStanding]
