"""The arguments of a recipe: narrower than the catalogue's, and written as the device can take them."""

from typing import Final

from edgeagent.contracts.actions import Action, Argument, ArgumentKind
from edgeagent.contracts.recipes import ArgumentRule
from edgeagent.core.profile.actions import CHANNEL
from edgeagent.core.profile.units import converter
from edgeagent.errors import MalformedError

_TRUTHS: Final = {"true", "false"}


def check_argument(action: Action, name: str, rule: ArgumentRule) -> None:
    """See that a rule narrows an argument of the catalogue.

    Raises:
        MalformedError: it does not.
    """
    known = action.arguments.get(name)
    if known is None or name == CHANNEL:
        raise MalformedError("the catalogue's action has no such argument")
    numeric = known.kind in {ArgumentKind.INTEGER, ArgumentKind.NUMBER}
    converts = rule.unit is not None or rule.scale != 1 or rule.offset != 0
    if not numeric and (rule.minimum is not None or rule.maximum is not None or converts):
        raise MalformedError("minimum, maximum, unit and scale are of numbers")
    if rule.words is not None and (converts or known.kind is ArgumentKind.NUMBER):
        raise MalformedError("words and a conversion at once")
    if rule.choices is not None and known.kind is not ArgumentKind.TEXT:
        raise MalformedError("choices are of texts")
    if rule.scale == 0:
        raise MalformedError("a scale of 0 leaves nothing")
    if rule.unit is not None:
        converter(known.unit, rule.unit)
    _check_bounds(known, rule)
    _check_words(known, rule)


def _check_bounds(known: Argument, rule: ArgumentRule) -> None:
    low = known.minimum if rule.minimum is None else rule.minimum
    high = known.maximum if rule.maximum is None else rule.maximum
    wider = (known.minimum is not None and low is not None and low < known.minimum) or (
        known.maximum is not None and high is not None and high > known.maximum
    )
    if wider:
        raise MalformedError("wider than the catalogue allows")
    if low is not None and high is not None and low > high:
        raise MalformedError("its minimum is above its maximum")


def _check_words(known: Argument, rule: ArgumentRule) -> None:
    if rule.words is None:
        return
    names = set(rule.words)
    if known.kind is ArgumentKind.BOOLEAN and names != _TRUTHS:
        raise MalformedError("words for true and for false")
    if known.kind is ArgumentKind.INTEGER:
        low, high = _whole_bounds(known, rule)
        if names != {str(number) for number in range(low, high + 1)}:
            raise MalformedError(f"a word for every number from {low} to {high}")
    if known.kind is ArgumentKind.TEXT and rule.choices is not None and not set(rule.choices) <= names:
        raise MalformedError("a word for every choice")


def _whole_bounds(known: Argument, rule: ArgumentRule) -> tuple[int, int]:
    low = rule.minimum if rule.minimum is not None else known.minimum
    high = rule.maximum if rule.maximum is not None else known.maximum
    return int(low or 0), int(high or 0)


def lists_values(rule: ArgumentRule | None) -> bool:
    """Whether a rule lists the values of a text (SPEC V1: names come from a list)."""
    return rule is not None and (rule.choices is not None or rule.words is not None)
