"""When to try again: bounded, spread, and reset only by a link that works."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.core.retry import Backoff, BackoffRule, delay

pytestmark = pytest.mark.requirement("E2")

SECOND = timedelta(seconds=1)
RULE = BackoffRule(first=SECOND, longest=60 * SECOND, stable_after=30 * SECOND)

chances = st.floats(0, 1, exclude_max=True)
lengths = st.timedeltas(min_value=timedelta(0))


@given(failures=st.integers(1, 10**9), first=lengths, longest=lengths, chance=chances)
def test_a_delay_lies_between_nothing_and_the_cap_however_often_it_failed(
    failures: int, first: timedelta, longest: timedelta, chance: float
) -> None:
    wait = delay(failures, first=first, longest=longest, chance=chance)

    assert timedelta(0) <= wait <= longest
    assert failures > 1 or wait <= first


@given(failures=st.integers(1, 100), chance=chances)
def test_a_further_failure_never_shortens_the_delay(failures: int, chance: float) -> None:
    waits = [
        delay(count, first=SECOND, longest=60 * SECOND, chance=chance) for count in (failures, failures + 1)
    ]

    assert waits[0] <= waits[1]


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [
        pytest.param(1, 1, id="the first"),
        pytest.param(2, 2, id="doubled"),
        pytest.param(6, 32, id="five times doubled"),
        pytest.param(7, 60, id="the cap"),
        pytest.param(10_000, 60, id="still the cap"),
    ],
)
def test_the_cap_doubles_up_to_the_longest(failures: int, seconds: int) -> None:
    assert delay(failures, first=SECOND, longest=60 * SECOND, chance=0.5) == seconds * SECOND / 2


@pytest.mark.requirement("E4")
def test_hubs_that_fail_together_do_not_come_back_together() -> None:
    chances = [number / 100 for number in range(100)]

    waits = {delay(3, first=SECOND, longest=60 * SECOND, chance=chance) for chance in chances}

    assert len(waits) == 100
    assert max(waits) - min(waits) > 3 * SECOND


@pytest.mark.requirement("E4")
def test_a_link_that_fails_at_once_again_goes_on_where_it_was() -> None:
    backoff = Backoff(RULE)
    backoff.failed(0 * SECOND, chance=0.5)
    backoff.failed(1 * SECOND, chance=0.5)

    backoff.worked(2 * SECOND)
    wait = backoff.failed(3 * SECOND, chance=0.5)

    assert backoff.failures == 3
    assert wait == 2 * SECOND


@pytest.mark.requirement("E4")
def test_a_link_that_worked_for_long_enough_starts_anew() -> None:
    backoff = Backoff(RULE)
    backoff.failed(0 * SECOND, chance=0.5)
    backoff.failed(1 * SECOND, chance=0.5)

    backoff.worked(2 * SECOND)
    wait = backoff.failed(32 * SECOND, chance=0.5)

    assert backoff.failures == 1
    assert wait == SECOND / 2


@pytest.mark.requirement("E4")
def test_failures_are_forgotten_while_the_link_still_works() -> None:
    backoff = Backoff(RULE)
    backoff.failed(0 * SECOND, chance=0.5)

    backoff.worked(1 * SECOND)
    backoff.worked(30 * SECOND)
    soon = backoff.failures
    backoff.worked(31 * SECOND)

    assert soon == 1
    assert backoff.failures == 0


@pytest.mark.requirement("E4")
def test_how_long_it_worked_counts_from_the_last_failure() -> None:
    backoff = Backoff(RULE)
    backoff.worked(0 * SECOND)
    backoff.failed(10 * SECOND, chance=0.5)

    backoff.worked(11 * SECOND)
    backoff.failed(40 * SECOND, chance=0.5)

    assert backoff.failures == 2


@pytest.mark.requirement("E4")
@pytest.mark.parametrize(
    ("asked", "wait"),
    [
        pytest.param(10 * SECOND, 10 * SECOND, id="longer than our own"),
        pytest.param(SECOND / 10, SECOND / 2, id="shorter than our own"),
        pytest.param(400 * timedelta(days=1), timedelta(hours=1), id="for over a year"),
        pytest.param(-SECOND, SECOND / 2, id="less than nothing"),
        pytest.param(None, SECOND / 2, id="nothing"),
    ],
)
def test_what_the_peer_asks_for_is_obeyed_within_an_hour(asked: timedelta | None, wait: timedelta) -> None:
    assert Backoff(RULE).failed(0 * SECOND, chance=0.5, at_least=asked) == wait
