"""A Tasmota over time: telemetry, restarts, lost connections, traps left in the broker."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from firmware_sim.appliance import Appliance
from firmware_sim.journal import Journal, Line
from firmware_sim.tasmota.catalogue import TasmotaModel
from firmware_sim.tasmota.settings import TasmotaSettings
from tests.firmware_sim.conftest import MAC, QUIET, a_tasmota, in_world
from tests.firmware_sim.peer import Peer, settled
from tests.support.brokers import Mosquitto
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("F6")

TOPIC = "tasmota_C3D4E5"
RESULT = f"stat/{TOPIC}/RESULT"

Lines = Callable[..., list[Line]]


async def test_a_restart_is_answered_drops_the_connection_and_keeps_the_outputs(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    async with Appliance(a_tasmota(), in_world(broker, journal)) as device:
        peer.says(f"cmnd/{TOPIC}/POWER", "ON")
        peer.says(f"cmnd/{TOPIC}/Restart", "1")
        await peer.hears(RESULT, lambda message: message.json == {"Restart": "Restarting"})
        await peer.hears(f"tele/{TOPIC}/LWT", lambda message: message.text == "Offline")
        info = await peer.hears(f"tele/{TOPIC}/INFO3", after=1)
        await eventually(lambda: len(lines("listening")) == 2)
        state = device.state()

    assert info.json["Info3"]["BootCount"] == 2  # type: ignore[index,call-overload]  # an object
    assert state["parts"] == {"POWER": {"power": True}}
    assert (journal.count(MAC, "power"), journal.count(MAC, "reboot")) == (1, 1)


async def test_a_forced_restart_says_nothing(broker: Mosquitto, peer: Peer, journal: Journal) -> None:
    async with Appliance(a_tasmota(), in_world(broker, journal)):
        peer.says(f"cmnd/{TOPIC}/Restart", "99")
        await peer.hears(f"tele/{TOPIC}/LWT", lambda message: message.text == "Offline")

    assert journal.count(MAC, "reboot") == 1
    assert not any("Restart" in message.json for message in peer.heard(RESULT))


async def test_after_a_lost_connection_it_tells_no_versions_but_discovery_again(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    async with Appliance(a_tasmota(), in_world(broker, journal)) as device:
        await eventually(settled(peer))
        peer.forgets()
        device.disconnect()
        await peer.hears(f"tele/{TOPIC}/LWT", lambda message: message.text == "Online")
        await eventually(settled(peer))

    assert peer.heard(f"tele/{TOPIC}/INFO1") == []
    assert journal.count(MAC, "reboot") == 0


async def test_a_command_sent_while_it_is_away_is_lost(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    async with Appliance(a_tasmota(), in_world(broker, journal)):
        pass
    await peer.hears(f"tele/{TOPIC}/LWT", lambda message: message.text == "Offline")
    peer.says(f"cmnd/{TOPIC}/POWER", "ON", qos=1)

    async with Appliance(a_tasmota(), in_world(broker, journal)):
        peer.says(f"cmnd/{TOPIC}/POWER", "TOGGLE")
        await eventually(lambda: journal.count(MAC, "toggle") == 1)

    assert [line.details["payload"] for line in lines("heard")] == ["TOGGLE"]


async def test_a_retained_command_switches_at_every_connect(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    peer.says(f"cmnd/{TOPIC}/POWER", "TOGGLE", retain=True)

    async with Appliance(a_tasmota(), in_world(broker, journal)):
        await eventually(lambda: journal.count(MAC, "toggle") == 1)

    # But then its own empty message, which is not retained, leaves the trap where it is.
    assert lines("heard")[0].details["retain"] is True
    with Peer(broker.host, broker.port) as latecomer:
        trap = await latecomer.hears(f"cmnd/{TOPIC}/POWER", lambda message: message.retain)
    assert trap.text == "TOGGLE"


async def test_the_will_is_retained_and_said_with_qos_1(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    async with Appliance(a_tasmota(), in_world(broker, journal)):
        pass

    will = await peer.hears(f"tele/{TOPIC}/LWT", lambda message: message.text == "Offline")
    assert (will.qos, will.retain) == (1, True)


async def test_telemetry_comes_each_period_and_a_device_without_sensors_says_none(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    busy = replace(QUIET, period=timedelta(milliseconds=50))

    async with Appliance(a_tasmota(), in_world(broker, journal, timing=busy)):
        sensor = await peer.hears(f"tele/{TOPIC}/SENSOR", after=2)
        state = await peer.hears(f"tele/{TOPIC}/STATE")
    assert {"Total", "Today", "Period", "Power", "Voltage", "Current", "Factor"} <= set(sensor.json["ENERGY"])  # type: ignore[arg-type]  # an object
    assert state.json["POWER"] == "OFF"

    peer.forgets()
    async with Appliance(a_tasmota(TasmotaModel.TWO_RELAYS), in_world(broker, journal, timing=busy)):
        await peer.hears(f"tele/{TOPIC}/STATE", after=2)
    assert peer.heard(f"tele/{TOPIC}/SENSOR") == []


async def test_a_sensor_tells_its_unit_beside_it(broker: Mosquitto, peer: Peer, journal: Journal) -> None:
    settings = TasmotaSettings(options=frozenset({8}))

    async with Appliance(a_tasmota(TasmotaModel.SENSOR, settings), in_world(broker, journal)):
        told = (await peer.hears(f"tele/{TOPIC}/SENSOR")).json
        peer.says(f"cmnd/{TOPIC}/POWER", "ON")
        await peer.hears(RESULT, lambda message: message.json == {"Command": "Error"})

    climate = told["SI7021"]
    assert isinstance(climate, dict)
    assert told["TempUnit"] == "F"
    assert 60 < climate["Temperature"] < 83
    assert climate["DewPoint"] < climate["Temperature"]
