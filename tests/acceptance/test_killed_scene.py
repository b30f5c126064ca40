"""The agent is killed between the steps of a command: it goes on where it was, and repeats no finished one.

A lamp is switched on, dimmed and warmed as one command; the agent ends with SIGKILL at each passing of each
named point on that way, and starts again.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.receipt import Outcome, StepPhase
from edgeagent.ports.crash import CrashPoint
from firmware_sim.journal import What
from tests.support.agents_venue import LAMP, Venue

pytestmark = [pytest.mark.slow, pytest.mark.requirement("R5", "S1")]

PASSED: Final = {
    CrashPoint.STEP_RECORDED: 3,
    CrashPoint.STEP_SENT: 3,
    CrashPoint.STEP_CHECKPOINTED: 3,
    CrashPoint.EFFECT_CONFIRMED: 1,
}
DEATHS: Final = [(point, nth) for point, times in PASSED.items() for nth in range(1, times + 1)]
SCENE: Final = {"level": 35, "kelvin": 2703}


@pytest.fixture
def venue(tmp_path: Path) -> Iterator[Venue]:
    """A venue with a lamp, whose agent runs."""
    with Venue(tmp_path, lamp=True) as made:
        made.open()
        yield made


def effects(venue: Venue) -> list[object]:
    """What the lamp was made to do, oldest first."""
    return [
        line.details["action"]
        for line in venue.journal()
        if line.what is What.EFFECT and line.appliance == LAMP and line.details["cause"] == "command"
    ]


@pytest.mark.threat("T17")
@pytest.mark.parametrize(("point", "nth"), DEATHS)
def test_a_death_between_two_steps_repeats_no_finished_one(point: CrashPoint, nth: int, venue: Venue) -> None:
    assert venue.agent.stop() == 0
    venue.agent.start(crash=(point, nth))
    venue.agent.wait_for_broker()

    order = venue.order(LAMP, ActionName.SCENE, SCENE)
    assert venue.agent.wait_for_end() == -9
    venue.agent.start()

    receipt = venue.end_of(order)
    assert receipt.outcome is Outcome.SUCCEEDED
    assert receipt.steps is not None
    assert [each.phase for each in receipt.steps] == [StepPhase.DONE] * 3
    assert effects(venue) == ["power", "brightness", "color_temperature"]
    assert venue.agent.stop() == 0
    assert venue.audit_break() is None
