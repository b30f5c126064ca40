"""Plans: arguments become messages, and nothing but their values comes in."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.contracts.actions import CATALOGUE, ActionName
from edgeagent.contracts.policy import Level
from edgeagent.core.profile.actions import NarrowedArgument
from edgeagent.core.profile.compile import CompiledDevice
from edgeagent.errors import MalformedError
from edgeagent.ids import ReadingName
from tests.core.profile.building import family, made, shelly, tasmota, thing

pytestmark = [pytest.mark.requirement("M1"), pytest.mark.requirement("V1")]

SCREEN = thing("""
[parameter.word]
type = "text"
default = "x"

[parameter.secondary]
type = "boolean"
default = false

[reading.input]
kind = "text"
words = { "HDMI 1" = "3", "HDMI 2" = "4" }
from = [{ topic = "{topic}/input" }]

[reading.volume]
kind = "integer"
unit = "%"
range = [0, 100]
from = [{ topic = "{topic}/volume", scale = 2.0 }]

[reading.setpoint]
kind = "number"
unit = "°C"
from = [{ topic = "{topic}/setpoint" }]

[[command.input]]
effect = "absolute"
arguments.name = { words = { "HDMI 1" = "3", "HDMI 2" = "4" } }
publish.topic = "{topic}/set"
publish.json = { source = "{name}", list = ["{word}", "{word} and more", 1], "{word}" = true }
confirm = [{ kind = "echo" }]
within = "4s"

[[command.volume]]
effect = "absolute"
arguments.level = { maximum = 80, scale = 0.5 }
publish = { topic = "{topic}/set", text = "{level}" }
confirm = [{ kind = "echo", tolerance = 1.0 }]
require = [{ reading = "input", equals = "HDMI 1", fresher_than = "10s" }]
within = "4s"

[[command.setpoint]]
effect = "absolute"
only_if = { secondary = [true] }
publish = { topic = "{topic}/set", text = "{celsius}" }
confirm = [{ kind = "echo" }]
within = "4s"
""")


@pytest.fixture
def screen() -> CompiledDevice:
    """A made-up screen."""
    return made(SCREEN, "tv-1")


def test_a_name_is_chosen_from_the_list_and_sent_in_the_devices_word(screen: CompiledDevice) -> None:
    plan = screen.plan(ActionName.INPUT, {"name": "HDMI 2"}, number=1)

    assert screen.actions[ActionName.INPUT].arguments["name"].choices == ("HDMI 1", "HDMI 2")
    assert json.loads(plan.steps[0].payload)["source"] == "4"
    assert plan.wish is not None
    assert plan.wish.value == "HDMI 2"
    assert screen.decode("tv-1/input", b"4", retained=False).readings == [("input", "HDMI 2")]
    with pytest.raises(MalformedError, match="name"):
        screen.plan(ActionName.INPUT, {"name": "4"}, number=1)


@pytest.mark.requirement("V5")
@given(st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]), min_size=1, max_size=20))
def test_a_text_becomes_one_value_in_the_tree_and_never_part_of_another(word: str) -> None:
    try:
        device = made(SCREEN, "tv-1", word=word)
    except MalformedError:
        return

    payload = device.plan(ActionName.INPUT, {"name": "HDMI 1"}, number=1).steps[0].payload

    assert json.loads(payload) == {
        "source": "3",
        "list": [word, "{word} and more", 1],
        "{word}": True,
    }


def test_a_number_is_scaled_for_the_device_and_wished_as_it_comes_back(screen: CompiledDevice) -> None:
    plan = screen.plan(ActionName.VOLUME, {"level": 41}, number=1)

    assert plan.steps[0].payload == b"20"
    assert plan.wish is not None
    assert (plan.wish.value, plan.wish.tolerance) == (40, 1.0)
    assert screen.decode("tv-1/volume", b"20", retained=False).readings == [("volume", 40)]


def test_a_narrowed_range_is_shown_and_kept(screen: CompiledDevice) -> None:
    level = screen.actions[ActionName.VOLUME].arguments["level"]

    assert (level.minimum, level.maximum, level.unit) == (0, 80, "%")
    with pytest.raises(MalformedError, match="level"):
        screen.plan(ActionName.VOLUME, {"level": 81}, number=1)


def test_what_must_be_known_before_is_told(screen: CompiledDevice) -> None:
    (needed,) = screen.plan(ActionName.VOLUME, {"level": 40}, number=1).requires

    assert (needed.reading, needed.equals) == ("input", "HDMI 1")
    assert needed.fresher_than.total_seconds() == 10


def test_an_action_that_this_device_does_not_have_is_not_offered(screen: CompiledDevice) -> None:
    assert ActionName.SETPOINT not in screen.actions
    assert ActionName.SETPOINT in made(SCREEN, "tv-1", secondary=True).actions
    with pytest.raises(MalformedError, match="no action setpoint"):
        screen.plan(ActionName.SETPOINT, {"celsius": 20}, number=1)


def test_a_device_that_cannot_be_asked_cannot_be_read_back(screen: CompiledDevice) -> None:
    assert screen.read_back(ReadingName("input"), number=1) is None
    assert screen.probe(number=1) is None
    assert screen.actions[ActionName.INPUT].best is Level.APPLIED


def test_the_same_action_makes_the_same_plan_again() -> None:
    """After a restart the plan is made again from what was stored."""
    one, other = (
        shelly().plan(ActionName.POWER, {"on": True}, number=7).steps[0],
        shelly().plan(ActionName.POWER, {"on": True}, number=7).steps[0],
    )

    assert (one.topic, one.payload) == (other.topic, other.payload)


def test_an_optimistic_bridge_is_believed_no_further_than_it_goes() -> None:
    lamp = made(family("zigbee2mqtt"), "0x01", friendly_name="lamp")

    assert lamp.actions[ActionName.POWER].best is Level.VERIFIED
    assert (
        lamp.plan(ActionName.POWER, {"on": True}, number=1).steps[0].expectation.echoes[0].level
        is Level.ACCEPTED
    )


def test_two_recipes_for_one_channel_are_refused() -> None:
    twice = "[reading.lock]\nkind = 'boolean'\nfrom = [{ topic = '{topic}' }]\n" + 2 * (
        "[[command.lock]]\neffect = 'absolute'\npublish = { topic = '{topic}/set', json = '{locked}' }\n"
        "confirm = [{ kind = 'echo' }]\nwithin = '4s'\n"
    )

    with pytest.raises(MalformedError, match="two recipes for lock"):
        made(thing(twice))


DEVICES = [tasmota(light=5, relays=[1, 2]), shelly(lights=[0], covers=[0])]


def examples(arguments: dict[str, NarrowedArgument]) -> st.SearchStrategy[dict[str, object]]:
    """Arguments, some in range and some not."""
    anything = (
        st.booleans() | st.integers(-10, 30_000) | st.floats(-10, 300) | st.sampled_from(["HDMI 1", "x", ""])
    )
    return st.fixed_dictionaries(dict.fromkeys(arguments, anything))


@pytest.mark.requirement("V2", "I3")
@given(st.data())
def test_a_plan_stays_within_the_catalogue(data: st.DataObject) -> None:
    """What a device takes is never more than its action allows; what it refuses makes no message."""
    device = data.draw(st.sampled_from(DEVICES))
    action = data.draw(st.sampled_from(sorted(device.actions)))
    known = device.actions[action]
    arguments = data.draw(examples(dict(known.arguments)))

    try:
        plan = device.plan(action, arguments, number=1)  # type: ignore[arg-type]  # drawn on purpose
    except MalformedError:
        return

    CATALOGUE[action].check(arguments)  # type: ignore[arg-type]  # drawn on purpose
    known.check(arguments)  # type: ignore[arg-type]  # drawn on purpose
    assert plan.effect is CATALOGUE[action].effect
    assert len(plan.steps[0].payload) < 300
    assert plan.steps[0].expectation.published == plan.steps[0].topic


@pytest.mark.parametrize("channel", [1.0, True, "1", 0, 3])
def test_a_channel_is_a_whole_number_that_the_device_has(channel: float | str) -> None:
    with pytest.raises(MalformedError, match="none of the device's"):
        DEVICES[0].plan(ActionName.POWER, {"on": True, "channel": channel}, number=1)

    assert DEVICES[0].plan(ActionName.POWER, {"on": True, "channel": 1}, number=1).steps


# Questions for the whole state.


@pytest.mark.requirement("C3")
def test_a_family_that_can_be_refreshed_is_asked_everything_at_once() -> None:
    [asked] = shelly().questions(iter([7, 8]))

    assert json.loads(asked.payload)["method"] == "Shelly.GetStatus"
    assert [answer.number for answer in asked.expectation.answers] == [7]


@pytest.mark.requirement("C3")
def test_one_that_cannot_is_asked_each_of_its_questions_with_a_number_of_its_own() -> None:
    device = made(
        thing(
            """
            [reading.power]
            kind = "boolean"
            state = true
            from = [{ topic = "{device}/power", pick = "$.power" }]

            [reading.volume]
            kind = "integer"
            state = true
            from = [{ topic = "{device}/volume", pick = "$.volume" }]

            [[read]]
            readings = ["power"]
            publish = { topic = "{device}/get", json = { id = "{number}", what = "power" } }
            answer = [{ topic = "{device}/power", correlate = "$.id" }]
            within = "4s"

            [[read]]
            readings = ["volume"]
            publish = { topic = "{device}/get", json = { id = "{number}", what = "volume" } }
            answer = [{ topic = "{device}/volume", correlate = "$.id" }]
            within = "4s"
            """
        )
    )

    asked = device.questions(iter([7, 8]))

    assert [json.loads(each.payload) for each in asked] == [
        {"id": 7, "what": "power"},
        {"id": 8, "what": "volume"},
    ]
    assert [answer.number for each in asked for answer in each.expectation.answers] == [7, 8]


@pytest.mark.requirement("C3")
def test_one_that_answers_nothing_is_asked_nothing(screen: CompiledDevice) -> None:
    assert screen.questions(iter([7])) == ()
