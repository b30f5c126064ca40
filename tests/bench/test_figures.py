"""Medians, ratios, and whether a target is met."""

import pytest

from bench.figures import Row, table

SPEED = Row(name="speed", title="speed", least_of_reference=0.8)
MEMORY = Row(name="memory", title="memory, MiB", digits=1, most=62)
CPU = Row(name="cpu", title="CPU", most_of_reference=1.3)
RATE = Row(name="rate", title="rate", least=800)


def test_a_row_has_the_medians_of_all_runs_their_ratio_and_whether_the_target_is_met() -> None:
    drawn = table([SPEED], [{"speed": 80.0}, {"speed": 90.0}, {"speed": 10.0}], [{"speed": 100.0}])

    assert drawn.splitlines()[1].split() == ["speed", "80", "10-90", "100", "0.80", "≥", "0.8", "ref", "yes"]


def test_a_row_that_no_run_tells_of_is_left_out() -> None:
    drawn = table([SPEED, MEMORY], [{"memory": 70.04}], [])

    assert len(drawn.splitlines()) == 2
    assert drawn.splitlines()[1].split() == ["memory,", "MiB", "70.0", "≤", "62", "no"]


def test_a_row_says_what_it_is_to_be_at_least() -> None:
    drawn = table([RATE], [{"rate": 801.0}], [])

    assert drawn.splitlines()[1].split() == ["rate", "801", "≥", "800", "yes"]


@pytest.mark.parametrize(
    ("row", "agent", "reference", "expected"),
    [
        (SPEED, 79, 100, False),
        (CPU, 130, 100, True),
        (CPU, 131, 100, False),
        (MEMORY, 62, None, True),
        (SPEED, 79, None, None),
        (RATE, 800, None, True),
        (RATE, 799, None, False),
        (Row(name="told", title="only told"), 1, 1, None),
    ],
)
def test_targets_are_shares_of_the_reference_or_bounds(
    row: Row, agent: float, reference: float | None, *, expected: bool | None
) -> None:
    assert row.is_met(agent, reference) is expected
