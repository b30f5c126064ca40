"""Zigbee2MQTT: one bridge lists many devices, says what each can do, and repeats what it remembers."""

import json
from collections.abc import Iterable
from datetime import timedelta
from functools import reduce

import pytest
from pydantic import JsonValue

from edgeagent.contracts.actions import ActionName, Arguments
from edgeagent.contracts.policy import Level
from edgeagent.core.confirmation import Heard, Progress, hear
from edgeagent.core.lease import Parent
from edgeagent.core.profile.compile import CompiledDevice, compile_device
from edgeagent.core.profile.match import Inventory, Matcher, Proposal
from edgeagent.core.updating import Course, Running, follow
from edgeagent.errors import MalformedError
from tests.core.profile.bridge import ALL, COORDINATOR, COVER, VALVE, Exposed, light, listed, number, switch
from tests.core.profile.building import GATEWAY, family, live, readings

pytestmark = [pytest.mark.requirement("M1"), pytest.mark.requirement("M4")]

PROFILE = family("zigbee2mqtt")
MATCHER = Matcher([PROFILE])
IEEE = "0x00158d0001020304"
STATE, LOG = "zigbee2mqtt/bridge/state", "zigbee2mqtt/bridge/logging"
ANSWER = "zigbee2mqtt/bridge/response/device/ota_update/update"


def inventory(*devices: JsonValue, topic: str = "zigbee2mqtt/bridge/devices") -> Inventory:
    """What becomes of a list of the bridge."""
    found = MATCHER.match(topic, json.dumps([COORDINATOR, *devices]).encode())
    assert isinstance(found, Inventory)
    return found


def proposed(*exposes: Exposed, name: str = "lamp", **changes: JsonValue) -> Proposal:
    """The proposal that comes of one device."""
    (found,) = inventory(listed(IEEE, name, *exposes, **changes)).proposals
    return found


def admitted(*exposes: Exposed, name: str = "lamp") -> CompiledDevice:
    """A device that was admitted as it was proposed."""
    found = proposed(*exposes, name=name)
    return compile_device(PROFILE, found.device, found.parameters, gateway=GATEWAY)


def sent(device: CompiledDevice, action: ActionName, arguments: Arguments) -> tuple[str, JsonValue]:
    """Where an action goes, and what it says."""
    (step,) = device.plan(action, arguments, number=7).steps
    return step.topic, json.loads(step.payload)


class TestDiscovery:
    """The list of the bridge."""

    def test_one_list_proposes_every_supported_device_but_the_coordinator(self) -> None:
        found = inventory(
            listed("0x01", "lamp", light("brightness")),
            listed("0x02", "hall/blind", COVER),
            listed("0x03", "unknown", supported=False),
            listed("0x04", "odd", definition=None),
        )

        assert [(each.device, each.label) for each in found.proposals] == [
            ("0x01", "lamp"),
            ("0x02", "hall/blind"),
        ]

    def test_a_proposal_says_what_the_device_can_do(self) -> None:
        found = proposed(light("brightness", "color_temp"), number("voltage", unit="V"))

        assert (found.profile, found.model, found.firmware) == ("zigbee2mqtt", "TS011F", "1.0.5")
        assert found.parameters == {
            "base": "zigbee2mqtt",
            "friendly_name": "lamp",
            "model": "TS011F",
            "relays": [1],
            "switched": True,
            "gangs": False,
            "dimmable": True,
            "tunable": True,
            "covers": False,
            "modes": False,
            "mains_voltage": True,
        }

    def test_one_that_does_not_fit_hinders_no_other(self) -> None:
        found = inventory(
            listed("0x01", "a/#"),
            listed("0x02", "b\x00"),
            listed("", "c"),
            listed("0x04", "x" * 600),
            None,
            7,
            [],
            {"ieee_address": 1},
            listed("0x05", "lamp", light()),
        )

        assert [each.device for each in found.proposals] == ["0x05"]

    def test_what_is_no_list_proposes_nothing(self) -> None:
        for payload in (b"", b"{}", b"[", b'"x"', b"\xff", b"[" * 40):
            assert MATCHER.match("zigbee2mqtt/bridge/devices", payload) is None

    def test_a_list_may_be_large_and_what_is_larger_is_passed_over(self) -> None:
        many = [listed(f"0x{place:016x}", f"lamp {place}", light("brightness")) for place in range(400)]
        text = json.dumps(many)

        found = MATCHER.match("zigbee2mqtt/bridge/devices", text.encode())

        assert len(text) > PROFILE.most_bytes
        assert isinstance(found, Inventory)
        assert len(found.proposals) == 400
        assert MATCHER.match("zigbee2mqtt/bridge/devices", text.encode() + b" " * 1_000_000) is None

    def test_a_deep_tree_of_abilities_is_looked_at_so_far_and_no_further(self) -> None:
        wide: list[JsonValue] = [number(f"n{place}") for place in range(2000)]

        found = proposed({"type": "composite", "features": [*wide, number("brightness", ALL)]})

        assert found.parameters["dimmable"] is False

    def test_a_list_of_nothing_but_trees_is_looked_at_so_far_and_no_further(self) -> None:
        hollow: list[Exposed] = [{}] * 240
        bush = [listed(f"0x{place:016x}", f"lamp {place}", *hollow) for place in range(400)]

        assert 50 < len(inventory(*bush).proposals) < 80

    def test_a_bridge_elsewhere_is_another_bridge(self) -> None:
        (found,) = inventory(listed(IEEE, "lamp"), topic="attic/bridge/devices").proposals

        assert found.parameters["base"] == "attic"
        assert (found.follow, found.anchors) == (("friendly_name",), ("base",))


class TestAbilities:
    """What a device can do is what the bridge exposes of it."""

    @pytest.mark.parametrize(
        ("exposes", "actions"),
        [
            ((switch(),), {"power"}),
            ((light("brightness"),), {"power", "brightness", "scene"}),
            ((light("brightness", "color_temp"),), {"power", "brightness", "color_temperature", "scene"}),
            ((COVER,), {"position"}),
            ((VALVE,), {"setpoint", "mode"}),
            ((number("temperature"), number("battery")), set[str]()),
            ((number("brightness"),), set[str]()),
        ],
    )
    def test_a_device_has_the_actions_of_its_kind(
        self, exposes: tuple[Exposed, ...], actions: set[str]
    ) -> None:
        assert set(admitted(*exposes).actions) == actions | {"install"}

    def test_commands_go_to_the_device_by_its_name(self) -> None:
        lamp = admitted(light("brightness", "color_temp"), name="bar/lamp 1")

        topic = "zigbee2mqtt/bar/lamp 1/set"
        assert sent(lamp, ActionName.POWER, {"on": True}) == (topic, {"state": "ON"})
        assert sent(lamp, ActionName.BRIGHTNESS, {"level": 50}) == (topic, {"brightness": 127})
        assert sent(lamp, ActionName.COLOR_TEMPERATURE, {"kelvin": 2700}) == (topic, {"color_temp": 370})
        assert sent(admitted(COVER), ActionName.POSITION, {"percent": 30})[1] == {"position": 30}
        assert sent(admitted(VALVE), ActionName.SETPOINT, {"celsius": 21.5})[1] == {
            "occupied_heating_setpoint": 21.5
        }
        assert sent(admitted(VALVE), ActionName.MODE, {"name": "heat"})[1] == {"system_mode": "heat"}

    def test_each_gang_of_a_switch_is_a_channel(self) -> None:
        wall = admitted(switch("state_l1", "state_l2"))

        assert sent(wall, ActionName.POWER, {"on": False, "channel": 2}) == (
            "zigbee2mqtt/lamp/l2/set",
            {"state": "OFF"},
        )
        told = live(wall, "zigbee2mqtt/lamp", '{"state_l1":"ON","state_l2":"OFF"}')
        assert readings(told) == {"power.1": True, "power.2": False}

    def test_readings_are_in_our_units(self) -> None:
        lamp = admitted(light("brightness", "color_temp"), number("voltage", unit="V"))

        told = live(
            lamp,
            "zigbee2mqtt/lamp",
            '{"state":"ON","brightness":127,"color_temp":370,"power":4.2,"energy":1.5,"voltage":230,"current":0.1,'
            '"temperature":21.5,"humidity":40,"battery":88,"contact":true,"occupancy":false,"linkquality":90,'
            '"update":{"state":"idle","installed_version":192}}',
        )

        assert readings(told) == {
            "power": True,
            "brightness": 50,
            "color_temperature": 2703,
            "active_power": 4.2,
            "energy": 1.5,
            "voltage": 230,
            "current": 0.1,
            "temperature": 21.5,
            "humidity": 40,
            "battery": 88,
            "contact": True,
            "occupancy": False,
            "link_quality": 90,
            "firmware": "192",
        }

    def test_millivolts_of_a_battery_are_not_taken_for_the_mains(self) -> None:
        sensor = admitted(number("voltage", unit="mV"))

        assert readings(live(sensor, "zigbee2mqtt/lamp", '{"voltage":3000}')) == {}

    def test_what_the_bridge_does_not_know_is_unknown(self) -> None:
        lamp = admitted(light("brightness"))

        told = live(
            lamp, "zigbee2mqtt/lamp", '{"state":null,"brightness":null,"update":{"installed_version":-1}}'
        )

        assert (told.readings, told.unusable) == ([], 0)


class TestPresence:
    """A device is there while neither its bridge nor its own topic says otherwise."""

    @pytest.mark.parametrize(
        ("on", "off"), [('{"state":"online"}', '{"state":"offline"}'), ("online", "offline")]
    )
    def test_both_have_a_say(self, on: str, off: str) -> None:
        lamp = admitted(light())
        own = "zigbee2mqtt/lamp/availability"

        told = [
            live(lamp, topic, payload).availability
            for topic, payload in [(STATE, on), (own, off), (STATE, on), (own, on), (STATE, off), (own, on)]
        ]

        assert told == [True, False, False, True, False, False]

    def test_one_that_tells_nothing_of_itself_any_more_is_judged_by_its_bridge(self) -> None:
        lamp = admitted(light())
        live(lamp, "zigbee2mqtt/lamp/availability", "offline")

        live(lamp, "zigbee2mqtt/lamp/availability", "")

        assert live(lamp, STATE, "online").availability is True

    def test_what_the_bridge_repeats_proves_no_presence(self) -> None:
        assert not live(admitted(light()), "zigbee2mqtt/lamp", '{"state":"ON"}').alive

    def test_the_topics_of_the_bridge_are_common_and_those_of_the_device_are_not(self) -> None:
        lamp = admitted(light())

        assert {STATE, LOG, ANSWER} <= lamp.common
        assert not {"zigbee2mqtt/lamp", "zigbee2mqtt/lamp/availability"} & lamp.common
        assert STATE not in lamp.answers_only
        assert {LOG, ANSWER} <= lamp.answers_only


class TestConfirmation:
    """An echo is the bridge's hope; its log is where a failure is told."""

    def after(self, *lines: tuple[str, str]) -> Progress:
        lamp = admitted(light("brightness"))
        expectation = lamp.plan(ActionName.POWER, {"on": True}, number=7).steps[0].expectation
        messages = [Heard(topic=topic, decoded=live(lamp, topic, payload)) for topic, payload in lines]
        return reduce(lambda known, message: hear(expectation, known, message), messages, Progress())

    def test_an_echo_is_an_acceptance_and_no_more(self) -> None:
        confirmed = self.after(("zigbee2mqtt/lamp", '{"state":"ON"}')).confirmed

        assert confirmed is not None
        assert confirmed.level is Level.ACCEPTED

    def test_a_failure_in_the_log_is_a_refusal_of_the_device_that_it_names(self) -> None:
        message = "z2m: Publish 'set' 'state' to 'lamp' failed: 'No network route'"

        denied = self.after((LOG, json.dumps({"level": "error", "message": message}))).denied

        assert denied is not None
        assert denied.words == message

    @pytest.mark.parametrize(
        ("level", "message"),
        [
            ("error", "z2m: Publish 'set' 'state' to 'lamp 2' failed: 'No network route'"),
            ("info", "z2m: Publish 'set' 'state' to 'lamp' failed: 'No network route'"),
            ("error", "z2m: MQTT server went away"),
        ],
    )
    def test_another_line_of_the_log_is_none(self, level: str, message: str) -> None:
        assert self.after((LOG, json.dumps({"level": level, "message": message}))) == Progress()

    def test_the_device_can_be_asked_for_what_it_can_be_set_to(self) -> None:
        lamp = admitted(light("brightness"))

        step = lamp.read_back(lamp.readings[lamp.readings.index("brightness")], number=7)

        assert step is not None
        assert (step.topic, json.loads(step.payload)) == ("zigbee2mqtt/lamp/get", {"brightness": ""})

    def test_it_is_read_back_when_it_has_settled_and_not_when_the_time_is_over(self) -> None:
        expectation = admitted(light()).plan(ActionName.POWER, {"on": True}, number=7).steps[0].expectation

        assert (expectation.best, expectation.settles) == (Level.ACCEPTED, timedelta(seconds=1))

    def test_a_sensor_that_sleeps_is_asked_nothing(self) -> None:
        assert admitted(number("temperature")).questions(iter(range(9))) == ()


@pytest.mark.requirement("F4")
class TestFirmware:
    """An update goes by way of the bridge, which answers late, or never."""

    URL = "http://192.0.2.1:8070/f/0123456789abcdef"

    def course(self, lines: Iterable[tuple[str, str]]) -> Course:
        lamp = admitted(light())
        (step,) = lamp.firmware(url=self.URL, version="200", number=7).steps
        messages = [Heard(topic=topic, decoded=live(lamp, topic, payload)) for topic, payload in lines]
        return reduce(lambda known, message: follow(step, known, message), messages, Course())

    def test_the_bridge_is_asked_for_one_device_and_is_occupied_meanwhile(self) -> None:
        plan = admitted(light()).firmware(url=self.URL, version="200", number=7)
        (step,), cancel = plan.steps, admitted(light()).cancel(number=8)

        assert step.topic == "zigbee2mqtt/bridge/request/device/ota_update/update"
        assert json.loads(step.payload) == {"id": IEEE, "url": self.URL, "transaction": 7}
        assert plan.parent == Parent("bridge/zigbee2mqtt", 1)
        assert cancel is not None
        assert json.loads(cancel.payload) == {"id": IEEE, "transaction": 8}
        assert cancel.topic.endswith("/ota_update/update/abort")

    def test_progress_is_told_on_the_device_and_the_end_by_the_bridge(self) -> None:
        lines = [
            (
                "zigbee2mqtt/lamp",
                '{"state":"ON","update":{"state":"updating","progress":10,"remaining":3600}}',
            ),
            (
                "zigbee2mqtt/lamp",
                '{"state":"OFF","update":{"state":"updating","progress":10,"remaining":3600}}',
            ),
            ("zigbee2mqtt/lamp", '{"update":{"state":"updating","progress":55,"remaining":1200}}'),
        ]

        course = self.course(lines)

        assert (course.percent, course.remaining, course.signs) == (55, timedelta(minutes=20), 2)
        assert self.course([*lines, (ANSWER, '{"status":"ok","data":{},"transaction":7}')]).done

    def test_an_error_without_our_number_is_of_another_device(self) -> None:
        error = {"status": "error", "data": {}, "error": "OTA update already in progress"}

        assert self.course([(ANSWER, json.dumps(error))]) == Course()
        denied = self.course([(ANSWER, json.dumps({**error, "transaction": 7}))]).denied
        assert denied is not None
        assert denied.words == "OTA update already in progress"

    @pytest.mark.parametrize(
        ("payload", "words"),
        [
            ('{"state":"offline"}', "offline: the bridge went away"),
            ("offline", "offline: the bridge went away"),
            ('{"state":"online"}', "online: the bridge has restarted"),
        ],
    )
    def test_a_bridge_that_restarts_has_forgotten_the_update(self, payload: str, words: str) -> None:
        denied = self.course([(STATE, payload)]).denied

        assert denied is not None
        assert denied.words == words

    def test_a_version_that_the_bridge_does_not_know_proves_nothing(self) -> None:
        verification = admitted(light()).firmware(url=self.URL, version="200", number=7).verification

        assert [verification.of(value) for value in ("200", "199", "-1", None)] == [
            Running.WANTED,
            Running.OTHER,
            Running.UNKNOWN,
            Running.UNKNOWN,
        ]

    def test_a_version_of_another_shape_is_refused(self) -> None:
        with pytest.raises(MalformedError, match="no version of zigbee2mqtt"):
            admitted(light()).firmware(url=self.URL, version="1.0.5", number=7)
