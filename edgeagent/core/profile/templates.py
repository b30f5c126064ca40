"""Topics and payloads with ``{name}`` in them.

A value's type says where it may stand (SPEC V5). In a topic: a segment, integer, MAC address or choice
within one level; a topic or prefix as whole levels; text and truth nowhere. In a payload a text that is
exactly ``{name}`` is replaced by the value; a longer text is what it says, braces and all, so that
nothing can be built out of pieces.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from pydantic import JsonValue

from edgeagent import ids
from edgeagent.contracts.profile import ParameterType
from edgeagent.core.profile.paths import PLACEHOLDER, Named, Values
from edgeagent.errors import MalformedError
from edgeagent.values import dataclass

Kinds = Mapping[str, ParameterType]
"""The types of what placeholders stand for."""

_WITHIN_A_LEVEL: Final = frozenset(
    {ParameterType.SEGMENT, ParameterType.INTEGER, ParameterType.MAC, ParameterType.CHOICE}
)
_WHOLE_LEVELS: Final = frozenset({ParameterType.TOPIC, ParameterType.PREFIX})


@dataclass(frozen=True, slots=True)
class Template:
    """A topic or topic filter with placeholders.

    Attributes:
        parts: literal texts and names, in order.
    """

    parts: tuple[str | Named, ...]

    @property
    def placeholders(self) -> frozenset[str]:
        """The names that stand in it."""
        return frozenset(part.name for part in self.parts if isinstance(part, Named))

    def check(self, kinds: Kinds) -> None:
        """See that every name is known and may stand where it stands.

        Raises:
            MalformedError: one is not.
        """
        for place, part in enumerate(self.parts):
            if not isinstance(part, Named):
                continue
            kind = kinds.get(part.name)
            if kind is None:
                raise MalformedError(f"nothing is called {{{part.name}}} here")
            if kind in _WHOLE_LEVELS:
                self._check_whole(place, part.name)
            elif kind not in _WITHIN_A_LEVEL:
                raise MalformedError(f"{{{part.name}}} is of type {kind}, which stands in no topic")

    def _check_whole(self, place: int, name: str) -> None:
        before = self.parts[place - 1] if place else "/"
        after = self.parts[place + 1] if place + 1 < len(self.parts) else "/"
        fits = isinstance(before, str) and before.endswith("/")
        if not fits or not isinstance(after, str) or not after.startswith("/"):
            raise MalformedError(f"{{{name}}} stands for whole levels: put it between slashes")

    def render(self, values: Values) -> str | None:
        """Put the values in; None when one of them has none."""
        texts = []
        for part in self.parts:
            if isinstance(part, Named):
                value = values.get(part.name)
                if value is None:
                    return None
                texts.append(str(value))
            else:
                texts.append(part)
        return "".join(texts)


@lru_cache(maxsize=1024)
def template(text: str) -> Template:
    """Read a topic with placeholders.

    Raises:
        MalformedError: a brace names nothing.
    """
    parts: list[str | Named] = []
    at = 0
    for found in PLACEHOLDER.finditer(text):
        if found.start() > at:
            parts.append(text[at : found.start()])
        parts.append(Named(found[1]))
        at = found.end()
    if at < len(text):
        parts.append(text[at:])
    if any(isinstance(part, str) and ("{" in part or "}" in part) for part in parts):
        raise MalformedError(f"a brace that names nothing: {text!r}")
    return Template(tuple(parts))


def check_topic(text: str, kinds: Kinds) -> None:
    """See that a text makes a topic for every value that its names may have.

    Raises:
        MalformedError: it does not.
    """
    topic = template(text)
    topic.check(kinds)
    ids.topic(PLACEHOLDER.sub("x", text))


def check_filter(text: str, kinds: Kinds) -> None:
    """See that a text makes a topic filter.

    Raises:
        MalformedError: it does not.
    """
    template(text).check(kinds)
    ids.topic_filter(PLACEHOLDER.sub("x", text))


def whole(text: str) -> Named | None:
    """The name that a text is, when it is exactly ``{name}``."""
    found = PLACEHOLDER.fullmatch(text)
    return None if found is None else Named(found[1])


def names_in(tree: JsonValue) -> frozenset[str]:
    """The names that stand as leaves of a JSON tree."""
    if isinstance(tree, str):
        named = whole(tree)
        return frozenset() if named is None else frozenset({named.name})
    if isinstance(tree, dict):
        return frozenset(name for child in tree.values() for name in names_in(child))
    if isinstance(tree, list):
        return frozenset(name for child in tree for name in names_in(child))
    return frozenset()


def fill(tree: JsonValue, values: Mapping[str, JsonValue]) -> JsonValue:
    """Replace the leaves that are names; a value keeps its type."""
    if isinstance(tree, str):
        named = whole(tree)
        return tree if named is None else values[named.name]
    if isinstance(tree, dict):
        return {key: fill(child, values) for key, child in tree.items()}
    if isinstance(tree, list):
        return [fill(child, values) for child in tree]
    return tree
