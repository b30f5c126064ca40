"""The text of the configuration and what overrides it, before anything of it is judged.

    environment   EDGEAGENT_BROKER_PORT=8883       goes before
    file          [broker] port = 1883             which goes before
    default

A variable is named after its key. One that begins like ours and names no key is a mistake, as it is in the
file: who mistypes it would wait for an effect that never comes.
"""

import codecs
import os
import re
import stat
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Final

from edgeagent.config_keys import Key
from edgeagent.config_places import Places, Steps, places_of
from edgeagent.errors import ConfigurationError
from edgeagent.values import dataclass

CONFIG_BYTES: Final = 256 * 1024
"""How large the file may be."""

_PREFIX: Final = "EDGEAGENT_"
# Where the file is, which tools there are: what is said to other parts of us.
_NOT_KEYS: Final = frozenset({"EDGEAGENT_ALLOW_DOWNGRADE", "EDGEAGENT_CONFIG", "EDGEAGENT_PYTHON"})
_WIDE: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_AT: Final = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read.

    Attributes:
        path: the file.
        fields: its values, with those of the environment in their place.
        places: where they stand in the file.
        variables: the environment's names of those that it gave.
    """

    path: Path
    fields: Mapping[str, object]
    places: Places
    variables: Mapping[Steps, str] = field(default_factory=dict)

    def where(self, steps: Steps) -> str:
        """Where a key stands, for people: ``/etc/edgeagent/config.toml:4``, or a variable's name."""
        if steps in self.variables:
            return f"${self.variables[steps]}"
        place = self.places.find(steps)
        return f"{self.path}:{place.line}" + ("" if place.is_first else f":{place.column}")


def read(path: Path, keys: Sequence[Key], environment: Mapping[str, str]) -> Reading:
    """Read the file and the environment.

    Raises:
        ConfigurationError: the file cannot be read, anybody may change it, or it is no TOML; or a variable is
            none of ours.
    """
    return read_text(path, text_of(path), keys, environment)


def read_text(path: Path, text: str, keys: Sequence[Key], environment: Mapping[str, str]) -> Reading:
    """Read a text as if the file held it, and the environment; raises as ``read`` does."""
    fields = _fields_of(path, text)
    variables = _override(fields, keys, environment)
    return Reading(path, fields, places_of(text), variables)


def text_of(path: Path) -> str:
    """The text of the file.

    Raises:
        ConfigurationError: it cannot be read, anybody may change it, it is too large, or no text.
    """
    return _text_of(path, _bytes_of(path))


def _bytes_of(path: Path) -> bytes:
    try:
        # Something that never ends, such as a FIFO, must not hold up a start.
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISCHR(mode):
                raise ConfigurationError(f"{path} is no file")
            raw = file.read(CONFIG_BYTES + 1)
    except OSError as why:
        raise ConfigurationError(f"cannot read {path}: {why.strerror}") from why
    if stat.S_ISREG(mode) and mode & stat.S_IWOTH:
        # It says whose policy is trusted.
        raise ConfigurationError(f"anybody may change {path}: chmod o-w {path}")
    if len(raw) > CONFIG_BYTES:
        raise ConfigurationError(f"{path} is larger than {CONFIG_BYTES} bytes")
    return raw


def _text_of(path: Path, raw: bytes) -> str:
    if raw.startswith(_WIDE):
        raise ConfigurationError(f"{path}:1: not TOML: it is written in UTF-16; save it as UTF-8")
    if raw.startswith(codecs.BOM_UTF8):
        raise ConfigurationError(
            f"{path}:1: not TOML: it begins with a byte order mark; save it as UTF-8 without one"
        )
    if b"\x00" in raw:
        line = raw.count(b"\n", 0, raw.index(b"\x00")) + 1
        raise ConfigurationError(f"{path}:{line}: not TOML: it holds a NUL; put back a copy of the file")
    try:
        return raw.decode()
    except UnicodeDecodeError as why:
        line = raw.count(b"\n", 0, why.start) + 1
        raise ConfigurationError(f"{path}:{line}: not TOML: not UTF-8; save it as UTF-8") from why


def _fields_of(path: Path, text: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as why:
        told = str(why)
        found = _AT.search(told)
        line = len(text.splitlines()) or 1
        column = ""
        if found is not None and found[1] is not None:
            line, column = int(found[1]), f":{found[2]}"
        words = _AT.sub("", told)
        raise ConfigurationError(f"{path}:{line}{column}: not TOML: {_plain(words)}") from why
    except (RecursionError, ValueError) as why:
        raise ConfigurationError(f"{path}: not TOML: too deep, or a number that is too long") from why


def _plain(words: str) -> str:
    """What ``tomllib`` says, with what to do about it."""
    if words.startswith(("Cannot overwrite", "Cannot declare", "Cannot mutate", "Duplicate")):
        return f"{words}: the key or section stands there a second time"
    if words.startswith("Invalid value"):
        return f"{words}: texts and lengths of time stand in quotes"
    return words


def _override(
    fields: dict[str, object], keys: Sequence[Key], environment: Mapping[str, str]
) -> dict[Steps, str]:
    known = {key.variable: key for key in keys}
    given: dict[Steps, str] = {}
    strange: list[str] = []
    for name in sorted(environment):
        if not name.startswith(_PREFIX) or name in _NOT_KEYS:
            continue
        if name not in known:
            strange.append(f"${name}: there is no such key")
            continue
        steps = tuple(known[name].name.split("."))
        _put(fields, steps, _value(known[name], environment[name]))
        given[steps] = name
    if strange:
        raise ConfigurationError("\n".join(strange))
    return given


def _value(key: Key, text: str) -> object:
    if key.kind == "whole number" and re.fullmatch(r"-?\d{1,18}", text, re.ASCII):
        return int(text)
    if key.kind == "yes or no" and text in {"true", "false"}:
        return text == "true"
    return text


def _put(fields: dict[str, object], steps: Sequence[str], value: object) -> None:
    *sections, name = steps
    for section in sections:
        inner = fields.setdefault(section, {})
        if not isinstance(inner, dict):
            return  # the file has something else there, and that is told
        fields = inner
    fields[name] = value
