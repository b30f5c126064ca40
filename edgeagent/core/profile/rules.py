"""How the raw values of a source are read: its words, its unit, its range, for one device."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from edgeagent.contracts.sources import ReadingKind, SiblingUnit, Source, Texts, Value
from edgeagent.core.profile.parameters import Scope
from edgeagent.core.profile.readers import LARGEST, Read, Rule, plain_number, reader
from edgeagent.core.profile.templates import whole
from edgeagent.core.profile.units import Convert, Scale, converter
from edgeagent.errors import MalformedError

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


def readers_for(target: Target, source: Source, scope: Scope) -> dict[str, Read]:
    """The ways in which a source in a document is read: one for each unit that the document may name.

    Returns:
        By unit; under "" where the document names none.

    Raises:
        MalformedError: a word stands for two values.
    """
    if isinstance(source.unit, SiblingUnit):
        units = {*source.unit.words.values(), source.unit.otherwise}
        return {unit: reader(_rule(target, source, scope, unit)) for unit in units}
    return {"": reader(_rule(target, source, scope, source.unit or target.unit))}


def bare_reader(target: Target, source: Source, scope: Scope) -> Read:
    """How a source reads a bare payload, in which everything is text.

    Raises:
        MalformedError: a word stands for two values.
    """
    unit = target.unit if source.unit is None or isinstance(source.unit, SiblingUnit) else source.unit
    return reader(_rule(target, source, scope, unit, is_text=True))


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


def conversion(source: Source, unit: str, target_unit: str) -> Convert | None:
    """From the device's number to the reading's: first the scale, then the unit.

    Raises:
        MalformedError: the one unit cannot become the other.
    """
    convert = converter(unit, target_unit)
    if source.scale == 1 and source.offset == 0:
        return convert
    scale = Scale(source.scale, source.offset).forth
    return scale if convert is None else lambda value: convert(scale(value))


def _rule(target: Target, source: Source, scope: Scope, unit: str, *, is_text: bool = False) -> Rule:
    words = _words(target.kind, source.words if source.words is not None else target.words, scope)
    if words is None and is_text and target.kind is ReadingKind.BOOLEAN:
        words = dict(_TRUTHS)
    return Rule(
        kind=target.kind,
        low=target.low,
        high=target.high,
        words=words,
        others=source.others,
        convert=conversion(source, unit, target.unit),
        numeric_text=is_text or source.numeric_text,
        unknown=source.unknown,
        longest=target.longest,
        event=target.event,
    )


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
