"""The shipped profile of Tasmota: what its messages say, what is sent, what proves it."""

import json

import pytest

from edgeagent.contracts.actions import ActionName, Effect
from edgeagent.contracts.policy import Level
from edgeagent.contracts.reasons import Reason
from edgeagent.core.confirmation import Confirmed, Contradicted, Denied, Heard, Progress, hear, read_back
from edgeagent.core.profile.compile import CompiledDevice
from edgeagent.core.profile.plan import Plan
from edgeagent.errors import MalformedError
from edgeagent.ids import ReadingName
from tests.core.profile.building import live, readings, tasmota

pytestmark = pytest.mark.requirement("M1")

POWER = ReadingName("power")
STATE = {
    "Time": "2026-01-02T03:04:05",
    "Uptime": "0T01:02:03",
    "UptimeSec": 3723,
    "Vcc": 3.4,
    "Heap": 25,
    "POWER": "ON",
    "Dimmer": 40,
    "Color": "66330000FF",
    "HSBColor": "30,100,40",
    "CT": 370,
    "Wifi": {"AP": 1, "SSId": "venue", "RSSI": 80, "Signal": -60},
}


def sent(plan: Plan) -> tuple[str, bytes]:
    """The one message of a plan."""
    (step,) = plan.steps
    return step.topic, step.payload


def after(device: CompiledDevice, plan: Plan, *messages: tuple[str, str], before: object = None) -> Progress:
    """How far a plan has come after these live messages."""
    progress = Progress(before={} if before is None else {POWER: bool(before)})
    for topic, payload in messages:
        progress = hear(
            plan.steps[0].expectation, progress, Heard(topic=topic, decoded=live(device, topic, payload))
        )
    return progress


def test_a_state_message_tells_relay_light_and_radio() -> None:
    light = tasmota(light=5)

    expected = {
        "power": True,
        "brightness": 40,
        "color": "#663300",
        "color_temperature": 2703,
        "signal_strength": -60,
        "supply_voltage": 3.4,
        "uptime": 3723,
    }
    assert readings(live(light, "tele/plug-a/STATE", json.dumps(STATE))) == expected
    assert readings(live(light, "stat/plug-a/RESULT", json.dumps(STATE))) == expected
    assert readings(live(light, "stat/plug-a/STATUS11", json.dumps({"StatusSTS": STATE}))) == expected


def test_a_plug_has_no_light_whatever_it_sends() -> None:
    assert "brightness" not in readings(live(tasmota(), "tele/plug-a/STATE", json.dumps(STATE)))


def test_energy_is_read_from_reports_and_from_asking() -> None:
    energy = {"Total": 12.3, "Today": 0.2, "Power": 42, "Factor": 0.84, "Voltage": 230, "Current": 0.2}
    expected = {
        "energy": 12.3,
        "energy_today": 0.2,
        "active_power": 42,
        "power_factor": 0.84,
        "voltage": 230,
        "current": 0.2,
    }

    for topic, document in (
        ("tele/plug-a/SENSOR", {"ENERGY": energy}),
        ("stat/plug-a/STATUS8", {"StatusSNS": {"ENERGY": energy}}),
        ("stat/plug-a/STATUS10", {"StatusSNS": {"ENERGY": energy}}),
    ):
        assert readings(live(tasmota(), topic, json.dumps(document))) == expected


def test_a_meter_of_three_phases_gives_each_its_reading() -> None:
    document = {"ENERGY": {"Total": 1.5, "Power": [1, 2, 3], "Voltage": 230, "Current": [0.1, None, 0.3]}}

    assert readings(live(tasmota(), "tele/plug-a/SENSOR", json.dumps(document))) == {
        "energy": 1.5,
        "active_power.1": 1,
        "active_power.2": 2,
        "active_power.3": 3,
        "voltage": 230,
        "current.1": 0.1,
        "current.3": 0.3,
    }


@pytest.mark.parametrize(
    ("unit", "sent_value", "expected"),
    [("C", 22.5, 22.5), ("F", 72.5, 22.5), ("K", 295.65, 22.5), (None, 22.5, 22.5)],
)
def test_a_temperature_is_told_in_celsius(unit: str | None, sent_value: float, expected: float) -> None:
    document = {"SI7021": {"Temperature": sent_value}} | ({} if unit is None else {"TempUnit": unit})

    assert readings(live(tasmota(), "tele/plug-a/SENSOR", json.dumps(document))) == {
        "temperature.si7021": expected
    }


def test_a_temperature_in_a_strange_unit_is_unknown() -> None:
    decoded = live(tasmota(), "tele/plug-a/SENSOR", '{"TempUnit":"R","X":{"Temperature":70,"Humidity":40}}')

    assert readings(decoded) == {"humidity.x": 40}
    assert decoded.unusable == 1


def test_one_relay_is_power_whichever_way_the_device_numbers_it() -> None:
    for topic, payload in (
        ("stat/plug-a/RESULT", '{"POWER":"OFF"}'),
        ("stat/plug-a/RESULT", '{"POWER1":"OFF"}'),
        ("stat/plug-a/POWER", "OFF"),
        ("stat/plug-a/POWER1", "OFF"),
        ("stat/plug-a/POWER", '{"POWER":"OFF"}'),
    ):
        assert readings(live(tasmota(), topic, payload)) == {"power": False}


def test_a_blinking_light_is_neither_on_nor_off() -> None:
    decoded = live(tasmota(light=1), "stat/plug-a/RESULT", '{"POWER":"Blink ON"}')

    assert (decoded.readings, decoded.unusable) == ([], 0)


def test_the_firmware_is_known_from_asking_and_from_a_start() -> None:
    for topic, payload in (
        ("stat/plug-a/STATUS2", '{"StatusFWR":{"Version":"14.1.0(tasmota)"}}'),
        ("tele/plug-a/INFO1", '{"Info1":{"Module":"x","Version":"14.1.0(tasmota)"}}'),
        ("tele/plug-a/INFO1", '{"Module":"x","Version":"14.1.0(tasmota)"}'),
    ):
        assert readings(live(tasmota(), topic, payload)) == {"firmware": "14.1.0(tasmota)"}


def test_a_device_that_answers_each_command_on_a_topic_of_its_own_is_heard() -> None:
    light = tasmota(light=5, own_topics=True)

    assert readings(live(light, "stat/plug-a/DIMMER", '{"POWER":"ON","Dimmer":5}')) == {
        "power": True,
        "brightness": 5,
    }
    assert live(tasmota(light=5), "stat/plug-a/DIMMER", '{"Dimmer":5}').readings == []


@pytest.mark.parametrize(
    ("parameters", "actions"),
    [
        ({}, {"power", "toggle", "reboot", "refresh"}),
        ({"relays": []}, {"reboot", "refresh"}),
        ({"light": 1}, {"power", "toggle", "reboot", "refresh", "brightness", "identify", "scene"}),
        ({"light": 3}, {"power", "toggle", "reboot", "refresh", "brightness", "identify", "color", "scene"}),
        (
            {"light": 5},
            {
                "power",
                "toggle",
                "reboot",
                "refresh",
                "brightness",
                "identify",
                "color",
                "color_temperature",
                "scene",
            },
        ),
    ],
)
def test_a_device_can_do_what_it_has(parameters: dict[str, object], actions: set[str]) -> None:
    assert set(tasmota(**parameters).actions) == actions | {"install"}


@pytest.mark.parametrize(
    ("action", "arguments", "message"),
    [
        (ActionName.POWER, {"on": True}, ("cmnd/plug-a/POWER1", b"ON")),
        (ActionName.POWER, {"on": False}, ("cmnd/plug-a/POWER1", b"OFF")),
        (ActionName.TOGGLE, {}, ("cmnd/plug-a/POWER1", b"TOGGLE")),
        (ActionName.BRIGHTNESS, {"level": 40}, ("cmnd/plug-a/Dimmer", b"40")),
        (ActionName.COLOR_TEMPERATURE, {"kelvin": 2700}, ("cmnd/plug-a/CT", b"370")),
        (ActionName.COLOR, {"red": 255, "green": 128, "blue": 0}, ("cmnd/plug-a/Color", b"#FF8000")),
        (ActionName.IDENTIFY, {}, ("cmnd/plug-a/POWER1", b"3")),
        (ActionName.REBOOT, {}, ("cmnd/plug-a/Restart", b"1")),
        (ActionName.REFRESH, {}, ("cmnd/plug-a/Status", b"0")),
    ],
)
def test_each_action_is_sent_as_the_firmware_takes_it(
    action: ActionName, arguments: dict[str, bool | int], message: tuple[str, bytes]
) -> None:
    assert sent(tasmota(light=5).plan(action, arguments, number=1)) == message


@pytest.mark.requirement("V2")
@pytest.mark.parametrize(
    ("action", "arguments"),
    [
        (ActionName.BRIGHTNESS, {"level": 0}),
        (ActionName.BRIGHTNESS, {"level": 101}),
        (ActionName.BRIGHTNESS, {"level": 40, "channel": 1}),
        (ActionName.COLOR_TEMPERATURE, {"kelvin": 1500}),
        (ActionName.POWER, {}),
        (ActionName.POWER, {"on": 1}),
        (ActionName.POWER, {"on": True, "channel": 1}),
        (ActionName.POWER, {"on": True, "payload": "x"}),
        (ActionName.LOCK, {"locked": True}),
    ],
)
def test_what_the_device_cannot_do_is_refused(
    action: ActionName, arguments: dict[str, bool | int | str]
) -> None:
    with pytest.raises(MalformedError):
        tasmota(light=5).plan(action, arguments, number=1)


def test_of_several_relays_one_must_be_named() -> None:
    two = tasmota(relays=[1, 2])

    assert sent(two.plan(ActionName.POWER, {"on": True, "channel": 2}, number=1)) == (
        "cmnd/plug-a/POWER2",
        b"ON",
    )
    for arguments in ({"on": True}, {"on": True, "channel": 3}, {"on": True, "channel": True}):
        with pytest.raises(MalformedError, match="channel"):
            two.plan(ActionName.POWER, arguments, number=1)


@pytest.mark.requirement("M2")
def test_an_echo_after_the_command_applies_it() -> None:
    plug = tasmota()
    plan = plug.plan(ActionName.POWER, {"on": True}, number=1)

    assert plan.best is Level.VERIFIED
    for topic, payload in (
        ("stat/plug-a/RESULT", '{"POWER":"ON"}'),
        ("stat/plug-a/POWER", "ON"),
        ("tele/plug-a/STATE", json.dumps(STATE)),
    ):
        assert after(plug, plan, (topic, payload)).confirmed == Confirmed(Level.APPLIED, value=True)


@pytest.mark.requirement("M2")
def test_the_echo_of_another_relay_proves_nothing() -> None:
    two = tasmota(relays=[1, 2])
    plan = two.plan(ActionName.POWER, {"on": True, "channel": 2}, number=1)

    assert after(two, plan, ("stat/plug-a/RESULT", '{"POWER1":"ON"}')).confirmed is None
    assert after(two, plan, ("stat/plug-a/RESULT", '{"POWER2":"ON"}')).confirmed is not None


@pytest.mark.requirement("M2")
def test_white_light_is_confirmed_in_the_steps_that_the_device_has() -> None:
    light = tasmota(light=5)
    plan = light.plan(ActionName.COLOR_TEMPERATURE, {"kelvin": 2700}, number=1)

    assert plan.wish is not None
    assert plan.wish.value == 2703
    progress = after(light, plan, ("stat/plug-a/RESULT", '{"CT":370}'))
    assert progress.confirmed == Confirmed(Level.APPLIED, 2703)
    assert after(light, plan, ("stat/plug-a/RESULT", '{"CT":371}')).confirmed is None


@pytest.mark.requirement("M2")
def test_a_colour_may_come_back_a_step_off() -> None:
    light = tasmota(light=3)
    plan = light.plan(ActionName.COLOR, {"red": 255, "green": 128, "blue": 0}, number=1)

    near = after(light, plan, ("stat/plug-a/RESULT", '{"Color":"FF7F01"}'))
    far = after(light, plan, ("stat/plug-a/RESULT", '{"Color":"FF7001"}'))

    assert near.confirmed == Confirmed(Level.APPLIED, "#FF7F01")
    assert far.confirmed is None


@pytest.mark.requirement("M2")
@pytest.mark.parametrize("word", ["Unknown", "Error"])
def test_a_command_that_the_firmware_does_not_know_is_denied_once(word: str) -> None:
    plug = tasmota()
    plan = plug.plan(ActionName.POWER, {"on": True}, number=1)
    refusal = ("stat/plug-a/RESULT", json.dumps({"Command": word}))

    once, twice = after(plug, plan, refusal), after(plug, plan, refusal, refusal)

    assert once == twice
    assert once.denied == Denied(Reason.DEVICE_REFUSED, word)


@pytest.mark.requirement("M2", "I3")
def test_a_toggle_is_known_by_the_change_and_by_nothing_else() -> None:
    plug = tasmota()
    plan = plug.plan(ActionName.TOGGLE, {}, number=1)
    echo = ("stat/plug-a/RESULT", '{"POWER":"ON"}')

    assert plan.effect is Effect.ONE_SHOT
    assert [needed.reading for needed in plan.requires] == ["power"]
    assert after(plug, plan, echo, before=False).confirmed == Confirmed(Level.APPLIED, value=True)
    assert after(plug, plan, echo, before=True).confirmed is None
    assert after(plug, plan, echo).confirmed is None


@pytest.mark.requirement("M2")
def test_a_restart_is_accepted_by_word_and_verified_by_going_and_coming() -> None:
    plug = tasmota()
    plan = plug.plan(ActionName.REBOOT, {}, number=1)
    word = ("stat/plug-a/RESULT", '{"Restart":"Restarting"}')
    gone, back = ("tele/plug-a/LWT", "Offline"), ("tele/plug-a/LWT", "Online")

    assert after(plug, plan, word).confirmed == Confirmed(Level.ACCEPTED)
    assert after(plug, plan, word, gone).confirmed == Confirmed(Level.ACCEPTED)
    assert after(plug, plan, word, gone, back).confirmed == Confirmed(Level.VERIFIED)
    assert after(plug, plan, back).confirmed is None
    assert after(plug, plan, ("tele/plug-a/INFO1", '{"Info1":{}}')).confirmed == Confirmed(Level.VERIFIED)


@pytest.mark.requirement("C6", "M2")
def test_reading_back_verifies_or_contradicts() -> None:
    plug = tasmota()
    wish = plug.plan(ActionName.POWER, {"on": True}, number=1).wish
    step = plug.read_back(POWER, number=2)
    assert step is not None
    assert wish is not None

    def judged(topic: str, document: dict[str, object]) -> Confirmed | Contradicted | None:
        heard = Heard(topic=topic, decoded=live(plug, topic, json.dumps(document)))
        return read_back(wish, step.expectation, heard)

    assert (step.topic, step.payload) == ("cmnd/plug-a/State", b"")
    assert judged("stat/plug-a/RESULT", STATE) == Confirmed(Level.VERIFIED, value=True)
    assert judged("stat/plug-a/RESULT", STATE | {"POWER": "OFF"}) == Contradicted(value=False)
    assert judged("stat/plug-a/RESULT", {"POWER": "OFF"}) is None
    assert judged("tele/plug-a/STATE", STATE) is None


def test_a_device_that_comes_online_is_asked_for_everything() -> None:
    probe, firmware = tasmota().probe(number=3), tasmota().read_back(ReadingName("firmware"), number=3)

    assert probe is not None
    assert firmware is not None
    assert (probe.topic, probe.payload) == ("cmnd/plug-a/Status", b"0")
    assert (firmware.topic, firmware.payload) == ("cmnd/plug-a/Status", b"2")
    assert tasmota().probe_every is None


def test_no_plan_is_sent_to_a_group() -> None:
    light = tasmota(light=5, relays=[1, 2])

    for action, known in light.actions.items():
        if action is ActionName.INSTALL:
            continue
        arguments = {
            name: (rule.choices or (int(rule.maximum or 0),))[0] if rule.kind != "boolean" else True
            for name, rule in known.arguments.items()
        }
        for step in light.plan(action, arguments, number=1).steps:
            assert step.topic.startswith("cmnd/plug-a/")
    update = light.firmware(url="http://192.0.2.1/a.bin", version="14.2.0(release-tasmota)", number=1)
    assert all(step.topic.startswith("cmnd/plug-a/") for step in update.steps)
