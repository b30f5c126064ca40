"""Medians of several runs, beside those of the reference and what they are meant to be, as a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

Runs = Sequence[Mapping[str, float]]
"""The figures of each run, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure.

    Attributes:
        name: under which scenarios tell it.
        title: what it is, with its unit.
        digits: after the point.
        least: what it is to be at least.
        most: what it is to be at most.
        least_of_reference: what share of the reference's it is to be at least.
        most_of_reference: what multiple of the reference's it is to be at most.
    """

    name: str
    title: str
    digits: int = 0
    least: float | None = None
    most: float | None = None
    least_of_reference: float | None = None
    most_of_reference: float | None = None

    def target(self) -> str:
        """What it is to be, in words; empty when it is only told."""
        if self.least is not None:
            return f"≥ {self.least:g}"
        if self.most is not None:
            return f"≤ {self.most:g}"
        if self.least_of_reference is not None:
            return f"≥ {self.least_of_reference:g} ref"
        return "" if self.most_of_reference is None else f"≤ {self.most_of_reference:g} ref"

    def is_met(self, agent: float, reference: float | None) -> bool | None:
        """Whether it is as it is to be; None when that is not known."""
        if self.least is not None:
            return agent >= self.least
        if self.most is not None:
            return agent <= self.most
        if reference is None:
            return None
        if self.least_of_reference is not None:
            return agent >= self.least_of_reference * reference
        return None if self.most_of_reference is None else agent <= self.most_of_reference * reference


def table(rows: Sequence[Row], agent: Runs, reference: Runs) -> str:
    """Draw what was measured; rows of which nothing was are left out."""
    lines: list[tuple[str, ...]] = [("figure", "agent", "min-max", "reference", "ratio", "target", "met")]
    for row in rows:
        ours = [run[row.name] for run in agent if row.name in run]
        theirs = [run[row.name] for run in reference if row.name in run]
        if ours:
            lines.append(_line(row, ours, theirs))
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            text.ljust(width) if column == 0 else text.rjust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _line(row: Row, ours: Sequence[float], theirs: Sequence[float]) -> tuple[str, ...]:
    def shown(value: float) -> str:
        return f"{value:,.{row.digits}f}"

    agent, reference = median(ours), median(theirs) if theirs else None
    met = row.is_met(agent, reference)
    return (
        row.title,
        shown(agent),
        f"{shown(min(ours))}-{shown(max(ours))}" if len(ours) > 1 else "",
        "" if reference is None else shown(reference),
        f"{agent / reference:.2f}" if reference else "",
        row.target(),
        "" if met is None else "yes" if met else "no",
    )
