"""The readings of a device profile: where a message is found, and what of it is a value."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from edgeagent.contracts.door import Contract
from edgeagent.contracts.scalars import Duration

Value = bool | int | float | str
"""What a reading can be."""

Word = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")]
"""A name inside a profile, and the part of a reading's name before its dot."""
TopicText = Annotated[str, Field(min_length=1, max_length=200)]
"""A topic in which ``{name}`` stands for a parameter."""
PathText = Annotated[str, Field(min_length=1, max_length=200)]
"""A place in a JSON document: ``$.a.b[0]['x y']``."""
PredicateText = Annotated[str, Field(min_length=1, max_length=300)]
"""A path, an operator, an operand: ``$.method == 'NotifyStatus'``."""
ShortText = Annotated[str, Field(max_length=200)]
Unit = Annotated[str, Field(max_length=16)]


def _one_or_several(value: object) -> object:
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


Texts = Annotated[tuple[ShortText, ...], BeforeValidator(_one_or_several), Field(min_length=1, max_length=32)]
"""One text, or a list of them."""
Predicates = Annotated[tuple[PredicateText, ...], Field(max_length=8)]
Scalars = Annotated[tuple[bool | int | ShortText, ...], Field(min_length=1, max_length=32)]
OnlyIf = Annotated[dict[Word, Scalars], Field(max_length=4)]
"""Parameters and the values that they must have for the entry to be there at all."""


class Part(Contract):
    """A part of a profile: strict, frozen, nothing unknown; ``from`` and ``json`` by their own names."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)


class Place(Part):
    """Where a kind of message is found.

    Attributes:
        topic: on which topic.
        root: where in the document its content is.
        items: a list in the document; each of its members is a message of its own.
        when: predicates on the whole document.
        only_if: see ``OnlyIf``.
    """

    topic: TopicText
    root: PathText = "$"
    items: PathText | None = None
    when: Predicates = ()
    only_if: OnlyIf = Field(default_factory=dict)


class Message(Part):
    """The same content on several topics, so that a reading names it once.

    Attributes:
        places: where it is found; in a source with ``each``, once for every channel.
    """

    places: Annotated[tuple[Place, ...], Field(alias="from", min_length=1, max_length=16)]


class SiblingUnit(Part):
    """A unit that the message itself names.

    Attributes:
        pick: where, from the message's root.
        words: its words for our units.
        otherwise: the unit when it names none.
    """

    pick: PathText
    words: Annotated[dict[ShortText, Unit], Field(min_length=1, max_length=8)]
    otherwise: Unit


class Source(Part):
    """Where a reading comes from.

    Exactly one of ``topic`` and ``message``. With ``pick`` it is read from JSON, without it the payload
    is the value: a bare word or number.

    Attributes:
        topic: on which topic.
        message: in which kind of message.
        each: the kind of channel for which there is one each.
        pick: where in the document, from the message's root.
        when: predicates, from the message's root.
        words: the device's words for our values; ``*`` is any other word, ``{name}`` a text parameter.
        others: what a word is that ``words`` does not have.
        unit: in which the device gives it, when that is not the reading's.
        scale: reading = raw times ``scale`` plus ``offset``.
        offset: see ``scale``.
        numeric_text: whether a number may come as text in JSON.
        unknown: raw values that mean "not known".
        const: the value, whatever the payload holds, also nothing.
        only_if: see ``OnlyIf``.
    """

    topic: TopicText | None = None
    message: Word | None = None
    each: Word | None = None
    pick: PathText | None = None
    when: Predicates = ()
    words: Annotated[dict[ShortText, Texts], Field(max_length=64)] | None = None
    others: Literal["unusable", "ignore", "keep"] = "unusable"
    unit: Unit | SiblingUnit | None = None
    scale: float = 1.0
    offset: float = 0.0
    numeric_text: bool = False
    unknown: Annotated[tuple[int | float | ShortText, ...], Field(max_length=16)] = ()
    const: bool | int | float | ShortText | None = None
    only_if: OnlyIf = Field(default_factory=dict)

    @model_validator(mode="after")
    def _is_one_thing(self) -> "Source":
        if (self.topic is None) == (self.message is None):
            raise ValueError("exactly one of topic and message")
        if self.message is not None and self.pick is None:
            raise ValueError("a message is JSON: say what to pick of it")
        if self.scale == 0:
            raise ValueError("a scale of 0 leaves nothing")
        return self


class ReadingKind(StrEnum):
    """The type of a reading's values."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    NUMBER = "number"
    TEXT = "text"
    COLOR = "color"
    """Text of the form ``#RRGGBB``."""


class Reading(Part):
    """Something that a device tells.

    Attributes:
        kind: of its values.
        unit: of its values.
        range: the least and the greatest number that it can be; others are unusable.
        state: whether it is state; by default what a command of the profile sets, and ``firmware``.
        event: whether each message is a happening of its own, so that an equal one is no repeat.
        deadband: numbers that differ by at most this are the same.
        min_interval: the least time between two tellings.
        max_interval: the most time between two tellings of what is heard.
        longest: characters of a text; the rest is cut off.
        words: of those sources that have none.
        sources: where it comes from.
    """

    kind: ReadingKind = Field(strict=False)
    unit: Unit = ""
    range: tuple[float, float] | None = None
    state: bool | None = None
    event: bool = False
    deadband: Annotated[float, Field(ge=0)] = 0.0
    min_interval: Duration = timedelta(0)
    max_interval: Duration = timedelta(hours=1)
    longest: Annotated[int, Field(ge=1, le=255)] = 64
    words: Annotated[dict[ShortText, Texts], Field(max_length=64)] | None = None
    sources: Annotated[tuple[Source, ...], Field(alias="from", min_length=1, max_length=32)]


class Availability(Part):
    """How a device tells that it is there. Its sources are boolean: true is online.

    Attributes:
        sources: where it is told.
        words: of those sources that have none.
        traffic: whether a live message proves that the device is there; not so behind a bridge that
            repeats what it remembers.
        combine: ``last``: what was told last counts; ``all``: it is there only while no topic says that
            it is not, such as that of the bridge before it.
        silent_after: a device of which nothing was heard for so long is taken for gone.
    """

    sources: Annotated[tuple[Source, ...], Field(alias="from", max_length=8)] = ()
    words: Annotated[dict[ShortText, Texts], Field(max_length=8)] | None = None
    traffic: bool = True
    combine: Literal["last", "all"] = "last"
    silent_after: Duration | None = None
