"""What a drill has to tell: what was done, what was expected, what was seen."""

from dataclasses import field

from edgeagent.contracts.reports.drills import DrillLine
from edgeagent.values import dataclass


class UnmetError(Exception):
    """Something else was seen than was expected: the drill has failed."""


@dataclass(slots=True)
class Story:
    """The lines of a drill, in order."""

    lines: list[DrillLine] = field(default_factory=list)

    def tell(self, done: str, *, expected: str, seen: str) -> None:
        """Add a line.

        Raises:
            UnmetError: what was seen is not what was expected.
        """
        passed = seen == expected
        self.lines.append(DrillLine(done=done, expected=expected, seen=seen, passed=passed))
        if not passed:
            raise UnmetError(f"{done}: expected {expected}; seen {seen}")
