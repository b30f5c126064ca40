"""How the raw values of a source are read: its words, its unit, its range, for one device."""

from collections.abc import Mapping
from typing import Final

from edgeagent.contracts.sources import ReadingKind, SiblingUnit, Source, Texts, Value
from edgeagent.core.profile.parameters import Scope
from edgeagent.core.profile.readers import LARGEST, Rule, plain_number
from edgeagent.core.profile.templates import whole
from edgeagent.errors import MalformedError
from edgeagent.values import dataclass

_TRUTHS: Final[Mapping[str, Value]] = {"true": True, "false": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What the raw values of its sources become.

    Attributes:
        base: the reading's name before the dot.
        kind: of its values.
        unit: of its values.
        words: of sources that have none.
        longest: characters of a text.
        low: the least number.
        high: the greatest number.
        event: whether it is a happening.
    """

    base: str
    kind: ReadingKind
    unit: str = ""
    words: Mapping[str, Texts] | None = None
    longest: int = 64
    low: float = -LARGEST
    high: float = LARGEST
    event: bool = False


def rule_for(target: Target, source: Source, scope: Scope) -> Rule:
    """How a source is read. In a bare payload everything is text.

    The unit that a message names is put in for each unit by whoever knows them.

    Raises:
        MalformedError: a word stands for two values.
    """
    is_bare = source.pick is None
    words = _words(target.kind, source.words if source.words is not None else target.words, scope)
    if words is None and is_bare and target.kind is ReadingKind.BOOLEAN:
        words = dict(_TRUTHS)
    return Rule(
        kind=target.kind,
        low=target.low,
        high=target.high,
        words=None if words is None else tuple(words.items()),
        others=source.others,
        unit=source.unit if isinstance(source.unit, str) else target.unit,
        target=target.unit,
        scale=source.scale,
        offset=source.offset,
        numeric_text=is_bare or source.numeric_text,
        unknown=source.unknown,
        longest=target.longest,
        event=target.event,
    )


def sibling(source: Source) -> SiblingUnit | None:
    """The unit that the message names; None where it names none."""
    return source.unit if isinstance(source.unit, SiblingUnit) else None


def value_of(kind: ReadingKind, text: str) -> Value:
    """Read a value as a profile writes it as a key.

    Raises:
        MalformedError: it is none of that kind.
    """
    if kind in {ReadingKind.TEXT, ReadingKind.COLOR}:
        return text
    value = _TRUTHS.get(text) if kind is ReadingKind.BOOLEAN else plain_number(text)
    if value is None or (kind is ReadingKind.INTEGER and not isinstance(value, int)):
        raise MalformedError(f"{text!r} is no {kind} value")
    return value


def _words(kind: ReadingKind, written: Mapping[str, Texts] | None, scope: Scope) -> dict[str, Value] | None:
    """The device's words for our values, with the words that parameters hold."""
    if written is None:
        return None
    words: dict[str, Value] = {}
    for ours, theirs in written.items():
        value = value_of(kind, ours)
        for word in theirs:
            named = whole(word)
            known = word if named is None else scope.values.get(named.name)
            if known is None:
                continue
            if words.setdefault(str(known), value) != value:
                raise MalformedError(f"the word {known!r} stands for two values")
    return words
