"""A device profile: how a family of devices is read and commanded, as data.

One TOML file for a family, format 1. It says what messages mean, never what to run: no code, no
regular expression, no template that text could break out of. A parameter's *type* decides where its
value may stand in a topic; nothing else may stand in one (SPEC V5).

Here is the shape of the file. What its texts mean (paths, predicates, topics) is read and checked by
``core/profile/load``, which is the only maker of a ``DeviceProfile`` that the agent uses.
``docs/profiles.md`` tells it for those who write one.
"""

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.firmware import FirmwareRecipe
from edgeagent.contracts.recipes import Denial, Question, Recipe
from edgeagent.contracts.scalars import Words
from edgeagent.contracts.sources import (
    Availability,
    Message,
    Part,
    PathText,
    Predicates,
    Reading,
    Scalars,
    ShortText,
    TopicText,
    Word,
)

PROFILE_BYTES: Final = 64 * 1024
"""The most bytes of a profile; the largest shipped one has 15 KB."""
PROFILE_DEPTH: Final = 12
"""The deepest nesting of its tables and lists."""

StepAction = Annotated[ActionName, Field(strict=False)]
ProfileId = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,31}$")]


class ParameterType(StrEnum):
    """What a parameter holds, and so where it may stand."""

    SEGMENT = "segment"
    """Text within one level of a topic."""
    TOPIC = "topic"
    """Whole levels of a topic, one or more."""
    PREFIX = "prefix"
    """Whole levels with which topics of the device begin."""
    INTEGER = "integer"
    """A whole number."""
    INTEGERS = "integers"
    """Distinct whole numbers, such as the ids of relays; never in a topic as a whole."""
    BOOLEAN = "boolean"
    """A truth; in no topic."""
    CHOICE = "choice"
    """One of a list of texts, each fit for a level of a topic."""
    MAC = "mac"
    """A MAC address, held as 12 upper-case hexadecimal digits."""
    TEXT = "text"
    """Any printable text; in no topic."""


class Parameter(Part):
    """What differs between two devices of the family.

    Attributes:
        type: see ``ParameterType``.
        title: for people.
        default: its value when none is given; in a segment, topic or prefix ``{name}`` stands for
            another parameter.
        optional: without a value, whatever mentions it is left out.
        minimum: the least integer.
        maximum: the greatest integer.
        choices: of a choice.
        without: what no level of a topic or prefix may be after the first, such as the word by which its
            family tells a command to whoever stands before it.
    """

    type: ParameterType = Field(strict=False)
    title: ShortText = ""
    default: bool | int | ShortText | tuple[int, ...] | None = None
    optional: bool = False
    minimum: int = 0
    maximum: int = 2**31 - 1
    choices: Annotated[tuple[ShortText, ...], Field(max_length=64)] = ()
    without: Annotated[tuple[Word, ...], Field(max_length=8)] = ()


class Channel(Part):
    """A kind of which a device may have several: relays, lights, covers, probes.

    Channels are numbered 1, 2, 3 … over all kinds, in the order of the file. A reading or action that
    one channel has carries no number; with several it is ``power.1``, ``power.2``.

    Attributes:
        kind: its name in the file.
        ids: the parameter that lists the ids which the device itself gives them.
        suffix: what tells them apart: our number, or the device's own id (for what no command names).
        component: what the device calls one of them, such as ``switch:{id}``; known as ``{component}``.
    """

    kind: Word
    ids: Word
    suffix: Literal["number", "id"] = "number"
    component: ShortText = "{id}"


class Derived(Part):
    """A parameter's value made from a discovery message.

    ``take`` is a path, a capture of the topic, or plain text. Of the rest each step is optional, in
    this order.

    Attributes:
        take: what it is made of.
        replace: texts to be replaced, and by what (a path, a capture or plain text).
        last: only that many characters at its end.
        before: a text put before it.
        after: a text put after it.
        strip: characters removed at both ends.
        positions: of a list, the places (1, 2, 3 …) at which one of these values stands; for a
            parameter that holds one integer, the first of them.
        numbered: of an object, the numbers at the end of those keys that begin with this text.
        among: whether it is one of these values, as a truth.
        holds: whether any object in it, however deep, is as these predicates say, as a truth; with
            ``collect`` only those objects are looked at.
        collect: of all objects in it, however deep, the values of this key, as a list.
        first: of a list, the value of the first of these texts that is in it.
        numbers: of a list, the numbers for which its texts stand, each once and in order.
    """

    take: ShortText
    replace: Annotated[dict[ShortText, ShortText], Field(max_length=8)] = Field(default_factory=dict)
    last: Annotated[int, Field(ge=1, le=64)] | None = None
    before: ShortText = ""
    after: ShortText = ""
    strip: Annotated[str, Field(max_length=8)] = ""
    positions: Scalars | None = None
    numbered: ShortText | None = None
    among: Scalars | None = None
    holds: Predicates = ()
    collect: ShortText | None = None
    first: Annotated[dict[ShortText, ShortText], Field(min_length=1, max_length=16)] | None = None
    numbers: Annotated[dict[ShortText, int], Field(min_length=1, max_length=64)] | None = None


class Match(Part):
    """How a device of the family announces itself. A match only proposes (SPEC M4).

    Attributes:
        topic: the topic; ``{name}`` captures one whole level.
        each: a list in the message, each of whose members is a document that announces a device; a
            device that the list does not have any more takes its announcement back.
        most_bytes: of the message, where it may be longer than others of the family.
        when: predicates on the document.
        device: its native identity.
        bind: parameters by name.
        label: a name for people.
        model: its model.
        firmware: its version.
        removed_by: ``empty``: an empty payload takes the announcement back.
        follow: parameters that are taken over when an admitted device announces them anew, such as a name
            by which it is addressed; what the topic captures must be as it was.
    """

    topic: TopicText
    each: PathText | None = None
    most_bytes: Annotated[int, Field(ge=64, le=1024 * 1024)] | None = None
    when: Predicates = ()
    device: ShortText | Derived
    bind: Annotated[dict[Word, ShortText | Derived], Field(max_length=32)] = Field(default_factory=dict)
    label: ShortText | Derived | None = None
    model: ShortText | Derived | None = None
    firmware: ShortText | Derived | None = None
    removed_by: Literal["empty"] | None = None
    follow: Annotated[tuple[Word, ...], Field(max_length=4)] = ()


class Shared(Part):
    """What devices share and an action may occupy, such as a bridge, a radio or an HDMI chain (SPEC L6).

    Attributes:
        by: the parameter that tells which one it is; a device where it has no value shares nothing.
        most: how many actions may occupy one of them at once.
    """

    by: Word
    most: Annotated[int, Field(ge=1, le=16)] = 1


class AccessRule(Part):
    """What a device's login may do at a broker whose rules are made of the admitted devices (SPEC M4).

    Attributes:
        login: its name; several devices may share one, such as those behind a bridge.
        write: topic filters that it publishes on.
        read: topic filters that it is commanded on.
    """

    login: ShortText = "{device}"
    write: Annotated[tuple[TopicText, ...], Field(min_length=1, max_length=16)]
    read: Annotated[tuple[TopicText, ...], Field(max_length=16)] = ()


class DeviceProfile(Part):
    """A family of devices.

    Attributes:
        format: of this file.
        id: of the family.
        version: of the profile.
        title: for people.
        transport: ``hub``: the device is a client of the hub's broker.
        limits: what this family never can, for people.
        most_bytes: of a message; a longer one is dropped whole.
        parameters: what differs between two devices, by name.
        channels: what a device may have several of.
        match: how a device announces itself.
        messages: kinds of message, by name.
        availability: how a device tells that it is there.
        readings: what a device tells, by name.
        command_topics: filters on which a retained message would act at each reconnect.
        access: what its login may do at the broker; None: write the topics that are listened to, read the
            ``command_topics``.
        shared: what devices share, by name; families that name it alike share it too.
        commands: how actions are carried out; one recipe for each kind of channel.
        steps: actions that are made of others of this family, and in which order those are done.
        refusals: what refutes any of them.
        read: how readings are asked for; what is not named is asked for by the action ``refresh``.
        probe: what is asked when the device comes online, and how often from then on.
        firmware: how an image is installed; None for a family that is not updated over the air.
    """

    format: Literal[1]
    id: ProfileId
    version: Annotated[str, Field(pattern=r"^[0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4}$")]
    title: Annotated[Words, Field(max_length=80)]
    transport: Literal["hub"]
    limits: Annotated[tuple[Words, ...], Field(max_length=16)] = ()
    most_bytes: Annotated[int, Field(ge=64, le=1024 * 1024)] = 16 * 1024
    parameters: Annotated[dict[Word, Parameter], Field(alias="parameter", max_length=32)] = Field(
        default_factory=dict
    )
    channels: Annotated[tuple[Channel, ...], Field(alias="channel", max_length=16)] = ()
    match: Annotated[tuple[Match, ...], Field(max_length=4)] = ()
    messages: Annotated[dict[Word, Message], Field(alias="message", max_length=32)] = Field(
        default_factory=dict
    )
    availability: Availability = Availability()
    readings: Annotated[dict[Word, Reading], Field(alias="reading", max_length=128)] = Field(
        default_factory=dict
    )
    command_topics: Annotated[tuple[TopicText, ...], Field(max_length=16)] = ()
    access: AccessRule | None = None
    shared: Annotated[dict[Word, Shared], Field(max_length=8)] = Field(default_factory=dict)
    commands: Annotated[
        dict[Annotated[ActionName, Field(strict=False)], Annotated[tuple[Recipe, ...], Field(max_length=8)]],
        Field(alias="command"),
    ] = Field(default_factory=dict)
    steps: Annotated[
        dict[StepAction, Annotated[tuple[StepAction, ...], Field(min_length=2, max_length=8)]],
        Field(max_length=8),
    ] = Field(default_factory=dict)
    refusals: Annotated[tuple[Denial, ...], Field(alias="refusal", max_length=8)] = ()
    read: Annotated[tuple[Question, ...], Field(max_length=16)] = ()
    probe: Question | None = None
    firmware: FirmwareRecipe | None = None
