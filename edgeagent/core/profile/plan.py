"""From an action to what is sent and what would prove it.

A plan is a pure function of the profile, the device, the arguments and a number: after a restart the same
plan is made again from what was stored. The number goes into messages whose answer repeats it; whoever
sends draws it, so that nobody can guess it, and never uses it twice.
"""

import json
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import timedelta

from pydantic import JsonValue

from edgeagent.contracts.actions import ActionName, Arguments, Effect
from edgeagent.contracts.policy import Level
from edgeagent.contracts.recipes import Cycle, Denial, Publication, Question, Recipe, Reply
from edgeagent.contracts.recipes import Echo as EchoRule
from edgeagent.contracts.sources import Value
from edgeagent.core.confirmation import Answer, Echo, Expectation, Refusal, Wish
from edgeagent.core.profile.parameters import NUMBER, Scope, applies
from edgeagent.core.profile.paths import getter, path
from edgeagent.core.profile.predicates import predicate
from edgeagent.core.profile.templates import fill, template, whole
from edgeagent.errors import BrokenInvariantError
from edgeagent.ids import ReadingName, Topic, topic
from edgeagent.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One message to the device, and what may be heard after it.

    Attributes:
        topic: where to.
        payload: what. Never retained, expires at the deadline (SPEC M3).
        expectation: what would prove or refute it, and within which time.
    """

    topic: Topic
    payload: bytes
    expectation: Expectation


@dataclass(frozen=True, slots=True)
class Needed:
    """What must be known before the action is begun.

    Attributes:
        reading: which.
        equals: what it must be; None for any value.
        fresher_than: how old the knowledge may be; older is read afresh.
    """

    reading: ReadingName
    equals: Value | None
    fresher_than: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How an action is carried out on this device.

    Attributes:
        action: which.
        arguments: of it.
        effect: what a resend does.
        steps: what is sent; nothing for an action that is made of others.
        wish: what the device shows when it worked; also what "already so" means. None where no
            reading shows it.
        requires: what must be known before.
        best: the highest level that can be proven, reading back included.
        parts: the plans of the actions that it is made of, in the order in which they are done. Each is
            planned afresh, with a number of its own, when it is about to be sent.
    """

    action: ActionName
    arguments: Arguments
    effect: Effect
    steps: tuple[Step, ...]
    wish: Wish | None
    requires: tuple[Needed, ...]
    best: Level
    parts: tuple["Plan", ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a plan is made on.

    Attributes:
        scope: the values of the device or channel.
        values: everything that a name may stand for in a payload or predicate; see ``all_values``.
        number: our number.
        names: the device's readings by the part before the dot, for this channel.
        own_topics: the topics that only this device may write, by the reading that they show.
    """

    scope: Scope
    values: Mapping[str, JsonValue]
    number: int
    names: Mapping[str, ReadingName]
    own_topics: Mapping[ReadingName, AbstractSet[str]]

    def topic(self, text: str) -> Topic:
        """Write a topic out."""
        rendered = template(text).render(self.scope.values)
        if rendered is None:
            raise BrokenInvariantError(f"a name without value in {text!r}")
        return topic(rendered)


def all_values(scope: Scope, arguments: Mapping[str, JsonValue], number: int) -> dict[str, JsonValue]:
    """Everything that a name may stand for in a payload or predicate.

    Args:
        scope: the values of the device or channel.
        arguments: what stands for arguments, as the device writes them.
        number: our number.
    """
    own: dict[str, JsonValue] = {
        name: list(value) if isinstance(value, tuple) else value for name, value in scope.values.items()
    }
    return {**own, **arguments, NUMBER: number}


def command_step(recipe: Recipe, refusals: Sequence[Denial], ground: Ground, wish: Wish | None) -> Step:
    """The message of a command; ``refusals`` refute any command of the profile."""
    published = ground.topic(recipe.publish.topic)
    confirm = recipe.confirm
    denials = [rule for rule in (*recipe.fail, *refusals) if applies(rule.only_if, ground.scope)]
    cycles = [rule.level for rule in confirm if isinstance(rule, Cycle)]
    echoes = [_echo(rule, ground, wish) for rule in confirm if isinstance(rule, EchoRule)]
    expectation = Expectation(
        published=published,
        answers=answers_of(tuple(rule for rule in confirm if isinstance(rule, Reply)), ground),
        echoes=tuple(echo for echo in echoes if echo is not None),
        cycle=cycles[0] if cycles else None,
        refusals=tuple(refusal_of(rule, ground) for rule in denials),
        within=recipe.within,
        settles=recipe.settles,
    )
    return Step(topic=published, payload=payload_of(recipe.publish, ground), expectation=expectation)


def question_step(question: Question, ground: Ground) -> Step:
    """The message of a question."""
    return asking(question.publish, question.answers, question.within, ground)


def reading_step(recipe: Recipe, ground: Ground) -> Step:
    """The message of the action ``refresh``, as a question."""
    answers = tuple(rule for rule in recipe.confirm if isinstance(rule, Reply))
    return asking(recipe.publish, answers, recipe.within, ground)


def needed(recipe: Recipe, names: Mapping[str, ReadingName]) -> tuple[Needed, ...]:
    """What must be known before the command of a recipe, of a device or channel with these readings."""
    return tuple(
        Needed(names[rule.reading], rule.equals, rule.fresher_than)
        for rule in recipe.require
        if rule.reading in names
    )


def asking(publish: Publication, answers: tuple[Reply, ...], within: timedelta, ground: Ground) -> Step:
    """A message that is answered, and proves nothing else."""
    published = ground.topic(publish.topic)
    expectation = Expectation(published=published, answers=answers_of(answers, ground), within=within)
    return Step(topic=published, payload=payload_of(publish, ground), expectation=expectation)


def payload_of(publish: Publication, ground: Ground) -> bytes:
    """What is sent."""
    if publish.empty:
        return b""
    if publish.text is not None:
        named = whole(publish.text)
        return publish.text.encode() if named is None else _text(ground.values[named.name]).encode()
    tree = fill(publish.tree, ground.values)
    return json.dumps(tree, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _text(value: JsonValue) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def answers_of(replies: tuple[Reply, ...], ground: Ground) -> tuple[Answer, ...]:
    """The messages that answer, of those that this device can send."""
    return tuple(_answer(rule, ground, rule.level) for rule in replies if applies(rule.only_if, ground.scope))


def _answer(rule: Reply | Denial, ground: Ground, level: Level = Level.ACCEPTED) -> Answer:
    values = ground.values
    return Answer(
        topic=ground.topic(rule.topic),
        tests=tuple(predicate(text).bind(values) for text in rule.when),
        correlate=None if rule.correlate is None else getter(path(rule.correlate).bind(values)),
        number=ground.number,
        level=level,
    )


def _echo(rule: EchoRule, ground: Ground, wish: Wish | None) -> Echo | None:
    base = rule.reading or (None if wish is None else wish.reading.partition(".")[0])
    name = None if base is None else ground.names.get(base)
    if name is None:
        return None
    return Echo(
        reading=name,
        topics=frozenset(ground.own_topics.get(name, ())),
        wish=None if rule.changed else wish,
        level=rule.level,
    )


def refusal_of(rule: Denial, ground: Ground) -> Refusal:
    """A message that refutes."""
    return Refusal(
        answer=_answer(rule, ground),
        code=None if rule.code is None else getter(path(rule.code)),
        reason=None if rule.reason is None else getter(path(rule.reason)),
        explain=rule.explain,
    )
