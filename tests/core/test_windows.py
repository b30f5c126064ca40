"""Windows of the clock on the wall, over changes of the clock and with one that is unsure."""

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.clock import ClockSource, Wall
from edgeagent.contracts.rollout import Day, FirmwareRule, Window
from edgeagent.core.windows import instant, opening, spans

pytestmark = pytest.mark.requirement("F5")

BERLIN = ZoneInfo("Europe/Berlin")
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
EVERY_DAY = frozenset(Day)
# Forward on 28 March 2027 at 02:00, back on 31 October 2027 at 03:00; Lord Howe moves by half an hour.
ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "UTC")


def rule(
    opens: str, closes: str, days: frozenset[Day] = EVERY_DAY, zone: str = "Europe/Berlin"
) -> FirmwareRule:
    """A rule of one window."""
    return FirmwareRule(zone=zone, windows=(Window(days=days, opens=opens, closes=closes),))


def wall(moment: datetime, error: timedelta | None = timedelta(0)) -> Wall:
    """A clock that shows that, give or take an error; None where nobody can tell."""
    moment = moment.astimezone(UTC)
    latest = None if error is None else moment + error
    earliest = moment - (error or timedelta(0))
    return Wall(best=moment, earliest=earliest, latest=latest, source=ClockSource.STATEMENT)


def berlin(*parts: int) -> datetime:
    """A time on the wall in Berlin."""
    return datetime(*parts, tzinfo=BERLIN)  # type: ignore[arg-type,misc]  # year to minute


def test_without_windows_one_is_always_open_whatever_is_known_of_the_time() -> None:
    assert opening(FirmwareRule(), wall(berlin(2027, 3, 1, 12), None), 9 * HOUR).is_open


def test_a_window_over_midnight_is_open_on_both_sides_of_it() -> None:
    night = rule("22:00", "04:00", frozenset({Day.MONDAY}))  # 1 March 2027 is a Monday.

    assert not opening(night, wall(berlin(2027, 3, 1, 21, 59)), HOUR).is_open
    assert opening(night, wall(berlin(2027, 3, 1, 22)), HOUR).is_open
    assert opening(night, wall(berlin(2027, 3, 2, 3)), HOUR).is_open
    assert not opening(night, wall(berlin(2027, 3, 1, 3)), HOUR).is_open


def test_what_cannot_be_over_before_it_closes_waits_for_the_next_one() -> None:
    found = opening(rule("02:00", "04:00"), wall(berlin(2027, 3, 1, 3, 1)), HOUR)

    assert (found.is_open, found.at) == (False, berlin(2027, 3, 2, 2))


def test_what_is_longer_than_every_window_has_no_time() -> None:
    found = opening(rule("02:00", "04:00"), wall(berlin(2027, 3, 1, 1)), 3 * HOUR)

    assert (found.is_open, found.at) == (False, None)


def test_windows_that_touch_are_one() -> None:
    late = Window(days=frozenset({Day.MONDAY}), opens="22:00", closes="00:00")
    early = Window(days=frozenset({Day.TUESDAY}), opens="00:00", closes="02:00")
    both = FirmwareRule(zone="Europe/Berlin", windows=(early, late))

    assert opening(both, wall(berlin(2027, 3, 1, 22)), 4 * HOUR).is_open


def test_a_clock_of_which_nobody_knows_opens_no_window() -> None:
    found = opening(rule("00:00", "00:00"), wall(berlin(2027, 3, 1, 12), None), HOUR)

    assert (found.is_open, found.at) == (False, None)


def test_a_clock_that_may_be_off_has_to_lie_in_the_window_with_all_that_it_may_show() -> None:
    early = rule("02:00", "04:00")

    assert not opening(early, wall(berlin(2027, 3, 1, 2, 4), 5 * MINUTE), HOUR).is_open
    assert opening(early, wall(berlin(2027, 3, 1, 2, 5), 5 * MINUTE), HOUR).is_open
    assert opening(early, wall(berlin(2027, 3, 1, 2, 55), 5 * MINUTE), HOUR).is_open
    assert not opening(early, wall(berlin(2027, 3, 1, 2, 56), 5 * MINUTE), HOUR).is_open


def test_a_window_that_begins_in_the_hour_that_is_left_out_begins_when_the_clock_is_changed() -> None:
    [span, *_] = spans(rule("02:30", "04:00"), datetime(2027, 3, 28, 0, tzinfo=UTC))

    assert span.opens == datetime(2027, 3, 28, 1, tzinfo=UTC)
    assert span.closes == datetime(2027, 3, 28, 2, tzinfo=UTC)


def test_a_window_within_the_hour_that_is_left_out_is_left_out() -> None:
    [span, *_] = spans(rule("02:15", "02:45"), datetime(2027, 3, 28, 0, tzinfo=UTC))

    assert span.opens == berlin(2027, 3, 29, 2, 15)


def test_of_a_time_that_comes_twice_the_first_counts() -> None:
    [span, *_] = spans(rule("01:30", "02:30"), datetime(2027, 10, 30, 22, tzinfo=UTC))

    assert span.opens == datetime(2027, 10, 30, 23, 30, tzinfo=UTC)
    assert span.closes == datetime(2027, 10, 31, 0, 30, tzinfo=UTC)


@given(
    zone=st.sampled_from(ZONES),
    day=st.dates(date(2027, 1, 1), date(2028, 12, 31)),
    at=st.times().map(lambda each: each.replace(second=0, microsecond=0)),
)
def test_an_instant_shows_its_local_time_or_is_the_change_that_leaves_it_out(
    zone: str, day: date, at: time
) -> None:
    found = instant(day, at, ZoneInfo(zone))

    shown = found.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    wished = datetime.combine(day, at)
    just_before = (found - timedelta(seconds=1)).astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    assert shown == wished or just_before < wished < shown


@given(
    zone=st.sampled_from(ZONES),
    moment=st.datetimes(datetime(2027, 1, 1), datetime(2028, 12, 31), timezones=st.just(UTC)),  # noqa: DTZ001 - hypothesis wants bounds without a zone
    opens=st.integers(0, 24 * 60 - 1),
    closes=st.integers(0, 24 * 60 - 1),
    lasts=st.integers(1, 300),
    error=st.integers(0, 90),
)
def test_what_may_begin_is_over_in_its_window_and_what_may_not_is_told_when(
    zone: str, moment: datetime, opens: int, closes: int, lasts: int, error: int
) -> None:
    times = [f"{each // 60:02}:{each % 60:02}" for each in (opens, closes)]
    found_rule, length = rule(times[0], times[1], zone=zone), lasts * MINUTE

    found = opening(found_rule, wall(moment, error * MINUTE), length)

    if found.is_open:
        assert any(
            span.opens <= moment - error * MINUTE and moment + (error + lasts) * MINUTE <= span.closes
            for span in spans(found_rule, moment - error * MINUTE)
        )
    elif found.at is not None:
        assert found.at > moment - error * MINUTE
        assert opening(found_rule, wall(found.at), length).is_open
