"""A Zigbee2MQTT bridge and the devices behind it, as somebody at the broker meets them."""

import json
from collections.abc import Callable

import pytest

from firmware_sim.appliance import Appliance
from firmware_sim.fields import Fields, InputError, Json
from firmware_sim.journal import Journal, Line
from firmware_sim.specification import BridgeSpecification, specifications
from firmware_sim.zigbee2mqtt.models import ZigbeeModel
from firmware_sim.zigbee2mqtt.settings import Paired, ZigbeeSettings, zigbee_settings
from tests.firmware_sim.conftest import MAC, in_world
from tests.firmware_sim.peer import Message, Peer
from tests.support.brokers import Mosquitto
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("F6")

BASE = "zigbee2mqtt"
LAMP = "0x00158d0001020304"
Lines = Callable[..., list[Line]]


def a_bridge(*devices: Paired) -> BridgeSpecification:
    """A bridge, with one of each behind it unless told otherwise."""
    return BridgeSpecification(mac=MAC, settings=ZigbeeSettings(devices=devices))


def state(told: Json) -> Callable[[Message], bool]:
    """Whether a device tells this state."""
    return lambda message: bool(message.payload) and message.json.get("state") == told


async def test_it_tells_who_it_is_who_is_there_and_how_everything_stands(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    async with Appliance(a_bridge(), in_world(broker, journal)):
        online = await peer.hears(f"{BASE}/bridge/state")
        info = await peer.hears(f"{BASE}/bridge/info")
        devices = await peer.hears(f"{BASE}/bridge/devices")
        lamp = await peer.hears(f"{BASE}/lamp")
        there = await peer.hears(f"{BASE}/sensor/availability")

    assert (online.json, online.qos, online.retain) == ({"state": "online"}, 1, True)
    assert (info.retain, devices.retain, lamp.retain, there.retain) == (True, True, False, True)
    listed = json.loads(devices.payload)
    assert [entry["type"] for entry in listed[:2]] == ["Coordinator", "Router"]
    assert listed[0]["definition"] is None
    assert [entry["friendly_name"] for entry in listed[1:]] == [
        "plug",
        "lamp",
        "blind",
        "thermostat",
        "sensor",
    ]
    assert lamp.json["update"] == {"state": "idle", "installed_version": 100, "latest_version": 100}
    assert there.json == {"state": "online"}


async def test_a_bridge_that_is_unplugged_is_offline_by_its_will(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    async with Appliance(a_bridge(), in_world(broker, journal)):
        pass

    gone = await peer.hears(f"{BASE}/bridge/state", state("offline"))
    assert (gone.qos, gone.retain) == (1, True)


@pytest.mark.parametrize(
    ("topic", "payload", "told"),
    [
        ("lamp/set", '{"state": "ON", "brightness": 40}', {"state": "ON", "brightness": 40}),
        ("lamp/set/brightness", "12", {"brightness": 12}),
        ("lamp/set", "toggle", {"state": "ON"}),
        ("blind/set", '{"position": 40}', {"position": 40, "state": "OPEN"}),
        ("blind/set", "close", {"position": 0, "state": "CLOSE"}),
        ("thermostat/set/current_heating_setpoint", "18.5", {"current_heating_setpoint": 18.5}),
        ("thermostat/set", '{"system_mode": "off"}', {"system_mode": "off"}),
    ],
)
async def test_what_is_set_is_told_whole_at_once(
    broker: Mosquitto, peer: Peer, journal: Journal, topic: str, payload: str, told: dict[str, Json]
) -> None:
    name = topic.partition("/")[0]
    async with Appliance(a_bridge(), in_world(broker, journal)):
        await peer.hears(f"{BASE}/sensor/availability")
        peer.forgets()
        peer.says(f"{BASE}/{topic}", payload)
        echo = await peer.hears(f"{BASE}/{name}")

    assert {key: echo.json[key] for key in told} == told
    assert "linkquality" in echo.json


@pytest.mark.parametrize(
    ("topic", "payload", "why"),
    [
        ("lamp/set", '{"colour": 1}', "No converter available for 'colour'"),
        ("lamp/set", '{"brightness": 300}', "outside of 0 to 254"),
        ("lamp/set", '{"brightness": "much"}', "Invalid value for 'brightness'"),
        ("lamp/set", '{"state": "MAYBE"}', "has no value MAYBE"),
        ("sensor/set", '{"state": "ON"}', "No converter available"),
        ("lamp/set", "nonsense", "Invalid message 'nonsense'"),
        ("lamp/set", "[1]", "Invalid message"),
    ],
)
async def test_what_cannot_be_set_is_told_to_the_log_only(
    broker: Mosquitto, peer: Peer, journal: Journal, topic: str, payload: str, why: str, lines: Lines
) -> None:
    name = topic.partition("/")[0]
    async with Appliance(a_bridge(), in_world(broker, journal)):
        await peer.hears(f"{BASE}/sensor/availability")
        peer.forgets()
        peer.says(f"{BASE}/{topic}", payload)
        logged = await peer.hears(f"{BASE}/bridge/logging")

    assert why in str(logged.json["message"])
    assert logged.json["level"] == "error"
    assert list(peer.heard(f"{BASE}/{name}")) == []
    assert lines("effect") == []


async def test_what_is_asked_for_is_told(broker: Mosquitto, peer: Peer, journal: Journal) -> None:
    async with Appliance(a_bridge(), in_world(broker, journal)):
        await peer.hears(f"{BASE}/sensor/availability")
        peer.forgets()
        peer.says(f"{BASE}/plug/get", '{"state": ""}')
        told = await peer.hears(f"{BASE}/plug")

    assert told.json["state"] == "OFF"


async def test_a_name_with_slashes_and_spaces_is_a_name(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    lamp = Paired(ieee=LAMP, model=ZigbeeModel.LAMP, name="bar/left lämp")
    async with Appliance(a_bridge(lamp), in_world(broker, journal)) as device:
        peer.says(f"{BASE}/bar/left lämp/set", "ON")
        await peer.hears(f"{BASE}/bar/left lämp", state("ON"))
        parts = device.state()["parts"]

    assert parts == {LAMP: {"state": "ON", "brightness": 254, "color_temp": 370}}


async def test_a_renamed_device_obeys_its_new_name_only(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    async with Appliance(a_bridge(), in_world(broker, journal)):
        asked = {"from": "lamp", "to": "mood", "transaction": 7}
        peer.says(f"{BASE}/bridge/request/device/rename", json.dumps(asked))
        answer = await peer.hears(f"{BASE}/bridge/response/device/rename")
        await eventually(lambda: len(lines("listening")) == 2)
        peer.says(f"{BASE}/lamp/set", "ON")
        peer.says(f"{BASE}/mood/set", "ON")
        await peer.hears(f"{BASE}/mood", state("ON"))

    assert answer.json["status"] == "ok"
    assert answer.json["transaction"] == 7
    assert [line.details["action"] for line in lines("effect")] == ["power"]
    cleared = [message for message in peer.heard(f"{BASE}/lamp/availability") if not message.payload]
    assert [message.retain for message in cleared] == [True]


async def test_a_removed_device_is_gone_from_the_list_and_obeys_nobody(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    async with Appliance(a_bridge(), in_world(broker, journal)):
        peer.says(f"{BASE}/bridge/request/device/remove", "lamp")
        await peer.hears(f"{BASE}/bridge/response/device/remove")
        peer.says(f"{BASE}/lamp/set", "ON")
        peer.says(f"{BASE}/plug/set", "ON")
        await peer.hears(f"{BASE}/plug", state("ON"))

    listed = json.loads(peer.heard(f"{BASE}/bridge/devices")[-1].payload)
    assert "lamp" not in [entry["friendly_name"] for entry in listed]
    assert len(lines("effect")) == 1


@pytest.mark.parametrize(
    ("name", "payload", "error"),
    [
        ("device/rename", '{"from": "lamp", "to": "plug"}', "already in use"),
        ("device/rename", '{"from": "lamp", "to": "a/#"}', "not allowed"),
        ("device/rename", '{"from": "nobody", "to": "a"}', "does not exist"),
        ("device/remove", "nobody", "does not exist"),
        ("device/remove", "[]", "Invalid payload"),
        ("device/remove", b"\xff\xfe", "does not exist"),
        ("permit_joy", "{}", "Unknown request"),
    ],
)
async def test_a_request_that_cannot_be_carried_out_is_answered_with_empty_data(
    broker: Mosquitto, peer: Peer, journal: Journal, name: str, payload: str | bytes, error: str
) -> None:
    async with Appliance(a_bridge(), in_world(broker, journal)):
        await peer.hears(f"{BASE}/bridge/devices")
        peer.says(f"{BASE}/bridge/request/{name}", payload)
        answer = await peer.hears(f"{BASE}/bridge/response/{name}")

    assert (answer.json["status"], answer.json["data"]) == ("error", {})
    assert error in str(answer.json["error"])
    assert len(peer.heard(f"{BASE}/bridge/devices")) == 1


@pytest.mark.parametrize(
    "devices",
    [
        [{"ieee": "0x1", "model": "zigbee-lamp"}],
        [{"ieee": LAMP, "model": "zigbee-fridge"}],
        [{"ieee": LAMP, "model": "zigbee-lamp", "name": "a/+"}],
        [{"ieee": LAMP, "model": "zigbee-lamp", "name": "bridge/x"}],
        [{"ieee": LAMP, "model": "zigbee-lamp"}, {"ieee": LAMP, "model": "zigbee-plug"}],
        [{"ieee": LAMP, "model": "zigbee-lamp", "version": 2**32}],
        [{"ieee": LAMP, "model": "zigbee-lamp", "colour": "red"}],
    ],
)
def test_a_wrong_list_of_devices_is_refused(devices: list[Json]) -> None:
    with pytest.raises(InputError):
        zigbee_settings(Fields({"devices": devices}, "settings"))


def test_a_bridge_is_read_from_a_list_of_appliances() -> None:
    (read,) = specifications(
        [
            {
                "model": "zigbee2mqtt",
                "mac": MAC,
                "settings": {
                    "base": "z2m/venue",
                    "devices": [{"ieee": LAMP, "model": "zigbee-lamp", "name": "bar", "version": 7}],
                },
            }
        ]
    )

    lamp = Paired(ieee=LAMP, model=ZigbeeModel.LAMP, name="bar", version=7)
    assert read == BridgeSpecification(mac=MAC, settings=ZigbeeSettings(base="z2m/venue", devices=(lamp,)))


@pytest.mark.parametrize(
    ("topic", "payload"),
    [
        ("bridge/request/device/rename", '{"from": "lamp", "to": "\\ud800"}'),
        ("bridge/request/device/rename", '{"from": "lamp", "to": "a\\u0000b"}'),
        ("bridge/request/device/remove", "[" * 5000),
        ("bridge/request/device/remove", '{"id": "x", "transaction": ' + "[" * 900 + "]" * 900 + "}"),
        ("bridge/request/" + "x" * 60_000, "{}"),
        ("bridge/request/device/ota_update/update", '{"id": "lamp", "url": "http://\\ud800/x"}'),
        ("bridge/request/device/ota_update/update", '{"id": "lamp", "url": "http://[::1/x"}'),
        ("bridge/request/device/ota_update/update", '{"id": "lamp", "url": "http://:99999/x"}'),
        ("bridge/request/device/ota_update/update", '{"id": "lamp", "url": "http:///\\n"}'),
        ("bridge/request/device/ota_update/check", '{"id": "lamp", "url": "http://127.0.0.1:1/x"}'),
        ("lamp/set", '{"state": ' + "[" * 900 + "]" * 900 + "}"),
        ("lamp/set", '{"brightness": NaN}'),
        ("lamp/set", '{"brightness": 1e999}'),
        ("lamp/set", '{"\\ud800": 1}'),
        ("lamp/set/state", b"\xff\xfe"),
        ("lamp/get", b"\x00"),
    ],
)
async def test_nothing_that_anybody_sends_breaks_it(
    broker: Mosquitto, peer: Peer, journal: Journal, topic: str, payload: str | bytes
) -> None:
    async with Appliance(a_bridge(), in_world(broker, journal)) as device:
        peer.says(f"{BASE}/{topic}", payload)
        peer.says(f"{BASE}/bridge/request/health_check", "")
        await peer.hears(f"{BASE}/bridge/response/health_check")
        peer.says(f"{BASE}/plug/set", "ON")
        await peer.hears(f"{BASE}/plug", state("ON"))
        assert device.connected
