"""The commands of a profile, checked before any device is compiled.

A recipe may narrow what the catalogue says and never widen it. An answer without our number is believed
only on a topic that belongs to the device alone.
"""

from typing import Final

from edgeagent.contracts.actions import CATALOGUE, Action, ActionName, ArgumentKind
from edgeagent.contracts.profile import DeviceProfile, ParameterType
from edgeagent.contracts.recipes import (
    Denial,
    Echo,
    Publication,
    Question,
    Recipe,
    Reply,
)
from edgeagent.contracts.sources import OnlyIf, ReadingKind
from edgeagent.core.profile.actions import CHANNEL
from edgeagent.core.profile.check_arguments import check_argument, lists_values
from edgeagent.core.profile.mistakes import Mistakes
from edgeagent.core.profile.names import check_names, check_path
from edgeagent.core.profile.parameters import COLOR, NUMBER, OF_A_CHANNEL, identifying, kinds_of
from edgeagent.core.profile.paths import path
from edgeagent.core.profile.predicates import predicate
from edgeagent.core.profile.templates import Kinds, check_topic, names_in, template, whole
from edgeagent.errors import MalformedError

_KIND: Final = {
    ArgumentKind.BOOLEAN: ParameterType.BOOLEAN,
    ArgumentKind.INTEGER: ParameterType.INTEGER,
    ArgumentKind.NUMBER: ParameterType.INTEGER,
    ArgumentKind.TEXT: ParameterType.TEXT,
    ArgumentKind.ARTIFACT: ParameterType.TEXT,
    ArgumentKind.DIGEST: ParameterType.TEXT,
}

_RGB: Final = frozenset({"red", "green", "blue"})


def check(profile: DeviceProfile, found: Mistakes) -> None:
    """Note what is wrong with the commands, the questions and the probe."""
    checker = Checker(profile, found)
    for action, recipes in profile.commands.items():
        for number, recipe in enumerate(recipes):
            checker.check_recipe(f"command.{action}[{number}]", action, recipe)
    for number, question in enumerate(profile.read):
        checker.check_question(f"read[{number}]", question)
        found.unless(question.every is None, f"read[{number}].every", "only a probe is asked unbidden")
    if profile.probe is not None:
        checker.check_question("probe", profile.probe)


class Checker:
    """The checks that need to know the whole profile."""

    def __init__(self, profile: DeviceProfile, found: Mistakes) -> None:
        self._profile = profile
        self._found = found
        # What may be without a value must not stand in a command: it could not be sent half.
        self._kinds: Kinds = {
            name: kind for name, kind in kinds_of(profile).items() if not self._may_be_absent(name)
        }
        self._own = identifying(profile)
        self._shared = {shared.by for shared in profile.shared.values()}
        self._numbered = {channel.kind for channel in profile.channels if channel.suffix == "number"}

    def check_recipe(self, place: str, name: ActionName, recipe: Recipe) -> None:
        """A recipe against the catalogue and the profile."""
        action = CATALOGUE[name]
        self._check_head(place, action, recipe)
        self._check_arguments(place, action, recipe)
        kinds = self._kinds if recipe.each is None else {**self._kinds, **OF_A_CHANNEL}
        arguments = _kinds_of_arguments(action)
        with self._found.at(f"{place}.publish"):
            self.check_publish(recipe.publish, kinds, arguments)
            _check_used(action, recipe)
        for number, proof in enumerate(recipe.confirm):
            where = f"{place}.confirm[{number}]"
            if isinstance(proof, Reply):
                self.check_reply(where, proof, recipe.publish, {**kinds, **arguments})
            elif isinstance(proof, Echo):
                self._check_echo(where, proof, action, recipe)
            else:
                told = self._profile.availability.sources
                self._found.unless(told, where, "the device does not tell when it goes and comes")
        for number, denial in enumerate(recipe.fail):
            self.check_denial(f"{place}.fail[{number}]", denial, recipe.publish, {**kinds, **arguments})
        for number, denial in enumerate(self._profile.refusals):
            self.check_denial(f"refusal[{number}] for {place}", denial, recipe.publish, self._kinds)
        for number, requirement in enumerate(recipe.require):
            self._check_reading(f"{place}.require[{number}]", requirement.reading, recipe)

    def _check_head(self, place: str, action: Action, recipe: Recipe) -> None:
        found = self._found
        found.unless(recipe.effect is action.effect, f"{place}.effect", f"the catalogue says {action.effect}")
        known = recipe.each is None or recipe.each in self._numbered
        found.unless(known, f"{place}.each", "no such kind of channel with numbers")
        allowed = recipe.each is None or CHANNEL in action.arguments
        found.unless(allowed, f"{place}.each", "the action has no channels")
        self.check_only_if(f"{place}.only_if", recipe.only_if)

        in_time = recipe.settles is None or recipe.settles < recipe.within
        found.unless(in_time, f"{place}.settles", "longer than an answer may take")
        answers = any(isinstance(proof, Reply) for proof in recipe.confirm)
        asked = action is not CATALOGUE[ActionName.REFRESH] or answers
        found.unless(asked, f"{place}.confirm", "what is read afresh comes in a reply: name it")

    def _check_arguments(self, place: str, action: Action, recipe: Recipe) -> None:
        for name in sorted(action.arguments.keys() & self._profile.parameters.keys()):
            self._found.add(place, f"{name!r} is a parameter and an argument")
        for name, rule in recipe.arguments.items():
            with self._found.at(f"{place}.arguments.{name}"):
                check_argument(action, name, rule)
        for name, argument in action.arguments.items():
            if argument.kind is ArgumentKind.TEXT:
                listed = lists_values(recipe.arguments.get(name))
                self._found.unless(listed, place, f"the values of {name!r} must be listed")
            # A device fetches what it installs; whence, no issuer says and no message of a profile.
            is_file = argument.kind in {ArgumentKind.ARTIFACT, ArgumentKind.DIGEST}
            self._found.unless(not is_file, place, "an artifact is not sent in a message")

    def check_question(self, place: str, question: Question) -> None:
        """A question: what it sends and what answers."""
        for name in question.readings:
            known = name == "*" or name in self._profile.readings
            self._found.unless(known, f"{place}.readings", f"no reading {name!r}")
        self.check_only_if(f"{place}.only_if", question.only_if)
        with self._found.at(f"{place}.publish"):
            self.check_publish(question.publish, self._kinds, {})
        for number, answer in enumerate(question.answers):
            self.check_reply(f"{place}.answer[{number}]", answer, question.publish, self._kinds)

    def _may_be_absent(self, name: str) -> bool:
        parameter = self._profile.parameters.get(name)
        return parameter is not None and parameter.optional and parameter.default is None

    @property
    def kinds(self) -> Kinds:
        """The names that may stand in what is sent to the device as a whole."""
        return self._kinds

    def check_only_if(self, place: str, only_if: OnlyIf) -> None:
        """The parameters that an entry asks about."""
        for name in only_if:
            self._found.unless(name in self._profile.parameters, place, f"no parameter {name!r}")

    def check_publish(
        self, publish: Publication, kinds: Kinds, arguments: Kinds, *, through: str | None = None
    ) -> None:
        """A message to the device.

        Args:
            publish: what is sent.
            kinds: the names that may stand in its topic.
            arguments: those that may stand in its payload besides.
            through: the parameter that tells what passes it on to the device that it names; None where
                the topic itself must be the device's.

        Raises:
            MalformedError: it is none, or others would obey it.
        """
        check_topic(publish.topic, kinds)
        values = {**kinds, **arguments, NUMBER: ParameterType.INTEGER}
        mentioned = _mentioned(publish)
        named = template(publish.topic).placeholders
        passed_on = through in named and mentioned & self._own
        if not named & self._own and not passed_on:
            raise MalformedError("the topic is not the device's own: others would obey as well")
        check_names(mentioned, values)
        if publish.text is not None and any(values[name] is ParameterType.INTEGERS for name in mentioned):
            raise MalformedError("a list is no text")

    def check_reply(self, place: str, rule: Reply, publish: Publication, kinds: Kinds) -> None:
        """A message that answers what was published."""
        self.check_only_if(f"{place}.only_if", rule.only_if)
        self._check_answer(place, rule, publish, kinds)
        if rule.correlate is None:
            own = template(rule.topic).placeholders & self._own
            self._found.unless(
                own, f"{place}.topic", "without our number an answer is believed on its own topic only"
            )

    def check_denial(
        self, place: str, rule: Denial, publish: Publication, kinds: Kinds, *, through: str | None = None
    ) -> None:
        """A message that refutes what was published.

        It may come from what the device shares with others, when it names the device, or when that passes
        everything on (``through``): what it tells of itself is then true of the device.
        """
        self.check_only_if(f"{place}.only_if", rule.only_if)
        self._check_answer(place, rule, publish, kinds)
        self._found.unless(rule.when, f"{place}.when", "a refusal must be told from an answer")
        named = template(rule.topic).placeholders
        asked = {name for text in rule.when for name in predicate(text).placeholders}
        shared = named & self._shared and (asked & self._own or through in named)
        known = rule.correlate is not None or named & self._own or shared
        self._found.unless(
            known, f"{place}.topic", "without our number a refusal is believed on its own topic only"
        )
        for key, text in (("code", rule.code), ("reason", rule.reason)):
            if text is not None:
                with self._found.at(f"{place}.{key}"):
                    check_path(path(text), {})

    def _check_answer(self, place: str, rule: Reply | Denial, publish: Publication, kinds: Kinds) -> None:
        topic_kinds = {name: kind for name, kind in kinds.items() if name in {*self._kinds, *OF_A_CHANNEL}}
        with self._found.at(f"{place}.topic"):
            check_topic(rule.topic, topic_kinds)
            if rule.topic == publish.topic:
                raise MalformedError("what we publish would come back as the answer")
        for number, text in enumerate(rule.when):
            with self._found.at(f"{place}.when[{number}]"):
                check_names(predicate(text).placeholders, {**kinds, NUMBER: ParameterType.INTEGER})
        if rule.correlate is not None:
            with self._found.at(f"{place}.correlate"):
                check_path(path(rule.correlate), kinds)
                if NUMBER not in _mentioned(publish):
                    raise MalformedError("the message carries no {number} that could come back")

    def _check_echo(self, place: str, rule: Echo, action: Action, recipe: Recipe) -> None:
        name = rule.reading or action.reading
        if name is None:
            self._found.add(place, "the action shows in no reading: name one")
            return
        self._check_reading(place, name, recipe)
        has_wish = action.reading is not None and name == action.reading
        self._found.unless(has_wish or rule.changed, place, "there is no wish for it: say changed = true")
        reading = self._profile.readings.get(name)
        numeric = reading is not None and reading.kind is not ReadingKind.BOOLEAN
        self._found.unless(numeric or not rule.tolerance, place, "a truth has no tolerance")

    def _check_reading(self, place: str, name: str, recipe: Recipe) -> None:
        reading = self._profile.readings.get(name)
        if reading is None:
            self._found.add(place, f"no reading {name!r}")
            return
        named = any(source.pick is None or "*" not in source.pick for source in reading.sources)
        self._found.unless(named, place, f"{name} is named by the device: which one would show it?")
        kinds = {source.each for source in reading.sources if source.each is not None}
        fits = not kinds or recipe.each in kinds
        self._found.unless(fits, place, f"{name} is of channels of another kind")


def _kinds_of_arguments(action: Action) -> dict[str, ParameterType]:
    """What a recipe may mention of the action's arguments. A channel is mentioned as ``{id}``."""
    kinds = {name: _KIND[known.kind] for name, known in action.arguments.items() if name != CHANNEL}
    return {**kinds, COLOR: ParameterType.TEXT} if kinds.keys() >= _RGB else kinds


def _mentioned(publish: Publication) -> frozenset[str]:
    if publish.text is not None:
        named = whole(publish.text)
        return frozenset() if named is None else frozenset({named.name})
    return names_in(publish.tree)


def _check_used(action: Action, recipe: Recipe) -> None:
    """See that nothing that the issuer signs is left out of what is sent.

    Raises:
        MalformedError: an argument is.
    """
    mentioned = _mentioned(recipe.publish)
    if COLOR in mentioned:
        return
    for name, argument in action.arguments.items():
        if name != CHANNEL and not argument.optional and name not in mentioned:
            raise MalformedError(f"the argument {name!r} is not sent")
    if recipe.publish.text is not None and (named := whole(recipe.publish.text)) is not None:
        known = action.arguments.get(named.name)
        rule = recipe.arguments.get(named.name)
        if known is not None and known.kind is ArgumentKind.BOOLEAN and (rule is None or rule.words is None):
            raise MalformedError(f"a truth in a text needs words: arguments.{named.name}.words")
