"""The shapes of the issuer's side of the queue, for the server and for whoever asks it.

The hub's side, and what both share, are in ``adapters/cloud/wire.py``; ``docs/openapi.yaml`` shows both.
"""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, JsonValue

from edgeagent.adapters.cloud.wire import Range, ReasonCode
from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.command import MOST_DEVICES, Etag, Version
from edgeagent.contracts.door import Contract
from edgeagent.contracts.envelope import MOST_SIGNATURES
from edgeagent.contracts.event import CloudEvent, Stream
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.scalars import (
    Base64,
    CommandIdField,
    DeviceIdField,
    DigestField,
    EpochField,
    HubIdField,
    ReadingNameField,
    Timestamp,
    Words,
)

MOST_VOID: Final = 1000
"""The most commands of an earlier epoch in one answer."""
MOST_RANGES: Final = 256
"""The most ranges of a stream in one answer."""


class CommandState(StrEnum):
    """Where a command stands, as the queue knows it."""

    QUEUED = "queued"
    """It waits for its hub."""
    LEASED = "leased"
    """It is lent to its hub, which has not acknowledged it."""
    TAKEN = "taken"
    """It is on its hub's disk."""
    FINAL = "final"
    """Its hub has told how it ended, on each of its devices."""
    EXPIRED = "expired"
    """Its time was over before its hub ever saw it. Final too."""
    REFUSED = "refused"
    """Its hub began a new epoch before it ever saw it: what is still wanted is signed anew. Final too."""

    @property
    def is_over(self) -> bool:
        """Whether nothing will change any more."""
        return self in {CommandState.FINAL, CommandState.EXPIRED, CommandState.REFUSED}


class CommandStatus(Contract):
    """A command, as the queue knows it.

    Attributes:
        id: the command's.
        payload_sha256: of the payload bytes; the identity of the command.
        devices: whom it is for; none for the hub itself.
        action: what is asked; None of an order to the hub.
        state: where it stands.
        accepted_at: when the queue took it.
        lent: how often it was lent to the hub.
        reason: why the queue refused it after it was taken; None for every other state.
        results: the events with which the hub ended it so far, a receipt or a refusal for each device, as
            the hub sent them and in the order of the devices; of an order, that it was obeyed or refused.
    """

    id: CommandIdField
    payload_sha256: DigestField
    devices: Annotated[list[DeviceIdField], Field(max_length=MOST_DEVICES)]
    action: ActionName | None = None
    state: CommandState
    accepted_at: Timestamp
    lent: Annotated[int, Field(ge=0)]
    reason: Reason | None = Field(default=None, strict=False)
    results: Annotated[list[CloudEvent], Field(max_length=MOST_DEVICES)]


class EnvelopesAnswer(Contract):
    """A command as it was sent: the same payload, with different signatures where more came later."""

    envelopes: Annotated[list[Base64], Field(max_length=MOST_SIGNATURES)]


class StreamStatus(Contract):
    """How much of a stream the queue holds.

    Attributes:
        stream: which.
        last: the highest number seen; 0 when none was.
        stored: how many numbers were stored.
        refused: how many never will be.
        ranges: what is stored, the newest ``MOST_RANGES`` ranges, rising.
        contiguous: whether every number from 1 to ``last`` is accounted for.
    """

    stream: Stream
    last: Annotated[int, Field(ge=0)]
    stored: Annotated[int, Field(ge=0)]
    refused: Annotated[int, Field(ge=0)]
    ranges: list[Range]
    contiguous: bool


class HeadStatus(Contract):
    """The audit trail of a hub, as its uploads told of it.

    Attributes:
        number: of its furthest row.
        hash: of that row; it covers all rows before it.
        seen_at: when it was first told, by the queue's clock.
        forks: how many heads did not fit those before: the trail was rewritten, cut or set back.
    """

    number: Annotated[int, Field(ge=0)]
    hash: DigestField
    seen_at: Timestamp
    forks: Annotated[int, Field(ge=0)]


class HubStatus(Contract):
    """A hub, as the queue knows it.

    Attributes:
        hub: its id.
        epoch: the life of its database, by its newest hello; None before the first.
        hello: that hello.
        streams: of that epoch, or of the one that was asked for.
        waiting: how many commands it has not acknowledged.
        void: commands that were signed for an earlier epoch and never lent, whose time is not over; the
            newest ``MOST_VOID``, oldest first.
        audit: the head of its audit trail, of the same epoch as the streams; None when it told none.
    """

    hub: HubIdField
    epoch: EpochField | None = None
    hello: CloudEvent | None = None
    streams: list[StreamStatus]
    waiting: Annotated[int, Field(ge=0)]
    void: Annotated[list[CommandIdField], Field(max_length=MOST_VOID)] = Field(default_factory=list)
    audit: HeadStatus | None = None


class ReadingStatus(Contract):
    """The newest value of a reading.

    Attributes:
        value: what it is.
        time: the event's.
        stream: ``state`` or ``telemetry``.
        version: the device's version at its last change; of a state reading.
        retained: whether the hub knows it from a retained message only.
    """

    value: JsonValue
    time: Timestamp
    stream: Stream
    version: Version | None = None
    retained: bool = False


class DeviceStatus(Contract):
    """A device, as the queue knows it from events.

    Attributes:
        device: its id.
        label: for people; None when its admission is not known here.
        profile: its family.
        actions: what it can be asked.
        version: of its state.
        etag: of its state.
        readings: by name.
    """

    device: DeviceIdField
    label: str | None = None
    profile: str | None = None
    actions: list[str] = Field(default_factory=list)
    version: Version | None = None
    etag: Etag | None = None
    readings: dict[ReadingNameField, ReadingStatus]


class DevicesAnswer(Contract):
    """All devices of a hub."""

    hub: HubIdField
    epoch: EpochField | None = None
    devices: list[DeviceStatus]


class EventsAnswer(Contract):
    """A page of a stream.

    Attributes:
        epoch: the life of the hub's database.
        stream: which stream.
        events: rising by number.
        last: the number of the last one, to ask for what follows; the asked-for number when empty.
    """

    epoch: EpochField
    stream: Stream
    events: list[CloudEvent]
    last: Annotated[int, Field(ge=0)]


class RefusalCount(Contract):
    """Commands that the producer's gate refused in one minute, by origin and reason.

    Attributes:
        minute: its beginning.
        origin: the key that verified, else the login that sent it.
        reason: the code.
        count: how many.
        sample: the id of one of them, where it could be read.
    """

    minute: Timestamp
    origin: Words
    reason: ReasonCode
    count: Annotated[int, Field(ge=1)]
    sample: CommandIdField | None = None


class Turn(StrEnum):
    """What a breaker did."""

    OPENED = "opened"
    """Too many were refused; no more are taken for a while."""
    STAYED_OPEN = "stayed_open"
    """The command that was let through to try was refused as well."""
    CLOSED = "closed"
    """The command that was let through to try was taken."""


class BreakerStatus(Contract):
    """A breaker that is open.

    Attributes:
        origin: whose commands are not taken.
        action: which of them.
        opened_at: since when.
        until: from when on the next one is let through to try.
    """

    origin: Words
    action: ActionName
    opened_at: Timestamp
    until: Timestamp


class BreakerTurn(Contract):
    """Something that a breaker did.

    Attributes:
        at: when.
        turn: what.
        origin: of the commands.
        action: of the commands.
        reason: of the refusal that opened it or kept it open.
    """

    at: Timestamp
    turn: Turn
    origin: Words
    action: ActionName
    reason: ReasonCode | None = None


class RefusalsAnswer(Contract):
    """What the producer's gate refused.

    Attributes:
        refusals: the newest minutes.
        breakers: those that are open.
        turns: what breakers did, newest first.
    """

    refusals: list[RefusalCount]
    breakers: list[BreakerStatus] = Field(default_factory=list)
    turns: list[BreakerTurn] = Field(default_factory=list)
