"""A broker's own limit of what it sends without a PUBACK shows in how turns end, and in nothing else."""

import pytest

from edgeagent.core.inflight import Inflight

pytestmark = pytest.mark.requirement("Q1")

ASKED = 500
HALF = 250


def stopped_at(*counts: int) -> Inflight:
    """What is known after turns that stopped at these counts, each begun as soon as the last was over."""
    inflight = Inflight(ASKED)
    for count in counts:
        inflight.ended(count, prompt=True, silent=True)
    return inflight


def test_half_of_what_we_asked_for_is_enough_as_long_as_nothing_else_is_known() -> None:
    assert Inflight(ASKED).enough == HALF
    assert Inflight(1).enough == 1


def test_a_broker_that_stops_at_the_same_count_again_has_a_limit() -> None:
    assert stopped_at(20).enough == HALF
    assert stopped_at(20, 20).enough == 20


@pytest.mark.parametrize(
    ("turns"),
    [
        pytest.param([(20, True, True), (21, True, True), (20, True, True)], id="another count each time"),
        pytest.param([(20, True, True), (20, False, True)], id="devices that speak at the same time"),
        pytest.param([(20, True, False), (20, True, False)], id="a steady stream, as far as the linger goes"),
        pytest.param([(7, True, True), (7, True, True)], id="so few that it may be chance"),
        pytest.param([(0, True, True), (0, True, True)], id="nothing at all"),
        pytest.param([(20, True, True), (0, True, False), (20, True, True)], id="not twice in a row"),
    ],
)
def test_what_only_looks_like_a_limit_is_none(turns: list[tuple[int, bool, bool]]) -> None:
    inflight = Inflight(ASKED)

    for count, prompt, silent in turns:
        inflight.ended(count, prompt=prompt, silent=silent)

    assert inflight.enough == HALF


def test_a_broker_that_sends_more_than_its_limit_had_none() -> None:
    inflight = stopped_at(20, 20)

    inflight.ended(21, prompt=True, silent=False)

    assert inflight.enough == HALF


def test_a_limit_is_doubted_after_a_while_and_found_again_if_it_is_one() -> None:
    inflight = stopped_at(20, 20)
    for _ in range(2000):
        assert inflight.enough == 20
        inflight.ended(20, prompt=True, silent=False)

    assert inflight.enough == HALF

    for _ in range(2):
        inflight.ended(20, prompt=True, silent=True)
    assert inflight.enough == 20
