"""Printing for people: tables, relative times, and text that a terminal cannot act on."""

import argparse
import io
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, NoReturn

from typing_extensions import override

from edgeagent.contracts.door import Contract
from edgeagent.contracts.reports.health import Level

_COLOURS: Final = {Level.OK: "32", Level.WARNING: "33", Level.CRITICAL: "31", Level.UNKNOWN: "35"}
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))


class Parser(argparse.ArgumentParser):
    """Reads words as argparse does, but takes no half words, and repeats none to the terminal unescaped."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - argparse's own, passed on
        super().__init__(**settings, allow_abbrev=False)

    @override
    def error(self, message: str) -> NoReturn:
        """Say what was wrong with the words, and exit with 2."""
        super().error(safe(message))


def survive_narrow_terminals() -> None:
    """Have what the terminal's encoding lacks printed as an escape, rather than end in the middle."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def safe(text: str) -> str:
    """Escape whatever is not printable, such as an escape or a bidirectional override (SPEC V5)."""
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


def show_json(answer: Contract) -> None:
    """Print an answer as JSON, ASCII only."""
    print(json.dumps(answer.model_dump(mode="json"), ensure_ascii=True, indent=2))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under a head, in columns."""
    cleaned = [[safe(cell) for cell in row] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(head, *cleaned, strict=True)]
    for row in (head, *cleaned):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def ago(seconds: float | None) -> str:
    """A length of time before now, in one unit."""
    if seconds is None:
        return "never"
    for size, unit in _UNITS:
        if seconds >= 2 * size:
            return f"{int(seconds // size)} {unit} ago"
    return f"{int(seconds)} s ago"


def since(moment: datetime | None) -> str:
    """How long ago a moment was, by this machine's clock."""
    if moment is None:
        return "-"
    return ago(max(0.0, (datetime.now(UTC) - moment).total_seconds()))


def level(standing: Level) -> str:
    """A level, coloured on a terminal."""
    word = standing.upper().ljust(8)
    return f"\x1b[{_COLOURS[standing]}m{word}\x1b[0m" if sys.stdout.isatty() else word


def complain(error: str, advice: str = "") -> None:
    """Say what went wrong, and what to type next."""
    print(f"edgeagent: {safe(error)}", file=sys.stderr)
    if advice:
        print(f"  next: {safe(advice)}", file=sys.stderr)
