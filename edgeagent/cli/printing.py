"""Printing: tables, JSON, colours, and text that a terminal cannot act on."""

import io
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pydantic import JsonValue

from edgeagent.contracts.door import Contract
from edgeagent.contracts.reports.health import Level
from edgeagent.core.short_names import shortened

_COLOURS: Final = {Level.OK: "32", Level.WARNING: "33", Level.CRITICAL: "31", Level.UNKNOWN: "35"}


def survive_other_encodings() -> None:
    """Have what the terminal's encoding lacks printed as an escape, rather than end in the middle.

    What comes in another encoding is read as halves of characters (PEP 383), which are a part of nothing.
    """
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def safe(text: str) -> str:
    """Escape whatever is not printable, such as an escape or a bidirectional override (SPEC V5)."""
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


def show_json(answer: Contract | Mapping[str, JsonValue]) -> None:
    """Print an answer as JSON, ASCII only."""
    facts = answer.model_dump(mode="json") if isinstance(answer, Contract) else dict(answer)
    print(json.dumps(facts, ensure_ascii=True, indent=2))


def short_names(names: Iterable[str], *, wide: bool) -> Mapping[str, str]:
    """How names are printed in a list: as short as tells them apart, or whole."""
    return {name: name for name in names} if wide else shortened(names)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under a head, in columns."""
    cleaned = [[safe(cell) for cell in row] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(head, *cleaned, strict=True)]
    for row in (head, *cleaned):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def is_coloured(choice: str) -> bool:
    """Whether to colour: as ``--color`` says, or where a terminal shows it and nobody objects.

    NO_COLOR is what no-color.org has agreed on; a terminal of the kind ``dumb`` knows no colours.
    """
    if choice != "auto":
        return choice == "always"
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return wanted and sys.stdout.isatty()


def level(standing: Level, *, coloured: bool) -> str:
    """A level, as wide as each other."""
    word = standing.upper().ljust(8)
    return f"\x1b[{_COLOURS[standing]}m{word}\x1b[0m" if coloured else word


def complain(error: str, advice: str = "") -> None:
    """Say what went wrong, and what to type next."""
    print(f"edgeagent: {safe(error)}", file=sys.stderr)
    advise(advice)


def advise(advice: str) -> None:
    """Say what to type next, if there is something."""
    if advice:
        print(f"  next: {safe(advice)}", file=sys.stderr)
