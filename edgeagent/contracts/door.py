"""The one door through which JSON from outside comes in.

What passes is strict UTF-8 without a byte order mark, of bounded size and depth, without duplicate
keys, NaN, Infinity, lone surrogates, or numbers that neither SQLite nor the next parser would hold
(beyond int64, overflowing, or underflowing to zero). Bytes become values here, once; whoever
verifies and whoever executes look at the same object (RFC 8259 leaves all of these open, and parsers
disagree about each).

``parse`` refuses the whole text for a bad number. ``parse_readings`` puts ``Unusable.NUMBER`` in its
place, since one broken sensor does not silence the device's others.

7 microseconds for a payload of 200 bytes; msgspec and orjson are faster and take duplicate keys.
"""

import json
import re
from collections.abc import Callable
from enum import Enum
from math import isinf
from typing import Final, TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from edgeagent.errors import MalformedError


class Unusable(Enum):
    """Stands where a device sent something that is no usable value."""

    NUMBER = "number"
    """NaN, an infinity, beyond int64, or too small to tell from zero."""


ReadingValue = dict[str, "ReadingValue"] | list["ReadingValue"] | str | int | float | bool | Unusable | None
"""What ``parse_readings`` returns."""

DEPTH: Final = 16
"""The deepest nesting that any contract or device family needs is 7."""

_INT64_DIGITS: Final = 20
_INT64: Final = range(-(2**63), 2**63)
_SHOWN: Final = 40
_BOM: Final = b"\xef\xbb\xbf"
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)

C = TypeVar("C", bound="Contract")
V = TypeVar("V")


class Contract(BaseModel):
    """A value that crosses a boundary: strict, frozen, without unknown fields (SPEC V1)."""

    # Built at first use: the agent never needs half of its contracts, and each costs memory.
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", defer_build=True)


def _unique(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise MalformedError("a key stands twice in one object")
    return fields


def _refused_constant(text: str) -> float:
    raise MalformedError(f"{text} is not JSON")


def _strict_int(text: str) -> int:
    # The length comes first: int() of 5,000 digits raises, and of 4,000 takes its time.
    if len(text) > _INT64_DIGITS or (value := int(text)) not in _INT64:
        raise MalformedError("a whole number beyond 64 bits")
    return value


def _strict_float(text: str) -> float:
    value = float(text)
    if isinf(value) or (value == 0.0 and not _is_zero(text)):
        raise MalformedError("a number beyond a double's range")
    return value


def _is_zero(text: str) -> bool:
    mantissa = text.lower().partition("e")[0]
    return not mantissa.strip("-0.")


def _reading_constant(_text: str) -> Unusable:
    return Unusable.NUMBER


def _reading_int(text: str) -> int | Unusable:
    if len(text) > _INT64_DIGITS or (value := int(text)) not in _INT64:
        return Unusable.NUMBER
    return value


def _reading_float(text: str) -> float | Unusable:
    value = float(text)
    if isinf(value) or (value == 0.0 and not _is_zero(text)):
        return Unusable.NUMBER
    return value


_STRICT: Final = json.JSONDecoder(
    object_pairs_hook=_unique,
    parse_constant=_refused_constant,
    parse_int=_strict_int,
    parse_float=_strict_float,
)
_READINGS: Final = json.JSONDecoder(
    object_pairs_hook=_unique,
    parse_constant=_reading_constant,
    parse_int=_reading_int,
    parse_float=_reading_float,
)

_AGAIN: Final = json.JSONEncoder(ensure_ascii=False)
"""Writes out what was parsed; made once, since making it takes as long as writing a command."""


def parse(raw: bytes, *, limit: int) -> JsonValue:
    """Turn bytes into a JSON value, or refuse them.

    Args:
        raw: the bytes as they came.
        limit: the most bytes that are looked at.

    Raises:
        MalformedError: see the module's docstring; the message names the fault.
    """
    value: JsonValue = _decoded(_STRICT.decode, raw, limit)
    return value


def parse_readings(raw: bytes, *, limit: int) -> ReadingValue:
    """Turn a device's bytes into values, with ``Unusable.NUMBER`` where a number is none.

    Raises:
        MalformedError: as for ``parse``, but for numbers.
    """
    value: ReadingValue = _decoded(_READINGS.decode, raw, limit)
    return value


def decode(contract: type[C], raw: bytes, *, limit: int) -> C:
    """Turn bytes into a contract.

    The contract is validated from the value that ``parse`` returned, written out again, so that no
    second parser ever sees the sender's bytes.

    Raises:
        MalformedError: the bytes are not JSON, or not this contract; the message names the first
            few faults by their place. Of the values it repeats only what should have been an
            identifier, quoted and cut.
    """
    value = parse(raw, limit=limit)
    try:
        return contract.model_validate_json(_AGAIN.encode(value))
    except ValidationError as why:
        raise MalformedError(faults(why)) from why


def encode(contract: Contract) -> bytes:
    """Write a contract as JSON: compact, UTF-8, fields in their declared order."""
    return contract.model_dump_json(exclude_none=True).encode()


def faults(why: ValidationError, *, most: int = 4) -> str:
    """Say what is wrong with a value, by place; ``decode`` says what of the value is repeated."""
    lines = [
        f"{'.'.join(_step(step) for step in error['loc']) or 'value'}: "
        + error["msg"].removeprefix("Value error, ")
        for error in why.errors(include_url=False, include_context=False, include_input=False)
    ]
    more = f" (+{len(lines) - most} more)" if len(lines) > most else ""
    return "; ".join(lines[:most]) + more


def _step(step: int | str) -> str:
    """One step of a place. A field that nobody knows may bear any name."""
    text = str(step)
    return text if text.isprintable() and len(text) <= _SHOWN else ascii(text[:_SHOWN])


def _decoded(decoder: Callable[[str], V], raw: bytes, limit: int) -> V:
    if len(raw) > limit:
        raise MalformedError(f"{len(raw)} bytes, of which {limit} are allowed")
    if raw.startswith(_BOM):
        raise MalformedError("a byte order mark is not JSON")
    try:
        text = raw.decode()
    except UnicodeDecodeError as why:
        raise MalformedError("not UTF-8") from why
    # Brackets inside strings count too: the scan that knows them apart is for the few texts above.
    if raw.count(b"[") + raw.count(b"{") > DEPTH and _depth(raw) > DEPTH:
        raise MalformedError(f"nested deeper than {DEPTH}")
    try:
        value = decoder(text)
    except (json.JSONDecodeError, RecursionError) as why:
        raise MalformedError("not JSON") from why
    if b"\\u" in raw:
        _refuse_surrogates(value)
    return value


def _depth(raw: bytes) -> int:
    """The deepest nesting of arrays and objects, strings left aside."""
    deepest = depth = 0
    for bracket in _STRING.sub(b"", raw):
        if bracket in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif bracket in b"]}":
            depth -= 1
    return deepest


def _refuse_surrogates(value: object) -> None:
    """An escape may name half a character, which no UTF-8 can carry onwards."""
    try:
        json.dumps(value, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError as why:
        raise MalformedError("half a surrogate pair") from why
