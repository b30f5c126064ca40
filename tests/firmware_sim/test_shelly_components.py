"""The components of a Shelly: relays, a light, a cover, buttons."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from firmware_sim.appliance import Appliance
from firmware_sim.journal import Journal, Line
from firmware_sim.shelly.catalogue import ShellyModel
from firmware_sim.shelly.settings import ShellySettings
from tests.firmware_sim.conftest import QUIET, a_shelly, in_world
from tests.firmware_sim.peer import Peer, about, news
from tests.support.brokers import Mosquitto

pytestmark = pytest.mark.requirement("F6")

PLUG = "shellyplugsg3-02a1b2c3d4e5"
TWO = "shellyplus2pm-02a1b2c3d4e5"
DIMMER = "shellydimmerg3-02a1b2c3d4e5"
COVER = TWO

Lines = Callable[..., list[Line]]


async def test_two_relays_are_two_components(broker: Mosquitto, peer: Peer, journal: Journal) -> None:
    async with Appliance(a_shelly(ShellyModel.TWO_RELAYS), in_world(broker, journal)) as device:
        peer.asks(TWO, "Switch.Set", 1, id=1, on=True)
        await peer.answered(1)
        peer.asks(TWO, "Shelly.GetStatus", 2)
        status = (await peer.answered(2))["result"]
        state = device.state()

    assert isinstance(status, dict)
    assert (status["switch:0"]["output"], status["switch:1"]["output"]) == (False, True)
    assert state["parts"] == {"switch:0": {"power": False}, "switch:1": {"power": True}}


async def test_a_light_keeps_its_brightness_apart_from_being_on(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    async with Appliance(a_shelly(ShellyModel.DIMMER), in_world(broker, journal)) as device:
        peer.asks(DIMMER, "Light.Set", 1, id=0, brightness=30)
        assert (await peer.answered(1))["result"] is None
        assert device.state()["parts"] == {"light:0": {"power": False, "brightness": 30}}

        peer.asks(DIMMER, "Light.Set", 2, id=0, on=True)
        told = await peer.hears(
            f"{DIMMER}/events/rpc",
            lambda message: (
                news("NotifyStatus", "light:0")(message) and "output" in about(message, "light:0")
            ),
        )
        peer.asks(DIMMER, "Light.Set", 3, id=0, brightness=101)
        error = (await peer.answered(3))["error"]

    assert about(told, "light:0")["output"] is True
    assert "brightness" not in about(told, "light:0")
    assert isinstance(error, dict)
    assert error["code"] == -103
    assert journal.count(DIMMER, "brightness") == 1


async def test_a_cover_answers_at_once_and_arrives_later(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    async with Appliance(a_shelly(ShellyModel.COVER), in_world(broker, journal)):
        peer.asks(COVER, "Cover.GoToPosition", 1, id=0, pos=60)
        answer = await peer.answered(1)
        moving = await peer.hears(f"{COVER}/events/rpc", news("NotifyStatus", "cover:0"))
        resting = await peer.hears(f"{COVER}/events/rpc", news("NotifyStatus", "cover:0"), after=1)

    assert answer["result"] is None
    assert (about(moving, "cover:0")["state"], about(moving, "cover:0")["target_pos"]) == ("opening", 60)
    last = about(resting, "cover:0")
    assert (last["state"], last["current_pos"], last["source"]) == ("stopped", 60, "timeout")
    assert last["target_pos"] is None
    assert last["move_timeout"] is None
    # The arrival names the command that caused it.
    assert [(line.details["action"], line.details["command"]) for line in lines("effect")] == [
        ("position", 1),
        ("arrived", 1),
    ]


async def test_a_moving_cover_stops_where_it_is(broker: Mosquitto, peer: Peer, journal: Journal) -> None:
    slow = replace(QUIET, travel=timedelta(minutes=1))

    async with Appliance(a_shelly(ShellyModel.COVER), in_world(broker, journal, timing=slow)) as device:
        peer.asks(COVER, "Cover.Open", 1, id=0)
        await peer.answered(1)
        peer.asks(COVER, "Cover.Stop", 2, id=0)
        await peer.answered(2)
        parts = device.state()["parts"]

    assert isinstance(parts, dict)
    assert parts["cover:0"]["target"] is None
    assert parts["cover:0"]["position"] < 60


async def test_a_cover_that_is_not_calibrated_refuses_positions_and_has_none(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    settings = ShellySettings(calibrated=False)

    async with Appliance(a_shelly(ShellyModel.COVER, settings), in_world(broker, journal)):
        peer.asks(COVER, "Cover.GoToPosition", 1, id=0, pos=50)
        refused = (await peer.answered(1))["error"]
        peer.asks(COVER, "Cover.GetStatus", 2, id=0)
        status = (await peer.answered(2))["result"]

    assert isinstance(refused, dict)
    assert refused["code"] == -109
    assert isinstance(status, dict)
    assert (status["pos_control"], status["current_pos"]) == (False, None)
    assert lines("effect") == []


async def test_toggle_after_undoes_a_setting_and_its_keys_vanish_as_null(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    async with Appliance(a_shelly(), in_world(broker, journal)):
        peer.asks(PLUG, "Switch.Set", 1, id=0, on=True, toggle_after=0.1)
        running = await peer.hears(f"{PLUG}/events/rpc", news("NotifyStatus", "switch:0"))
        over = await peer.hears(f"{PLUG}/events/rpc", news("NotifyStatus", "switch:0"), after=1)

    assert about(running, "switch:0")["timer_duration"] == 0.1
    last = about(over, "switch:0")
    assert (last["output"], last["source"], last["timer_duration"]) == (False, "timer", None)


async def test_a_press_is_an_event_where_there_is_an_input_and_changes_the_output(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    async with Appliance(a_shelly(ShellyModel.TWO_RELAYS), in_world(broker, journal)) as device:
        device.press(2)
        event = await peer.hears(f"{TWO}/events/rpc", lambda message: message.json["method"] == "NotifyEvent")
        told = await peer.hears(f"{TWO}/events/rpc", news("NotifyStatus", "switch:1"))

    params = event.json["params"]
    assert isinstance(params, dict)
    assert (params["events"][0]["component"], params["events"][0]["event"]) == ("input:1", "single_push")
    assert (about(told, "switch:1")["output"], about(told, "switch:1")["source"]) == (True, "button")
    assert [line.details["cause"] for line in lines("effect")] == ["button"]
