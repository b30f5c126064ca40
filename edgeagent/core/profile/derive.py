"""Values made from a discovery message, by the steps that a profile names.

Everything is bounded: a device chooses the texts, so that none may grow by being put into another.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

from pydantic import JsonValue

from edgeagent.contracts.door import ReadingValue
from edgeagent.contracts.profile import Derived
from edgeagent.core.profile.paths import Get, Missing, getter, path, same
from edgeagent.core.profile.predicates import Test, predicate
from edgeagent.core.profile.templates import whole
from edgeagent.errors import MalformedError

_MOST_CHARACTERS: Final = 256
_MOST_MEMBERS: Final = 256
_MOST_DIGITS: Final = 9
# A list of devices comes from one of them, or from a bridge: what it holds is looked at so far.
_MOST_OBJECTS: Final = 1024


def derive(rule: str | Derived, document: ReadingValue, captures: Mapping[str, str]) -> JsonValue:
    """Make a value.

    Returns:
        None when the message does not have what it is made of.

    Raises:
        MalformedError: what the message has cannot be made into it.
    """
    if isinstance(rule, str):
        return _scalar(_take(rule, document, captures))
    raw = _take(rule.take, document, captures)
    if raw is None:
        return None
    if rule.collect is not None:
        raw = _collected(raw, rule)
    elif rule.holds:
        tests = _tests(rule.holds)
        return any(all(test(each) for test in tests) for each in _objects(raw))
    if rule.among is not None:
        return any(same(raw, each) for each in rule.among)
    if any(each is not None for each in (rule.first, rule.numbers, rule.positions, rule.numbered)):
        return _of_several(rule, raw)
    return _text(rule, _word(raw), document, captures)


def _take(text: str, document: ReadingValue, captures: Mapping[str, str]) -> ReadingValue:
    named = whole(text)
    if named is not None:
        return captures[named.name]
    if not text.startswith("$"):
        return text
    found = _place(text)(document)
    return None if isinstance(found, Missing) else found


@lru_cache(maxsize=1024)
def _place(text: str) -> Get:
    return getter(path(text))


def _scalar(raw: ReadingValue) -> str | int | float | bool | None:
    if raw is None or isinstance(raw, str | int | float | bool):
        if isinstance(raw, str) and len(raw) > _MOST_CHARACTERS:
            raise MalformedError("too long a text")
        return raw
    raise MalformedError("not a single value")


def _word(raw: ReadingValue) -> str:
    value = _scalar(raw)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise MalformedError("not a text")
    return str(value)


def _text(rule: Derived, text: str, document: ReadingValue, captures: Mapping[str, str]) -> str:
    for token, by in rule.replace.items():
        if token in text:
            text = text.replace(token, _word(_take(by, document, captures)))
            if len(text) > _MOST_CHARACTERS:
                raise MalformedError("too long a text")
    if rule.last is not None:
        text = text[-rule.last :]
    return f"{rule.before}{text}{rule.after}".strip(rule.strip or None)


def _of_several(rule: Derived, raw: ReadingValue) -> JsonValue:
    if rule.first is not None:
        return next((ours for theirs, ours in rule.first.items() if theirs in _members(raw)), None)
    if rule.numbers is not None:
        return list(_numbers(raw, rule.numbers))
    if rule.positions is not None:
        return _positions(raw, rule.positions)
    return None if rule.numbered is None else _numbered(raw, rule.numbered)


def _members(raw: ReadingValue) -> list[ReadingValue]:
    if not isinstance(raw, list):
        raise MalformedError("not a list")
    return raw[:_MOST_MEMBERS]


def size_of(raw: ReadingValue) -> int:
    """How many objects and lists of a value are looked at, each time that it is asked what it holds."""
    return sum(1 for _ in _containers(raw))


def _objects(raw: ReadingValue) -> Iterator[dict[str, ReadingValue]]:
    """The objects of a value, however deep, in the order in which they stand."""
    return (each for each in _containers(raw) if isinstance(each, dict))


def _containers(raw: ReadingValue) -> Iterator[ReadingValue]:
    waiting, seen = [raw], 0
    while waiting and seen < _MOST_OBJECTS:
        value = waiting.pop()
        seen += 1
        yield value
        if isinstance(value, dict):
            within = [each for each in value.values() if type(each) is dict or type(each) is list]
        else:
            members = value[:_MOST_MEMBERS] if isinstance(value, list) else []
            within = [each for each in members if type(each) is dict or type(each) is list]
        within.reverse()
        waiting += within


@lru_cache(maxsize=256)
def _tests(holds: tuple[str, ...]) -> tuple[Test, ...]:
    # Asked of every device in a list: bound once.
    return tuple(predicate(text).bind({}) for text in holds)


def _collected(raw: ReadingValue, rule: Derived) -> list[ReadingValue]:
    tests = _tests(rule.holds)
    fitting = (each for each in _objects(raw) if all(test(each) for test in tests))
    return [each[rule.collect] for each in fitting if rule.collect is not None and rule.collect in each]


def _numbers(raw: ReadingValue, wanted: Mapping[str, int]) -> list[int]:
    found = {wanted[each] for each in _members(raw) if isinstance(each, str) and each in wanted}
    return sorted(found)


def _positions(raw: ReadingValue, wanted: tuple[bool | int | str, ...]) -> JsonValue:
    return [
        place
        for place, value in enumerate(_members(raw), start=1)
        if any(same(value, each) for each in wanted)
    ]


def _numbered(raw: ReadingValue, beginning: str) -> JsonValue:
    if not isinstance(raw, dict):
        raise MalformedError("not an object")
    ends = (key.removeprefix(beginning) for key in list(raw)[:_MOST_MEMBERS] if key.startswith(beginning))
    return [int(end) for end in ends if end.isascii() and end.isdigit() and len(end) <= _MOST_DIGITS]
