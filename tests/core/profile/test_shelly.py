"""The shipped profile of Shelly Gen2 and later: frames, components, answers bound by number and source."""

import json

import pytest

from edgeagent.contracts.actions import ActionName, Effect
from edgeagent.contracts.policy import Level
from edgeagent.contracts.reasons import Reason
from edgeagent.core.confirmation import Confirmed, Contradicted, Denied, Heard, Progress, hear, read_back
from edgeagent.core.profile.compile import CompiledDevice
from edgeagent.core.profile.plan import Plan
from edgeagent.ids import ReadingName
from tests.core.profile.building import SHELLY, live, readings, shelly

pytestmark = pytest.mark.requirement("M1")

REPLY = f"edgeagent/hub-1/{SHELLY}/rpc"
EVENTS = f"{SHELLY}/events/rpc"
NUMBER = 1_234_567_890
SWITCH = {
    "id": 0,
    "source": "MQTT",
    "output": True,
    "apower": 42.5,
    "voltage": 230.1,
    "current": 0.2,
    "pf": 0.9,
    "freq": 50.0,
    "aenergy": {"total": 1234.5, "by_minute": [1, 2, 3], "minute_ts": 1700000000},
    "temperature": {"tC": 45.1, "tF": 113.2},
}

EVERYTHING: dict[str, object] = {
    "switch:0": {"output": True},
    "switch:1": {"output": False, "apower": 1},
    "light:0": {"output": True, "brightness": 30},
    "cover:0": {"state": "opening", "current_pos": 55, "apower": 120},
    "pm1:0": {"apower": 7},
    "em1:0": {"act_power": 8},
    "em1data:0": {"total_act_energy": 2500},
    "input:0": {"state": True},
    "input:2": {"state": None},
    "temperature:100": {"tC": 21.4, "tF": 70.5},
    "humidity:100": {"rh": 45},
    "devicepower:0": {"battery": {"V": 5.9, "percent": 88}},
    "wifi": {"rssi": -61},
    "sys": {"uptime": 12},
}


def notified(params: dict[str, object], method: str = "NotifyStatus", src: str = SHELLY) -> tuple[str, str]:
    """A notification of the device."""
    frame = {"src": src, "dst": f"{SHELLY}/events", "method": method, "params": {"ts": 1.5} | params}
    return EVENTS, json.dumps(frame)


def answered(number: object = NUMBER, src: str = SHELLY, **body: object) -> tuple[str, str]:
    """An answer on our own topic."""
    return REPLY, json.dumps({"id": number, "src": src, "dst": "edgeagent/hub-1", **body})


def after(device: CompiledDevice, plan: Plan, *messages: tuple[str, str], before: object = None) -> Progress:
    """How far a plan has come after these live messages."""
    progress = Progress(before={} if before is None else {ReadingName("power"): bool(before)})
    for topic, payload in messages:
        progress = hear(
            plan.steps[0].expectation, progress, Heard(topic=topic, decoded=live(device, topic, payload))
        )
    return progress


def test_a_component_is_read_from_its_topic_from_notifications_and_from_answers() -> None:
    expected = {
        "power": True,
        "active_power": 42.5,
        "voltage": 230.1,
        "current": 0.2,
        "power_factor": 0.9,
        "frequency": 50.0,
        "energy": 1.2345,
        "device_temperature": 45.1,
    }

    for topic, payload in (
        (f"{SHELLY}/status/switch:0", json.dumps(SWITCH)),
        notified({"switch:0": SWITCH}),
        notified({"switch:0": SWITCH}, method="NotifyFullStatus"),
        answered(result={"switch:0": SWITCH}),
    ):
        assert readings(live(shelly(), topic, payload)) == expected


def test_a_notification_tells_only_what_has_changed() -> None:
    assert readings(live(shelly(), *notified({"switch:0": {"id": 0, "apower": 3}}))) == {"active_power": 3}


@pytest.mark.requirement("M4")
def test_a_frame_of_another_source_is_not_the_devices() -> None:
    assert live(shelly(), *notified({"switch:0": SWITCH}, src="shellyplug-evil")).readings == []
    assert live(shelly(), *answered(src="shellyplug-evil", result={"switch:0": SWITCH})).readings == []


def test_every_component_has_its_readings() -> None:
    ids = {"switches": [0, 1], "inputs": [0, 2], "thermometers": [100], "hygrometers": [100]}
    device = shelly(lights=[0], covers=[0], meters=[0], clamps=[0], batteries=[0], **ids)

    decoded = live(device, *notified(EVERYTHING, method="NotifyFullStatus"))

    assert decoded.unusable == 0
    assert readings(decoded) == {
        "power.1": True,
        "power.2": False,
        "power.3": True,
        "brightness": 30,
        "position": 55,
        "motion": "opening",
        "active_power.2": 1,
        "active_power.4": 120,
        "active_power.5": 7,
        "active_power.6": 8,
        "energy.6": 2.5,
        "contact.0": True,
        "temperature": 21.4,
        "humidity": 45,
        "battery": 88,
        "signal_strength": -61,
        "uptime": 12,
    }


def test_a_pressed_button_is_a_happening_that_repeats() -> None:
    device = shelly(inputs=[0, 1])
    press = notified(
        {"events": [{"component": "input:1", "id": 1, "event": "single_push"}, {"component": "sys"}]},
        method="NotifyEvent",
    )

    assert readings(live(device, *press)) == {"button.1": "single_push"}
    assert device.spec(ReadingName("button.1")).event
    assert device.decode(press[0], press[1].encode(), retained=True).readings == []


def test_an_uncalibrated_cover_has_no_position() -> None:
    device = shelly(switches=[], covers=[0])

    for position in (None, -1):
        decoded = live(device, *notified({"cover:0": {"current_pos": position}}))
        assert (decoded.readings, decoded.unusable) == ([], 0)


def test_a_prefix_of_several_levels_is_kept() -> None:
    device = shelly(prefix="venue/bar/left")

    assert readings(live(device, "venue/bar/left/status/switch:0", '{"output":true}')) == {"power": True}
    assert device.command_topics == ("venue/bar/left/rpc", "venue/bar/left/command/#")


def test_presence_is_told_and_asked_for_since_the_will_is_not_stored() -> None:
    probe = shelly().probe(number=NUMBER)

    assert live(shelly(), f"{SHELLY}/online", "true").availability is True
    assert live(shelly(), f"{SHELLY}/online", "false").availability is False
    assert probe is not None
    assert json.loads(probe.payload)["method"] == "Shelly.GetDeviceInfo"
    answer = live(shelly(), *answered(result={"id": SHELLY, "ver": "1.4.4", "gen": 2}))
    assert (readings(answer), answer.alive) == ({"firmware": "1.4.4"}, True)
    assert shelly().probe_every is not None


@pytest.mark.parametrize(
    ("action", "arguments", "method", "params"),
    [
        (ActionName.POWER, {"on": True, "channel": 1}, "Switch.Set", {"id": 0, "on": True}),
        (ActionName.POWER, {"on": False, "channel": 2}, "Light.Set", {"id": 3, "on": False}),
        (ActionName.TOGGLE, {"channel": 1}, "Switch.Toggle", {"id": 0}),
        (ActionName.TOGGLE, {"channel": 2}, "Light.Toggle", {"id": 3}),
        (ActionName.BRIGHTNESS, {"level": 30}, "Light.Set", {"id": 3, "brightness": 30}),
        (ActionName.POSITION, {"percent": 75}, "Cover.GoToPosition", {"id": 0, "pos": 75}),
        (ActionName.REBOOT, {}, "Shelly.Reboot", None),
        (ActionName.REFRESH, {}, "Shelly.GetStatus", None),
    ],
)
def test_each_action_is_a_call_with_our_number_and_the_devices_own_way_back(
    action: ActionName, arguments: dict[str, bool | int], method: str, params: dict[str, object] | None
) -> None:
    device = shelly(lights=[3], covers=[0])

    (step,) = device.plan(action, arguments, number=NUMBER).steps

    call = {"id": NUMBER, "src": f"edgeagent/hub-1/{SHELLY}", "method": method}
    assert step.topic == f"{SHELLY}/rpc"
    assert json.loads(step.payload) == (call if params is None else call | {"params": params})


@pytest.mark.requirement("M2")
def test_an_answer_accepts_and_a_notification_applies() -> None:
    device = shelly()
    plan = device.plan(ActionName.POWER, {"on": True}, number=NUMBER)
    answer, echo = answered(result={"was_on": False}), notified({"switch:0": {"output": True}})

    assert after(device, plan, answer).confirmed == Confirmed(Level.ACCEPTED)
    assert after(device, plan, answer, echo).confirmed == Confirmed(Level.APPLIED, value=True)
    assert after(device, plan, echo, answer).confirmed == Confirmed(Level.APPLIED, value=True)


@pytest.mark.requirement("M2")
def test_a_switch_that_was_so_before_says_so_in_its_answer() -> None:
    device = shelly()
    plan = device.plan(ActionName.POWER, {"on": True}, number=NUMBER)

    assert after(device, plan, answered(result={"was_on": True})).confirmed == Confirmed(Level.APPLIED)
    assert after(device, plan, answered(result={"was_on": 1})).confirmed == Confirmed(Level.ACCEPTED)


@pytest.mark.requirement("M2")
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(answered(NUMBER + 1, result={}), id="another number"),
        pytest.param(answered(str(NUMBER) + "0", result={}), id="another number in text"),
        pytest.param(answered(None, result={}), id="no number"),
        pytest.param(answered(float(NUMBER) + 0.5, result={}), id="a fraction"),
        pytest.param(answered(src="shellyplug-evil", result={}), id="another device"),
        pytest.param((EVENTS, answered(result={})[1]), id="another topic"),
    ],
)
def test_an_answer_counts_only_with_our_number_from_the_device_on_its_topic(answer: tuple[str, str]) -> None:
    device = shelly()
    plan = device.plan(ActionName.POWER, {"on": True}, number=NUMBER)

    assert after(device, plan, answer) == Progress()


@pytest.mark.requirement("M2")
def test_an_answer_that_comes_late_still_fits_its_own_command_and_no_later_one() -> None:
    device = shelly()
    first = device.plan(ActionName.POWER, {"on": True}, number=7)
    second = device.plan(ActionName.POWER, {"on": True}, number=8)
    late = answered(7, result={"was_on": False})

    assert after(device, first, late).confirmed == Confirmed(Level.ACCEPTED)
    assert after(device, second, late).confirmed is None


@pytest.mark.requirement("M2", "A2")
@pytest.mark.parametrize(
    ("error", "words"),
    [
        ({"code": -103, "message": "Invalid argument 'id'"}, "-103: Invalid argument 'id'"),
        ({"code": 404, "message": "No handler for Light.Set"}, "404: No handler for Light.Set"),
        (
            {"code": 401, "message": '{"auth_type":"digest","nonce":1,"realm":"shelly"}'},
            "401: the device asks for a password",
        ),
        ({"code": -1, "message": "\x1b[2J" + "x" * 300}, "-1: [2J" + "x" * 193),
        ({"message": "broken"}, "broken"),
        ({}, ""),
        ("strange", ""),
    ],
)
def test_an_error_denies_in_the_devices_words_cleaned(error: object, words: str) -> None:
    device = shelly()
    plan = device.plan(ActionName.POWER, {"on": True}, number=NUMBER)

    progress = after(device, plan, answered(error=error))

    assert progress.denied == Denied(Reason.DEVICE_REFUSED, words)
    assert progress.confirmed is None


@pytest.mark.requirement("M2")
def test_an_error_for_somebody_elses_call_denies_nothing() -> None:
    device = shelly()
    plan = device.plan(ActionName.POWER, {"on": True}, number=NUMBER)

    assert after(device, plan, answered(NUMBER + 1, error={"code": -1})).denied is None


@pytest.mark.requirement("M2", "I3")
def test_a_toggle_is_applied_by_the_change() -> None:
    device = shelly()
    plan = device.plan(ActionName.TOGGLE, {}, number=NUMBER)
    on = notified({"switch:0": {"output": True}})

    assert plan.effect is Effect.ONE_SHOT
    assert after(device, plan, on, before=False).confirmed == Confirmed(Level.APPLIED, value=True)
    assert after(device, plan, on, before=True).confirmed is None


@pytest.mark.requirement("M2")
def test_a_reboot_is_verified_by_going_and_coming() -> None:
    device = shelly()
    plan = device.plan(ActionName.REBOOT, {}, number=NUMBER)
    gone, back = (f"{SHELLY}/online", "false"), (f"{SHELLY}/online", "true")

    assert after(device, plan, answered(result=None)).confirmed == Confirmed(Level.ACCEPTED)
    assert after(device, plan, answered(result=None), gone, back).confirmed == Confirmed(Level.VERIFIED)


@pytest.mark.requirement("C6", "M2")
def test_reading_back_asks_for_the_whole_status_and_judges_the_one_reading() -> None:
    device = shelly(switches=[0, 1])
    wish = device.plan(ActionName.POWER, {"on": True, "channel": 2}, number=NUMBER).wish
    step = device.read_back(ReadingName("power.2"), number=99)
    assert wish is not None
    assert step is not None

    def judged(number: int, *, on: bool) -> Confirmed | Contradicted | None:
        status = {"sys": {}, "switch:0": {"output": not on}, "switch:1": {"output": on}}
        topic, payload = answered(number, result=status)
        return read_back(wish, step.expectation, Heard(topic=topic, decoded=live(device, topic, payload)))

    assert json.loads(step.payload) == {
        "id": 99,
        "src": f"edgeagent/hub-1/{SHELLY}",
        "method": "Shelly.GetStatus",
    }
    assert judged(99, on=True) == Confirmed(Level.VERIFIED, value=True)
    assert judged(99, on=False) == Contradicted(value=False)
    assert judged(98, on=True) is None


def test_a_cover_has_arrived_when_it_is_near_enough() -> None:
    device = shelly(switches=[], covers=[0])
    plan = device.plan(ActionName.POSITION, {"percent": 75}, number=NUMBER)

    moving = after(device, plan, answered(result=None), notified({"cover:0": {"current_pos": 60}}))
    there = after(device, plan, notified({"cover:0": {"state": "stopped", "current_pos": 74}}))

    assert moving.confirmed == Confirmed(Level.ACCEPTED)
    assert there.confirmed == Confirmed(Level.APPLIED, 74)
