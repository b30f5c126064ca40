"""Paths: how a profile points into a document.

    $   $.a.b[0]['x y']   $.*.Temperature   $.params['switch:{id}'].output

``{name}`` stands for a value that is put into the key when the device is compiled: after the path has been
parsed, so that no value can make another path of it.
"""

import re
from collections.abc import Callable, Mapping
from enum import Enum
from functools import lru_cache
from typing import Final

from edgeagent.contracts.door import ReadingValue
from edgeagent.errors import MalformedError
from edgeagent.values import dataclass

MOST_STEPS: Final = 8


class Missing(Enum):
    """Stands for what a document does not have; JSON's null is there and is null."""

    MISSING = "missing"


class Wild(Enum):
    """The step that stands for every member."""

    WILD = "*"


Step = str | int | Wild
"""A key of an object, a place in a list, or every member of either."""
Get = Callable[[ReadingValue], ReadingValue | Missing]
Values = Mapping[str, object]
"""What placeholders stand for."""

_MISSING: Final = Missing.MISSING
PLACEHOLDER: Final = re.compile(r"\{([a-z][a-z0-9_]*)\}", re.ASCII)
_STEP: Final = re.compile(
    r"\.(?P<key>\*|[A-Za-z0-9_{}-]{1,64})|\[(?P<place>\d{1,3})\]|\['(?P<quoted>[^'\[\]]{1,64})'\]", re.ASCII
)


@dataclass(frozen=True, slots=True)
class Named:
    """A place in a text that stands for a value."""

    name: str


@dataclass(frozen=True, slots=True)
class Path:
    """A place in a document.

    Attributes:
        steps: from the root on.
    """

    steps: tuple[Step, ...]

    @property
    def placeholders(self) -> frozenset[str]:
        """The names that stand in its keys."""
        return frozenset(
            name for step in self.steps if isinstance(step, str) for name in PLACEHOLDER.findall(step)
        )

    @property
    def is_wild(self) -> bool:
        """Whether it names many places."""
        return Wild.WILD in self.steps

    def bind(self, values: Values) -> "Path":
        """Put values into the keys. A key stays one key, whatever the value."""
        return Path(tuple(filled(step, values) if isinstance(step, str) else step for step in self.steps))

    def under(self, root: "Path") -> "Path":
        """The same place, told from where ``root`` begins."""
        return Path(root.steps + self.steps)


@lru_cache(maxsize=2048)
def path(text: str) -> Path:
    """Read a path.

    Raises:
        MalformedError: it is none, too long, or has more than one ``*``.
    """
    found, rest = read_path(text)
    if rest:
        raise MalformedError(f"not a path: {text!r}")
    return found


def getter(place: Path) -> Get:
    """Make the closure that looks a place up. A path with ``*`` finds nothing."""
    steps = place.steps
    if not steps:
        return _itself
    if len(steps) == 1 and isinstance(steps[0], str):
        return _key_getter(steps[0])

    def get(document: ReadingValue) -> ReadingValue | Missing:
        value: ReadingValue = document
        for step in steps:
            if isinstance(step, str):
                if type(value) is not dict or step not in value:
                    return _MISSING
                value = value[step]
            elif isinstance(step, int):
                if type(value) is not list or step >= len(value):
                    return _MISSING
                value = value[step]
            else:
                return _MISSING
        return value

    return get


def same(left: object, right: object) -> bool:
    """Whether two values are equal. 1 is no truth, and 1.0 is 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left == right
    return type(left) is type(right) and left == right


def _itself(document: ReadingValue) -> ReadingValue:
    return document


def _key_getter(key: str) -> Get:
    def get(document: ReadingValue) -> ReadingValue | Missing:
        return document.get(key, _MISSING) if type(document) is dict else _MISSING

    return get


def read_path(text: str) -> tuple[Path, str]:
    """Read the path at the beginning of a text.

    Returns:
        The path, and what follows it.

    Raises:
        MalformedError: there is none.
    """
    if not text.startswith("$"):
        raise MalformedError(f"a path begins with $: {text!r}")
    steps: list[Step] = []
    at = 1
    while (found := _STEP.match(text, at)) is not None:
        at = found.end()
        if found["place"] is not None:
            steps.append(int(found["place"]))
        elif found["key"] == "*":
            steps.append(Wild.WILD)
        else:
            steps.append(_checked_key(found["key"] or found["quoted"], text))
    if len(steps) > MOST_STEPS or steps.count(Wild.WILD) > 1:
        raise MalformedError(f"at most {MOST_STEPS} steps and one *: {text!r}")
    return Path(tuple(steps)), text[at:]


def _checked_key(key: str, text: str) -> str:
    if "{" in (left := PLACEHOLDER.sub("", key)) or "}" in left:
        raise MalformedError(f"a brace that names nothing: {text!r}")
    return key


def filled(text: str, values: Values) -> str:
    """Put values in the place of their names."""
    return PLACEHOLDER.sub(lambda found: str(values[found[1]]), text) if "{" in text else text
