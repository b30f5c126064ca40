"""Predicates: what a profile asks of a document.

    path == != < > operand    path in [operand, ...]    path contains operand
    path startswith operand   path exists               path absent

    operand   'text'   "the plug's"   'input:{id}'   23.5   true   false   null   {name}

``{name}`` stands for a value, within a text or with its own type. It is put in after the predicate has been
parsed, so that no value can change what is asked. A predicate becomes a closure once; asking is a look-up
and a comparison. A comparison with what is not there is false, whatever the operator; JSON's null is
there; truth and number are never equal.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from edgeagent.contracts.door import ReadingValue
from edgeagent.contracts.sources import Value
from edgeagent.core.profile.paths import (
    PLACEHOLDER,
    Missing,
    Named,
    Path,
    Values,
    filled,
    getter,
    read_path,
    same,
)
from edgeagent.errors import MalformedError
from edgeagent.values import dataclass

Test = Callable[[ReadingValue], bool]
Operand = Value | Named | None

_MISSING: Final = Missing.MISSING
_ONE: Final = r"(?:'[^']*'|\"[^\"]*\"|-?\d{1,15}(?:\.\d{1,15})?|true|false|null|\{[a-z][a-z0-9_]*\})"
_LIST: Final = re.compile(rf"\[\s*{_ONE}(?:\s*,\s*{_ONE})*\s*\]", re.ASCII)
_OPERAND: Final = re.compile(
    r"'(?P<text>[^']*)'"
    r"|\"(?P<quoting>[^\"]*)\""
    r"|(?P<number>-?\d{1,15}(?:\.\d{1,15})?)"
    r"|(?P<word>true|false|null)"
    r"|\{(?P<name>[a-z][a-z0-9_]*)\}",
    re.ASCII,
)
_WORDS: Final[Mapping[str, Value | None]] = {"true": True, "false": False, "null": None}
_OPERATOR: Final = re.compile(r"\s+(==|!=|<|>|in|contains|startswith|exists|absent)(?:\s+(.+))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Predicate:
    """A question about a document, as parsed.

    Attributes:
        path: about what.
        operator: which question.
        operands: what it is compared with; one, or those of a list.
    """

    path: Path
    operator: str
    operands: tuple[Operand, ...]

    @property
    def placeholders(self) -> frozenset[str]:
        """The names that stand in it."""
        named = {operand.name for operand in self.operands if isinstance(operand, Named)}
        within = (operand for operand in self.operands if isinstance(operand, str))
        return (
            self.path.placeholders | named | {name for text in within for name in PLACEHOLDER.findall(text)}
        )

    def bind(self, values: Values) -> Test:
        """Make the closure that asks it."""
        get = getter(self.path.bind(values))
        operands = tuple(_resolved(operand, values) for operand in self.operands)
        compare = _comparison(self.operator, operands)

        def asks(document: ReadingValue) -> bool:
            return compare(get(document))

        return asks


@lru_cache(maxsize=2048)
def predicate(text: str) -> Predicate:
    """Read a predicate.

    Raises:
        MalformedError: it is none.
    """
    place, rest = read_path(text)
    found = _OPERATOR.fullmatch(rest)
    if found is None or place.is_wild:
        raise MalformedError(f"not a predicate: {text!r}")
    operator, operand = found[1], found[2]
    if (operator in {"exists", "absent"}) != (operand is None):
        raise MalformedError(f"not a predicate: {text!r}")
    if operand is None:
        return Predicate(place, operator, ())
    operands = _read_list(operand, text) if operator == "in" else (_read_operand(operand, text),)
    if operator in {"<", ">"} and not _is_number(operands[0]) and not isinstance(operands[0], Named):
        raise MalformedError(f"{operator} compares numbers: {text!r}")
    return Predicate(place, operator, operands)


def _read_list(text: str, whole: str) -> tuple[Operand, ...]:
    if _LIST.fullmatch(text.strip()) is None:
        raise MalformedError(f"in asks for a list of operands: {whole!r}")
    return tuple(_operand_of(found) for found in _OPERAND.finditer(text))


def _read_operand(text: str, whole: str) -> Operand:
    found = _OPERAND.fullmatch(text.strip())
    if found is None:
        raise MalformedError(f"not an operand: {whole!r}")
    return _operand_of(found)


def _operand_of(found: re.Match[str]) -> Operand:
    if found["text"] is not None:
        return found["text"]
    if found["quoting"] is not None:
        return found["quoting"]
    if found["name"] is not None:
        return Named(found["name"])
    if found["word"] is not None:
        return _WORDS[found["word"]]
    digits = found["number"]
    return float(digits) if "." in digits else int(digits)


def _resolved(operand: Operand, values: Values) -> object:
    if isinstance(operand, Named):
        return values[operand.name]
    return filled(operand, values) if isinstance(operand, str) else operand


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _comparison(operator: str, operands: tuple[object, ...]) -> Callable[[object], bool]:
    """The comparison that an operator makes with its operands; ``value`` may be MISSING."""
    operand = operands[0] if operands else None
    comparisons: dict[str, Callable[[object], bool]] = {
        "==": lambda value: same(value, operand),
        "!=": lambda value: value is not _MISSING and not same(value, operand),
        "<": lambda value: _ordered(value, operand),
        ">": lambda value: _ordered(operand, value),
        "in": lambda value: any(same(value, each) for each in operands),
        "contains": lambda value: _contains(value, operand),
        "startswith": lambda value: (
            isinstance(value, str) and isinstance(operand, str) and value.startswith(operand)
        ),
        "exists": lambda value: value is not _MISSING,
        "absent": lambda value: value is _MISSING,
    }
    return comparisons[operator]


def _ordered(less: object, greater: object) -> bool:
    if isinstance(less, bool) or isinstance(greater, bool):
        return False
    return isinstance(less, int | float) and isinstance(greater, int | float) and less < greater


def _contains(value: object, operand: object) -> bool:
    if isinstance(value, str):
        return isinstance(operand, str) and operand in value
    return isinstance(value, list) and any(same(each, operand) for each in value)
