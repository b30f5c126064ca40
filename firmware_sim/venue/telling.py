"""How the venue is told to whoever watches: chapters, one live line of counts, statements.

On a terminal the live line is written over and what is false is red; anywhere else there are plain lines
and no colour.
"""

import os
import shutil
import textwrap
from collections.abc import Mapping
from typing import Final, TextIO

from firmware_sim.venue.verdict import Statement

_WIDTH: Final = 100
_NARROW: Final = 20
_QUOTED: Final = 160
_ERASE: Final = "\r\x1b[K"
_RED: Final = "31"
_GREEN: Final = "32"
_YELLOW: Final = "33"
_BOLD: Final = "1"
_WORDS: Final[Mapping[bool | None, tuple[str, str]]] = {
    True: ("true", _GREEN),
    False: ("FALSE", _RED),
    None: ("?", _YELLOW),
}


class Teller:
    """Tells.

    Args:
        out: where to.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._terminal = out.isatty() and os.environ.get("TERM") != "dumb"
        self._colours = self._terminal and "NO_COLOR" not in os.environ
        self._shown = ""

    def title(self, text: str) -> None:
        """Begin something new."""
        self._write(f"\n{self._coloured(text, _BOLD)}\n")

    def say(self, text: str) -> None:
        """Tell what is done, or what was seen."""
        width = max(min(_WIDTH, self._columns()) - 3, _NARROW)
        for line in textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False):
            self._write(f"   {line}\n")

    def quote(self, printed: str) -> None:
        """Show what a program has printed, each line as far as there is room."""
        width = max(min(_QUOTED, self._columns()) - 6, _NARROW) if self._terminal else _QUOTED - 6
        for line in printed.splitlines():
            text = line.rstrip()
            self._write(f"     {text if len(text) <= width else text[: width - 1] + '…'}\n")

    def show(self, line: str) -> None:
        """Print a line as it is: something to copy."""
        self._write(f"{line}\n")

    def counts(self, text: str) -> None:
        """Show how the counts stand; a terminal sees them move, others see them once, by ``settle``."""
        if text != self._shown and self._terminal:
            self._out.write(f"{_ERASE}   {text[: self._columns() - 4]}")
            self._out.flush()
        self._shown = text

    def settle(self) -> None:
        """Leave the last counts standing."""
        shown, self._shown = self._shown, ""
        if not shown:
            return
        if self._terminal:
            self._out.write(_ERASE)
        self._out.write(f"   {shown}\n")
        self._out.flush()

    def statement(self, said: Statement) -> None:
        """Tell a statement of the verdict."""
        word, colour = _WORDS[said.holds]
        self._write(f"   {self._coloured(word.ljust(5), colour)}  {said.words}  [{said.numbers}]\n")

    def close(self, text: str, *, good: bool) -> None:
        """Tell how it all ended."""
        self._write(f"{self._coloured(text, _GREEN if good else _RED)}\n")

    def _write(self, text: str) -> None:
        if self._terminal and self._shown:
            self._out.write(_ERASE)  # the live line makes room and comes again with the next count
            self._shown = ""
        self._out.write(text)
        self._out.flush()

    def _coloured(self, text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._colours else text

    def _columns(self) -> int:
        return shutil.get_terminal_size((_WIDTH, 24)).columns if self._terminal else _WIDTH
