"""The small types: each is one text in JSON, and no other text is one."""

import json
from base64 import b64encode
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from edgeagent.contracts.door import Contract, decode, encode
from edgeagent.contracts.scalars import (
    LONGEST,
    Base64,
    DeviceIdField,
    Duration,
    LabelField,
    Nonce,
    PublicKeyHex,
    Timestamp,
    Words,
    duration,
    duration_text,
    timestamp,
    timestamp_text,
)
from edgeagent.errors import MalformedError

pytestmark = pytest.mark.requirement("V1")


class Sample(Contract):
    """Each of the small types once."""

    time: Timestamp | None = None
    length: Duration | None = None
    data: Base64 | None = None
    nonce: Nonce | None = None
    key: PublicKeyHex | None = None
    words: Words | None = None
    device: DeviceIdField | None = None
    label: LabelField | None = None


def sample_of(field: str, value: JsonValue) -> Sample:
    """What the door makes of one field."""
    return decode(Sample, json.dumps({field: value}).encode(), limit=64 * 1024)


offsets = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(
    moment=st.datetimes(
        min_value=datetime(1, 1, 3),  # noqa: DTZ001 - the zone is drawn beside it
        max_value=datetime(9999, 12, 29),  # noqa: DTZ001 - the zone is drawn beside it
        timezones=offsets,
    )
)
def test_an_instant_is_the_same_in_every_zone_and_comes_back_in_utc(moment: datetime) -> None:
    found = timestamp(moment.isoformat())

    assert found == moment
    assert found.tzinfo is UTC
    assert timestamp(timestamp_text(moment)) == moment
    assert timestamp_text(moment).endswith("Z")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("2026-01-02T03:04:05", id="no zone"),
        pytest.param("2026-01-02", id="no time"),
        pytest.param("2026-01-02 03:04:05Z", id="a space"),
        pytest.param("2026-01-02T03:04:05z", id="a small z"),
        pytest.param("2026-01-02T03:04:05+0100", id="an offset without a colon"),
        pytest.param("2026-01-02T03:04:05+24:00", id="an offset of a day"),
        pytest.param("2026-01-02T03:04:05+00:60", id="an offset of sixty minutes"),
        pytest.param("2026-02-30T03:04:05Z", id="no such day"),
        pytest.param("2026-01-02T03:04:60Z", id="a leap second"),
        pytest.param("2026-01-02T24:00:00Z", id="hour 24"),
        pytest.param("2026-01-02T03:04:05.1234567Z", id="more digits than we keep"),
        pytest.param("2026-01-02T03:04:05.Z", id="a point without digits"),
        pytest.param("0000-01-01T00:00:00Z", id="the year nought"),
        pytest.param("9999-12-31T23:59:59-01:00", id="after the last day"),
        pytest.param("0001-01-01T00:00:00+01:00", id="before the first day"),
        pytest.param("\uff12\uff10\uff12\uff16-01-02T03:04:05Z", id="wide digits"),
        pytest.param("2026-01-02T03:04:05Z\n", id="a line end after it"),
        pytest.param("20260102T030405Z", id="the basic format"),
        pytest.param("2026-W01-1T00:00:00Z", id="a week"),
        pytest.param("now", id="a word"),
        pytest.param("", id="nothing"),
    ],
)
def test_a_text_that_is_no_instant_is_refused(text: str) -> None:
    with pytest.raises(MalformedError):
        timestamp(text)

    with pytest.raises(MalformedError, match=r"^time: "):
        sample_of("time", text)


@given(count=st.integers(0, 999_999_999), unit=st.sampled_from(["ms", "s", "m", "h", "d"]))
def test_a_length_of_time_comes_back_as_long_as_it_was(count: int, unit: str) -> None:
    length = duration(f"{min(count, LONGEST // duration(f'1{unit}'))}{unit}")

    assert duration(duration_text(length)) == length


@pytest.mark.parametrize(
    ("text", "length", "shortest"),
    [
        ("500ms", timedelta(milliseconds=500), "500ms"),
        ("90s", timedelta(seconds=90), "90s"),
        ("3600s", timedelta(hours=1), "1h"),
        ("24h", timedelta(days=1), "1d"),
        ("0d", timedelta(0), "0ms"),
    ],
)
def test_a_length_of_time_is_written_in_its_largest_whole_unit(
    text: str, length: timedelta, shortest: str
) -> None:
    assert duration(text) == length
    assert duration_text(length) == shortest


@pytest.mark.parametrize(
    "text",
    ["", "5", "s", "-5s", "+5s", "1.5s", "5 s", "5S", "PT5S", "1000000000s", "\u0665s", "5s\n", "1h30m"],
)
def test_a_text_that_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(MalformedError):
        duration(text)


def test_a_length_of_time_that_would_leave_the_calendar_is_refused() -> None:
    assert duration("36525d") == LONGEST

    for text in ("36526d", "876601h", "999999999d"):
        with pytest.raises(MalformedError, match="longer than 36525d"):
            duration(text)


@given(raw=st.binary(max_size=300))
def test_bytes_come_back_from_base64(raw: bytes) -> None:
    sample = sample_of("data", b64encode(raw).decode())

    assert sample.data == raw
    assert decode(Sample, encode(sample), limit=64 * 1024) == sample


@pytest.mark.parametrize(
    "text",
    [
        "QQ",
        "Q===",
        "QQ===",
        "QQ==\n",
        " QQ==",
        "Q Q==",
        "_-8=",
        "QQ==QQ==",
        "é",
        "QQ=\u200b=",
        "YWJj=",
        "QR==",
    ],
)
def test_a_text_that_is_no_base64_is_refused(text: str) -> None:
    with pytest.raises(MalformedError, match=r"^data: "):
        sample_of("data", text)


@pytest.mark.parametrize("field", Sample.model_fields)
@pytest.mark.parametrize("value", [0, 1_700_000_000, 1.5, True, [], {}, [65], ["a"]], ids=repr)
def test_what_is_no_text_is_none_of_them(field: str, value: JsonValue) -> None:
    with pytest.raises(MalformedError, match=rf"^{field}: "):
        sample_of(field, value)


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("nonce", "0123456789abcdef0123456789abcdef"),
        ("key", "0123456789abcdef" * 4),
        ("words", "Küche: 20 °C 🙂"),
        ("device", "A4CF12D3"),
        ("label", "Küche"),
    ],
)
def test_a_good_text_passes(field: str, text: str) -> None:
    assert sample_of(field, text).model_dump()[field] == text


@pytest.mark.parametrize(
    ("field", "text"),
    [
        pytest.param("nonce", "0123456789abcdef0123456789abcdef\n", id="a nonce and a line end"),
        pytest.param("nonce", "0123456789ABCDEF0123456789ABCDEF", id="a nonce in capitals"),
        pytest.param("nonce", "0123", id="a short nonce"),
        pytest.param("key", "0123456789abcdef" * 3, id="a short key"),
        pytest.param("key", "g" * 64, id="a key that is not hexadecimal"),
        pytest.param("words", "", id="no words"),
        pytest.param("words", "a\nb", id="two lines"),
        pytest.param("words", "a\x1b[1mb", id="an escape sequence"),
        pytest.param("words", "a\u202eb", id="words that run backwards"),
        pytest.param("words", "x" * 201, id="too many words"),
        pytest.param("device", "../etc", id="a path for a device"),
        pytest.param("label", " Küche", id="a label with a space before it"),
    ],
)
def test_a_text_that_a_type_does_not_allow_is_refused(field: str, text: str) -> None:
    with pytest.raises(MalformedError, match=rf"^{field}: "):
        sample_of(field, text)
