"""What a message of a device says. Never raises, whatever the bytes.

A payload that begins with ``{`` or ``[`` is a document and goes through the JSON door; any other is a
bare value, such as ``ON`` or ``21.5``. A message is dropped whole, with a reason, when it is too large,
no UTF-8, or not what its topic carries; a single value that cannot be used is dropped alone and
counted, its siblings survive.

A live message is a proof that the device is there, which overrides a last will that arrives late: on a
topic that is not the will's own, and on the session on which the will comes, since the broker keeps the
order of one connection only.
"""

from dataclasses import field
from typing import Final

from edgeagent.contracts.door import ReadingValue, parse_readings
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.sources import Value
from edgeagent.core.profile.extraction import Found, Group, Names
from edgeagent.core.profile.predicates import Test
from edgeagent.core.profile.readers import NOTHING, UNUSABLE, Read
from edgeagent.errors import MalformedError
from edgeagent.ids import ReadingName
from edgeagent.values import dataclass

AVAILABILITY: Final = ReadingName("availability")
"""The reading that says whether a device is there: ``online`` or ``offline``."""
MOST_READINGS: Final = 256
"""Of one message; further ones are dropped and counted."""

_SPACE: Final = b" \t\r\n"
_OPENING: Final = (b"{", b"[")
_BOM: Final = "\ufeff"


@dataclass(slots=True)
class Decoded:
    """What a message says. Not frozen, since it is made for every message.

    Attributes:
        readings: names and values, in the order in which they were met.
        availability: what the device or the broker says of its presence; None when nothing.
        alive: the message itself proves that the device is there.
        document: the payload as a value, for predicates; None when it could not be read.
        problem: why no reading came of it, where one should have.
        unusable: how many values were dropped alone.
    """

    readings: Found = field(default_factory=list)
    availability: bool | None = None
    alive: bool = False
    document: ReadingValue = None
    problem: Reason | None = None
    unusable: int = 0


@dataclass(frozen=True, slots=True)
class Bare:
    """A source that reads a bare payload.

    Attributes:
        name: of the reading.
        read: the text of the payload; None when it has the same value whatever the payload.
        const: that value.
        tests: predicates on the text.
    """

    name: ReadingName
    read: Read | None
    const: Value | None
    tests: tuple[Test, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a topic carries.

    Attributes:
        groups: sources in documents.
        bare: sources in bare payloads.
        constants: sources whose value does not depend on the payload.
        events: the readings among them that are happenings.
        tells_availability: whether it says that the device is there.
    """

    groups: tuple[Group, ...] = ()
    bare: tuple[Bare, ...] = ()
    constants: tuple[Bare, ...] = ()
    events: frozenset[ReadingName] = frozenset()
    tells_availability: bool = False


class Presence:
    """What each topic said last of a device that is there only while none says that it is not."""

    __slots__ = ("_told",)

    def __init__(self) -> None:
        self._told: dict[str, bool] = {}

    def tell(self, topic: str, *, present: bool) -> bool:
        """Note what a topic says; the result is whether the device is there."""
        self._told[topic] = present
        return all(self._told.values())

    def forget(self, topic: str) -> None:
        """Note that a topic says nothing any more."""
        self._told.pop(topic, None)


class TopicReader:
    """Reads the messages of one topic of one device."""

    __slots__ = (
        "_bare",
        "_content",
        "_groups",
        "_is_watched",
        "_most_bytes",
        "_names",
        "_presence",
        "_proves",
        "_topic",
    )

    def __init__(
        self,
        topic: str,
        content: Content,
        known: tuple[Names, Presence | None],
        *,
        most_bytes: int,
        proves: bool,
        is_watched: bool,
    ) -> None:
        """Keep what the topic carries.

        Args:
            topic: which.
            content: see ``Content``.
            known: of the device, over all its topics: what its readings with ``*`` are called, and what
                each says of its presence, where that is combined.
            most_bytes: of a payload.
            proves: whether a live message proves that the device is there.
            is_watched: whether a retained message on this topic acts as a command.
        """
        self._topic = topic
        self._content = content
        self._names, self._presence = known
        self._groups = content.groups
        self._bare = content.bare
        self._most_bytes = most_bytes
        self._proves = proves
        self._is_watched = is_watched

    def read(self, payload: bytes, *, retained: bool) -> Decoded:
        """Read a payload."""
        decoded = Decoded()
        decoded.alive = self._proves and not retained and bool(payload)
        if len(payload) > self._most_bytes:
            decoded.problem = Reason.TOO_LARGE
            return decoded
        if payload.startswith(_OPENING) or payload.lstrip(_SPACE).startswith(_OPENING):
            self._read_document(payload, decoded)
        elif payload:
            self._read_bare(payload, decoded)
        if self._content.constants:
            self._read_constants(decoded)
        if not decoded.readings and decoded.unusable and decoded.problem is None:
            decoded.problem = Reason.UNUSABLE_VALUE
        if self._content.tells_availability:
            _settle_availability(decoded)
            if self._presence is not None:
                self._combine(payload, decoded, self._presence)
        if retained:
            self._settle_retained(payload, decoded)
        return decoded

    def _read_document(self, payload: bytes, decoded: Decoded) -> None:
        try:
            document = parse_readings(payload, limit=self._most_bytes)
        except MalformedError as why:
            is_encoding = isinstance(why.__cause__, UnicodeDecodeError)
            decoded.problem = Reason.INVALID_UTF8 if is_encoding else Reason.INVALID_PAYLOAD
            return
        decoded.document = document
        missed = 0
        for group in self._groups:
            missed += group.gather(document, decoded.readings, self._names)
        decoded.unusable = missed
        if not self._groups and self._bare:
            decoded.problem = Reason.INVALID_PAYLOAD
        if len(decoded.readings) > MOST_READINGS:
            decoded.unusable += len(decoded.readings) - MOST_READINGS
            del decoded.readings[MOST_READINGS:]

    def _read_bare(self, payload: bytes, decoded: Decoded) -> None:
        try:
            text = payload.decode().strip(" \t\r\n")
        except UnicodeDecodeError:
            decoded.problem = Reason.INVALID_UTF8
            return
        if text.startswith(_BOM):
            decoded.problem = Reason.INVALID_PAYLOAD
            return
        decoded.document = text
        for source in self._bare:
            if source.read is None or not all(test(text) for test in source.tests):
                continue
            result = source.read(text)
            if result is UNUSABLE:
                decoded.unusable += 1
            elif result is not NOTHING:
                decoded.readings.append((source.name, result))
        if self._groups and not self._bare:
            decoded.problem = Reason.INVALID_PAYLOAD

    def _combine(self, payload: bytes, decoded: Decoded, presence: Presence) -> None:
        if not payload:
            presence.forget(self._topic)
        elif decoded.availability is not None:
            decoded.availability = presence.tell(self._topic, present=decoded.availability)

    def _read_constants(self, decoded: Decoded) -> None:
        for constant in self._content.constants:
            if constant.const is not None and all(test(decoded.document) for test in constant.tests):
                decoded.readings.append((constant.name, constant.const))
                decoded.problem = None

    def _settle_retained(self, payload: bytes, decoded: Decoded) -> None:
        # What the broker has stored happened once and is over.
        if self._content.events:
            decoded.readings = [found for found in decoded.readings if found[0] not in self._content.events]
        if self._is_watched and payload:
            decoded.problem = Reason.RETAINED_COMMAND


def _settle_availability(decoded: Decoded) -> None:
    """Move what was read of the device's presence to its own place."""
    told = [value for name, value in decoded.readings if name == AVAILABILITY]
    if told:
        decoded.availability = told[-1] is True
        decoded.readings = [found for found in decoded.readings if found[0] != AVAILABILITY]
