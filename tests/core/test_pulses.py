"""Since when each flow is at its present piece of work: who does not come back is found, who rests never."""

from datetime import timedelta

import pytest

from edgeagent.core.pulses import Pulses, Stuck

pytestmark = pytest.mark.requirement("R6")

SECOND = timedelta(seconds=1)


def test_whoever_rests_is_never_stuck() -> None:
    pulses = Pulses()
    with pulses.at_work("ingest", 5 * SECOND):
        pass

    assert pulses.stuck(timedelta(days=400)) is None


def test_whoever_does_not_come_back_in_time_is_stuck_until_it_does() -> None:
    pulses = Pulses()

    with pulses.at_work("ingest", 5 * SECOND):
        assert pulses.stuck(5 * SECOND) is None
        assert pulses.stuck(7 * SECOND) == Stuck("ingest", 2 * SECOND)

    assert pulses.stuck(7 * SECOND) is None


def test_the_latest_of_several_is_told() -> None:
    pulses = Pulses()

    with pulses.at_work("uplink", 9 * SECOND), pulses.at_work("ingest", 5 * SECOND):
        with pulses.at_work("uplink", 2 * SECOND):
            assert pulses.stuck(20 * SECOND) == Stuck("uplink", 18 * SECOND)
        assert pulses.stuck(20 * SECOND) == Stuck("ingest", 15 * SECOND)


def test_work_that_goes_wrong_is_over_too() -> None:
    pulses = Pulses()

    with pytest.raises(ValueError, match="no"), pulses.at_work("ingest", SECOND):
        raise ValueError("no")

    assert pulses.stuck(9 * SECOND) is None
