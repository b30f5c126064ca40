"""Identifiers, checked at birth.

Each kind of identifier is a type of its own with one maker. A value that came through its maker
may be placed in a topic, a file name, SQL, a log line or a terminal without another thought: it
carries no wildcard, separator, NUL, control character or markup (SPEC V5). Nothing else may.

Operations, labels, topics and filters are wider, as their types say: none of them names a file, only
topics and filters go into topics, and a page escapes all of them.
"""

import re
from typing import Final, NewType

from edgeagent.errors import MalformedError

HubId = NewType("HubId", str)
"""The hub. 1 to 64 of ``A-Z a-z 0-9 _ -``."""
DeviceId = NewType("DeviceId", str)
"""A device's native identity, such as a MAC address; it never changes. 1 to 64 of ``A-Z a-z 0-9 _ -``."""
CommandId = NewType("CommandId", str)
"""A command, chosen by its issuer. 1 to 64 of ``A-Z a-z 0-9 _ -``."""
Epoch = NewType("Epoch", str)
"""The life of one database: 20 hexadecimal digits, 12 of milliseconds and 8 of chance."""
KeyId = NewType("KeyId", str)
"""sha256 of the raw bytes of an Ed25519 public key, 64 hexadecimal digits."""
Digest = NewType("Digest", str)
"""sha256 of some bytes, 64 hexadecimal digits."""
ArtifactId = NewType("ArtifactId", str)
"""A file that is installed on devices. 1 to 64 of ``a-z 0-9 . _ -``, the first a letter or digit."""
Operation = NewType("Operation", str)
"""What the issuer means to happen once. 1 to 128 of ``A-Z a-z 0-9 . _ : / @ -``."""
ReadingName = NewType("ReadingName", str)
"""A reading of a device: ``power``, ``power.2``, ``temperature.si7021``."""
Label = NewType("Label", str)
"""Free text for people, 1 to 64 printable characters. It appears in no topic, file name or key."""
Topic = NewType("Topic", str)
"""An MQTT topic name as MQTT 5 section 4.7 has it: no wildcard, no NUL, at most 512 bytes."""
TopicFilter = NewType("TopicFilter", str)
"""An MQTT topic filter as MQTT 5 section 4.7 has it, at most 512 bytes."""

_WORD: Final = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_HEX64: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_EPOCH: Final = re.compile(r"[0-9a-f]{20}", re.ASCII)
_ARTIFACT: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}", re.ASCII)
_OPERATION: Final = re.compile(r"[A-Za-z0-9._:/@-]{1,128}", re.ASCII)
_READING: Final = re.compile(r"[a-z][a-z0-9_]{0,31}(\.[a-z0-9_-]{1,32})?", re.ASCII)

# The standard allows 65,535 bytes; the longest topic of a real family is below 300.
TOPIC_BYTES: Final = 512
LABEL_CHARACTERS: Final = 64
_SHOWN: Final = 80


def _matching(pattern: re.Pattern[str], text: str, kind: str) -> str:
    if pattern.fullmatch(text) is None:
        raise MalformedError(f"not a {kind}: {text[:_SHOWN]!r}")
    return text


def hub_id(text: str) -> HubId:
    """Check a hub's id.

    Raises:
        MalformedError: it is not one.
    """
    return HubId(_matching(_WORD, text, "hub id"))


def device_id(text: str) -> DeviceId:
    """Check a device's id.

    Raises:
        MalformedError: it is not one.
    """
    return DeviceId(_matching(_WORD, text, "device id"))


def command_id(text: str) -> CommandId:
    """Check a command's id.

    Raises:
        MalformedError: it is not one.
    """
    return CommandId(_matching(_WORD, text, "command id"))


def key_id(text: str) -> KeyId:
    """Check the id of a public key.

    Raises:
        MalformedError: it is not one.
    """
    return KeyId(_matching(_HEX64, text, "key id"))


def digest(text: str) -> Digest:
    """Check a sha256 in hexadecimal.

    Raises:
        MalformedError: it is not one.
    """
    return Digest(_matching(_HEX64, text, "sha256"))


def artifact_id(text: str) -> ArtifactId:
    """Check an artifact's id.

    Raises:
        MalformedError: it is not one.
    """
    return ArtifactId(_matching(_ARTIFACT, text, "artifact id"))


def epoch(text: str) -> Epoch:
    """Check an epoch.

    Raises:
        MalformedError: it is not one.
    """
    return Epoch(_matching(_EPOCH, text, "epoch"))


def new_epoch(milliseconds: int, chance: int) -> Epoch:
    """Make an epoch of the milliseconds since 1970 and 32 bits of chance."""
    return Epoch(f"{milliseconds & (2**48 - 1):012x}{chance & (2**32 - 1):08x}")


def operation(text: str) -> Operation:
    """Check an operation.

    Raises:
        MalformedError: it is not one.
    """
    return Operation(_matching(_OPERATION, text, "operation"))


def reading_name(text: str) -> ReadingName:
    """Check the name of a reading.

    Raises:
        MalformedError: it is not one.
    """
    return ReadingName(_matching(_READING, text, "reading name"))


def label(text: str) -> Label:
    """Check a label.

    Raises:
        MalformedError: it is empty, too long, or holds what a terminal or page would act on.
    """
    if not 0 < len(text) <= LABEL_CHARACTERS or not text.isprintable() or text != text.strip():
        raise MalformedError(f"not a label: {text[:_SHOWN]!r}")
    return Label(text)


def topic(text: str) -> Topic:
    """Check the name of a topic that we publish to or expect a message on.

    Raises:
        MalformedError: it is empty, too long, holds a wildcard or a control character, or is the
            broker's own (``$SYS``).
    """
    _check_topic(text, "topic")
    if "+" in text or "#" in text:
        raise MalformedError(f"a topic holds no wildcard: {text[:_SHOWN]!r}")
    return Topic(text)


def topic_filter(text: str) -> TopicFilter:
    """Check a topic filter (MQTT 5 section 4.7.1).

    Raises:
        MalformedError: it is no topic, or a wildcard does not fill its level, or ``#`` is not last.
    """
    _check_topic(text, "topic filter")
    levels = text.split("/")
    for place, level in enumerate(levels):
        if ("+" in level and level != "+") or ("#" in level and level != "#"):
            raise MalformedError(f"a wildcard fills its level: {text[:_SHOWN]!r}")
        if level == "#" and place != len(levels) - 1:
            raise MalformedError(f"# stands last: {text[:_SHOWN]!r}")
    return TopicFilter(text)


def topic_segment(text: str) -> str:
    """Check one level of a topic: what a device may call itself inside one.

    Raises:
        MalformedError: it is empty, too long, or holds a separator, wildcard or control character.
    """
    _check_topic(text, "topic level")
    if "/" in text or "+" in text or "#" in text:
        raise MalformedError(f"not one level of a topic: {text[:_SHOWN]!r}")
    return text


def _check_topic(text: str, kind: str) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError as why:
        raise MalformedError(f"not a {kind}: {text[:_SHOWN]!r}") from why
    # Control characters are legal in MQTT, but mosquitto disconnects who uses them and terminals obey them.
    if not 0 < size <= TOPIC_BYTES or text.startswith("$") or not text.replace(" ", "x").isprintable():
        raise MalformedError(f"not a {kind}: {text[:_SHOWN]!r}")
