"""Validity by an interval of time: valid, expired, not yet, or not to be told."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.clock import EPOCH, BootId, ClockSource, Wall
from edgeagent.core.freshness import (
    CHANCE_BITS,
    ISSUER_SKEW,
    LARGEST_SEQUENCE,
    BootDeadline,
    Validity,
    begins,
    largest_sequence,
    validity,
)
from tests.support.clocks import FIRST_BOOT, NOON, SECOND_BOOT

pytestmark = pytest.mark.requirement("T5")

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
ISSUED, EXPIRES = NOON, NOON + 10 * MINUTE

moments = st.timedeltas(min_value=timedelta(days=-2), max_value=timedelta(days=2)).map(lambda off: NOON + off)
errors = st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=1))


def between(earliest: datetime, latest: datetime | None) -> Wall:
    """A clock that knows only this much."""
    return Wall(best=earliest, earliest=earliest, latest=latest, source=ClockSource.NONE)


@pytest.mark.parametrize(
    ("earliest", "latest", "expected"),
    [
        pytest.param(NOON, NOON + SECOND, Validity.VALID, id="within"),
        pytest.param(EXPIRES - 2 * SECOND, EXPIRES - SECOND, Validity.VALID, id="certainly not over"),
        pytest.param(EXPIRES - SECOND, EXPIRES, Validity.UNSURE, id="may be over at this very moment"),
        pytest.param(EXPIRES - SECOND, EXPIRES + SECOND, Validity.UNSURE, id="may be over"),
        pytest.param(EXPIRES, EXPIRES + SECOND, Validity.EXPIRED, id="over at this very moment"),
        pytest.param(EXPIRES + SECOND, EXPIRES + MINUTE, Validity.EXPIRED, id="over"),
        pytest.param(EXPIRES + SECOND, None, Validity.EXPIRED, id="over, whatever the time is"),
        pytest.param(NOON, None, Validity.UNSURE, id="nothing proves the time"),
        pytest.param(NOON - 400 * MINUTE, None, Validity.UNSURE, id="a floor far below"),
        pytest.param(
            ISSUED - 2 * MINUTE, ISSUED - ISSUER_SKEW - SECOND, Validity.NOT_YET, id="certainly not begun"
        ),
        pytest.param(ISSUED - MINUTE, ISSUED - ISSUER_SKEW, Validity.VALID, id="within the issuer's skew"),
        pytest.param(ISSUED - MINUTE, ISSUED + SECOND, Validity.VALID, id="may have begun"),
    ],
)
def test_what_can_be_said_of_a_span(earliest: datetime, latest: datetime | None, expected: Validity) -> None:
    assert validity(ISSUED, EXPIRES, between(earliest, latest)) is expected


@given(now=moments, early=errors, late=errors, length=errors)
def test_what_is_said_for_sure_is_so_wherever_in_the_interval_the_time_lies(
    now: datetime, early: timedelta, late: timedelta, length: timedelta
) -> None:
    expires = NOON + length + SECOND
    said = validity(NOON, expires, between(now - early, now + late))

    for true_time in (now - early, now, now + late):
        if said is Validity.VALID:
            assert true_time < expires
        if said is Validity.EXPIRED:
            assert true_time >= expires
        if said is Validity.NOT_YET:
            assert true_time < NOON


@given(now=moments, error=errors, length=errors)
def test_an_interval_that_knows_less_never_says_more(
    now: datetime, error: timedelta, length: timedelta
) -> None:
    expires = NOON + length + SECOND
    exact = validity(NOON, expires, between(now, now))
    wide = validity(NOON, expires, between(now - error, now + error))
    blind = validity(NOON, expires, between(now - error, None))

    assert wide in {exact, Validity.UNSURE, Validity.VALID if exact is Validity.NOT_YET else exact}
    assert blind in {Validity.EXPIRED, Validity.UNSURE}
    assert blind is not Validity.EXPIRED or exact is Validity.EXPIRED


@pytest.mark.requirement("T4")
@given(now=moments, error=errors, sequence=st.integers(1, LARGEST_SEQUENCE))
def test_a_sequence_is_far_ahead_until_its_time_has_nearly_come(
    now: datetime, error: timedelta, sequence: int
) -> None:
    begun = begins(NOON - timedelta(days=9), sequence)
    around = max(begun, NOON) + timedelta(seconds=1)

    assert sequence <= largest_sequence(between(begun, begun))
    assert sequence <= largest_sequence(between(around - error, around))
    assert sequence <= largest_sequence(between(now, None))
    if begun > NOON:
        before = begun - timedelta(milliseconds=1)
        assert sequence > largest_sequence(between(before - error, before))


@pytest.mark.requirement("T4")
@pytest.mark.parametrize(
    ("ahead", "is_far"),
    [
        (timedelta(0), False),
        (timedelta(hours=23), False),
        (timedelta(hours=25), True),
        (timedelta(days=365), True),
    ],
)
def test_a_day_ahead_is_far(ahead: timedelta, is_far: bool) -> None:  # noqa: FBT001 - a column of the table
    sequence = (NOON + ahead - EPOCH) // timedelta(milliseconds=1) << CHANCE_BITS | 2**CHANCE_BITS - 1

    assert (sequence > largest_sequence(between(NOON, NOON))) is is_far


@pytest.mark.requirement("V6", "L5")
@pytest.mark.parametrize(
    ("boot", "now", "is_over"),
    [
        pytest.param(FIRST_BOOT, 59 * SECOND, False, id="before"),
        pytest.param(FIRST_BOOT, 60 * SECOND, True, id="at its end"),
        pytest.param(FIRST_BOOT, 61 * SECOND, True, id="after"),
        pytest.param(SECOND_BOOT, timedelta(0), True, id="in another boot, however early"),
    ],
)
def test_a_deadline_on_boot_time_is_over_at_its_end_and_in_any_other_boot(
    boot: BootId,
    now: timedelta,
    is_over: bool,  # noqa: FBT001 - a column of the table
) -> None:
    assert BootDeadline(FIRST_BOOT, 60 * SECOND).passed(boot, now) is is_over
