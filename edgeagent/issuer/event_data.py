"""What the queue reads out of events' ``data``, and the reading of uploads.

Only what its own tables are made of is read, and an unknown field is left alone: a hub may be newer
than its queue. What is stored and given out is the event as the hub sent it. The whole of each type is
in ``docs/events.schema.json``.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Annotated, Final, TypeVar

from pydantic import ConfigDict, Field, JsonValue, ValidationError

from edgeagent.adapters.cloud.wire import UploadQuery, one_line
from edgeagent.contracts.command import Etag, Version
from edgeagent.contracts.door import DEPTH, Contract, faults, parse
from edgeagent.contracts.event import CloudEvent, EventType, event_id, source_of
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.scalars import CommandIdField, DigestField, ReadingNameField, Words
from edgeagent.errors import MalformedError
from edgeagent.ids import DeviceId, HubId, device_id
from edgeagent.values import dataclass

_NUMBERS: Final = range(1, 2**63 - 1)
_MOST_READINGS: Final = 256
# An event is given out inside of other JSON, which readers take to a bounded depth as well.
_DEEPEST: Final = DEPTH - 2
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))

T = TypeVar("T")


class Read(Contract):
    """A part of an event's data; the rest is left alone."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")


class Told(Read):
    """One state reading as an event tells it."""

    value: bool | int | float | str
    version: Version
    retained: bool = False


class StateData(Read):
    """State readings that have changed."""

    version: Version
    etag: Etag
    readings: dict[ReadingNameField, Told] = Field(max_length=_MOST_READINGS)


class TelemetryData(Read):
    """Telemetry readings."""

    readings: dict[ReadingNameField, bool | int | float | str] = Field(max_length=_MOST_READINGS)


class AdmittedData(Read):
    """A device was admitted."""

    label: Words
    profile: Words
    actions: list[Words] = Field(default_factory=list, max_length=64)


class ReceiptData(Read):
    """How a command ended on the device that its event is about."""

    command: CommandIdField
    payload_sha256: DigestField
    run: Annotated[int, Field(ge=1)]


class RefusedData(Read):
    """A command was refused at admission, for the device that its event is about.

    One that could not be read has neither id nor payload.
    """

    command: CommandIdField | None = None
    payload_sha256: DigestField | None = None
    reason: Words


class SwitchedData(Read):
    """The kill switch was thrown or taken back; by an order, unless somebody at the hub did it."""

    order: CommandIdField | None = None
    payload_sha256: DigestField | None = None


Data = StateData | TelemetryData | AdmittedData | ReceiptData | RefusedData | SwitchedData | None

_READ: Final[
    Mapping[
        EventType,
        type[StateData | TelemetryData | AdmittedData | ReceiptData | RefusedData | SwitchedData],
    ]
] = {
    EventType.STATE: StateData,
    EventType.TELEMETRY: TelemetryData,
    EventType.DEVICE_ADMITTED: AdmittedData,
    EventType.RECEIPT: ReceiptData,
    EventType.REFUSED: RefusedData,
    EventType.STOPPED: SwitchedData,
    EventType.RESUMED: SwitchedData,
}
_ABOUT_A_DEVICE: Final = frozenset(
    {
        EventType.STATE,
        EventType.TELEMETRY,
        EventType.DEVICE_ADMITTED,
        EventType.DEVICE_FORGOTTEN,
        EventType.RECEIPT,
        EventType.REVALIDATED,
    }
)


@dataclass(frozen=True, slots=True)
class Arrived:
    """An event that may be stored.

    Attributes:
        number: its place in its stream.
        event: what it is.
        device: whom it is about.
        data: what the queue's tables need of it; None for the types that they need nothing of.
        text: the event as JSON.
    """

    number: int
    event: CloudEvent
    device: DeviceId | None
    data: Data
    text: str


@dataclass(frozen=True, slots=True)
class Upload:
    """What a hub has sent.

    Attributes:
        hub: which.
        query: what the upload says of itself.
        events: those that may be stored, rising by number.
        refused: numbers of those that may not, and why.
    """

    hub: HubId
    query: UploadQuery
    events: list[Arrived] = field(default_factory=list)
    refused: dict[int, str] = field(default_factory=dict)


def read_upload(
    raw: bytes, hub: HubId, query: UploadQuery, *, limit: int, most_events: int, most_event_bytes: int
) -> Upload:
    """Read the body of an upload, event by event.

    Raises:
        MalformedError: it is no array of events of this hub, epoch and stream, each with a number of
            its own. An event whose rest is wrong is refused alone.
    """
    values = parse(raw, limit=limit)
    if not isinstance(values, list) or not 0 < len(values) <= most_events:
        raise MalformedError(f"an upload is an array of 1 to {most_events} events")
    numbered: dict[int, JsonValue] = {}
    for value in values:
        number = _number(value, hub, query)
        if number in numbered:
            raise MalformedError("a number stands twice in one upload")
        numbered[number] = value
    upload = Upload(hub, query)
    for number, value in sorted(numbered.items()):
        try:
            upload.events.append(_arrived(number, value, hub, most_event_bytes))
        except MalformedError as why:
            upload.refused[number] = one_line(f"{Reason.MALFORMED}: {why}")
    return upload


def _number(value: JsonValue, hub: HubId, query: UploadQuery) -> int:
    """The number of an event; without it nothing could be said about the event."""
    text = value.get("id") if isinstance(value, dict) else None
    if not isinstance(text, str):
        raise MalformedError("an event without an id")
    known = event_id(text)
    if (known.hub, known.epoch, known.stream) != (hub, query.epoch, query.stream):
        raise MalformedError("an event of another hub, epoch or stream than the upload's")
    if known.number not in _NUMBERS:
        raise MalformedError("an event's number beyond 64 bits")
    return known.number


def _arrived(number: int, value: JsonValue, hub: HubId, most_bytes: int) -> Arrived:
    text = _ENCODER.encode(value)
    if len(text) > most_bytes:
        raise MalformedError(f"an event has at most {most_bytes} characters")
    if _depth(value) > _DEEPEST:
        raise MalformedError(f"nested deeper than {_DEEPEST}")
    event = _checked(lambda: CloudEvent.model_validate_json(text))
    if event.source != source_of(hub):
        raise MalformedError("source: not this hub's")
    device = None if event.subject is None else device_id(event.subject)
    if device is None and event.type in _ABOUT_A_DEVICE:
        raise MalformedError("subject: it names no device")
    return Arrived(number, event, device, _checked(lambda: _data_of(event)), text)


def _data_of(event: CloudEvent) -> Data:
    kind = _READ.get(event.type)
    return None if kind is None else kind.model_validate(event.data)


def _depth(value: JsonValue) -> int:
    match value:
        case dict():
            return 1 + max(map(_depth, value.values()), default=0)
        case list():
            return 1 + max(map(_depth, value), default=0)
        case _:
            return 0


def _checked(read: Callable[[], T]) -> T:
    try:
        return read()
    except ValidationError as why:
        raise MalformedError(faults(why)) from why
