"""Strict reading of what people and tests write: files, control lines, settings.

Every mistake is an ``InputError`` that says where it is and what was wanted; an unknown field is a
mistake too, since a misspelt fault would otherwise be a test that tests nothing.
"""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
"""Any JSON value."""

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)", re.ASCII)
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

E = TypeVar("E", bound=StrEnum)


class InputError(Exception):
    """What was given cannot be used; the message says where and why."""


def duration(value: Json, where: str) -> timedelta:
    """Read a duration: ``250ms``, ``1.5s``, ``2m``, ``1h``, or a number of seconds.

    Raises:
        InputError: it is none of these, or negative.
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf"):
        return timedelta(seconds=value)
    if isinstance(value, str) and (match := _DURATION.fullmatch(value.strip())):
        return timedelta(seconds=float(match[1]) * _UNITS[match[2]])
    raise InputError(f"{where}: {value!r} is no duration such as 250ms, 1s or 2m")


def parse(text: str | bytes, where: str) -> Json:
    """Read JSON.

    Raises:
        InputError: it is not JSON.
    """
    try:
        value: Json = json.loads(text)
    except (ValueError, RecursionError) as why:
        raise InputError(f"{where}: not JSON ({why})") from why
    return value


def parse_file(path: Path) -> Json:
    """Read a JSON file, or a TOML file when its name ends in ``.toml``.

    Raises:
        InputError: it cannot be read, or is neither.
    """
    try:
        raw = path.read_bytes()
    except OSError as why:
        raise InputError(f"{path}: {why.strerror}") from why
    if path.suffix != ".toml":
        return parse(raw, str(path))
    try:
        value: Json = tomllib.loads(raw.decode())
    except ValueError as why:
        raise InputError(f"{path}: not TOML ({why})") from why
    return value


class Fields:
    """The fields of one object, each read once; ``done`` finds the ones nobody read.

    Args:
        value: what should be an object.
        where: its place, for the messages.

    Raises:
        InputError: it is no object.
    """

    def __init__(self, value: Json, where: str) -> None:
        if not isinstance(value, Mapping):
            raise InputError(f"{where}: an object is wanted, not {_kind(value)}")
        self._rest = dict(value)
        self.where = where

    def has(self, name: str) -> bool:
        """Whether the field is there and not yet read."""
        return name in self._rest

    def take(self, name: str) -> Json:
        """A required field of any type."""
        if name not in self._rest:
            raise InputError(f"{self.where}: {name!r} is missing")
        return self._rest.pop(name)

    def text(self, name: str, default: str | None = None) -> str:
        """A text; required when there is no default."""
        value = self._or_default(name, default)
        if not isinstance(value, str):
            raise self._wrong(name, "a text", value)
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        """A truth value."""
        value = self._or_default(name, default)
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false", value)
        return value

    def whole(self, name: str, default: int | None = None, *, least: int = 0) -> int:
        """A whole number of at least ``least``; required when there is no default."""
        value = self._or_default(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise self._wrong(name, f"a whole number from {least}", value)
        return value

    def number(self, name: str, default: float, *, least: float, most: float) -> float:
        """A number in a range, ends included."""
        value = self._or_default(name, default)
        if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
            raise self._wrong(name, f"a number from {least:g} to {most:g}", value)
        return float(value)

    def choice(self, name: str, of: type[E], default: E | None = None) -> E:
        """One of the words of an enum; required when there is no default."""
        value = self._or_default(name, default)
        try:
            return of(str(value))
        except ValueError:
            raise self._wrong(name, "one of " + ", ".join(of), value) from None

    def duration(self, name: str, default: timedelta) -> timedelta:
        """A duration; see the function of that name."""
        return duration(self._rest.pop(name), f"{self.where}.{name}") if name in self._rest else default

    def nested(self, name: str) -> "Fields":
        """An object; empty when it is not there."""
        return Fields(self._rest.pop(name, {}), f"{self.where}.{name}")

    def items(self, name: str) -> list["Fields"]:
        """A list of objects; empty when it is not there."""
        value = self._rest.pop(name, [])
        if not isinstance(value, list):
            raise self._wrong(name, "a list", value)
        return [Fields(item, f"{self.where}.{name}[{place}]") for place, item in enumerate(value)]

    def texts(self, name: str, default: tuple[str, ...]) -> tuple[str, ...]:
        """A list of exactly as many texts as the default has."""
        value = self._rest.pop(name, list(default))
        if isinstance(value, list) and len(value) == len(default):
            found = tuple(item for item in value if isinstance(item, str))
            if len(found) == len(default):
                return found
        raise self._wrong(name, f"a list of {len(default)} texts", value)

    def names(self) -> list[str]:
        """The names of the fields that nobody has read."""
        return list(self._rest)

    def done(self) -> None:
        """Refuse what nobody has read.

        Raises:
            InputError: names the unknown fields.
        """
        if self._rest:
            raise InputError(f"{self.where}: unknown {', '.join(sorted(self._rest))}")

    def _or_default(self, name: str, default: Json) -> Json:
        if name in self._rest:
            return self._rest.pop(name)
        if default is None:
            raise InputError(f"{self.where}: {name!r} is missing")
        return default

    def _wrong(self, name: str, wanted: str, value: Json) -> InputError:
        return InputError(f"{self.where}.{name}: {wanted} is wanted, not {value!r:.60}")


def _kind(value: Json) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a truth value"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case _:
            return "a list"
