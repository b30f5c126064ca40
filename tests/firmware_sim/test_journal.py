"""The journal: what an outside verdict can rely on."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from firmware_sim.appliance import Appliance
from firmware_sim.fields import InputError
from firmware_sim.journal import Journal, Line, What, opened, read
from tests.firmware_sim.conftest import MAC, a_shelly, a_tasmota, in_world
from tests.firmware_sim.peer import Peer
from tests.support.brokers import Mosquitto
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("F6")

TOPIC = "tasmota_C3D4E5"
POWER = f"cmnd/{TOPIC}/POWER"
PLUG = "shellyplugsg3-02a1b2c3d4e5"

Lines = Callable[..., list[Line]]


async def test_every_effect_is_counted_and_told_from_a_mere_repetition(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    async with Appliance(a_tasmota(), in_world(broker, journal)):
        for payload in ("ON", "ON", "OFF", "TOGGLE"):
            peer.says(POWER, payload)
        await eventually(lambda: journal.count(MAC, "toggle") == 1)

    told = [
        (line.details["action"], line.details["changed"], line.details["count"], line.details["changes"])
        for line in lines("effect")
    ]
    assert told == [
        ("power", True, 1, 1),
        ("power", False, 2, 1),
        ("power", True, 3, 2),
        ("toggle", True, 1, 1),
    ]
    first = lines("effect")[0].details
    assert (first["before"], first["after"]) == ({"power": False}, {"power": True})
    assert (first["part"], first["cause"], first["command"]) == ("POWER", "command", 1)


async def test_a_command_is_written_down_with_its_raw_bytes_and_flags(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    async with Appliance(a_shelly(), in_world(broker, journal)):
        peer.says(f"{PLUG}/command", b"\xff\x00", qos=1)
        peer.says(f"{PLUG}/command", "announce", qos=0)
        await peer.hears(f"{PLUG}/announce")

    first, second = (line.details for line in lines("heard"))
    assert first["payload_base64"] == "/wA="
    assert "payload" not in first
    assert (second["payload"], second["topic"]) == ("announce", f"{PLUG}/command")
    assert (first["qos"], second["qos"]) == (1, 0)
    assert (first["retain"], first["dup"]) == (False, False)
    assert "expiry" not in first


async def test_the_expiry_of_a_command_is_seen_over_mqtt_5(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    async with Appliance(a_shelly(), in_world(broker, journal, mqtt5=True)):
        peer.says(f"{PLUG}/command", "announce", expiry=30)
        await peer.hears(f"{PLUG}/announce")

    assert [line.details["expiry"] for line in lines("heard")] == [30]


async def test_the_lines_tell_the_life_of_an_appliance_in_order(
    broker: Mosquitto, journal: Journal, lines: Lines
) -> None:
    async with Appliance(a_tasmota(), in_world(broker, journal)) as device:
        device.press()
        device.reboot()
        await eventually(lambda: len(lines("listening")) == 2)

    assert [line.what.value for line in lines()] == [
        "started",
        "online",
        "listening",
        "effect",
        "effect",
        "booted",
        "offline",
        "online",
        "listening",
        "state",
        "stopped",
    ]
    assert all(one.number < other.number for one, other in pairwise(lines()))
    assert all(one.at <= other.at for one, other in pairwise(lines()))
    assert [line.details["cause"] for line in lines("effect")] == ["button", "test"]
    state = lines("state")[0].details["state"]
    assert isinstance(state, dict)
    assert state["parts"] == {"POWER": {"power": True}}


def test_a_line_that_is_still_being_written_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with opened(path) as journal:
        journal.note("lamp", What.STOPPED, {})
    with path.open("a", encoding="utf-8") as file:
        file.write('{"at": "2026-')

    assert [line.appliance for line in read(path)] == ["lamp"]


def test_a_journal_goes_on_where_an_earlier_run_ended(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    for _ in range(2):
        with opened(path) as journal:
            journal.note("lamp", What.STOPPED, {})

    assert len(read(path)) == 2


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("nonsense", id="not JSON"),
        pytest.param("{}", id="nothing in it"),
        pytest.param('{"at":"noon","n":1,"appliance":"a","what":"stopped"}', id="no time"),
        pytest.param(
            '{"at":"2026-01-01T00:00:00Z","n":1,"appliance":"a","what":"danced"}', id="no such kind"
        ),
    ],
)
def test_a_file_that_is_no_journal_is_refused_by_line(line: str, tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text(line + "\n", encoding="utf-8")

    with pytest.raises(InputError, match=r"journal\.jsonl:1"):
        read(path)


def test_a_journal_that_cannot_be_opened_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Is a directory"), opened(tmp_path):
        pass
