"""The small types that contracts are made of: identifiers, instants, durations, bytes as text.

Each is written in JSON as text and becomes its own type at the door; a text that is not one is
refused there.
"""

import re
from base64 import b64encode
from binascii import a2b_base64, b2a_base64
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, StringConstraints

from edgeagent import ids
from edgeagent.errors import MalformedError

_RFC3339: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:[0-5]\d)", re.ASCII)
_DURATION: Final = re.compile(r"(\d{1,9})(ms|s|m|h|d)", re.ASCII)
_UNITS: Final = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
LONGEST: Final = timedelta(days=36_525)
"""No length of time is longer, so that none added to an instant leaves the calendar."""


def timestamp(text: str) -> datetime:
    """Read an instant with its zone (RFC 3339) as UTC.

    Raises:
        MalformedError: it is none, has no zone, or names a day that does not exist.
    """
    if _RFC3339.fullmatch(text) is None:
        raise MalformedError("not a time with zone, like 2026-01-02T03:04:05Z")
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError) as why:
        raise MalformedError("no such time") from why


def timestamp_text(moment: datetime) -> str:
    """Write an instant as RFC 3339 in UTC, with as many digits as it has."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def duration(text: str) -> timedelta:
    """Read a length of time: a whole number and one of ``ms s m h d``.

    Raises:
        MalformedError: it is none, or longer than ``LONGEST``.
    """
    found = _DURATION.fullmatch(text)
    if found is None:
        raise MalformedError("not a length of time, like 500ms, 30s, 5m, 12h or 7d")
    length = int(found[1]) * _UNITS[found[2]]
    if length > LONGEST:
        raise MalformedError(f"longer than {duration_text(LONGEST)}")
    return length


def duration_text(length: timedelta) -> str:
    """Write a length of time in the largest unit that holds it whole."""
    for unit in ("d", "h", "m", "s"):
        if length and length % _UNITS[unit] == timedelta(0):
            return f"{length // _UNITS[unit]}{unit}"
    return f"{length // _UNITS['ms']}ms"


def base64_bytes(text: str) -> bytes:
    """Read standard base64 with padding (RFC 4648 section 4), as every encoder writes it.

    Raises:
        MalformedError: a character or the padding is wrong, or bits are set that no byte needs.
    """
    try:
        raw = a2b_base64(text, strict_mode=True)
    except ValueError as why:
        raise MalformedError("not base64") from why
    # Decoders differ about padding that is not needed and bits that are not used (RFC 4648 section 3.5).
    if b2a_base64(raw, newline=False) != text.encode():
        raise MalformedError("not base64 as it is written")
    return raw


def _at_birth(make: "object") -> BeforeValidator:
    """Run a maker of ``ids`` inside pydantic, which knows refusals as ValueError."""

    def checked(value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            return make(value)  # type: ignore[operator]
        except MalformedError as why:
            raise ValueError(str(why)) from why

    return BeforeValidator(checked)


HubIdField = Annotated[ids.HubId, _at_birth(ids.hub_id)]
DeviceIdField = Annotated[ids.DeviceId, _at_birth(ids.device_id)]
CommandIdField = Annotated[ids.CommandId, _at_birth(ids.command_id)]
EpochField = Annotated[ids.Epoch, _at_birth(ids.epoch)]
KeyIdField = Annotated[ids.KeyId, _at_birth(ids.key_id)]
DigestField = Annotated[ids.Digest, _at_birth(ids.digest)]
ArtifactIdField = Annotated[ids.ArtifactId, _at_birth(ids.artifact_id)]
OperationField = Annotated[ids.Operation, _at_birth(ids.operation)]
ReadingNameField = Annotated[ids.ReadingName, _at_birth(ids.reading_name)]
LabelField = Annotated[ids.Label, _at_birth(ids.label)]
Timestamp = Annotated[datetime, _at_birth(timestamp), PlainSerializer(timestamp_text)]
Duration = Annotated[timedelta, _at_birth(duration), PlainSerializer(duration_text)]
Base64 = Annotated[
    bytes,
    _at_birth(base64_bytes),
    PlainSerializer(lambda raw: b64encode(raw).decode("ascii"), return_type=str),
]
Nonce = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
"""128 bits of chance in hexadecimal."""


_PRIME: Final = 2**255 - 19
_ORDER_8: Final = int.from_bytes(
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little"
)
_SMALL: Final = frozenset({0, 1, _PRIME - 1, _ORDER_8, _PRIME - _ORDER_8})
"""y of the eight points whose order divides eight."""


def is_sound_key(raw: bytes) -> bool:
    """Whether 32 bytes may be an Ed25519 public key at all (RFC 8032 section 5.1.3).

    Anybody can sign for a point of small order, without a private key: ``openssl`` takes one signature of
    zeros under every eighth message or more. And a y beyond the prime would be a second spelling, and so a
    second id, of a key.
    """
    y = int.from_bytes(raw, "little") & (2**255 - 1)
    return len(raw) == 32 and y < _PRIME and y not in _SMALL  # noqa: PLR2004 - the length of a key


def _sound(text: str) -> str:
    if not is_sound_key(bytes.fromhex(text)):
        raise ValueError("no key that only its holder can sign for")
    return text


PublicKeyHex = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$"), AfterValidator(_sound)]
"""The 32 raw bytes of an Ed25519 public key (RFC 8032) in hexadecimal."""


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("holds what a terminal would act on")
    return text


Words = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(_one_line)]
"""A line for people: printable, at most 200 characters."""


_MICROSECOND: Final = timedelta(microseconds=1)


def _of_microseconds(value: object) -> object:
    return value * _MICROSECOND if type(value) is int else value


Microseconds = Annotated[
    timedelta,
    BeforeValidator(_of_microseconds),
    PlainSerializer(lambda length: length // _MICROSECOND, return_type=int),
]
"""A length of time, or boot time, as a whole number of microseconds."""
