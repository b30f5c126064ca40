"""No named point is forgotten: each is passed by the product, and at each the agent is killed (SPEC R5)."""

import ast
from pathlib import Path
from typing import Final

import pytest

from edgeagent.ports.crash import CrashPoint
from tests.acceptance import test_enrolled_hub, test_killed_agent, test_killed_scene, test_worker
from tests.setup import test_setup

PRODUCT: Final = Path(__file__).parents[2] / "edgeagent"
KILLED_AT: Final = {
    *test_killed_agent.DEATHS,
    *(point for point, _ in test_killed_scene.DEATHS),
    *test_worker.DEATHS,
    *test_enrolled_hub.DEATHS,
    *test_setup.DEATHS,
}

pytestmark = pytest.mark.requirement("R5")


def passed() -> set[str]:
    """The names of the points of which the product's source says that they are reached."""
    return {
        argument.attr
        for path in PRODUCT.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "reached"
        for argument in call.args
        if isinstance(argument, ast.Attribute)
    }


@pytest.mark.parametrize("point", CrashPoint, ids=str)
def test_a_named_point_is_passed_and_the_agent_is_killed_there(point: CrashPoint) -> None:
    assert point.name in passed(), f"nothing passes {point}"
    assert point in KILLED_AT, f"nobody is killed at {point}"


def test_whatever_is_passed_has_a_name() -> None:
    assert passed() == set(CrashPoint.__members__)
