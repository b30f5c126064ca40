"""The announcements of a profile, checked before any message comes."""

from edgeagent import ids
from edgeagent.contracts.profile import Derived, DeviceProfile, Match, ParameterType
from edgeagent.core.profile.mistakes import Mistakes
from edgeagent.core.profile.paths import PLACEHOLDER, path
from edgeagent.core.profile.predicates import predicate
from edgeagent.core.profile.templates import template, whole
from edgeagent.errors import MalformedError


def check(profile: DeviceProfile, found: Mistakes) -> None:
    """Note what is wrong with the announcements."""
    for number, match in enumerate(profile.match):
        place = f"match[{number}]"
        with found.at(f"{place}.topic"):
            _check_topic(match.topic)
        captures = frozenset(PLACEHOLDER.findall(match.topic))
        for each, text in enumerate(match.when):
            with found.at(f"{place}.when[{each}]"):
                _check_captures(predicate(text).placeholders, captures)
        for name, rule in _rules(match):
            with found.at(f"{place}.{name}"):
                _check_rule(rule, captures)
        for name, rule in match.bind.items():
            with found.at(f"{place}.bind.{name}"):
                _check_bound(profile, name, rule)
        if match.each is not None:
            with found.at(f"{place}.each"):
                _check_plain(match.each)
            found.unless(match.removed_by is None, f"{place}.removed_by", "the list says who is gone")
        for name in match.follow:
            found.unless(name in match.bind, f"{place}.follow", f"{name!r} is not bound")
        told = match.device if isinstance(match.device, str) else match.device.take
        removable = match.removed_by is None or whole(told) is not None
        found.unless(removable, f"{place}.removed_by", "an empty payload names no device: capture it")


def _rules(match: Match) -> list[tuple[str, str | Derived]]:
    named = [("label", match.label), ("model", match.model), ("firmware", match.firmware)]
    found = [("device", match.device), *((name, rule) for name, rule in named if rule is not None)]
    return found + [(f"bind.{name}", rule) for name, rule in match.bind.items()]


def _check_topic(text: str) -> None:
    template(text)
    for level in text.split("/"):
        if PLACEHOLDER.search(level) and whole(level) is None:
            raise MalformedError("a name captures a whole level")
    names = PLACEHOLDER.findall(text)
    if len(set(names)) != len(names):
        raise MalformedError("a name stands twice")
    ids.topic(PLACEHOLDER.sub("x", text))


def _check_captures(names: frozenset[str], captures: frozenset[str]) -> None:
    for name in sorted(names - captures):
        raise MalformedError(f"the topic does not capture {{{name}}}")


def _check_rule(rule: str | Derived, captures: frozenset[str]) -> None:
    texts = [rule] if isinstance(rule, str) else [rule.take, *rule.replace.values()]
    for text in texts:
        named = whole(text)
        if named is not None:
            _check_captures(frozenset({named.name}), captures)
        elif text.startswith("$"):
            _check_plain(text)
    if isinstance(rule, Derived):
        kinds = [rule.positions, rule.numbered, rule.among, rule.numbers, rule.first]
        if sum(kind is not None for kind in kinds) > 1:
            raise MalformedError("at most one of positions, numbered, numbers, first and among")
        if rule.collect is not None and rule.numbers is None and rule.first is None:
            raise MalformedError("what is collected is a list: say numbers or first")
        for text in rule.holds:
            if predicate(text).placeholders:
                raise MalformedError(f"a name in holds: {text!r}")
        if "" in rule.replace:
            raise MalformedError("nothing cannot be replaced")


def _check_plain(text: str) -> None:
    place = path(text)
    if place.is_wild or place.placeholders:
        raise MalformedError(f"not a plain path: {text!r}")


def _check_bound(profile: DeviceProfile, name: str, rule: str | Derived) -> None:
    parameter = profile.parameters.get(name)
    if parameter is None:
        raise MalformedError("no such parameter")
    if isinstance(rule, Derived):
        lists = any(each is not None for each in (rule.positions, rule.numbered, rule.numbers))
        if lists and parameter.type not in {ParameterType.INTEGERS, ParameterType.INTEGER}:
            raise MalformedError("makes a list of whole numbers")
        truth = rule.among is not None or (rule.holds and rule.collect is None)
        if truth and parameter.type is not ParameterType.BOOLEAN:
            raise MalformedError("makes a truth")
