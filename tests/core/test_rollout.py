"""How many devices of a list may be begun."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.rollout import FirmwareRule
from edgeagent.core.profile.load import load
from edgeagent.core.rollout import Course, Room, Tally, Word, reckoned, room
from edgeagent.profiles.shipped import shipped_profiles

pytestmark = pytest.mark.requirement("F5")


def test_with_nothing_said_all_may_begin() -> None:
    assert room(FirmwareRule(), Tally(left=30), Word(), at_hub=9) == Room(30)


def test_the_first_few_go_alone_until_they_are_done() -> None:
    rule = FirmwareRule(canary=2)

    assert room(rule, Tally(left=5), Word(), at_hub=0) == Room(2)
    assert room(rule, Tally(left=4, under_way=1), Word(), at_hub=1) == Room(1)
    assert room(rule, Tally(left=3, under_way=1, succeeded=1), Word(), at_hub=1) == Room(
        0, Reason.ROLLOUT_CANARY
    )
    assert room(rule, Tally(left=3, succeeded=2), Word(), at_hub=0) == Room(3)


def test_a_bad_end_among_the_first_stops_the_rest() -> None:
    found = room(FirmwareRule(canary=2), Tally(left=3, succeeded=1, bad=1), Word(), at_hub=0)

    assert found == Room(0, Reason.ROLLOUT_STOPPED)


def test_whoever_lets_it_go_on_has_seen_what_ended_badly_and_further_first_ones_are_tried() -> None:
    rule, seen = FirmwareRule(canary=2), Word(forgiven=1)

    assert room(rule, Tally(left=3, succeeded=1, bad=1), seen, at_hub=0) == Room(1)
    assert room(rule, Tally(left=2, succeeded=1, bad=2), seen, at_hub=0).why is Reason.ROLLOUT_STOPPED


def test_so_many_bad_ends_stop_the_rest() -> None:
    rule = FirmwareRule(stop_after=3)

    assert room(rule, Tally(left=5, bad=2), Word(), at_hub=0) == Room(5)
    assert room(rule, Tally(left=4, bad=3), Word(), at_hub=0) == Room(0, Reason.ROLLOUT_STOPPED)
    assert room(rule, Tally(left=4, bad=3), Word(forgiven=3), at_hub=0) == Room(4)


@pytest.mark.parametrize(
    ("course", "why"), [(Course.PAUSED, Reason.ROLLOUT_PAUSED), (Course.STOPPED, Reason.ROLLOUT_STOPPED)]
)
def test_what_was_paused_or_stopped_stays_so_whatever_the_policy_says_now(
    course: Course, why: Reason
) -> None:
    assert room(FirmwareRule(), Tally(left=5), Word(course), at_hub=0) == Room(0, why)


@given(
    parallel=st.integers(1, 5),
    at_hub=st.integers(0, 9),
    canary=st.integers(0, 5),
    left=st.integers(1, 40),
    succeeded=st.integers(0, 9),
)
def test_never_more_than_the_limit_are_begun(
    parallel: int, at_hub: int, canary: int, left: int, succeeded: int
) -> None:
    rule = FirmwareRule(parallel=parallel, canary=canary)

    found = room(rule, Tally(left=left, succeeded=succeeded), Word(), at_hub=at_hub)

    assert found.number <= max(0, parallel - at_hub)
    assert (found.number == 0) is (found.why is not None)


def test_an_update_is_reckoned_to_last_until_the_new_version_has_stayed() -> None:
    minute = timedelta(minutes=1)
    plug = next(each for each in map(load, shipped_profiles()) if each.id == "tasmota").firmware
    assert plug is not None
    allowed = sum((each.within + (each.returns or 0 * minute) for each in plug.steps), plug.settles)

    assert reckoned(FirmwareRule(soak=3 * minute), plug) == allowed + 3 * minute
    assert reckoned(FirmwareRule(soak=3 * minute, patience=8 * minute), plug) == 11 * minute
    assert reckoned(FirmwareRule(soak=3 * minute, longest=7 * minute), plug) == 7 * minute
