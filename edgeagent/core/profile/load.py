"""From the bytes of a TOML file to a profile that is known to work.

Whoever holds a ``DeviceProfile`` from here may compile it for any device: only the values of its
parameters can still be wrong. Size and depth are bounded before anything is built, and every mistake is
named by its place: ``reading.power.from[0].pick: not a path: 'POWER'``.
"""

import json
import tomllib
from collections.abc import Callable
from typing import Final

from pydantic import TypeAdapter, ValidationError

from edgeagent.contracts.door import faults
from edgeagent.contracts.profile import PROFILE_BYTES, PROFILE_DEPTH, DeviceProfile
from edgeagent.core.profile.check import mistakes
from edgeagent.errors import MalformedError

_MOST_TOLD: Final = 8
# tomllib takes time that grows with the square of a dotted key's length: 6 s for one of 40 KB.
_LINE_BYTES: Final = 1000


def load(text: bytes) -> DeviceProfile:
    """Read a profile.

    Args:
        text: the bytes of the file.

    Raises:
        MalformedError: it is no profile; names the first eight mistakes by their place.
    """
    return _read(text, DeviceProfile.model_validate_json)


def reading() -> Callable[[bytes], DeviceProfile]:
    """Loads several profiles, each as ``load`` does; what pydantic builds for it (0.7 MiB) goes with it."""
    shape = TypeAdapter(DeviceProfile)
    return lambda text: _read(text, shape.validate_json)


def _read(text: bytes, shape: Callable[[str], DeviceProfile]) -> DeviceProfile:
    document = _toml(text)
    if _depth(document) > PROFILE_DEPTH:
        raise MalformedError(f"nested deeper than {PROFILE_DEPTH}")
    try:
        profile = shape(json.dumps(document, allow_nan=False))
    except ValidationError as why:
        raise MalformedError(faults(why, most=_MOST_TOLD)) from why
    except (TypeError, ValueError) as why:
        # Dates, NaN and infinities are TOML and have no place in a profile.
        raise MalformedError(f"holds a value that is none of a profile: {why}") from why
    found = mistakes(profile)
    if found:
        more = f" (+{len(found) - _MOST_TOLD} more)" if len(found) > _MOST_TOLD else ""
        raise MalformedError("; ".join(found[:_MOST_TOLD]) + more)
    return profile


def _toml(text: bytes) -> dict[str, object]:
    if len(text) > PROFILE_BYTES:
        raise MalformedError(f"{len(text)} bytes, of which {PROFILE_BYTES} are allowed")
    if any(len(line) > _LINE_BYTES for line in text.split(b"\n")):
        raise MalformedError(f"a line of more than {_LINE_BYTES} bytes")
    try:
        document: dict[str, object] = tomllib.loads(text.decode())
    except UnicodeDecodeError as why:
        raise MalformedError("not UTF-8") from why
    except (ValueError, RecursionError) as why:
        raise MalformedError(f"not TOML: {str(why)[:200] or 'nested too deep'}") from why
    return document


def _depth(document: object) -> int:
    """The deepest nesting; without recursion, since a dotted key nests as deep as the file is long."""
    deepest = 0
    waiting: list[tuple[object, int]] = [(document, 1)]
    while waiting:
        value, depth = waiting.pop()
        deepest = max(deepest, depth)
        if isinstance(value, dict):
            waiting.extend((child, depth + 1) for child in value.values())
        elif isinstance(value, list):
            waiting.extend((child, depth + 1) for child in value)
    return deepest
