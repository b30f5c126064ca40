"""What follows from what is seen of a device that is updated, and which stages may follow which."""

import re
from dataclasses import replace
from datetime import timedelta
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.update import Overdue, Runs, Stage
from edgeagent.core.confirmation import Denied
from edgeagent.core.firmware import (
    NEXT,
    OUTCOMES,
    UNDER_WAY,
    Sight,
    Terms,
    Update,
    following,
    most_questions,
    pace,
)
from edgeagent.core.updating import Course
from edgeagent.errors import RejectedError
from edgeagent.ids import artifact_id, digest

pytestmark = [pytest.mark.requirement("F4"), pytest.mark.requirement("S2")]

SOAK = timedelta(minutes=5)
LASTS = timedelta(minutes=20)
TERMS = Terms(soak=SOAK, lasts=LASTS, steps=2, can_go_back=True)
LATE = LASTS + 3 * SOAK
RATHER_LATE = LASTS + 2 * SOAK + timedelta(seconds=1)
DENIED = Course(denied=Denied(Reason.DEVICE_REFUSED, "no"))
BACK = Course(gone=True, back=True)

SIGHTS = st.builds(
    Sight,
    course=st.sampled_from([Course(), Course(taken=True), Course(done=True), DENIED, BACK]),
    overdue=st.sampled_from([None, *Overdue]),
    is_over=st.booleans(),
    runs=st.sampled_from(Runs),
    steady=st.sampled_from([timedelta(0), SOAK]),
    waited=st.sampled_from([timedelta(0), LATE]),
)


def stayed(runs: Runs, **more: object) -> Sight:
    """A device that has run that for long enough."""
    return replace(Sight(runs=runs, steady=SOAK), **more)  # type: ignore[arg-type]  # checked as it is built


def an_update(stage: Stage) -> Update:
    """An update at a stage."""
    return Update(
        stage=stage, artifact=artifact_id("lamp-2"), sha256=digest("2" * 64), earlier="1.0", wanted="2.0"
    )


@pytest.mark.parametrize(("one", "other"), list(product(Stage, Stage)), ids=str)
def test_a_stage_follows_another_only_where_the_table_says_so(one: Stage, other: Stage) -> None:
    update = an_update(one)

    if other in NEXT[one]:
        assert update.becomes(other) == replace(update, stage=other)
    else:
        with pytest.raises(RejectedError, match="may not become"):
            update.becomes(other)


def test_an_end_has_an_outcome_and_nothing_follows_it() -> None:
    assert {stage for stage in Stage if not NEXT[stage]} == set(OUTCOMES)
    assert set(Stage) - set(OUTCOMES) - UNDER_WAY == {Stage.STAGING}


@given(stage=st.sampled_from(Stage), sight=SIGHTS, can_go_back=st.booleans())
def test_whatever_is_seen_leads_along_the_table(stage: Stage, sight: Sight, *, can_go_back: bool) -> None:
    found = following(stage, sight, replace(TERMS, can_go_back=can_go_back))

    assert found is stage or found in NEXT[stage]


@given(sight=SIGHTS, stage=st.sampled_from([Stage.TRIGGERED, Stage.INSTALLING, Stage.SOAKING]))
def test_success_is_the_new_version_that_has_stayed_and_nothing_else(sight: Sight, stage: Stage) -> None:
    found = following(stage, sight, TERMS)

    assert (found is Stage.DONE) == (stage is Stage.SOAKING and sight.has_stayed(Runs.WANTED, SOAK))


@pytest.mark.parametrize("stage", sorted(UNDER_WAY), ids=str)
def test_an_update_that_is_waited_for_long_enough_comes_to_an_end_or_to_its_way_back(stage: Stage) -> None:
    ends = {*OUTCOMES, Stage.ASTRAY, Stage.SOAKING}

    for runs in Runs:
        sight = Sight(runs=runs, waited=LATE, overdue=Overdue.LATE)
        assert following(stage, sight, TERMS) in ends


@pytest.mark.parametrize(
    ("stage", "sight", "expected"),
    [
        (Stage.STAGING, Sight(), Stage.STAGING),
        (Stage.STAGING, Sight(course=DENIED), Stage.KEPT),
        (Stage.STAGING, Sight(overdue=Overdue.UNANSWERED), Stage.KEPT),
        (Stage.TRIGGERED, Sight(), Stage.TRIGGERED),
        (Stage.TRIGGERED, Sight(course=Course(percent=1)), Stage.INSTALLING),
        (Stage.TRIGGERED, Sight(runs=Runs.WANTED), Stage.SOAKING),
        (Stage.TRIGGERED, stayed(Runs.EARLIER), Stage.TRIGGERED),
        (Stage.INSTALLING, stayed(Runs.EARLIER), Stage.INSTALLING),
        (Stage.INSTALLING, stayed(Runs.EARLIER, course=DENIED), Stage.KEPT),
        (Stage.INSTALLING, stayed(Runs.EARLIER, course=BACK), Stage.KEPT),
        (Stage.INSTALLING, stayed(Runs.EARLIER, overdue=Overdue.STALLED), Stage.KEPT),
        (Stage.INSTALLING, Sight(runs=Runs.EARLIER, course=BACK), Stage.INSTALLING),
        (Stage.INSTALLING, stayed(Runs.OTHER, course=BACK), Stage.ASTRAY),
        (Stage.INSTALLING, stayed(Runs.INTERIM, course=BACK), Stage.INSTALLING),
        (Stage.INSTALLING, stayed(Runs.INTERIM, course=BACK, waited=LATE), Stage.ASTRAY),
        (Stage.INSTALLING, stayed(Runs.EARLIER, waited=LATE), Stage.KEPT),
        (Stage.INSTALLING, Sight(waited=LATE), Stage.SILENT),
        (Stage.SOAKING, Sight(runs=Runs.WANTED), Stage.SOAKING),
        (Stage.SOAKING, stayed(Runs.WANTED), Stage.DONE),
        (Stage.SOAKING, stayed(Runs.EARLIER), Stage.KEPT),
        (Stage.SOAKING, stayed(Runs.OTHER), Stage.ASTRAY),
        (Stage.SOAKING, Sight(runs=Runs.WANTED, waited=LATE), Stage.ASTRAY),
        (Stage.SOAKING, Sight(waited=LATE), Stage.SILENT),
        # What runs late is given the time to stay: a good device is not taken back, nor a kept one set off.
        (Stage.SOAKING, Sight(runs=Runs.WANTED, waited=RATHER_LATE), Stage.SOAKING),
        (Stage.INSTALLING, Sight(runs=Runs.EARLIER, waited=RATHER_LATE), Stage.INSTALLING),
        (Stage.INSTALLING, Sight(runs=Runs.OTHER, waited=RATHER_LATE), Stage.ASTRAY),
        (Stage.ASTRAY, Sight(), Stage.ASTRAY),
        (Stage.ASTRAY, Sight(course=DENIED), Stage.STUCK),
        (Stage.REVERTING, Sight(runs=Runs.EARLIER), Stage.REVERTING),
        (Stage.REVERTING, stayed(Runs.EARLIER), Stage.REVERTED),
        (Stage.REVERTING, stayed(Runs.OTHER), Stage.REVERTING),
        (Stage.REVERTING, stayed(Runs.OTHER, course=BACK), Stage.STUCK),
        (Stage.REVERTING, Sight(waited=LATE), Stage.STUCK),
        (Stage.REVERTING, Sight(runs=Runs.EARLIER, waited=RATHER_LATE), Stage.REVERTING),
        (Stage.REVERTING, Sight(runs=Runs.WANTED, waited=RATHER_LATE), Stage.STUCK),
    ],
)
def test_what_follows_from_what_is_seen(stage: Stage, sight: Sight, expected: Stage) -> None:
    assert following(stage, sight, TERMS) is expected


def test_without_a_way_back_none_is_tried() -> None:
    assert following(Stage.ASTRAY, Sight(), replace(TERMS, can_go_back=False)) is Stage.STUCK


@pytest.mark.parametrize("soak", [timedelta(seconds=1), timedelta(minutes=1), timedelta(days=1)], ids=str)
@pytest.mark.parametrize("lasts", [timedelta(minutes=1), timedelta(days=1)], ids=str)
def test_as_many_questions_are_allowed_as_an_update_asks_that_takes_its_time(
    soak: timedelta, lasts: timedelta
) -> None:
    terms = Terms(soak=soak, lasts=lasts, steps=1)

    assert most_questions(terms) * pace(terms) > 2 * (lasts + 2 * soak)


@pytest.mark.parametrize(("one", "other"), list(product(Stage, Stage)), ids=str)
def test_the_readme_draws_the_moves_that_there_are(one: Stage, other: Stage) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    drawn = readme.partition("### States of an update\n")[2].partition("\n#")[0]
    moves = {
        (before, after)
        for before, followers in re.findall(r"^    (\w+) +> (.+)$", drawn, re.MULTILINE)
        for after in followers.split(" | ")
    }

    assert ((one, other) in moves) is (other in NEXT[one])
    assert f"*{one}*" in drawn
