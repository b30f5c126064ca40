"""The catalogue of actions: closed, and without contradictions."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.contracts.actions import (
    CATALOGUE,
    ActionName,
    Argument,
    ArgumentKind,
    Arguments,
    ArgumentValue,
    Effect,
    made_of,
    slot_of,
)
from edgeagent.contracts.command import Command
from edgeagent.contracts.order import covers
from edgeagent.contracts.policy import Tier
from edgeagent.errors import MalformedError

pytestmark = pytest.mark.requirement("V1")

# One good set of arguments for each action.
GOOD: dict[ActionName, Arguments] = {
    ActionName.POWER: {"on": True},
    ActionName.TOGGLE: {},
    ActionName.MUTE: {"on": False},
    ActionName.VOLUME: {"level": 0},
    ActionName.INPUT: {"name": "HDMI 1"},
    ActionName.BRIGHTNESS: {"level": 100, "channel": 2},
    ActionName.COLOR_TEMPERATURE: {"kelvin": 2700},
    ActionName.COLOR: {"red": 0, "green": 128, "blue": 255},
    ActionName.SETPOINT: {"celsius": 21.5},
    ActionName.MODE: {"name": "auto"},
    ActionName.POSITION: {"percent": 50},
    ActionName.LOCK: {"locked": True},
    ActionName.IDENTIFY: {},
    ActionName.REBOOT: {},
    ActionName.INSTALL: {"artifact": "plug-1.4.2", "digest": "5e" * 32},
    ActionName.REFRESH: {},
    ActionName.PRESENT: {"input": "HDMI 1", "volume": 20},
    ActionName.SCENE: {"level": 40, "kelvin": 2700},
}
each_action = pytest.mark.parametrize("action", ActionName, ids=str)
values = st.none() | st.booleans() | st.integers() | st.floats() | st.text()


@each_action
def test_every_action_has_its_place_in_the_catalogue(action: ActionName) -> None:
    assert action in CATALOGUE
    CATALOGUE[action].check(GOOD[action])


@each_action
def test_an_argument_that_an_action_does_not_have_is_refused(action: ActionName) -> None:
    for name in ("topic", "payload", "command", "script", "url", "path", "override"):
        with pytest.raises(MalformedError, match=f"no argument '{name}'"):
            CATALOGUE[action].check({**GOOD[action], name: "x"})


@each_action
def test_an_argument_that_is_needed_cannot_be_left_out(action: ActionName) -> None:
    for name in GOOD[action]:
        rest = {other: value for other, value in GOOD[action].items() if other != name}
        if CATALOGUE[action].arguments[name].optional:
            CATALOGUE[action].check(rest)
        else:
            with pytest.raises(MalformedError, match=f"argument '{name}' is missing"):
                CATALOGUE[action].check(rest)


@each_action
@given(value=values)
def test_no_value_passes_that_is_not_of_its_argument(action: ActionName, value: ArgumentValue) -> None:
    spec = CATALOGUE[action]
    for name, argument in spec.arguments.items():
        arguments = {**GOOD[action], name: value}
        try:
            spec.check(arguments)
        except MalformedError:
            continue
        match argument.kind:
            case ArgumentKind.BOOLEAN:
                assert value is True or value is False
            case ArgumentKind.TEXT:
                assert isinstance(value, str)
                assert 0 < len(value) <= 64
            case ArgumentKind.ARTIFACT:
                assert isinstance(value, str)
                assert re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,63}", value)
            case ArgumentKind.DIGEST:
                assert isinstance(value, str)
                assert re.fullmatch(r"[0-9a-f]{64}", value)
            case ArgumentKind.INTEGER | ArgumentKind.NUMBER:
                assert isinstance(value, int | float)
                assert not isinstance(value, bool)
                assert argument.minimum is not None
                assert argument.maximum is not None
                assert argument.minimum <= value <= argument.maximum


def test_every_number_has_both_its_bounds() -> None:
    for spec in CATALOGUE.values():
        for argument in spec.arguments.values():
            if argument.kind in {ArgumentKind.INTEGER, ArgumentKind.NUMBER}:
                assert argument.minimum is not None
                assert argument.maximum is not None
                assert argument.minimum < argument.maximum


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        pytest.param(ArgumentKind.BOOLEAN, 1, id="one is no truth"),
        pytest.param(ArgumentKind.BOOLEAN, "true", id="a word is no truth"),
        pytest.param(ArgumentKind.INTEGER, True, id="a truth is no number"),
        pytest.param(ArgumentKind.INTEGER, 5.0, id="a fraction is no whole number"),
        pytest.param(ArgumentKind.INTEGER, 10**400, id="a number beyond all bounds"),
        pytest.param(ArgumentKind.NUMBER, math.nan, id="not a number"),
        pytest.param(ArgumentKind.NUMBER, math.inf, id="infinity"),
        pytest.param(ArgumentKind.NUMBER, 10**400, id="a whole number beyond a double"),
        pytest.param(ArgumentKind.NUMBER, "5", id="a word is no number"),
        pytest.param(ArgumentKind.TEXT, "", id="an empty text"),
        pytest.param(ArgumentKind.TEXT, "x" * 65, id="a long text"),
        pytest.param(ArgumentKind.TEXT, 5, id="a number is no text"),
        pytest.param(ArgumentKind.ARTIFACT, "../plug.bin", id="a path is no artifact"),
        pytest.param(ArgumentKind.ARTIFACT, "http://x/plug", id="an address is no artifact"),
        pytest.param(ArgumentKind.ARTIFACT, "plug\x00", id="a NUL in an artifact"),
        pytest.param(ArgumentKind.DIGEST, "5E" * 32, id="a digest in capitals"),
        pytest.param(ArgumentKind.DIGEST, "5e" * 31, id="a short digest"),
    ],
)
def test_types_are_not_bent(kind: ArgumentKind, value: ArgumentValue) -> None:
    assert not Argument(kind=kind, minimum=0, maximum=10).accepts(value)


def test_a_refusal_says_what_would_have_been_right() -> None:
    with pytest.raises(MalformedError, match=r"'celsius' is number from -30 to 100 °C$"):
        CATALOGUE[ActionName.SETPOINT].check({"celsius": 1000})


@pytest.mark.requirement("I3")
@each_action
def test_what_happens_again_when_it_is_sent_again_is_one_shot(action: ActionName) -> None:
    repeats = {ActionName.TOGGLE, ActionName.REBOOT, ActionName.INSTALL, ActionName.IDENTIFY}

    assert (CATALOGUE[action].effect is Effect.ONE_SHOT) == (action in repeats)


@each_action
def test_what_an_action_shows_is_one_of_its_arguments_in_one_of_its_readings(action: ActionName) -> None:
    spec = CATALOGUE[action]

    if spec.shows is not None:
        assert spec.shows in spec.arguments
        assert spec.reading is not None
    if spec.effect is Effect.ONE_SHOT:
        assert spec.reading is None


@pytest.mark.requirement("T4")
@pytest.mark.parametrize(
    ("action", "arguments", "slot"),
    [
        (ActionName.POWER, {"on": True}, "power"),
        (ActionName.POWER, {"on": True, "channel": 2}, "power.2"),
        (ActionName.TOGGLE, {"channel": 2}, "power.2"),
        (ActionName.VOLUME, {"level": 3}, "volume"),
        (ActionName.IDENTIFY, {}, None),
    ],
)
def test_a_later_command_replaces_only_what_sets_the_same_thing(
    action: ActionName, arguments: Arguments, slot: str | None
) -> None:
    assert slot_of(action, arguments) == slot


def test_the_catalogue_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        CATALOGUE[ActionName.POWER].arguments["topic"] = Argument(kind=ArgumentKind.TEXT)  # type: ignore[index]  # what mypy forbids is what is tried


def test_every_good_set_of_arguments_fits_into_a_command() -> None:
    room = Command.model_fields["arguments"].metadata[0].max_length

    assert max(len(spec.arguments) for spec in CATALOGUE.values()) <= room


MADE = [name for name in ActionName if CATALOGUE[name].parts]


@pytest.mark.requirement("S1", "S2")
@pytest.mark.parametrize("action", MADE, ids=str)
def test_what_an_action_is_made_of_can_be_checked_and_undone(action: ActionName) -> None:
    for part in CATALOGUE[action].parts:
        whole, own = CATALOGUE[action], CATALOGUE[part.action]
        assert (own.effect, own.parts) == (Effect.ABSOLUTE, ())
        assert own.reading is not None
        assert own.shows is not None
        assert {*part.given, *part.takes} >= {
            name for name, known in own.arguments.items() if not known.optional
        }
        assert set(part.takes.values()) <= whole.arguments.keys()


@pytest.mark.requirement("S1")
@pytest.mark.parametrize("action", MADE, ids=str)
def test_every_argument_of_an_action_that_is_made_of_others_goes_somewhere(action: ActionName) -> None:
    taken = [name for part in CATALOGUE[action].parts for name in part.takes.values()]

    assert sorted(taken) == sorted(CATALOGUE[action].arguments)
    assert made_of(action) == {action, *(part.action for part in CATALOGUE[action].parts)}


@pytest.mark.requirement("B3")
def test_a_stop_of_one_action_stops_what_is_made_of_it() -> None:
    assert covers("action:input", ActionName.PRESENT, Tier.LOW)
    assert not covers("action:present", ActionName.INPUT, Tier.LOW)
    assert not covers("action:brightness", ActionName.PRESENT, Tier.LOW)
