"""Arguments, as the device writes them, and what it then shows.

A device that takes mireds cannot be set to 2,700 K: it takes 370 mired, which are 2,703 K. What is wished
is therefore what comes back of what is sent.
"""

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from edgeagent.contracts.actions import (
    CATALOGUE,
    ActionName,
    Argument,
    ArgumentKind,
    Arguments,
    ArgumentValue,
)
from edgeagent.contracts.recipes import ArgumentRule, Echo, Recipe
from edgeagent.contracts.sources import Value
from edgeagent.core.confirmation import Wish
from edgeagent.core.profile.parameters import COLOR
from edgeagent.core.profile.units import Scale, converter
from edgeagent.ids import ReadingName

_PARTS: Final = ("red", "green", "blue")
_PLAIN: Final = ArgumentRule()


def written(action: ActionName, recipe: Recipe, arguments: Arguments) -> dict[str, JsonValue]:
    """The arguments as the device writes them, by name; with ``color`` where they make one."""
    known = CATALOGUE[action].arguments
    values: dict[str, JsonValue] = {
        name: _written(known[name], recipe.arguments.get(name, _PLAIN), value)
        for name, value in arguments.items()
    }
    color = _color(arguments)
    return values if color is None else {**values, COLOR: color}


def wish_of(
    action: ActionName, recipe: Recipe, arguments: Arguments, names: Mapping[str, ReadingName]
) -> Wish | None:
    """What the device shows when the action has worked; None where no reading shows it."""
    catalogued = CATALOGUE[action]
    name = None if catalogued.reading is None else names.get(catalogued.reading)
    if name is None:
        return None
    value: Value | None
    if catalogued.shows is not None and catalogued.shows in arguments:
        rule = recipe.arguments.get(catalogued.shows, _PLAIN)
        value = _shown(catalogued.arguments[catalogued.shows], rule, arguments[catalogued.shows])
    else:
        value = _color(arguments)
    if value is None:
        return None
    tolerance = max((rule.tolerance for rule in recipe.confirm if isinstance(rule, Echo)), default=0.0)
    return Wish(name, value, tolerance)


def _written(known: Argument, rule: ArgumentRule, value: ArgumentValue) -> JsonValue:
    if rule.words is not None:
        return rule.words[("true" if value else "false") if isinstance(value, bool) else str(value)]
    if isinstance(value, bool | str):
        return value
    return _forth(known, rule, value)


def _shown(known: Argument, rule: ArgumentRule, value: ArgumentValue) -> Value:
    if rule.words is not None or isinstance(value, bool | str) or not _converts(rule):
        return value
    device = _forth(known, rule, value)
    ours = Scale(rule.scale, rule.offset).back(device)
    convert = converter(rule.unit or known.unit, known.unit)
    return _rounded(known, ours if convert is None else convert(ours))


def _forth(known: Argument, rule: ArgumentRule, value: float) -> float:
    if not _converts(rule):
        return value
    convert = converter(known.unit, rule.unit or known.unit)
    return _rounded(known, Scale(rule.scale, rule.offset).forth(value if convert is None else convert(value)))


def _converts(rule: ArgumentRule) -> bool:
    return rule.unit is not None or rule.scale != 1 or rule.offset != 0


def _rounded(known: Argument, value: float) -> float:
    return round(value) if known.kind is ArgumentKind.INTEGER else value


def _color(arguments: Arguments) -> str | None:
    parts = [arguments.get(name) for name in _PARTS]
    numbers = [part for part in parts if type(part) is int]
    return "#{:02X}{:02X}{:02X}".format(*numbers) if len(numbers) == len(_PARTS) else None
