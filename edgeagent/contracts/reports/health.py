"""What ``edgeagent health`` tells."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Literal, TypeVar

from pydantic import Field

from edgeagent.contracts.door import Contract
from edgeagent.contracts.reports.drills import DrillStanding
from edgeagent.contracts.scalars import Timestamp


class Level(StrEnum):
    """How a check stands, best first. Its place is the exit status of ``edgeagent health``."""

    OK = "ok"
    """Nothing to do."""
    WARNING = "warning"
    """It works; somebody should look."""
    CRITICAL = "critical"
    """Something does not work."""
    UNKNOWN = "unknown"
    """It cannot be told from here."""

    @property
    def exit_status(self) -> int:
        """0, 1, 2 or 3, as monitoring plugins have it."""
        return list(Level).index(self)


class Measure(Contract):
    """A number behind a check, as monitoring plugins write it (monitoring-plugins.org, 2.6 performance data).

    Attributes:
        name: of lower-case letters and underscores.
        value: in its unit; never NaN.
        unit: seconds, bytes, per cent, something that only grows, or nothing.
        warning: the range that is fine, like ``100:`` or ``80``; empty for none.
        critical: the range beyond which it is critical; empty for none.
    """

    name: str
    value: float
    unit: Literal["", "s", "B", "%", "c"] = ""
    warning: str = ""
    critical: str = ""

    def text(self) -> str:
        """As it stands behind the bar of a plugin's line."""
        number = f"{self.value:.3f}".rstrip("0").rstrip(".")
        return f"{self.name}={number}{self.unit};{self.warning};{self.critical}"


class Check(Contract):
    """One thing that was looked at.

    Attributes:
        name: of the check, for scripts.
        level: how it stands.
        summary: what was seen.
        advice: what to do next; empty when nothing is.
        measures: the numbers behind it.
    """

    name: str
    level: Level = Field(strict=False)
    summary: str
    advice: str = ""
    measures: list[Measure] = Field(default_factory=list)


C = TypeVar("C", bound=Check)


def worst(checks: Sequence[Check]) -> Level:
    """The worst level of some checks; CRITICAL is worse than UNKNOWN."""
    order = [Level.OK, Level.UNKNOWN, Level.WARNING, Level.CRITICAL]
    return max((check.level for check in checks), key=order.index, default=Level.UNKNOWN)


class HealthReport(Contract):
    """All checks, worst first.

    Attributes:
        at: when it was looked.
        checks: what was found.
        drills: the last drill of each kind that was ever held.
    """

    at: Timestamp
    checks: list[Check]
    drills: list[DrillStanding] = Field(default_factory=list)

    @property
    def level(self) -> Level:
        """The worst of the checks; CRITICAL is worse than UNKNOWN."""
        return worst(self.checks)


def worst_first(checks: Sequence[C]) -> list[C]:
    """Checks in the order in which people want to read them."""
    order = [Level.CRITICAL, Level.WARNING, Level.UNKNOWN, Level.OK]
    return sorted(checks, key=lambda check: order.index(check.level))
