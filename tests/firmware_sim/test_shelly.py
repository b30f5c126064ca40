"""Shelly of the second generation and later, as its protocol is seen from outside."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from firmware_sim.appliance import Appliance
from firmware_sim.fields import Json
from firmware_sim.journal import Journal, Line
from firmware_sim.shelly.settings import ShellySettings
from tests.firmware_sim.conftest import QUIET, a_shelly, in_world
from tests.firmware_sim.peer import Peer, about, news
from tests.support.brokers import Mosquitto
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("F6")

PLUG = "shellyplugsg3-02a1b2c3d4e5"
TWO = "shellyplus2pm-02a1b2c3d4e5"
DIMMER = "shellydimmerg3-02a1b2c3d4e5"
COVER = TWO

Lines = Callable[..., list[Line]]


async def test_a_request_is_answered_on_the_askers_topic_with_the_devices_own_id(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    settings = ShellySettings(topic_prefix="venue/bar plug")

    async with Appliance(a_shelly(settings=settings), in_world(broker, journal)):
        peer.asks("venue/bar plug", "Switch.Set", 7, id=0, on=True)
        answer = await peer.hears("peer/rpc")

    assert answer.json == {"id": 7, "src": PLUG, "dst": "peer", "result": {"was_on": False}}
    assert (answer.qos, answer.retain) == (1, False)


async def test_a_change_is_notified_as_a_delta(broker: Mosquitto, peer: Peer, journal: Journal) -> None:
    async with Appliance(a_shelly(), in_world(broker, journal)):
        peer.asks(PLUG, "Switch.Set", id=0, on=True)
        told = await peer.hears(f"{PLUG}/events/rpc", news("NotifyStatus", "switch:0"))

    assert (told.qos, told.retain) == (1, False)
    assert (told.json["src"], told.json["dst"]) == (PLUG, f"{PLUG}/events")
    delta = about(told, "switch:0")
    assert (delta["id"], delta["output"], delta["source"]) == (0, True, "MQTT")
    assert "temperature" not in delta


async def test_setting_what_is_already_set_is_answered_but_the_output_is_not_notified_again(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    async with Appliance(a_shelly(), in_world(broker, journal)):
        peer.asks(PLUG, "Switch.Set", 1, id=0, on=True)
        peer.asks(PLUG, "Switch.Set", 2, id=0, on=True)
        answer = await peer.answered(2)

    assert answer["result"] == {"was_on": True}
    outputs = [
        about(message, "switch:0")
        for message in peer.heard(f"{PLUG}/events/rpc")
        if news("NotifyStatus", "switch:0")(message) and "output" in about(message, "switch:0")
    ]
    assert len(outputs) == 1
    assert journal.count(PLUG, "power") == 2
    assert journal.changes(PLUG, "power") == 1


async def test_at_connect_it_says_online_and_its_full_status_and_retains_nothing(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    async with Appliance(a_shelly(), in_world(broker, journal)):
        online = await peer.hears(f"{PLUG}/online")
        full = await peer.hears(f"{PLUG}/events/rpc", news("NotifyFullStatus", "sys"))
        with Peer(broker.host, broker.port) as latecomer:
            assert latecomer.heard("#") == []

    assert (online.text, online.qos, online.retain) == ("true", 1, False)
    assert {"switch:0", "sys", "wifi", "mqtt"} <= set(full.json["params"])  # type: ignore[arg-type]  # an object


async def test_the_will_is_said_when_the_plug_is_pulled(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    async with Appliance(a_shelly(), in_world(broker, journal)):
        await peer.hears(f"{PLUG}/online")

    will = await peer.hears(f"{PLUG}/online", lambda message: message.text == "false")
    assert (will.qos, will.retain) == (0, False)


async def test_an_owner_may_have_online_retained(broker: Mosquitto, peer: Peer, journal: Journal) -> None:
    settings = ShellySettings(online_retained=True)

    async with Appliance(a_shelly(settings=settings), in_world(broker, journal)):
        await peer.hears(f"{PLUG}/online")
        with Peer(broker.host, broker.port) as latecomer:
            online = await latecomer.hears(f"{PLUG}/online")

    assert (online.text, online.retain) == ("true", True)


async def test_whole_statuses_are_published_only_when_the_owner_has_asked_for_them(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    async with Appliance(a_shelly(), in_world(broker, journal)):
        peer.asks(PLUG, "Switch.Toggle", 1, id=0)
        await peer.answered(1)
    assert peer.heard(f"{PLUG}/status/#") == []

    settings = ShellySettings(status_ntf=True)
    async with Appliance(a_shelly(settings=settings), in_world(broker, journal)):
        peer.asks(PLUG, "Switch.Set", 2, id=0, on=True)
        status = await peer.hears(f"{PLUG}/status/switch:0", lambda message: message.json["output"])

    assert status.qos == 1
    assert {"id", "source", "apower", "voltage", "current", "aenergy", "temperature"} <= set(status.json)


@pytest.mark.parametrize(
    ("method", "params", "code", "message"),
    [
        pytest.param("Switch.GetStatus", {}, -103, "Missing required 'id'", id="argument missing"),
        pytest.param(
            "Switch.Set", {"id": 0, "on": "true"}, -103, "Argument 'on' should be boolean!", id="type"
        ),
        pytest.param(
            "Switch.Set", {"id": 5, "on": True}, -105, "Argument 'id', value 5 not found!", id="no such"
        ),
        pytest.param("Light.Set", {"id": 0, "on": True}, 404, "No handler for Light.Set", id="no component"),
        pytest.param("Switch.Dance", {}, 404, "No handler for Switch.Dance", id="no method of a component"),
        pytest.param("Shelly.Dance", {}, 404, "No handler for Shelly.Dance", id="no method"),
    ],
)
async def test_what_cannot_be_done_is_answered_with_an_error_and_changes_nothing(
    method: str,
    params: dict[str, Json],
    code: int,
    message: str,
    broker: Mosquitto,
    peer: Peer,
    journal: Journal,
    lines: Lines,
) -> None:
    async with Appliance(a_shelly(), in_world(broker, journal)):
        peer.asks(PLUG, method, 3, **params)
        answer = await peer.answered(3)

    assert answer["error"] == {"code": code, "message": message}
    assert "result" not in answer
    assert lines("effect") == []


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"on", id="a word"),
        pytest.param(b"[1,2]", id="a list"),
        pytest.param(b'{"id":1,"src":"peer","method":"Switch.Set","params":{"id":0,"on":tr', id="half of it"),
        pytest.param(b'\xff\xfe{"method":"x"}', id="not UTF-8"),
        pytest.param(b"[" * 50_000, id="too deep"),
        pytest.param(b'{"id":1,"src":"peer","method":7,"params":{}}', id="a number for a method"),
    ],
)
async def test_what_is_no_frame_is_dropped_without_a_word(
    payload: bytes, broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    async with Appliance(a_shelly(), in_world(broker, journal)):
        peer.says(f"{PLUG}/rpc", payload)
        peer.asks(PLUG, "Switch.GetStatus", 9, id=0)
        await peer.answered(9)

    assert len(peer.heard("peer/rpc")) == 1
    assert len(lines("heard")) == 2
    assert lines("effect") == []


async def test_a_frame_without_id_or_source_is_carried_out_and_not_answered(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    async with Appliance(a_shelly(), in_world(broker, journal)):
        peer.says(f"{PLUG}/rpc", '{"src":"peer","method":"switch.toggle","params":{"id":0}}')
        peer.says(f"{PLUG}/rpc", '{"id":4,"method":"Switch.Toggle","params":{"id":0}}')
        peer.says(
            f"{PLUG}/rpc",
            json.dumps({"id": 5, "src": "a/+/b", "method": "Switch.Toggle", "params": {"id": 0}}),
        )
        await eventually(lambda: journal.count(PLUG, "toggle") == 3)
        peer.asks(PLUG, "Switch.GetStatus", 9, id=0)
        await peer.answered(9)

    assert len(peer.heard("+/rpc")) == len(peer.heard(f"{PLUG}/rpc")) + 1


async def test_a_password_is_asked_for_by_json_inside_a_text(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    settings = ShellySettings(auth=True)

    async with Appliance(a_shelly(settings=settings), in_world(broker, journal)):
        peer.asks(PLUG, "Switch.Set", 1, id=0, on=True)
        refused = await peer.answered(1)
        peer.asks(PLUG, "Shelly.GetDeviceInfo", 2)
        info = await peer.answered(2)

    error = refused["error"]
    assert isinstance(error, dict)
    assert error["code"] == 401
    assert json.loads(error["message"])["realm"] == PLUG
    assert lines("effect") == []
    assert info["result"]["auth_en"] is True  # type: ignore[index,call-overload]  # an object


async def test_plain_words_control_a_component_unless_the_owner_has_closed_that_door(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    async with Appliance(a_shelly(), in_world(broker, journal)):
        peer.says(f"{PLUG}/command/switch:0", "on")
        peer.says(f"{PLUG}/command/switch:0", "dance")
        peer.says(f"{PLUG}/command/switch:0", "toggle")
        peer.says(f"{PLUG}/command", "announce")
        info = await peer.hears(f"{PLUG}/announce")
    assert info.json["id"] == PLUG
    assert (journal.count(PLUG, "power"), journal.count(PLUG, "toggle")) == (1, 1)

    settings = ShellySettings(enable_control=False)
    async with Appliance(a_shelly(settings=settings), in_world(broker, journal)):
        peer.says(f"{PLUG}/command/switch:0", "on")
        peer.asks(PLUG, "Switch.GetStatus", 2, id=0)
        await peer.answered(2)
    assert journal.count(PLUG, "power") == 1


async def test_a_reboot_is_answered_then_drops_the_connection_and_keeps_the_outputs(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    async with Appliance(a_shelly(), in_world(broker, journal)) as device:
        peer.asks(PLUG, "Switch.Set", 1, id=0, on=True)
        await peer.answered(1)
        peer.asks(PLUG, "Shelly.Reboot", 2)
        assert (await peer.answered(2))["result"] is None
        await peer.hears(f"{PLUG}/online", lambda message: message.text == "false")
        await peer.hears(f"{PLUG}/online", lambda message: message.text == "true", after=1)
        await eventually(lambda: len(lines("listening")) == 2)
        state = device.state()

    assert state["boots"] == 1
    assert state["parts"] == {"switch:0": {"power": True}}
    reboot = lines("effect")[-1].details
    assert (reboot["action"], reboot["cause"], reboot["command"]) == ("reboot", "command", 2)


async def test_telemetry_tells_only_what_has_changed(broker: Mosquitto, peer: Peer, journal: Journal) -> None:
    busy = replace(QUIET, period=timedelta(milliseconds=50))

    async with Appliance(a_shelly(), in_world(broker, journal, timing=busy)):
        told = await peer.hears(f"{PLUG}/events/rpc", news("NotifyStatus", "switch:0"), after=2)

    delta = about(told, "switch:0")
    assert set(delta) <= {"id", "voltage", "aenergy"}  # it is off: no power, no current


async def test_a_retained_command_is_carried_out_at_every_connect(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    frame = '{"id":1,"src":"peer","method":"Switch.Toggle","params":{"id":0}}'
    peer.says(f"{PLUG}/rpc", frame, retain=True)

    async with Appliance(a_shelly(), in_world(broker, journal)) as device:
        await eventually(lambda: journal.count(PLUG, "toggle") == 1)
        device.disconnect()
        await eventually(lambda: journal.count(PLUG, "toggle") == 2)

    assert [line.details["retain"] for line in lines("heard")] == [True, True]
