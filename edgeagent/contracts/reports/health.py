"""What ``edgeagent health`` tells."""

from enum import StrEnum

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


class Check(Contract):
    """One thing that was looked at.

    Attributes:
        name: of the check, for scripts.
        level: how it stands.
        summary: what was seen.
        advice: what to do next; empty when nothing is.
    """

    name: str
    level: Level = Field(strict=False)
    summary: str
    advice: str = ""


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
        order = [Level.OK, Level.UNKNOWN, Level.WARNING, Level.CRITICAL]
        return max((check.level for check in self.checks), key=order.index, default=Level.UNKNOWN)
