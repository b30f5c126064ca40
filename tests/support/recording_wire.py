"""What a recorded agent told the world: its acknowledgements, steps and uploads, each with its place.

Connections are put together again from what was sent and received, and read as what they are: MQTT 5
towards the broker (by its CONNECT packet), HTTP/1.1 towards the queue. A thing is told at the record that
carries its last byte out; an answer is known at the record that carries its last byte in.
"""

import gzip
import json
import struct
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from edgeagent.adapters.cloud.wire import HandlesRequest, LeaseAnswer, UploadAnswer
from edgeagent.contracts.command import COMMAND_BYTES, Command
from edgeagent.contracts.door import decode
from edgeagent.contracts.event import CloudEvent
from edgeagent.core.envelope import unproven_payload
from edgeagent.ids import CommandId
from tests.support.recording import Kind, Recording

_BODY_BYTES: Final = 16 * 1024 * 1024
_CONNECT, _PUBLISH, _PUBACK = 1, 3, 4
_QOS_1: Final = 0x02


@dataclass(frozen=True, slots=True)
class Published:
    """A message over MQTT."""

    topic: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class MessageAcknowledged:
    """A PUBACK went out for a message that the broker had sent."""

    at: int
    message: Published


@dataclass(frozen=True, slots=True)
class StepSent:
    """A message to a device went out."""

    at: int
    message: Published


@dataclass(frozen=True, slots=True)
class CommandAcknowledged:
    """The queue was told to forget a command."""

    at: int
    command: CommandId


@dataclass(frozen=True, slots=True)
class EventUploaded:
    """An event went out to the queue."""

    at: int
    event: CloudEvent


@dataclass(frozen=True, slots=True)
class EventProven:
    """The queue's answer came that it has stored an event."""

    at: int
    event: CloudEvent


Told = MessageAcknowledged | StepSent | CommandAcknowledged | EventUploaded | EventProven


def told(recording: Recording) -> list[Told]:
    """Everything that the agent told, and was answered, in the order of the recording."""
    connections: dict[int, _Connection] = {}
    lent: dict[str, CommandId] = {}
    found: list[Told] = []
    for at, record in enumerate(recording.records):
        if record.kind is Kind.CONNECTED:
            connections[record.number] = _Connection(lent)
        elif record.kind is Kind.SENT:
            found += connections[record.number].sent(at, record.data)
        elif record.kind is Kind.RECEIVED:
            found += connections[record.number].received(at, record.data)
    return found


class _Connection:
    """One connection, of which the first byte that is sent says what it is."""

    def __init__(self, lent: dict[str, CommandId]) -> None:
        self._lent = lent
        self._talk: _Mqtt | _Http | None = None

    def sent(self, at: int, data: bytes) -> Iterator[Told]:
        if self._talk is None:
            self._talk = _Mqtt() if data[0] >> 4 == _CONNECT else _Http(self._lent)
        return self._talk.sent(at, data)

    def received(self, at: int, data: bytes) -> Iterator[Told]:
        assert self._talk is not None, "the other side spoke first"
        return self._talk.received(at, data)


class _Mqtt:
    """MQTT 5, as far as messages and their acknowledgements go."""

    def __init__(self) -> None:
        self._out, self._in = bytearray(), bytearray()
        self._unacknowledged: dict[int, Published] = {}

    def sent(self, at: int, data: bytes) -> Iterator[Told]:
        self._out += data
        for first, body in _packets(self._out):
            if first >> 4 == _PUBACK:
                [packet_id] = struct.unpack_from("!H", body)
                yield MessageAcknowledged(at, self._unacknowledged.pop(packet_id))
            elif first >> 4 == _PUBLISH:
                yield StepSent(at, _published(first, body)[1])

    def received(self, _at: int, data: bytes) -> Iterator[Told]:
        self._in += data
        for first, body in _packets(self._in):
            if first >> 4 == _PUBLISH and first & _QOS_1:
                packet_id, message = _published(first, body)
                self._unacknowledged[packet_id] = message
        yield from ()


def _packets(buffer: bytearray) -> Iterator[tuple[int, bytes]]:
    """Take the whole packets out: first byte and body (MQTT 5 section 2.1)."""
    while True:
        length, place = _varint(buffer, 1)
        if place < 0 or len(buffer) < place + length:
            return
        packet = bytes(buffer[: place + length])
        del buffer[: place + length]
        yield packet[0], packet[place:]


def _published(first: int, body: bytes) -> tuple[int, Published]:
    """Packet id (0 for QoS 0) and message of a PUBLISH (MQTT 5 section 3.3)."""
    [length] = struct.unpack_from("!H", body)
    topic, place, packet_id = body[2 : 2 + length].decode(), 2 + length, 0
    if first & _QOS_1:
        [packet_id] = struct.unpack_from("!H", body, place)
        place += 2
    properties, place = _varint(body, place)
    return packet_id, Published(topic, body[place + properties :])


def _varint(data: bytes | bytearray, place: int) -> tuple[int, int]:
    """A variable byte integer and the place after it, which is -1 where it is not whole."""
    value, shift = 0, 0
    while place < len(data):
        byte = data[place]
        value, shift, place = value | (byte & 0x7F) << shift, shift + 7, place + 1
        if not byte & 0x80:
            return value, place
    return 0, -1


@dataclass(slots=True)
class _Request:
    """What was asked, as far as its answer is of interest."""

    path: str
    events: list[CloudEvent] = field(default_factory=list)


class _Http:
    """HTTP/1.1 with lengths: one question, one answer."""

    def __init__(self, lent: dict[str, CommandId]) -> None:
        self._out, self._in = bytearray(), bytearray()
        self._lent = lent
        self._asked: deque[_Request] = deque()

    def sent(self, at: int, data: bytes) -> Iterator[Told]:
        self._out += data
        for line, headers, body in _messages(self._out):
            request = _Request(line.split(" ")[1].partition("?")[0])
            self._asked.append(request)
            if request.path.endswith("/commands/acknowledge"):
                for handle in decode(HandlesRequest, body, limit=_BODY_BYTES).handles:
                    yield CommandAcknowledged(at, self._lent[handle])
            elif request.path.endswith("/events"):
                text = gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body
                request.events = [_event(entry) for entry in json.loads(text)]
                for event in request.events:
                    yield EventUploaded(at, event)

    def received(self, at: int, data: bytes) -> Iterator[Told]:
        self._in += data
        for line, _, body in _messages(self._in):
            request = self._asked.popleft()
            if line.split(" ")[1] != "200":
                continue
            if request.path.endswith("/commands/lease"):
                for lent in decode(LeaseAnswer, body, limit=_BODY_BYTES).commands:
                    self._lent[lent.handle] = _command_in(lent.envelope)
            elif request.path.endswith("/events"):
                taken = decode(UploadAnswer, body, limit=_BODY_BYTES).taken
                for event in request.events:
                    if any(first <= number_of(event) <= last for first, last in taken):
                        yield EventProven(at, event)


def _messages(buffer: bytearray) -> Iterator[tuple[str, dict[str, str], bytes]]:
    """Take the whole messages out: first line, headers by lower-case name, body (RFC 9112)."""
    while (end := buffer.find(b"\r\n\r\n")) >= 0:
        first, *lines = bytes(buffer[:end]).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = int(headers.get("content-length", "0"))
        if len(buffer) < end + 4 + length:
            return
        body = bytes(buffer[end + 4 : end + 4 + length])
        del buffer[: end + 4 + length]
        yield first, headers, body


def number_of(event: CloudEvent) -> int:
    """An event's place in its stream."""
    return int(event.id.rpartition("/")[2])


def _event(entry: object) -> CloudEvent:
    return decode(CloudEvent, json.dumps(entry).encode(), limit=_BODY_BYTES)


def _command_in(envelope: bytes) -> CommandId:
    return CommandId(decode(Command, unproven_payload(envelope), limit=COMMAND_BYTES).id)
