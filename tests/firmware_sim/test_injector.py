"""When faults strike: by seed, appliance and message, and by nothing else."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.faults import Fault, Kind, Way, fault, plan
from firmware_sim.fields import InputError, Json
from firmware_sim.injector import FaultInjector, spliced

pytestmark = pytest.mark.requirement("F6")

HALF = Fault(kind=Kind.DROP, probability=0.5)


def fates(seed: str, *faults: Fault, appliance: str = "lamp", count: int = 50) -> list[bool]:
    """Which of so many messages are lost."""
    injector = FaultInjector(appliance, seed, timedelta)
    injector.add(faults)
    return [injector.heard("a").lost for _ in range(count)]


def test_the_same_seed_decides_the_same() -> None:
    assert fates("7", HALF) == fates("7", HALF)


def test_another_seed_or_appliance_decides_otherwise() -> None:
    assert fates("7", HALF) != fates("8", HALF)
    assert fates("7", HALF) != fates("7", HALF, appliance="plug")


def test_a_fault_that_is_added_behind_changes_nothing_for_the_others() -> None:
    late = Fault(kind=Kind.DELAY, probability=0.5, delay=timedelta(seconds=1))

    assert fates("7", HALF) == fates("7", HALF, late)


def test_messages_that_do_not_match_draw_nothing() -> None:
    injector = FaultInjector("lamp", "7", timedelta)
    injector.add([Fault(kind=Kind.DROP, probability=0.5, topic="a")])

    lost = []
    for _ in range(50):
        injector.heard("b")
        injector.said("a")
        lost.append(injector.heard("a").lost)

    assert lost == fates("7", HALF)


@given(st.binary(max_size=300), st.floats(0, 1, exclude_max=True))
def test_a_spliced_message_is_never_utf_8(message: bytes, share: float) -> None:
    with pytest.raises(UnicodeDecodeError):
        spliced(message, share).decode()


def test_a_plan_is_read_as_it_is_written() -> None:
    written: Json = {
        "fault": [
            {"fault": "delay", "way": "said", "topic": "a/#", "delay": "200ms", "delay_most": 1, "times": 3},
            {"fault": "reboot", "appliance": "tasmota*", "at": "5s", "lasting": "2s"},
        ]
    }

    read = plan(written).faults

    assert read[0] == Fault(
        kind=Kind.DELAY,
        way=Way.SAID,
        topic="a/#",
        delay=timedelta(milliseconds=200),
        delay_most=timedelta(seconds=1),
        times=3,
    )
    assert (read[1].at, read[1].lasting) == (timedelta(seconds=5), timedelta(seconds=2))


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        pytest.param({}, "'fault' is missing", id="nothing"),
        pytest.param([1], "an object is wanted", id="a list"),
        pytest.param({"fault": "drpo"}, "one of drop", id="misspelt kind"),
        pytest.param({"fault": "drop", "probabilty": 1}, "unknown probabilty", id="misspelt field"),
        pytest.param({"fault": "drop", "probability": 2}, "from 0 to 1", id="out of range"),
        pytest.param({"fault": "drop", "probability": True}, "from 0 to 1", id="a truth value"),
        pytest.param({"fault": "drop", "nth": 0}, "from 1", id="zeroth"),
        pytest.param({"fault": "delay"}, "needs a delay", id="no delay"),
        pytest.param({"fault": "delay", "delay": "soon"}, "no duration", id="no duration"),
        pytest.param({"fault": "delay", "delay": -1}, "no duration", id="before it began"),
        pytest.param({"fault": "wrong_echo", "way": "said"}, "what is heard", id="wrong way"),
        pytest.param({"fault": "garble"}, "way = said", id="the other wrong way"),
        pytest.param({"fault": "drop", "at": "1s"}, "no time of its own", id="a time"),
        pytest.param({"fault": "drop", "begins": "2s", "ends": "1s"}, "ends before", id="backwards"),
        pytest.param({"fault": "delay", "delay": 2, "delay_most": 1}, "shorter", id="most below least"),
    ],
)
def test_a_fault_that_cannot_be_is_refused_with_the_reason(written: Json, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        fault(written)
