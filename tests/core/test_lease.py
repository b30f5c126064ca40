"""How long leases are: twice as long as the work is known to take."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.core.lease import LONGEST, REMEMBERED, SHORTEST, Holds, length_for

pytestmark = pytest.mark.requirement("L7")

SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("declared", "measured", "length"),
    [
        pytest.param(8, None, 30, id="short work has the shortest lease"),
        pytest.param(40, None, 80, id="what is declared counts while nothing was seen"),
        pytest.param(8, 25, 50, id="what was seen to take longer counts"),
        pytest.param(40, 2, 80, id="what was seen to be quick does not shorten what is declared"),
        pytest.param(3_600, 5, 600, id="none is longer than the longest"),
    ],
)
def test_a_lease_holds_for_twice_as_long_as_the_work_takes(
    declared: int, measured: int | None, length: int
) -> None:
    seen = None if measured is None else measured * SECOND

    assert length_for(declared * SECOND, seen) == length * SECOND


def test_a_few_holds_say_nothing_yet() -> None:
    holds = Holds()
    for _ in range(4):
        holds.add(SECOND)

    assert holds.p95 is None
    holds.add(SECOND)
    assert holds.p95 == SECOND


def test_one_that_hung_among_twenty_is_not_taken_for_usual() -> None:
    holds = Holds()
    for seconds in [*range(1, 20), 1_000]:
        holds.add(seconds * SECOND)

    assert holds.p95 == 19 * SECOND


def test_only_the_last_holds_count() -> None:
    holds = Holds()
    for seconds in [900] * REMEMBERED + [1] * REMEMBERED:
        holds.add(seconds * SECOND)

    assert holds.p95 == SECOND


@given(st.lists(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=9)), min_size=5, max_size=99))
def test_the_digest_is_one_of_the_last_and_few_are_longer(lengths: list[timedelta]) -> None:
    holds = Holds()
    for length in lengths:
        holds.add(length)

    last = lengths[-REMEMBERED:]
    assert holds.p95 in last
    assert sum(length > holds.p95 for length in last) * 20 <= len(last)
    assert SHORTEST <= length_for(holds.p95, None) <= LONGEST
