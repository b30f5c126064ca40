"""A Tasmota lamp, as its protocol is seen from outside."""

from collections.abc import Callable

import pytest

from firmware_sim.appliance import Appliance
from firmware_sim.fields import Json
from firmware_sim.journal import Journal, Line
from firmware_sim.tasmota.catalogue import TasmotaModel
from firmware_sim.tasmota.settings import LightKind, TasmotaSettings
from tests.firmware_sim.conftest import a_tasmota, in_world
from tests.firmware_sim.peer import Peer, settled
from tests.support.brokers import Mosquitto
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("F6")

TOPIC = "tasmota_C3D4E5"
RESULT = f"stat/{TOPIC}/RESULT"

Lines = Callable[..., list[Line]]


async def test_a_lamp_answers_with_its_whole_state_and_switches_itself_on_without_a_word_on_power(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    async with Appliance(a_tasmota(TasmotaModel.LIGHT), in_world(broker, journal)):
        await eventually(settled(peer))
        peer.forgets()
        peer.says(f"cmnd/{TOPIC}/Dimmer", "40")
        dimmed = await peer.hears(RESULT)
        peer.says(f"cmnd/{TOPIC}/CT", "300")
        white = await peer.hears(RESULT, after=1)
        peer.says(f"cmnd/{TOPIC}/Color", "#FF8000")
        coloured = await peer.hears(RESULT, after=2)
        peer.says(f"cmnd/{TOPIC}/HSBColor", "240,100,50")
        blue = await peer.hears(RESULT, after=3)
        peer.says(f"cmnd/{TOPIC}/Dimmer", "0")
        dark = await peer.hears(RESULT, after=4)

    assert (dimmed.json["POWER"], dimmed.json["Dimmer"]) == ("ON", 40)
    assert (white.json["CT"], white.json["White"], white.json["Color"]) == (300, 40, "0000003B2B")
    assert (coloured.json["Color"], coloured.json["Dimmer"]) == ("FF80000000", 100)
    assert (blue.json["HSBColor"], blue.json["Color"]) == ("240,100,50", "0000800000")
    assert (dark.json["POWER"], dark.json["Dimmer"]) == ("OFF", 0)
    assert peer.heard(f"stat/{TOPIC}/POWER") == []
    assert [line.details["action"] for line in lines("effect")] == [
        "brightness",
        "color_temperature",
        "color",
        "color",
        "brightness",
    ]


@pytest.mark.parametrize(
    ("command", "payload", "answer"),
    [
        pytest.param("Dimmer", "101", {"Dimmer": 100}, id="brightness out of range asks"),
        pytest.param("Dimmer", "", {"Dimmer": 100}, id="empty asks"),
        pytest.param("CT", "100", {"CT": 250}, id="colder than it can"),
        pytest.param("Color", "purple", {"Color": "FFFFFF0000"}, id="no colour"),
        pytest.param("HSBColor", "1,2", {"HSBColor": "0,0,100"}, id="half a colour"),
    ],
)
async def test_a_lamp_takes_what_is_out_of_range_for_a_question(
    command: str,
    payload: str,
    answer: dict[str, Json],
    broker: Mosquitto,
    peer: Peer,
    journal: Journal,
    lines: Lines,
) -> None:
    async with Appliance(a_tasmota(TasmotaModel.LIGHT), in_world(broker, journal)):
        await eventually(settled(peer))
        peer.forgets()
        peer.says(f"cmnd/{TOPIC}/{command}", payload)
        said = await peer.hears(RESULT)

    assert said.json == answer
    assert lines("effect") == []


async def test_a_lamp_that_is_too_simple_for_a_command_answers_with_an_error(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    settings = TasmotaSettings(light=LightKind.DIMMER, options=frozenset({20}))

    async with Appliance(a_tasmota(TasmotaModel.LIGHT, settings), in_world(broker, journal)):
        await eventually(settled(peer))
        peer.forgets()
        peer.says(f"cmnd/{TOPIC}/CT", "300")
        refused = await peer.hears(RESULT)
        peer.says(f"cmnd/{TOPIC}/Dimmer", "+")
        stepped = await peer.hears(RESULT, after=1)

    assert refused.json == {"Command": "Error"}
    assert stepped.json == {"POWER": "OFF", "Dimmer": 100}  # SetOption20: it stays off
