"""What a device can do: the catalogue's actions, narrowed by its family and its channels.

A recipe never widens the catalogue (SPEC V1). Where an action is there for several channels, ``channel``
must say which; where it is there for one, no channel is named, so that one slot has one name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from edgeagent.contracts.actions import (
    CATALOGUE,
    ActionName,
    Argument,
    ArgumentKind,
    Arguments,
    ArgumentValue,
    Effect,
    Part,
)
from edgeagent.contracts.policy import Level
from edgeagent.contracts.recipes import ArgumentRule, Recipe
from edgeagent.core.profile.channels import Channel
from edgeagent.core.profile.paths import same
from edgeagent.errors import MalformedError
from edgeagent.values import dataclass

CHANNEL: Final = "channel"
"""The argument that names a channel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NarrowedArgument:
    """An argument as this device takes it.

    Attributes:
        kind: its type.
        minimum: the least number, inclusive.
        maximum: the greatest number, inclusive.
        unit: of a number.
        optional: whether it may be left out.
        choices: the values that it may be; None where the range says it.
    """

    kind: ArgumentKind
    minimum: float | None = None
    maximum: float | None = None
    unit: str = ""
    optional: bool = False
    choices: tuple[ArgumentValue, ...] | None = None

    def accepts(self, value: ArgumentValue) -> bool:
        """Whether a value is of its type and in its range."""
        bounds = Argument(kind=self.kind, minimum=self.minimum, maximum=self.maximum)
        return bounds.accepts(value) and (
            self.choices is None or any(same(value, choice) for choice in self.choices)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A recipe for one channel of the device.

    Attributes:
        recipe: of the profile.
        channel: which; None for the device as a whole.
        arguments: as it takes them, without ``channel``.
    """

    recipe: Recipe
    channel: Channel | None
    arguments: Mapping[str, NarrowedArgument]


@dataclass(frozen=True, slots=True, kw_only=True)
class NarrowedAction:
    """An action as this device can do it.

    Attributes:
        name: in the catalogue.
        effect: what a resend does.
        arguments: what may be asked of one channel or another, ``channel`` included.
        best: the highest level that can be proven.
        variants: the recipes, one for each channel; none of one that is made of others, or an update.
        parts: what it is made of here, in this order.
    """

    name: ActionName
    effect: Effect
    arguments: Mapping[str, NarrowedArgument]
    best: Level
    variants: tuple[Variant, ...] = ()
    parts: tuple[Part, ...] = ()

    def check(self, arguments: Arguments) -> None:
        """Refuse arguments that the device does not have, or whose values are out of its range.

        Raises:
            MalformedError: names the argument.
        """
        if not self.variants:
            self._check_values(self.arguments, arguments)
        else:
            self.variant(arguments)

    def variant(self, arguments: Arguments) -> Variant:
        """The recipe that these arguments ask for.

        Raises:
            MalformedError: as for ``check``.
        """
        found = self._named(arguments)
        self._check_values(found.arguments, arguments)
        return found

    def _check_values(self, known: Mapping[str, NarrowedArgument], arguments: Arguments) -> None:
        for name in arguments:
            if name not in self.arguments:
                raise MalformedError(f"there is no argument {name!r}")
        for name, argument in known.items():
            if name not in arguments:
                if not argument.optional:
                    raise MalformedError(f"the argument {name!r} is missing")
            elif not argument.accepts(arguments[name]):
                raise MalformedError(f"the argument {name!r} is not in the device's range")

    def _named(self, arguments: Arguments) -> Variant:
        if CHANNEL not in self.arguments:
            return self.variants[0]
        if CHANNEL not in arguments:
            raise MalformedError("the argument 'channel' is missing: the device has several")
        asked = arguments[CHANNEL]
        for variant in self.variants:
            # A channel is a whole number, as in the catalogue: neither 1.0 nor true is the first.
            if variant.channel is not None and type(asked) is int and asked == variant.channel.number:
                return variant
        raise MalformedError("the argument 'channel' names none of the device's")


def narrowed(name: ActionName, variants: Sequence[Variant], best: Level) -> NarrowedAction:
    """Put the recipes of an action together."""
    merged: dict[str, NarrowedArgument] = {}
    for variant in variants:
        for argument, rule in variant.arguments.items():
            known = merged.get(argument)
            merged[argument] = rule if known is None else _widest(known, rule)
    if len(variants) > 1:
        numbers = tuple(variant.channel.number for variant in variants if variant.channel is not None)
        merged[CHANNEL] = NarrowedArgument(kind=ArgumentKind.INTEGER, choices=numbers)
    return NarrowedAction(
        name=name,
        effect=CATALOGUE[name].effect,
        arguments=MappingProxyType(merged),
        best=best,
        variants=tuple(variants),
    )


def composed(
    name: ActionName, steps: Sequence[ActionName], actions: Mapping[ActionName, NarrowedAction]
) -> NarrowedAction | None:
    """An action that is made of others of the device; None where it has not all that are needed.

    What the device has for several channels is not among them: nothing says which one is meant.
    """
    catalogued = CATALOGUE[name]
    offered = {part.action: part for part in catalogued.parts}
    parts, arguments, levels = [], {}, []
    for step in steps:
        part, known = offered[step], actions.get(step)
        if known is None or CHANNEL in known.arguments:
            if catalogued.needs(part):
                return None
            continue
        parts.append(part)
        levels.append(known.best)
        for own, whole in part.takes.items():
            arguments[whole] = replace(known.arguments[own], optional=catalogued.arguments[whole].optional)
    return NarrowedAction(
        name=name,
        effect=catalogued.effect,
        arguments=MappingProxyType(arguments),
        best=min(levels, key=list(Level).index),
        parts=tuple(parts),
    )


def installing() -> NarrowedAction:
    """The action that updates the firmware of a device whose family can be updated."""
    known = CATALOGUE[ActionName.INSTALL]
    return NarrowedAction(
        name=ActionName.INSTALL,
        effect=known.effect,
        arguments=MappingProxyType(
            {name: NarrowedArgument(kind=argument.kind) for name, argument in known.arguments.items()}
        ),
        best=Level.VERIFIED,
    )


def arguments_of(name: ActionName, recipe: Recipe) -> dict[str, NarrowedArgument]:
    """The arguments of a recipe, without ``channel``."""
    return {
        argument: narrow(known, recipe.arguments.get(argument, ArgumentRule()))
        for argument, known in CATALOGUE[name].arguments.items()
        if argument != CHANNEL
    }


def narrow(known: Argument, rule: ArgumentRule) -> NarrowedArgument:
    """An argument of the catalogue under a family's rule."""
    choices: tuple[ArgumentValue, ...] | None = rule.choices
    if choices is None and rule.words is not None and known.kind is ArgumentKind.TEXT:
        choices = tuple(rule.words)
    return NarrowedArgument(
        kind=known.kind,
        minimum=known.minimum if rule.minimum is None else rule.minimum,
        maximum=known.maximum if rule.maximum is None else rule.maximum,
        unit=known.unit,
        optional=known.optional,
        choices=choices,
    )


def _widest(one: NarrowedArgument, other: NarrowedArgument) -> NarrowedArgument:
    lows = [bound.minimum for bound in (one, other) if bound.minimum is not None]
    highs = [bound.maximum for bound in (one, other) if bound.maximum is not None]
    choices = None if one.choices is None or other.choices is None else (*one.choices, *other.choices)
    return NarrowedArgument(
        kind=one.kind,
        minimum=min(lows, default=None),
        maximum=max(highs, default=None),
        unit=one.unit,
        optional=one.optional,
        choices=None if choices is None else tuple(dict.fromkeys(choices)),
    )
