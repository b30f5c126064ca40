"""Events: an id that is never given twice, and JSON that a strict reader takes."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from edgeagent.clock import EPOCH
from edgeagent.contracts.door import decode
from edgeagent.contracts.event import (
    CloudEvent,
    EventId,
    EventTime,
    EventType,
    StoredEvent,
    Stream,
    TimeQuality,
    data_text,
    event_id,
    render,
    source_of,
)
from edgeagent.errors import MalformedError
from edgeagent.ids import DeviceId, Epoch, HubId
from tests.support.clocks import NOON, ManualClock

HUB = HubId("hub-1")
LIFE = Epoch("0192f0c0aabb00000001")

numbers = st.integers(1, 2**63 - 1)
# From the year 1000 to the year 9999: a clock may be set to almost anything.
instants = st.integers(-30_610_224_000_000_000, 253_402_300_799_999_999)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
values = (
    texts
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
)


@pytest.mark.requirement("U8")
@given(
    number=numbers,
    kind=st.sampled_from(EventType),
    stream=st.sampled_from(Stream),
    device=st.none() | st.just(DeviceId("A4CF12D3")),
    at=instants,
    error=st.none() | st.integers(0, 2**40),
    boot=st.integers(0, 2**40),
    data=st.dictionaries(texts, values, max_size=3),
)
def test_what_is_rendered_by_hand_is_a_cloudevent_to_a_strict_reader(
    number: int,
    kind: EventType,
    stream: Stream,
    device: DeviceId | None,
    at: int,
    error: int | None,
    boot: int,
    data: dict[str, JsonValue],
) -> None:
    stored = StoredEvent(
        number=number,
        type=kind,
        device=device,
        time=EventTime(at, error, boot),
        incarnation=7,
        data=data_text(data),
    )

    event = decode(CloudEvent, render(HUB, LIFE, stream, stored), limit=64 * 1024)

    assert event_id(event.id) == EventId(HUB, LIFE, stream, number)
    assert event.source == source_of(HUB)
    assert event.type is kind
    assert event.subject == device
    assert event.time == EPOCH + timedelta(microseconds=at)
    assert event.timequality is (TimeQuality.UNKNOWN if error is None else TimeQuality.PROVEN)
    assert event.timeerror == error
    assert event.boottime == boot
    assert event.incarnation == 7
    assert event.data == data


@pytest.mark.requirement("U1")
@given(stream=st.sampled_from(Stream), number=numbers)
def test_an_events_id_comes_back_from_its_text(stream: Stream, number: int) -> None:
    made = EventId(HUB, LIFE, stream, number)

    assert event_id(str(made)) == made


@pytest.mark.requirement("U1")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "hub-1",
        f"hub-1/{LIFE}/record",
        f"hub-1/{LIFE}/record/",
        f"hub-1/{LIFE}/record/0",
        f"hub-1/{LIFE}/record/01",
        f"hub-1/{LIFE}/record/-1",
        f"hub-1/{LIFE}/record/+1",
        f"hub-1/{LIFE}/record/1.0",
        f"hub-1/{LIFE}/record/1_000",
        f"hub-1/{LIFE}/record/\u0661",
        f"hub-1/{LIFE}/record/\u00b2",
        f"hub-1/{LIFE}/record/9223372036854775808",
        f"hub-1/{LIFE}/record/{'9' * 5000}",
        f"hub-1/{LIFE}/record/1\n",
        f"hub-1/{LIFE}/record/1/2",
        f"hub-1/{LIFE}/RECORD/1",
        f"hub-1/{LIFE}/other/1",
        "hub-1/1/record/1",
        f"/{LIFE}/record/1",
        f"hub 1/{LIFE}/record/1",
    ],
    ids=lambda text: ascii(text[:50]),
)
def test_a_text_that_is_no_events_id_is_refused(text: str) -> None:
    with pytest.raises(MalformedError):
        event_id(text)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800"], ids=ascii)
def test_what_no_strict_parser_takes_is_not_written(value: float | str) -> None:
    with pytest.raises(ValueError, match=r"JSON|surrogates"):
        data_text({"value": value})


@pytest.mark.requirement("T5")
def test_the_time_of_an_event_says_what_it_is_worth() -> None:
    clock = ManualClock(NOON, error=timedelta(microseconds=1500), boot=timedelta(seconds=90))

    time = EventTime.of(clock.wall(), clock.boot())

    # The error is rounded up: an interval may be wider than needed, and never too narrow.
    assert time == EventTime(at=(NOON - EPOCH) // timedelta(microseconds=1), error=2, boot=90_000)


@pytest.mark.requirement("T5")
def test_the_time_of_an_event_without_a_proof_is_a_guess() -> None:
    clock = ManualClock(NOON, error=None)

    assert EventTime.of(clock.wall(), clock.boot()).error is None


@given(boot=st.integers(0, 2**40), age=st.integers(0, 2**50))
def test_a_message_was_never_heard_before_the_boot(boot: int, age: int) -> None:
    """Its age in microseconds is at most the time since boot, whichever way both are rounded."""
    age = min(age, boot)
    now = EventTime(at=0, error=None, boot=boot // 1000)

    heard = now.earlier(age)

    assert heard.boot >= 0
    assert heard.at == -age


@pytest.mark.requirement("U8")
def test_an_event_before_1970_has_the_time_that_a_strict_reader_knows() -> None:
    """A hub without a clock may believe so."""
    stored = StoredEvent(
        number=1,
        type=EventType.HUB_HELLO,
        device=None,
        time=EventTime(-1, None, 0),
        incarnation=1,
        data=b"{}",
    )

    event = json.loads(render(HUB, LIFE, Stream.RECORD, stored))

    assert event["time"] == "1969-12-31T23:59:59.999999Z"
    assert datetime.fromisoformat(event["time"]) == datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
