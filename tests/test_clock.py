"""The clock: an interval that is true, or no interval at all."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.clock import BUILT_AT, ClockSource, Proof, ProvenClock, SystemTime
from tests.support.clocks import NOON, ManualReadings

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)

lengths = st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=30))
sources = st.sampled_from([source for source in ClockSource if source is not ClockSource.NONE])
errors = st.timedeltas(min_value=timedelta(0), max_value=HOUR)


def proof_of(
    wall: datetime,
    readings: ManualReadings,
    *,
    error: timedelta = SECOND,
    source: ClockSource = ClockSource.STATEMENT,
) -> Proof:
    """A proof given now."""
    return Proof(source=source, wall=wall, error=error, at=readings.boot())


@pytest.mark.requirement("T5")
def test_without_a_proof_the_end_of_the_interval_is_unknown() -> None:
    clock = ProvenClock(ManualReadings(NOON))

    wall = clock.wall()

    assert wall.source is ClockSource.NONE
    assert wall.latest is None
    assert wall.error is None
    assert wall.earliest == BUILT_AT
    assert wall.best == NOON


@pytest.mark.requirement("T6", "R4")
@pytest.mark.parametrize("year", [1970, 2025])
def test_a_clock_before_the_floor_is_shown_as_the_floor(year: int) -> None:
    clock = ProvenClock(ManualReadings(NOON.replace(year=year)), floor=NOON)

    assert clock.wall().best == NOON


@pytest.mark.requirement("T6")
def test_no_floor_lies_before_the_software_was_built() -> None:
    clock = ProvenClock(ManualReadings(), floor=BUILT_AT - 400 * DAY)

    assert clock.floor == BUILT_AT


@pytest.mark.requirement("T5")
@given(error=errors, before=lengths, passed=lengths, rate=st.floats(-500e-6, 500e-6))
def test_the_interval_holds_the_true_time_however_far_the_crystal_drifts(
    error: timedelta, before: timedelta, passed: timedelta, rate: float
) -> None:
    """The proof is off by all of its error, and true time runs apart from boot time by up to 500 ppm."""
    readings = ManualReadings()
    readings.passes(before)
    clock = ProvenClock(readings)
    truth = NOON
    clock.prove(proof_of(truth - error, readings, error=error))

    readings.passes(passed)
    truth += passed * (1 + rate)

    wall = clock.wall()
    assert wall.latest is not None
    slack = timedelta(microseconds=2)
    assert wall.earliest - slack <= truth <= wall.latest + slack


@pytest.mark.requirement("T5")
@given(steps=st.lists(st.tuples(sources, lengths, errors, lengths), max_size=8))
def test_whatever_is_proven_the_best_guess_lies_between_floor_and_end(
    steps: list[tuple[ClockSource, timedelta, timedelta, timedelta]],
) -> None:
    readings = ManualReadings()
    clock = ProvenClock(readings)
    for source, ahead, error, passed in steps:
        clock.prove(proof_of(NOON + ahead, readings, error=error, source=source))
        readings.passes(passed)
        clock.raise_floor(NOON + passed)

        wall = clock.wall()

        assert clock.floor <= wall.earliest <= wall.best
        assert wall.latest is None or wall.best <= wall.latest
        assert (wall.latest is None) == (wall.source is ClockSource.NONE)


@pytest.mark.requirement("T5")
def test_a_day_without_a_new_proof_costs_43_seconds_of_certainty() -> None:
    readings = ManualReadings()
    clock = ProvenClock(readings)
    clock.prove(proof_of(NOON, readings, error=SECOND))

    readings.passes(DAY)

    error = clock.wall().error
    assert error is not None
    assert error == SECOND + timedelta(seconds=43.2)


@pytest.mark.requirement("T5", "R4")
def test_setting_the_kernels_clock_moves_nothing_that_is_proven() -> None:
    readings = ManualReadings()
    clock = ProvenClock(readings)
    clock.prove(proof_of(NOON, readings))

    readings.is_set(NOON + 400 * DAY)
    far_ahead = clock.wall()
    readings.is_set(NOON - 400 * DAY)
    far_back = clock.wall()

    assert far_ahead == far_back
    assert far_ahead.best == NOON


@pytest.mark.requirement("T5")
def test_a_closer_proof_replaces_a_wider_one_and_not_the_other_way_round() -> None:
    readings = ManualReadings()
    clock = ProvenClock(readings)
    assert clock.prove(proof_of(NOON, readings, error=HOUR))

    closer = clock.prove(proof_of(NOON + SECOND, readings, error=SECOND))
    wider = clock.prove(proof_of(NOON, readings, error=HOUR))

    assert closer
    assert not wider
    assert clock.wall().best == NOON + SECOND


@pytest.mark.requirement("T5")
def test_a_wider_proof_is_taken_once_drift_has_made_the_held_one_wider_still() -> None:
    readings = ManualReadings()
    clock = ProvenClock(readings)
    clock.prove(proof_of(NOON, readings, error=SECOND))

    readings.passes(30 * DAY)
    taken = clock.prove(proof_of(NOON + 30 * DAY, readings, error=60 * SECOND))

    assert taken


@pytest.mark.requirement("T5", "R4")
@pytest.mark.parametrize("leap", [-10 * DAY, 10 * DAY], ids=["back", "ahead"])
def test_a_weaker_source_cannot_contradict_a_stronger_one(leap: timedelta) -> None:
    readings = ManualReadings(NOON)
    clock = ProvenClock(readings)
    clock.prove(proof_of(NOON, readings, source=ClockSource.STATEMENT))

    readings.synchronises(NOON + leap, timedelta(milliseconds=1))
    word = clock.kernels_word()

    assert word is not None
    assert not clock.prove(word)
    assert clock.wall().best == NOON


@pytest.mark.requirement("T5")
def test_a_stronger_source_overrules_a_weaker_one_that_it_contradicts() -> None:
    readings = ManualReadings(NOON)
    clock = ProvenClock(readings)
    clock.prove(proof_of(NOON, readings, error=SECOND, source=ClockSource.OPERATOR))

    taken = clock.prove(proof_of(NOON + DAY, readings, error=60 * SECOND, source=ClockSource.STATEMENT))

    assert taken
    assert clock.wall().source is ClockSource.STATEMENT


@pytest.mark.requirement("T6", "R4")
def test_a_proof_from_before_the_floor_is_refused_and_changes_nothing() -> None:
    readings = ManualReadings()
    clock = ProvenClock(readings, floor=NOON)
    before = clock.wall()

    taken = clock.prove(proof_of(NOON - DAY, readings))

    assert not taken
    assert clock.wall() == before


@pytest.mark.requirement("T6")
def test_the_floor_cuts_off_what_is_certainly_past() -> None:
    readings = ManualReadings()
    clock = ProvenClock(readings, floor=NOON)

    clock.prove(proof_of(NOON - SECOND, readings, error=60 * SECOND))

    wall = clock.wall()
    assert wall.earliest == NOON
    assert wall.best == NOON
    assert wall.latest == NOON + 59 * SECOND


@pytest.mark.requirement("T6")
@given(moments=st.lists(st.datetimes(NOON.replace(tzinfo=None) - 400 * DAY), max_size=10))
def test_the_floor_never_falls(moments: list[datetime]) -> None:
    clock = ProvenClock(ManualReadings(), floor=NOON)
    floor = clock.floor
    for moment in moments:
        rose = clock.raise_floor(moment.replace(tzinfo=NOON.tzinfo))

        assert clock.floor >= floor
        assert rose == (clock.floor > floor)
        floor = clock.floor


@pytest.mark.requirement("T5", "T6")
def test_a_floor_beyond_the_interval_shows_that_the_proof_was_wrong() -> None:
    """Else the clock would claim to know the time to the microsecond, and be wrong."""
    readings = ManualReadings()
    clock = ProvenClock(readings)
    clock.prove(proof_of(NOON, readings))

    clock.raise_floor(NOON + DAY)

    wall = clock.wall()
    assert wall.source is ClockSource.NONE
    assert wall.latest is None
    assert wall.earliest == NOON + DAY


@pytest.mark.requirement("T5")
def test_a_kernel_that_is_not_synchronised_proves_nothing() -> None:
    clock = ProvenClock(ManualReadings(NOON, error=None))

    assert clock.kernels_word() is None
    assert clock.wall().latest is None


@pytest.mark.requirement("T5")
def test_a_synchronised_kernel_is_believed_within_its_own_error() -> None:
    clock = ProvenClock(ManualReadings(NOON, error=timedelta(milliseconds=30)))

    word = clock.kernels_word()
    assert word is not None
    assert clock.prove(word)

    wall = clock.wall()
    assert wall.source is ClockSource.KERNEL
    assert wall.error == timedelta(milliseconds=30)


@pytest.mark.requirement("L5")
def test_the_systems_boot_time_only_grows_and_names_its_boot() -> None:
    system = SystemTime()
    again = SystemTime()

    first = system.boot()
    second = again.boot()

    assert timedelta(0) < first <= second
    assert system.boot_id == again.boot_id
    assert system.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()


@pytest.mark.requirement("T5")
def test_the_kernel_may_be_asked_whether_it_is_synchronised() -> None:
    """Whether it is depends on the machine; that it can be asked does not."""
    error = SystemTime().synchronised()

    assert error is None or error >= timedelta(0)
