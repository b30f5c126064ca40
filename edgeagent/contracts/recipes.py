"""The commands of a device profile: what is sent, what proves that it worked, and what refutes it.

What the engine does whatever a profile says: a command is never retained, expires at its deadline, and
an answer counts only if it carries our number, or is live, not our own, after the publish, and from a
topic that only the device may write (SPEC M2, M3).
"""

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field, JsonValue, model_validator

from edgeagent.contracts.actions import Effect
from edgeagent.contracts.policy import Level
from edgeagent.contracts.scalars import Duration, Words
from edgeagent.contracts.sources import OnlyIf, Part, PathText, Predicates, ShortText, TopicText, Unit, Word


class Publication(Part):
    """A message to the device: exactly one of ``text``, ``json`` and ``empty``.

    Attributes:
        topic: where to.
        text: the payload; exactly ``{name}`` stands for a value.
        tree: JSON in which a text that is exactly ``{name}`` is replaced by the value with its type.
        empty: no payload.
    """

    topic: TopicText
    text: ShortText | None = None
    tree: JsonValue = Field(default=None, alias="json")
    empty: bool = False

    @model_validator(mode="after")
    def _is_one_thing(self) -> "Publication":
        if (self.text is not None) + (self.tree is not None) + self.empty != 1:
            raise ValueError("exactly one of text, json and empty")
        return self


class Reply(Part):
    """A message that answers.

    Attributes:
        topic: where it comes.
        correlate: where in it our number stands again; without it the answer is known only by its
            topic and by coming after the question.
        when: predicates on it.
        only_if: see ``OnlyIf``.
        level: what it proves.
    """

    kind: Literal["reply"] = "reply"
    topic: TopicText
    correlate: PathText | None = None
    when: Predicates = ()
    only_if: OnlyIf = Field(default_factory=dict)
    level: Level = Field(default=Level.ACCEPTED, strict=False)


class Echo(Part):
    """A reading that shows the effect.

    Attributes:
        reading: which; by default that of the action.
        changed: whether any other value than before proves it, for actions that have no wish.
        tolerance: how far a number, or each part of a colour, may be off.
        level: what it proves.
    """

    kind: Literal["echo"]
    reading: Word | None = None
    changed: bool = False
    tolerance: Annotated[float, Field(ge=0)] = 0.0
    level: Level = Field(default=Level.APPLIED, strict=False)


class Cycle(Part):
    """The device going away and coming back.

    Attributes:
        level: what it proves.
    """

    kind: Literal["cycle"]
    level: Level = Field(default=Level.VERIFIED, strict=False)


Confirmation = Annotated[Reply | Echo | Cycle, Field(discriminator="kind")]


class Denial(Part):
    """A message by which the device says no.

    Attributes:
        topic: where it comes.
        correlate: as of a reply.
        when: predicates on it.
        only_if: see ``OnlyIf``.
        code: where its error code stands.
        reason: where its words stand.
        explain: our words for some of its codes.
    """

    topic: TopicText
    correlate: PathText | None = None
    when: Predicates = ()
    only_if: OnlyIf = Field(default_factory=dict)
    code: PathText | None = None
    reason: PathText | None = None
    explain: Annotated[dict[ShortText, Words], Field(max_length=16)] = Field(default_factory=dict)


class ArgumentRule(Part):
    """What this family makes of an argument: narrower, and written in its own way.

    Attributes:
        minimum: the least number.
        maximum: the greatest number.
        choices: the texts that it may be.
        words: our values as the device writes them.
        unit: in which the device takes it.
        scale: the device's number = ours times ``scale`` plus ``offset``.
        offset: see ``scale``.
    """

    minimum: float | None = None
    maximum: float | None = None
    choices: Annotated[tuple[ShortText, ...], Field(max_length=64)] | None = None
    words: Annotated[dict[ShortText, bool | int | ShortText], Field(max_length=64)] | None = None
    unit: Unit | None = None
    scale: float = 1.0
    offset: float = 0.0


class Requirement(Part):
    """What must be known before the action is begun.

    Attributes:
        reading: which.
        equals: what it must be; None for any value.
        fresher_than: how old the knowledge may be.
    """

    reading: Word
    equals: bool | int | float | ShortText | None = None
    fresher_than: Duration = timedelta(seconds=30)


class Recipe(Part):
    """How an action is carried out, and how it is known to have worked.

    Attributes:
        each: the kind of channel for which there is one each.
        effect: what a resend does; must be what the catalogue says.
        only_if: see ``OnlyIf``.
        arguments: rules for arguments of the catalogue.
        require: what must be known before.
        publish: what is sent.
        confirm: what proves it, each with its level.
        fail: what refutes it, besides what refutes any command of the profile.
        within: how long an answer may take.
        settles: how long the effect takes once all was heard that ``confirm`` can tell; where more has to be
            proven it is read back then. None: when ``within`` is over.
        occupies: what of ``shared`` is occupied while it is carried out.
    """

    each: Word | None = None
    effect: Effect = Field(strict=False)
    only_if: OnlyIf = Field(default_factory=dict)
    arguments: Annotated[dict[Word, ArgumentRule], Field(max_length=8)] = Field(default_factory=dict)
    require: Annotated[tuple[Requirement, ...], Field(max_length=4)] = ()
    publish: Publication
    confirm: Annotated[tuple[Confirmation, ...], Field(min_length=1, max_length=8)]
    fail: Annotated[tuple[Denial, ...], Field(max_length=8)] = ()
    within: Duration
    settles: Duration | None = None
    occupies: Word | None = None


class Question(Part):
    """How readings are asked for.

    Attributes:
        readings: which; ``*`` for all.
        only_if: see ``OnlyIf``.
        publish: what is sent.
        answers: what answers.
        within: how long that may take.
        every: how often it is asked unbidden, of the probe only.
    """

    readings: Annotated[tuple[Word | Literal["*"], ...], Field(min_length=1, max_length=32)] = ("*",)
    only_if: OnlyIf = Field(default_factory=dict)
    publish: Publication
    answers: Annotated[tuple[Reply, ...], Field(alias="answer", min_length=1, max_length=4)]
    within: Duration
    every: Duration | None = None
