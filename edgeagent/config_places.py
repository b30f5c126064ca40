"""Where each key of a TOML text stands: line and column, whatever way it is written.

``tomllib`` tells the values alone. This reads a text that ``tomllib`` has taken, and so may be simple: what
it does not understand it leaves out, and nobody depends on more than being sent near the place.

    [hub]                       ("hub",)
    id = "venue-7"              ("hub", "id")
    broker = { port = 1 }       ("broker",), ("broker", "port")
    [[rule]]                    ("rule", 0), then ("rule", 1)
"""

import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from edgeagent.values import dataclass

Step = str | int
Steps = tuple[Step, ...]

_BLANK: Final = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_INLINE_BLANK: Final = re.compile(r"[ \t]*")
_KEY: Final = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""")
_DOT: Final = re.compile(r"[ \t]*\.[ \t]*")
_STRING: Final = re.compile(
    r'"""(?:[^\\]|\\.)*?"""(?:"{1,2})?|\'\'\'.*?\'\'\'(?:\'{1,2})?|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'',
    re.DOTALL,
)
_BARE: Final = re.compile(r"[^,\]}#\n]*")


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands.

    Attributes:
        line: from 1.
        column: from 1.
        is_first: whether nothing but blanks stands before it on its line.
    """

    line: int
    column: int
    is_first: bool


@dataclass(frozen=True, slots=True)
class Places:
    """Where the keys of a text stand.

    Attributes:
        text: the text, its lines ended as Unix does.
        offsets: where a key or section begins, by its steps.
    """

    text: str
    offsets: Mapping[Steps, int]

    def find(self, steps: Steps) -> Place:
        """Where a key stands; else the nearest section that it belongs to; else the beginning."""
        for length in range(len(steps), 0, -1):
            offset = self.offsets.get(steps[:length])
            if offset is not None:
                return self.at(offset)
        return Place(1, 1, is_first=True)

    def at(self, offset: int) -> Place:
        """The line and column of an offset."""
        begin = self.text.rfind("\n", 0, offset) + 1
        before = self.text[begin:offset]
        return Place(self.text.count("\n", 0, offset) + 1, len(before) + 1, is_first=not before.strip(" \t["))


def places_of(text: str) -> Places:
    """Find every key of a text that is TOML."""
    scanner = _Scanner(text.replace("\r\n", "\n"))
    # What was found until then is of use all the same.
    with suppress(RecursionError, IndexError, ValueError):
        scanner.read()
    return Places(scanner.text, scanner.offsets)


class _Scanner:
    """Reads a text once from its beginning to its end."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.offsets: dict[Steps, int] = {}
        self._at = 0
        self._section: Steps = ()
        self._elements: dict[Steps, int] = {}

    def read(self) -> None:
        """Read all of it.

        Raises:
            ValueError: it is no TOML that we understand.
        """
        self._skip(_BLANK)
        while self._at < len(self.text):
            if self.text.startswith("[[", self._at):
                self._header(2)
            elif self.text[self._at] == "[":
                self._header(1)
            else:
                self._pair(self._section)
            self._skip(_BLANK)

    def _header(self, brackets: int) -> None:
        begin = self._at
        self._at += brackets
        self._skip(_INLINE_BLANK)
        steps = self._resolved(self._key(), is_element=brackets > 1)
        self._skip(_INLINE_BLANK)
        self._at += brackets
        self._note((), steps, begin)
        self.offsets[steps] = begin
        self._section = steps

    def _resolved(self, key: Steps, *, is_element: bool) -> Steps:
        """The steps of a header: a name that stands for several tables means the last of them."""
        steps: Steps = ()
        for number, part in enumerate(key):
            steps = (*steps, part)
            if is_element and number == len(key) - 1:
                self._elements[steps] = self._elements.get(steps, -1) + 1
            if steps in self._elements:
                steps = (*steps, self._elements[steps])
        return steps

    def _pair(self, section: Steps) -> None:
        begin = self._at
        steps = (*section, *self._key())
        self._skip(_INLINE_BLANK)
        if self.text[self._at] != "=":
            raise ValueError("no value")
        self._at += 1
        self._note(section, steps, begin)
        self._skip(_INLINE_BLANK)
        self._value(steps)

    def _note(self, section: Steps, steps: Steps, begin: int) -> None:
        for length in range(len(section) + 1, len(steps) + 1):
            self.offsets.setdefault(steps[:length], begin)

    def _key(self) -> Steps:
        parts: list[Step] = []
        while True:
            found = self._take(_KEY)
            quoted = found[:1] in {'"', "'"}
            parts.append(str(tomllib.loads(f"key = {found}")["key"]) if quoted else found)
            dot = _DOT.match(self.text, self._at)
            if dot is None:
                return tuple(parts)
            self._at = dot.end()

    def _value(self, steps: Steps) -> None:
        sign = self.text[self._at]
        if sign in "\"'":
            self._take(_STRING)
        elif sign == "[":
            self._array(steps)
        elif sign == "{":
            self._table(steps)
        else:
            self._take(_BARE)

    def _array(self, steps: Steps) -> None:
        self._at += 1
        number = 0
        self._skip(_BLANK)
        while self.text[self._at] != "]":
            element = (*steps, number)
            self.offsets.setdefault(element, self._at)
            self._value(element)
            number += 1
            self._skip(_BLANK)
            if self.text[self._at] == ",":
                self._at += 1
                self._skip(_BLANK)
        self._at += 1

    def _table(self, steps: Steps) -> None:
        self._at += 1
        self._skip(_BLANK)
        while self.text[self._at] != "}":
            self._pair(steps)
            self._skip(_BLANK)
            if self.text[self._at] == ",":
                self._at += 1
                self._skip(_BLANK)
        self._at += 1

    def _take(self, what: re.Pattern[str]) -> str:
        found = what.match(self.text, self._at)
        if found is None or found.end() == self._at:
            raise ValueError("not understood")
        self._at = found.end()
        return found[0]

    def _skip(self, what: re.Pattern[str]) -> None:
        found = what.match(self.text, self._at)
        self._at = self._at if found is None else found.end()
