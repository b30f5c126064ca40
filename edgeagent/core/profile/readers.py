"""From a raw value to a reading's value: one closure for each way in which a family writes it.

A value that is there and cannot be used is ``UNUSABLE`` and counted; one that says "not known" (null,
a sentinel, a word to be ignored) is ``NOTHING`` and leaves no trace. So is an object or a list where a
single value is expected: it is another reading, not a broken one.

Numbers in text are plain decimals in ASCII: ``23.5``, ``-4``, ``1e3``; not ``23,5``, ``1_000``,
``0x17``, ``nan`` or digits of other scripts, all of which some parser would take.
"""

import re
import sys
from collections.abc import Callable
from enum import Enum
from functools import lru_cache
from typing import Final

from edgeagent.contracts.door import ReadingValue
from edgeagent.contracts.sources import ReadingKind, Value
from edgeagent.core.profile.units import conversion
from edgeagent.values import dataclass


class Outcome(Enum):
    """What a raw value is when it is no value."""

    NOTHING = "nothing"
    """Not known."""
    UNUSABLE = "unusable"
    """There, and not of the reading's kind or range."""


Read = Callable[[ReadingValue], Value | Outcome]

NOTHING: Final = Outcome.NOTHING
UNUSABLE: Final = Outcome.UNUSABLE
ANY_WORD: Final = "*"
"""Stands in a map of words for every other word."""
LARGEST: Final = sys.float_info.max
"""What is beyond is infinite."""

# So many digits that every match is a finite double, and an int64 when it has neither point nor exponent.
_DECIMAL: Final = re.compile(r"-?\d{1,18}(\.\d{1,18})?([eE][+-]?\d{1,2})?", re.ASCII)
_HEX: Final = re.compile(r"#?([0-9A-Fa-f]{6})([0-9A-Fa-f]{2}){0,2}", re.ASCII)
_PARTS: Final = re.compile(r"\d{1,3}(,\d{1,3}){2,4}", re.ASCII)
_BYTE: Final = range(256)
_RGB: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How the raw values of one source are read. A value itself: equal rules share one closure.

    Attributes:
        kind: what they become.
        low: the least number.
        high: the greatest number.
        words: the device's words with our values; None where there are none.
        others: what a word that is not among them is.
        unit: of the device's numbers; None for one that is not known, in which nothing can be read.
        target: the unit that they become.
        scale: what the device's numbers are multiplied by, first of all.
        offset: what is added then.
        numeric_text: whether a number may be text.
        unknown: raw values that mean "not known".
        longest: characters of a text.
        event: whether empty text is no happening.
    """

    kind: ReadingKind
    low: float = -LARGEST
    high: float = LARGEST
    words: tuple[tuple[str, Value], ...] | None = None
    others: str = "unusable"
    unit: str | None = ""
    target: str = ""
    scale: float = 1.0
    offset: float = 0.0
    numeric_text: bool = False
    unknown: tuple[int | float | str, ...] = ()
    longest: int = 64
    event: bool = False


@lru_cache(maxsize=2048)
def reader(rule: Rule) -> Read:
    """Make the closure that reads raw values by a rule.

    Raises:
        MalformedError: its unit cannot become the target.
    """
    if rule.unit is None:
        return _no_value
    read = _worded(rule) if rule.words is not None else _plain(rule)
    return _guarded(read, rule.unknown) if rule.unknown else read


def plain_number(text: str) -> int | float | None:
    """Read a number that is written as a plain decimal; None when it is none."""
    if _DECIMAL.fullmatch(text) is None:
        return None
    return float(text) if {".", "e", "E"} & set(text) else int(text)


def clean(text: str, longest: int) -> str:
    """Drop what a terminal would act on, NUL included, and cut the rest."""
    if len(text) <= longest and text.isprintable():
        return text
    # A text of a megabyte is looked at only as far as it can matter.
    return "".join(char for char in text[: 8 * longest] if char.isprintable())[:longest]


def color(raw: ReadingValue) -> str | None:
    """Read a colour: ``[r, g, b]``, ``RRGGBB`` with or without ``#`` and white parts, or ``r,g,b``."""
    if isinstance(raw, str):
        if (found := _HEX.fullmatch(raw)) is not None:
            return f"#{found[1].upper()}"
        parts: list[ReadingValue] = [int(part) for part in raw.split(",")] if _PARTS.fullmatch(raw) else []
    else:
        parts = raw if isinstance(raw, list) else []
    rgb = [part for part in parts[:_RGB] if type(part) is int and part in _BYTE]
    return "#{:02X}{:02X}{:02X}".format(*rgb) if len(rgb) == _RGB else None


def _plain(rule: Rule) -> Read:
    match rule.kind:
        case ReadingKind.BOOLEAN:
            return _boolean
        case ReadingKind.NUMBER:
            return _number(rule)
        case ReadingKind.INTEGER:
            return _integer(rule)
        case ReadingKind.TEXT:
            return _text(rule)
        case ReadingKind.COLOR:
            return _color


def _boolean(raw: ReadingValue) -> Value | Outcome:
    if raw is True or raw is False:
        return raw
    return _no_value(raw)


def _number(rule: Rule) -> Read:
    low, high, numeric_text = rule.low, rule.high, rule.numeric_text
    convert = conversion(rule.unit or rule.target, rule.target, scale=rule.scale, offset=rule.offset)

    def read(raw: ReadingValue) -> Value | Outcome:
        if type(raw) is float or type(raw) is int:
            value: float | None = raw
        elif numeric_text and isinstance(raw, str):
            value = plain_number(raw)
        else:
            return _no_value(raw)
        if value is not None and convert is not None:
            value = convert(value)
        return value if value is not None and low <= value <= high else UNUSABLE

    if convert is not None or numeric_text:
        return read

    def read_fast(raw: ReadingValue) -> Value | Outcome:
        if type(raw) is float or type(raw) is int:
            return raw if low <= raw <= high else UNUSABLE
        return _no_value(raw)

    return read_fast


def _integer(rule: Rule) -> Read:
    number = _number(rule)
    converts = rule.unit not in {"", rule.target} or rule.scale != 1 or rule.offset != 0

    def read(raw: ReadingValue) -> Value | Outcome:
        value = number(raw)
        if type(value) is not float:
            return value
        # What a conversion made is rounded; 40.5 as it was sent is not a whole number.
        return round(value) if converts or value.is_integer() else UNUSABLE

    return read


def _text(rule: Rule) -> Read:
    longest, event = rule.longest, rule.event

    def read(raw: ReadingValue) -> Value | Outcome:
        if isinstance(raw, str):
            text = clean(raw, longest)
            return NOTHING if event and not text else text
        # An id or a version that happens to be a number is still a name.
        return str(raw) if type(raw) is int else _no_value(raw)

    return read


def _color(raw: ReadingValue) -> Value | Outcome:
    found = color(raw)
    if found is None:
        return NOTHING if raw is None or isinstance(raw, dict) else UNUSABLE
    return found


def _worded(rule: Rule) -> Read:
    words = dict(rule.words or {})
    otherwise = words.pop(ANY_WORD, None)
    plain = _plain(rule)
    others = {"ignore": NOTHING, "unusable": UNUSABLE}.get(rule.others)

    def read(raw: ReadingValue) -> Value | Outcome:
        if isinstance(raw, bool):
            word = "true" if raw else "false"
        elif isinstance(raw, str | int):
            word = str(raw)
        else:
            return _no_value(raw)
        value = words.get(word, otherwise)
        if value is not None:
            return value
        return plain(raw) if others is None else others

    return read


def _guarded(read: Read, unknown: tuple[int | float | str, ...]) -> Read:
    def guarded(raw: ReadingValue) -> Value | Outcome:
        if isinstance(raw, int | float | str) and not isinstance(raw, bool) and raw in unknown:
            return NOTHING
        return read(raw)

    return guarded


def _no_value(raw: ReadingValue) -> Outcome:
    return NOTHING if raw is None or isinstance(raw, dict | list) else UNUSABLE
