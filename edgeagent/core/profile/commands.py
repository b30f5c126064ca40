"""The commands of one device: which it has, and the plan of each."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType

from pydantic import JsonValue

from edgeagent.contracts.actions import CATALOGUE, ActionName, Arguments
from edgeagent.contracts.policy import Level
from edgeagent.contracts.recipes import Denial, Echo, Question, Recipe, Reply
from edgeagent.core.lease import Parent
from edgeagent.core.profile.actions import (
    NarrowedAction,
    Variant,
    arguments_of,
    composed,
    installing,
    narrowed,
)
from edgeagent.core.profile.channels import Channel
from edgeagent.core.profile.layout import Outline
from edgeagent.core.profile.parameters import Scope, applies
from edgeagent.core.profile.plan import (
    Ground,
    Needed,
    Plan,
    Step,
    all_values,
    command_step,
    needed,
    question_step,
    reading_step,
)
from edgeagent.core.profile.shared import parent_of
from edgeagent.core.profile.wishes import wish_of, written
from edgeagent.errors import MalformedError
from edgeagent.ids import ReadingName
from edgeagent.values import dataclass


@dataclass(frozen=True, slots=True)
class Work:
    """What carrying out an action takes.

    Attributes:
        lasts: at most so long, by the profile.
        parent: what it occupies beside the device.
    """

    lasts: timedelta
    parent: Parent | None


class Commands:
    """What a device can be told and asked.

    Attributes:
        actions: what it can do, narrowed to it.
    """

    def __init__(self, outline: Outline) -> None:
        """Find the recipes that fit the device.

        Raises:
            MalformedError: two of them fit the same channel.
        """
        self._outline = outline
        found = {name: self._variants(name, recipes) for name, recipes in outline.profile.commands.items()}
        single = {
            name: narrowed(name, variants, self._best(name, variants))
            for name, variants in found.items()
            if variants
        }
        made = {name: composed(name, steps, single) for name, steps in outline.profile.steps.items()}
        updates = {} if outline.profile.firmware is None else {ActionName.INSTALL: installing()}
        self.actions: Mapping[ActionName, NarrowedAction] = MappingProxyType(
            single | updates | {name: action for name, action in made.items() if action is not None}
        )

    def plan(self, action: ActionName, arguments: Arguments, *, number: int) -> Plan:
        """How an action is carried out.

        Raises:
            MalformedError: the device has no such action, or the arguments do not fit it.
        """
        known = self.actions.get(action)
        if known is None:
            raise MalformedError(f"the device has no action {action}")
        if known.parts:
            return self._plan_of_parts(known, arguments, number)
        if not known.variants:
            return _plan_of_update(known, arguments)
        variant = known.variant(arguments)
        recipe = variant.recipe
        ground = self._ground(variant.channel, written(action, recipe, arguments), number)
        wish = wish_of(action, recipe, arguments, ground.names)
        return Plan(
            action=action,
            arguments=arguments,
            effect=known.effect,
            steps=(command_step(recipe, self._outline.profile.refusals, ground, wish),),
            wish=wish,
            requires=needed(recipe, ground.names),
            best=known.best,
        )

    def requires(self, action: ActionName, arguments: Arguments) -> tuple[Needed, ...]:
        """What must be known before an action, as its plan says; without planning its messages.

        Raises:
            MalformedError: the device has no such action, or the arguments do not fit it.
        """
        known = self.actions.get(action)
        if known is None:
            raise MalformedError(f"the device has no action {action}")
        if not known.variants:
            known.check(arguments)
            return ()
        variant = known.variant(arguments)
        return needed(variant.recipe, self._outline.names_for(variant.channel))

    def work(self, action: ActionName, arguments: Arguments) -> Work:
        """What an action takes: answer and read-back, each in its time; and what it occupies.

        Raises:
            MalformedError: the device has no such action, or the arguments do not fit it.
        """
        known = self.actions.get(action)
        if known is None:
            raise MalformedError(f"the device has no action {action}")
        if known.parts:
            return self._work_of_parts(known, arguments)
        if not known.variants:
            return self._work_of_update(known, arguments)
        variant = known.variant(arguments)
        scope = self._outline.scope if variant.channel is None else variant.channel.scope
        parent = parent_of(self._outline.profile, variant.recipe.occupies, scope)
        return Work(lasts=2 * variant.recipe.within, parent=parent)

    def read_back(self, reading: ReadingName, *, number: int) -> Step | None:
        """How a reading is asked for afresh; None when it cannot be asked for."""
        ground = self._ground(None, {}, number)
        question = self._question(reading.partition(".")[0])
        if question is not None:
            return question_step(question, ground)
        refresh = self.actions.get(ActionName.REFRESH)
        return None if refresh is None else reading_step(refresh.variants[0].recipe, ground)

    def questions(self, numbers: Iterator[int]) -> tuple[Step, ...]:
        """All that has to be asked to know the device's state afresh; nothing where it answers nothing."""
        refresh = self.actions.get(ActionName.REFRESH)
        if refresh is not None:
            return (reading_step(refresh.variants[0].recipe, self._ground(None, {}, next(numbers))),)
        fitting = [each for each in self._outline.profile.read if applies(each.only_if, self._outline.scope)]
        return tuple(question_step(each, self._ground(None, {}, next(numbers))) for each in fitting)

    def probe(self, *, number: int) -> Step | None:
        """What is asked of a device that has come online; None when nothing is."""
        probe = self._outline.profile.probe
        if probe is None or not applies(probe.only_if, self._outline.scope):
            return None
        return question_step(probe, self._ground(None, {}, number))

    def answers(self) -> Iterator[tuple[str, Scope]]:
        """The topics on which answers come, as the profile writes them, and what their names stand for."""
        profile, own = self._outline.profile, self._outline.scope
        for action in self.actions.values():
            for variant in action.variants:
                scope = own if variant.channel is None else variant.channel.scope
                replies = (rule for rule in variant.recipe.confirm if isinstance(rule, Reply))
                yield from _topics((*replies, *variant.recipe.fail, *profile.refusals), scope)
        for question in (*profile.read, profile.probe):
            if question is not None and applies(question.only_if, own):
                yield from _topics(question.answers, own)

    def _work_of_parts(self, whole: NarrowedAction, arguments: Arguments) -> Work:
        """All parts, one after the other, and the one shared thing that they may occupy."""
        whole.check(arguments)
        asked = [(part.action, part.arguments(arguments)) for part in whole.parts]
        works = [self.work(name, own) for name, own in asked if own is not None]
        parent = next((work.parent for work in works if work.parent is not None), None)
        return Work(lasts=sum((work.lasts for work in works), timedelta(0)), parent=parent)

    def _work_of_update(self, known: NarrowedAction, arguments: Arguments) -> Work:
        """However long it lasts, whoever works it tells all the time that he does."""
        known.check(arguments)
        recipe, profile = self._outline.profile.firmware, self._outline.profile
        occupies = None if recipe is None else recipe.occupies
        return Work(lasts=timedelta(0), parent=parent_of(profile, occupies, self._outline.scope))

    def _plan_of_parts(self, whole: NarrowedAction, arguments: Arguments, number: int) -> Plan:
        whole.check(arguments)
        asked = [(part.action, part.arguments(arguments)) for part in whole.parts]
        return Plan(
            action=whole.name,
            arguments=arguments,
            effect=whole.effect,
            steps=(),
            wish=None,
            requires=(),
            best=whole.best,
            parts=tuple(self.plan(name, own, number=number) for name, own in asked if own is not None),
        )

    def _question(self, base: str) -> Question | None:
        for question in self._outline.profile.read:
            named = base in question.readings or "*" in question.readings
            if named and applies(question.only_if, self._outline.scope):
                return question
        return None

    def _ground(self, channel: Channel | None, values: Mapping[str, JsonValue], number: int) -> Ground:
        scope = self._outline.scope if channel is None else channel.scope
        return Ground(
            scope=scope,
            values=all_values(scope, values, number),
            number=number,
            names=self._outline.names_for(channel),
            own_topics=self._outline.own_topics,
        )

    def _variants(self, name: ActionName, recipes: Sequence[Recipe]) -> tuple[Variant, ...]:
        found = tuple(self._fitting(name, recipes))
        places = [None if each.channel is None else each.channel.number for each in found]
        if len(set(places)) != len(places) or (None in places and len(places) > 1):
            raise MalformedError(f"two recipes for {name} fit the same channel")
        return found

    def _fitting(self, name: ActionName, recipes: Sequence[Recipe]) -> Iterator[Variant]:
        for recipe in recipes:
            for channel in (None,) if recipe.each is None else self._outline.channels[recipe.each]:
                scope = self._outline.scope if channel is None else channel.scope
                if applies(recipe.only_if, scope):
                    yield Variant(recipe=recipe, channel=channel, arguments=arguments_of(name, recipe))

    def _best(self, name: ActionName, variants: Sequence[Variant]) -> Level:
        """The highest level that can be proven, by an answer or by reading back."""
        levels = [Level.SENT]
        for variant in variants:
            names, shows = self._outline.names_for(variant.channel), CATALOGUE[name].reading
            levels += [
                rule.level
                for rule in variant.recipe.confirm
                if not isinstance(rule, Echo) or (rule.reading or shows) in names
            ]
            if shows is not None and shows in names and self._can_read(shows):
                levels.append(Level.VERIFIED)
        return max(levels, key=list(Level).index)

    def _can_read(self, base: str) -> bool:
        return self._question(base) is not None or ActionName.REFRESH in self._outline.profile.commands


def _plan_of_update(known: NarrowedAction, arguments: Arguments) -> Plan:
    """What is sent for an update depends on where its file is served: see ``core/profile/firmware``."""
    known.check(arguments)
    return Plan(
        action=known.name,
        arguments=arguments,
        effect=known.effect,
        steps=(),
        wish=None,
        requires=(),
        best=known.best,
    )


def _topics(rules: Sequence[Reply | Denial], scope: Scope) -> Iterator[tuple[str, Scope]]:
    return ((rule.topic, scope) for rule in rules if applies(rule.only_if, scope))
