"""Printing checks: one line that monitoring plugins can show, then each check with what to do next."""

from collections.abc import Sequence

from edgeagent.cli.printing import level, safe
from edgeagent.contracts.reports.health import Check, Level


def print_checks(title: str, worst: Level, checks: Sequence[Check], *, coloured: bool) -> None:
    """Print checks under a line with the first that is not ok."""
    wrong = [check for check in checks if check.level is not Level.OK]
    first = f"{wrong[0].name}: {wrong[0].summary}" if wrong else f"{len(checks)} checks"
    # What stands behind the bar are numbers for such plugins.
    numbers = " ".join(measure.text() for check in checks for measure in check.measures)
    line = f"{title} {worst.upper()} - {safe(first).replace('|', '/')}"
    print(f"{line} | {numbers}" if numbers else line)
    for check in checks:
        print(f"{level(check.level, coloured=coloured)} {check.name.ljust(18)} {safe(check.summary)}")
        if check.advice:
            print(f"{'':27} next: {safe(check.advice)}")
