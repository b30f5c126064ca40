"""Actions of a profile that are made of others: what may be named, and how they are planned."""

from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.policy import Level
from edgeagent.core.profile.load import load
from edgeagent.errors import MalformedError
from edgeagent.profiles.shipped import shipped_profiles
from tests.core.profile.building import made

pytestmark = pytest.mark.requirement("S1", "V1")

TELEVISION = (Path(__file__).parents[2] / "flows" / "television.toml").read_text("utf-8")
STEPS = 'present = ["power", "input", "volume"]'
TASMOTA = next(text for text in shipped_profiles() if b'id = "tasmota"' in text)


@pytest.mark.parametrize(
    ("steps", "mistake"),
    [
        ('present = ["power", "volume"]', "steps.present: input is missing"),
        ('present = ["input", "volume"]', "steps.present: power is missing"),
        ('present = ["power", "input", "input"]', "steps.present: input is named twice"),
        ('present = ["power", "input", "toggle"]', "steps.present: toggle is no part of present"),
        ('scene = ["power", "brightness"]', "steps.scene: there is no command brightness"),
        ('reboot = ["power", "input"]', "steps.reboot: it has a recipe of its own as well"),
        ('mode = ["power", "input"]', "steps.mode: the catalogue's action is not made of others"),
        ('present = ["power"]', "present"),
        ('present = ["power", "wake"]', "present"),
        ('dance = ["power", "input"]', "dance"),
    ],
)
def test_what_is_wrong_with_steps_is_told_by_its_place(steps: str, mistake: str) -> None:
    assert STEPS in TELEVISION
    with pytest.raises(MalformedError, match=mistake):
        load(TELEVISION.replace(STEPS, steps).encode())


def test_a_plan_has_a_part_for_each_argument_that_is_given() -> None:
    screen = made(load(TELEVISION.encode()), "tv-1", topic="tv-1")

    whole = screen.plan(ActionName.PRESENT, {"input": "HDMI 1", "volume": 20}, number=1)
    quiet = screen.plan(ActionName.PRESENT, {"input": "HDMI 1"}, number=1)

    assert [(part.action, part.arguments) for part in whole.parts] == [
        (ActionName.POWER, {"on": True}),
        (ActionName.INPUT, {"name": "HDMI 1"}),
        (ActionName.VOLUME, {"level": 20}),
    ]
    assert [part.action for part in quiet.parts] == [ActionName.POWER, ActionName.INPUT]
    assert (whole.steps, whole.wish, whole.best) == ((), None, Level.VERIFIED)


@pytest.mark.parametrize(
    "arguments",
    [{}, {"volume": 20}, {"input": "HDMI 3"}, {"input": "HDMI 1", "volume": 101}, {"name": "HDMI 1"}],
)
def test_arguments_are_as_narrow_as_those_of_the_parts(arguments: dict[str, bool | int | str]) -> None:
    screen = made(load(TELEVISION.encode()), "tv-1", topic="tv-1")

    with pytest.raises(MalformedError):
        screen.actions[ActionName.PRESENT].check(arguments)
    with pytest.raises(MalformedError):
        screen.plan(ActionName.PRESENT, arguments, number=1)


def test_a_lock_lasts_as_long_as_all_its_parts() -> None:
    screen = made(load(TELEVISION.encode()), "tv-1", topic="tv-1")

    work = screen.work(ActionName.PRESENT, {"input": "HDMI 1", "volume": 20})

    assert work.lasts == 3 * 2 * timedelta(seconds=4)


def test_a_part_that_a_device_does_not_have_is_left_out_where_it_may_be() -> None:
    dimmer = made(load(TASMOTA), "02A1B2000001", topic="lamp", light=1, light_relay=1)

    assert set(dimmer.actions[ActionName.SCENE].arguments) == {"level"}


def test_what_is_there_for_several_channels_is_no_part() -> None:
    lamp = made(load(TASMOTA), "02A1B2000001", topic="lamp", relays=[1, 2], light=1, light_relay=2)

    assert ActionName.SCENE not in lamp.actions
