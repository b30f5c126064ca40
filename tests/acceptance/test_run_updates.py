"""What ``./run`` makes of the appliances' journal about updates: a broken promise is found out."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import pytest

from firmware_sim.fields import Json
from firmware_sim.journal import Line, What
from firmware_sim.venue.updates import courses, first_alone, most_at_once, not_too_many, runs_after

pytestmark = pytest.mark.requirement("F5", "F6")

OLD, NEW = "14.1.0", "14.2.0"
ONE, TWO, THREE = "02ED6E000001", "02ED6E000002", "02ED6E000003"
BEGUN: Final = "begun"


def journal(*told: tuple[str, str]) -> list[Line]:
    """Who did what, in this order: began, or booted a version."""
    return [_line(number, appliance, what) for number, (appliance, what) in enumerate(told, 1)]


def _line(number: int, appliance: str, what: str) -> Line:
    details: dict[str, Json] = {"version": what, "outcome": "up"}
    if what == BEGUN:
        details = {"topic": f"cmnd/{appliance}/Upgrade", "payload": "1"}
    kind = What.HEARD if what == BEGUN else What.BOOTED
    return Line(
        at=datetime(2026, 1, 1, tzinfo=UTC), number=number, appliance=appliance, what=kind, details=details
    )


GOOD: Final = journal((ONE, BEGUN), (ONE, NEW), (TWO, BEGUN), (THREE, BEGUN), (TWO, NEW), (THREE, OLD))


def test_a_list_that_goes_as_it_should_is_told_so() -> None:
    seen = courses(GOOD)

    assert first_alone(seen, 1).holds is True
    assert (most_at_once(seen), not_too_many(seen, 2).holds) == (2, True)
    assert [
        runs_after(seen, who, version, name="It").holds
        for who, version in ((ONE, NEW), (TWO, NEW), (THREE, OLD))
    ] == [True, True, True]


@pytest.mark.parametrize(
    "told",
    [
        pytest.param([(ONE, BEGUN), (ONE, NEW), (ONE, BEGUN), (ONE, NEW)], id="set off twice"),
        pytest.param([(ONE, BEGUN)], id="never booted"),
        pytest.param([(ONE, BEGUN), (ONE, NEW), (ONE, OLD)], id="back again"),
        pytest.param([(TWO, BEGUN), (TWO, NEW)], id="never begun"),
    ],
)
def test_one_that_does_not_run_it_or_was_set_off_twice_is_found_out(told: Sequence[tuple[str, str]]) -> None:
    assert runs_after(courses(journal(*told)), ONE, NEW, name="It").holds is False


def test_too_many_at_once_and_a_first_one_that_was_not_waited_for_are_found_out() -> None:
    seen = courses(journal((ONE, BEGUN), (TWO, BEGUN), (ONE, NEW), (TWO, NEW), (THREE, BEGUN)))

    assert not_too_many(seen, 1).holds is False
    assert first_alone(seen, 1).holds is False
    assert not_too_many({}, 1).holds is False
