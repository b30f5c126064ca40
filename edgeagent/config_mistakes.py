"""What is wrong with the configuration, in words: each mistake with its place, and what would be right.

A value that was written is never repeated: it may be a secret in the wrong place (SPEC A2).
"""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from edgeagent.config_keys import Key
from edgeagent.config_reading import Reading

_KINDS: Final = {
    "string_type": "has to be text in quotes",
    "int_type": "has to be a whole number without quotes",
    "int_from_float": "has to be a whole number",
    "bool_type": "has to be true or false, without quotes",
    "is_instance_of": "has to be text in quotes",
    "timedelta_type": "has to be a length of time in quotes",
    "time_delta_type": "has to be a length of time in quotes",
    "path_type": "has to be a path in quotes",
    "list_type": "has to be a list, like [ ... ]",
    "string_pattern_mismatch": "is not written as it has to be",
}
_SECTIONS: Final = frozenset({"model_type", "model_attributes_type", "dict_type"})


def told(error: ValidationError, reading: Reading, keys: Sequence[Key]) -> list[str]:
    """All mistakes, each in a line."""
    found = error.errors(include_url=False, include_input=False)
    found.sort(key=lambda each: (reading.places.find(each["loc"]).line, each["loc"]))
    return [_mistake(each, reading, keys) for each in found]


def _mistake(error: ErrorDetails, reading: Reading, keys: Sequence[Key]) -> str:
    name = ".".join(str(step) for step in error["loc"])
    return f"{reading.where(error['loc'])}: {name or 'file'}: {_words(error, name, keys)}"


def _words(error: ErrorDetails, name: str, keys: Sequence[Key]) -> str:
    key = next((each for each in keys if each.name == name), None)
    if error["type"] == "extra_forbidden":
        return f"there is no such key{_meant(name, keys)}"
    if error["type"] in _SECTIONS and key is None:
        return f"has to be a section: [{name}]"
    example = "" if key is None else f", like {key.line}"
    if error["type"] == "missing":
        inside = next(
            (each.name for each in keys if each.name.startswith(f"{name}.") and each.is_required), ""
        )
        return f"is missing{example}" if key or not inside else f"is missing: [{name}] with {inside}"
    words = _KINDS.get(error["type"], error["msg"].removeprefix("Value error, ").removeprefix("Input "))
    return words if " like " in words else words + example


def _meant(name: str, keys: Sequence[Key]) -> str:
    """What may have been meant by a key that there is not."""
    section, _, last = name.rpartition(".")
    here = [each.name.rpartition(".")[2] for each in keys if each.name.rpartition(".")[0] == section]
    inner = {
        each.name.removeprefix(f"{section}.").partition(".")[0]
        for each in keys
        if not section or each.name.startswith(f"{section}.")
    }
    elsewhere = [each.name.rpartition(".")[0] for each in keys if each.name.rpartition(".")[2] == last]
    if elsewhere and last not in here:
        return f"; {last} stands in [{'] or ['.join(elsewhere)}]"
    near = get_close_matches(last.lower(), sorted({*here, *inner}), n=1)
    return f"; did you mean {near[0]}?" if near else ""
