"""Tasmota, as its protocol is seen from outside."""

from collections.abc import Callable

import pytest

from firmware_sim.appliance import Appliance
from firmware_sim.fields import Json
from firmware_sim.journal import Journal, Line
from firmware_sim.tasmota.catalogue import TasmotaModel
from firmware_sim.tasmota.settings import TasmotaSettings
from tests.firmware_sim.conftest import MAC, a_tasmota, in_world
from tests.firmware_sim.peer import Message, Peer, settled
from tests.support.brokers import Mosquitto
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("F6")

TOPIC = "tasmota_C3D4E5"
RESULT = f"stat/{TOPIC}/RESULT"

Lines = Callable[..., list[Line]]


async def test_at_boot_it_says_online_talks_to_itself_and_tells_versions_and_outputs(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    async with Appliance(a_tasmota(), in_world(broker, journal)):
        await eventually(settled(peer))

    said = [message.topic for message in peer.messages][:7]
    assert said == [
        f"tele/{TOPIC}/LWT",
        f"cmnd/{TOPIC}/POWER",
        f"tele/{TOPIC}/INFO1",
        f"tele/{TOPIC}/INFO2",
        f"tele/{TOPIC}/INFO3",
        RESULT,
        f"stat/{TOPIC}/POWER",
    ]
    assert peer.heard(f"cmnd/{TOPIC}/POWER")[0].payload == b""
    # It subscribes after that: it does not hear itself.
    assert lines("heard") == []


async def test_everything_is_said_with_qos_0_and_only_lwt_and_discovery_are_retained(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    async with Appliance(a_tasmota(), in_world(broker, journal)):
        await eventually(settled(peer))
        peer.says(f"cmnd/{TOPIC}/POWER", "ON")
        await peer.hears(f"stat/{TOPIC}/POWER", lambda message: message.text == "ON")

    device = [message for message in peer.messages if message.topic != f"cmnd/{TOPIC}/POWER"]
    assert {message.qos for message in device if message.text != "Offline"} == {0}
    retained = {message.topic for message in device if message.retain}
    assert retained == {
        f"tele/{TOPIC}/LWT",
        f"tasmota/discovery/{MAC}/config",
        f"tasmota/discovery/{MAC}/sensors",
    }


async def test_it_subscribes_with_qos_0(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    async with Appliance(a_tasmota(), in_world(broker, journal)):
        peer.says(f"cmnd/{TOPIC}/POWER", "ON", qos=1)
        await peer.hears(RESULT, lambda message: message.json == {"POWER": "ON"})

    assert [line.details["qos"] for line in lines("heard")] == [0]


async def test_a_command_is_answered_twice_as_json_and_as_a_word(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    async with Appliance(a_tasmota(), in_world(broker, journal)):
        await eventually(settled(peer))
        peer.forgets()
        peer.says(f"cmnd/{TOPIC}/power", "on")
        await peer.hears(f"stat/{TOPIC}/POWER")

    assert [(message.topic, message.text) for message in peer.heard("stat/#")] == [
        (RESULT, '{"POWER":"ON"}'),
        (f"stat/{TOPIC}/POWER", "ON"),
    ]


@pytest.mark.parametrize(
    ("payload", "power", "action"),
    [
        pytest.param("1", "ON", "power", id="digit"),
        pytest.param("TRUE", "ON", "power", id="another word"),
        pytest.param(" on", "ON", "power", id="leading space"),
        pytest.param("2", "ON", "toggle", id="toggle by digit"),
        pytest.param("toggle", "ON", "toggle", id="toggle by word"),
        pytest.param("0x1", "ON", "power", id="hexadecimal"),
        pytest.param("", "OFF", None, id="empty asks"),
        pytest.param("?", "OFF", None, id="question mark asks"),
        pytest.param("FOO", "OFF", None, id="nonsense asks"),
        pytest.param("9" * 1000, "OFF", None, id="a huge number asks"),
    ],
)
async def test_power_takes_words_and_digits_and_takes_the_rest_for_a_question(
    payload: str,
    power: str,
    action: str | None,
    broker: Mosquitto,
    peer: Peer,
    journal: Journal,
    lines: Lines,
) -> None:
    async with Appliance(a_tasmota(), in_world(broker, journal)):
        await eventually(settled(peer))
        peer.forgets()
        peer.says(f"cmnd/{TOPIC}/POWER", payload)
        await peer.hears(f"stat/{TOPIC}/POWER", lambda message: message.text == power)

    assert [line.details["action"] for line in lines("effect")] == ([action] if action else [])


async def test_two_relays_have_numbered_keys_and_the_bare_name_means_the_first(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    async with Appliance(a_tasmota(TasmotaModel.TWO_RELAYS), in_world(broker, journal)) as device:
        peer.says(f"cmnd/{TOPIC}/POWER", "ON")
        await peer.hears(RESULT, lambda message: message.json == {"POWER1": "ON"})
        peer.says(f"cmnd/{TOPIC}/POWER2", "ON")
        await peer.hears(f"stat/{TOPIC}/POWER2", lambda message: message.text == "ON")
        peer.says(f"cmnd/{TOPIC}/POWER3", "ON")
        await peer.hears(RESULT, lambda message: message.json == {"Command": "Error"})
        peer.says(f"cmnd/{TOPIC}/POWER0", "OFF")
        await peer.hears(f"stat/{TOPIC}/POWER2", lambda message: message.text == "OFF", after=1)
        state = device.state()

    assert state["parts"] == {"POWER1": {"power": False}, "POWER2": {"power": False}}


@pytest.mark.parametrize(
    ("command", "payload", "answer"),
    [
        pytest.param("Dance", "now", {"Command": "Unknown"}, id="unknown"),
        pytest.param("Dimmer", "40", {"Command": "Unknown"}, id="no lamp"),
        pytest.param("Status", "77", {"Command": "Error"}, id="no such status"),
        pytest.param("Restart", "5", {"Restart": "1 to restart"}, id="not a restart"),
        pytest.param("SetOption40", "1", {"Command": "Error"}, id="no such switch"),
    ],
)
async def test_what_cannot_be_done_is_answered_without_naming_what_was_asked(
    command: str,
    payload: str,
    answer: dict[str, Json],
    broker: Mosquitto,
    peer: Peer,
    journal: Journal,
    lines: Lines,
) -> None:
    async with Appliance(a_tasmota(), in_world(broker, journal)):
        peer.says(f"cmnd/{TOPIC}/{command}", payload)
        await peer.hears(RESULT, lambda message: message.json == answer)

    assert lines("effect") == []


async def test_full_topic_prefixes_and_words_are_the_owners_and_discovery_tells_them(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    settings = TasmotaSettings(
        topic="lampe",
        full_topic="haus/%topic%/%prefix%/",
        prefixes=("befehl", "antwort", "messung"),
        state_words=("AUS", "AN", "UM", "HALT"),
        lwt_words=("Weg", "Da"),
    )

    async with Appliance(a_tasmota(settings=settings), in_world(broker, journal)):
        online = await peer.hears("haus/lampe/messung/LWT")
        config = (await peer.hears(f"tasmota/discovery/{MAC}/config")).json
        peer.says("haus/lampe/befehl/POWER", "AN")  # its own word is a question to it
        await peer.hears("haus/lampe/antwort/RESULT", lambda message: message.json == {"POWER": "AUS"})
        peer.says("haus/lampe/befehl/POWER", "ON")
        word = await peer.hears("haus/lampe/antwort/POWER", lambda message: message.text == "AN")
        peer.says("cmnd/DVES_C3D4E5_fb/POWER", "OFF")  # this door stays where it is
        await peer.hears("stat/DVES_C3D4E5_fb/POWER", lambda message: message.text == "AUS")

    assert online.text == "Da"
    assert word.text == "AN"
    assert {key: config[key] for key in ("mac", "t", "ft", "tp", "state", "ofln", "onln", "ver")} == {
        "mac": MAC,
        "t": "lampe",
        "ft": "haus/%topic%/%prefix%/",
        "tp": ["befehl", "antwort", "messung"],
        "state": ["AUS", "AN", "UM", "HALT"],
        "ofln": "Weg",
        "onln": "Da",
        "ver": 1,
    }


async def test_without_a_prefix_in_the_full_topic_commands_get_one(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    settings = TasmotaSettings(topic="lamp", full_topic="house/%topic%/")

    async with Appliance(a_tasmota(settings=settings), in_world(broker, journal)):
        peer.says("house/lamp/cmnd/POWER", "ON")
        await peer.hears("house/lamp/RESULT", lambda message: message.json == {"POWER": "ON"})
        await peer.hears("house/lamp/LWT", lambda message: message.text == "Online")


async def test_it_obeys_a_group_topic_and_a_fallback_topic_and_answers_the_fallback_there(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    async with Appliance(a_tasmota(), in_world(broker, journal)):
        peer.says("cmnd/tasmotas/POWER", "ON")
        await peer.hears(RESULT, lambda message: message.json == {"POWER": "ON"})
        peer.says("cmnd/DVES_C3D4E5_fb/POWER", "OFF")
        answer = await peer.hears("stat/DVES_C3D4E5_fb/RESULT")

    assert answer.json == {"POWER": "OFF"}
    assert journal.count(MAC, "power") == 2


async def test_setoptions_change_where_and_what_is_answered(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    settings = TasmotaSettings(options=frozenset({4, 26, 59, 90}))

    async with Appliance(a_tasmota(settings=settings), in_world(broker, journal)):
        await eventually(settled(peer))
        assert peer.heard(f"cmnd/{TOPIC}/POWER") == []
        peer.forgets()
        peer.says(f"cmnd/{TOPIC}/POWER", "ON")
        await peer.hears(f"tele/{TOPIC}/STATE")
        peer.says(f"cmnd/{TOPIC}/SetOption4", "0")
        await peer.hears(RESULT, lambda message: message.json == {"SetOption4": "OFF"})

    assert [(one.topic, one.text) for one in peer.heard("stat/#")] == [
        (f"stat/{TOPIC}/POWER1", '{"POWER1":"ON"}'),
        (RESULT, '{"SetOption4":"OFF"}'),
    ]


async def test_nothing_is_retained_with_setoption_104(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    settings = TasmotaSettings(options=frozenset({104}), power_retain=True)

    async with Appliance(a_tasmota(settings=settings), in_world(broker, journal)):
        await eventually(settled(peer))

    await peer.hears(f"tele/{TOPIC}/LWT", lambda message: message.text == "Offline")
    assert not any(message.retain for message in peer.messages)


async def test_status_is_answered_on_topics_of_its_own(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    async with Appliance(a_tasmota(), in_world(broker, journal)):
        peer.says(f"cmnd/{TOPIC}/Status", "2")
        firmware = await peer.hears(f"stat/{TOPIC}/STATUS2")
        peer.says(f"cmnd/{TOPIC}/STATUS", "8")
        sensors = await peer.hears(f"stat/{TOPIC}/STATUS8")
        peer.says(f"cmnd/{TOPIC}/STATUS", "")
        first = await peer.hears(f"stat/{TOPIC}/STATUS")
        peer.forgets()
        peer.says(f"cmnd/{TOPIC}/STATUS", "0")
        await peer.hears(f"stat/{TOPIC}/STATUS11")

    assert firmware.json["StatusFWR"]["Version"] == "14.1.0(release-tasmota)"  # type: ignore[index,call-overload]  # an object
    assert "Period" not in sensors.json["StatusSNS"]["ENERGY"]  # type: ignore[index,call-overload,operator]  # an object
    assert first.json["Status"]["Topic"] == TOPIC  # type: ignore[index,call-overload]  # an object
    numbers = [message.topic.removeprefix(f"stat/{TOPIC}/STATUS") for message in peer.heard("stat/#")]
    assert numbers == ["", "1", "2", "3", "4", "5", "6", "7", "9", "10", "11"]


@pytest.mark.parametrize(
    ("topic", "payload"),
    [
        pytest.param(f"cmnd/{TOPIC}/POWER", b"x" * 2000, id="too large"),
        pytest.param(f"cmnd/{TOPIC}/POWER200", b"ON", id="binary index"),
    ],
)
async def test_what_it_cannot_take_is_dropped_unread(
    topic: str, payload: bytes, broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    async with Appliance(a_tasmota(), in_world(broker, journal)):
        await eventually(settled(peer))
        peer.forgets()
        peer.says(topic, payload)
        peer.says(f"cmnd/{TOPIC}/State", "")
        first: Message = await peer.hears("stat/#")

    assert "Uptime" in first.json
    assert len(lines("heard")) == 2


async def test_odd_bytes_change_nothing_and_do_not_end_it(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    async with Appliance(a_tasmota(), in_world(broker, journal)):
        for payload in (b"\xff\xfe", b"O\0N", b"\xd9\xa1", b"NaN", b"1e400", b"-"):
            peer.says(f"cmnd/{TOPIC}/Dimmer", payload)
            peer.says(f"cmnd/{TOPIC}/POWER" + "9" * 50, payload)
        peer.says(f"cmnd/{TOPIC}", b"ON")  # no command at all
        peer.says(f"cmnd/{TOPIC}/POWER", b"ON\0OFF")  # ends at the NUL
        await peer.hears(f"stat/{TOPIC}/POWER", lambda message: message.text == "ON")

    assert [line.details["action"] for line in lines("effect")] == ["power"]


async def test_a_press_toggles_and_says_what_a_command_would_have_said(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    async with Appliance(a_tasmota(TasmotaModel.TWO_RELAYS), in_world(broker, journal)) as device:
        device.press(2)
        await peer.hears(f"stat/{TOPIC}/POWER2", lambda message: message.text == "ON")

    assert [line.details["cause"] for line in lines("effect")] == ["button"]


async def test_blinking_identifies_without_an_end_in_another_state(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    async with Appliance(a_tasmota(), in_world(broker, journal)) as device:
        peer.says(f"cmnd/{TOPIC}/POWER", "BLINK")
        await peer.hears(RESULT, lambda message: message.json == {"POWER": "Blink ON"})
        peer.says(f"cmnd/{TOPIC}/POWER", "BLINKOFF")
        await peer.hears(RESULT, lambda message: message.json == {"POWER": "Blink OFF"})
        state = device.state()

    assert state["parts"] == {"POWER": {"power": False}}
    assert (journal.count(MAC, "identify"), journal.changes(MAC, "identify")) == (1, 0)
