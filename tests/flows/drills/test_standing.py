"""What health says of drills: that one has failed, or is longer ago than the policy says."""

from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from edgeagent.contracts.policy import Policy
from edgeagent.contracts.reports.drills import DrillKind, DrillStanding
from edgeagent.contracts.reports.health import Level
from edgeagent.flows.drills.standing import drill_checks
from edgeagent.store import drills
from edgeagent.store.drills import Held
from tests.flows.operating import operated_hub
from tests.support.clocks import NOON

pytestmark = pytest.mark.requirement("O6", "O5")

DAY = timedelta(days=1)


def held(
    kind: DrillKind, ago: timedelta, *, passed: bool = True, good: timedelta | None = None
) -> DrillStanding:
    """A drill that was held so long before noon; ``good`` is when the last good one was."""
    good_at = ago if passed else good
    return DrillStanding(
        kind=kind,
        at=NOON - ago,
        passed=passed,
        seconds=1.0,
        why="" if passed else "it was seen otherwise",
        by="uid:0 root",
        good_at=None if good_at is None else NOON - good_at,
    )


def all_held(ago: timedelta) -> list[DrillStanding]:
    return [held(kind, ago) for kind in DrillKind]


def test_a_policy_that_wants_no_drills_makes_no_check() -> None:
    assert drill_checks([], None, NOON) == []
    assert drill_checks(all_held(1000 * DAY), None, NOON) == []


def test_nothing_is_said_of_drills_that_cannot_be_read() -> None:
    assert drill_checks(None, DAY, NOON) == []


def test_drills_that_are_fresh_enough_are_well() -> None:
    [check] = drill_checks(all_held(3 * DAY), 4 * DAY, NOON)

    assert (check.name, check.level) == ("drills", Level.OK)
    assert check.summary == "all have passed; the oldest was held 3 d ago"


def test_a_drill_that_was_never_held_or_too_long_ago_is_warned_of() -> None:
    [check] = drill_checks([held(DrillKind.LOCK, 5 * DAY), held(DrillKind.CRASH, DAY)], 4 * DAY, NOON)

    assert check.level is Level.WARNING
    assert check.summary == (
        "dead-letter was never held; lock passed 5 d ago, the policy wants it every 4 d; "
        "duplicate was never held"
    )
    assert check.advice == "edgeagent drill dead-letter"


@pytest.mark.parametrize("every", [None, 4 * DAY])
def test_a_drill_that_failed_is_warned_of_whatever_the_policy_says(every: timedelta | None) -> None:
    failed = held(DrillKind.CRASH, timedelta(hours=2), passed=False, good=DAY)
    others = [each for each in all_held(DAY) if each.kind is not DrillKind.CRASH]

    [check] = drill_checks([*others, failed], every, NOON)

    assert check.level is Level.WARNING
    assert check.summary == "crash failed 2 h ago: it was seen otherwise"
    assert check.advice == "edgeagent drill crash"


def test_a_drill_of_the_future_proves_nothing() -> None:
    standings = all_held(DAY)
    standings[0] = held(standings[0].kind, -3 * DAY)

    [check] = drill_checks(standings, 4 * DAY, NOON)

    assert check.level is Level.WARNING
    assert "dead-letter is dated 2027-03-04, which is yet to come" in check.summary


async def test_health_tells_the_last_drills_also_where_no_policy_wants_them(tmp_path: Path) -> None:
    async with operated_hub(tmp_path) as desk:
        at = desk.hub.around.event_time().at
        row = Held(kind=DrillKind.LOCK, at=at, passed=True, milliseconds=250, why="", actor="uid:0 root")
        await desk.hub.store.write(lambda tx: drills.save(tx, row))

        report = await desk.health.report()

        assert [(each.kind, each.passed, each.seconds) for each in report.drills] == [
            (DrillKind.LOCK, True, 0.25)
        ]
        assert "drills" not in {check.name for check in report.checks}


async def test_health_warns_once_the_policy_wants_drills_and_of_one_that_failed(tmp_path: Path) -> None:
    async with operated_hub(tmp_path) as desk:
        policy = desk.trust.policy
        assert isinstance(policy, Policy)
        assert policy.drill_every is None
        desk.trust.policy = policy.model_copy(update={"drill_every": 30 * DAY})

        missing = await desk.check("drills")
        row = Held(
            kind=DrillKind.LOCK,
            at=desk.hub.around.event_time().at,
            passed=True,
            milliseconds=250,
            why="",
            actor="uid:0 root",
        )
        for kind in DrillKind:
            await desk.hub.store.write(partial(drills.save, held=replace(row, kind=kind)))
        fresh = await desk.check("drills")
        bad = replace(row, passed=False, why="seen otherwise")
        await desk.hub.store.write(lambda tx: drills.save(tx, bad))
        failed = await desk.check("drills")

        assert missing.level is Level.WARNING
        assert missing.summary.count("was never held") == len(DrillKind)
        assert fresh.level is Level.OK
        assert (failed.level, "seen otherwise" in failed.summary) == (Level.WARNING, True)
