"""Thirty mixed appliances from a file, in a process of their own: updated, and some of them faulty."""

import json
from pathlib import Path

import pytest

from firmware_sim.command_line import main
from firmware_sim.fields import Json
from tests.firmware_sim.peer import Peer
from tests.firmware_sim.process import FleetProcess, fleet
from tests.firmware_sim.site import serving
from tests.support.brokers import Mosquitto
from tests.support.waiting import eventually

pytestmark = [pytest.mark.requirement("F6"), pytest.mark.slow]

_TASMOTAS, _SHELLIES, _LAMPS = 12, 12, 5
IMAGES = {
    "t.bin": ("--family", "tasmota", "--version", "14.2.0", "--size", "600000"),
    "t-minimal.bin": ("--family", "tasmota", "--version", "14.2.0", "--minimal"),
    "s.fw": ("--family", "shelly", "--version", "1.7.2"),
    "l.ota": ("--family", "zigbee", "--version", "192"),
}


def tasmota(place: int) -> str:
    """Its address."""
    return f"02AA000000{place:02X}"


def shelly(place: int) -> str:
    """Its id."""
    return f"shellyplugsg3-02bb000000{place:02x}"


def lamp(place: int) -> str:
    """Its address."""
    return f"0x00158d00000000{place:02x}"


def written(folder: Path) -> list[str]:
    """The files of the run; the arguments that name them."""
    listed: list[Json] = [
        {"model": "tasmota-plug", "mac": tasmota(place), "settings": {"flash": "1m" if place < 4 else "twin"}}
        for place in range(_TASMOTAS)
    ]
    listed += [{"model": "shelly-plug", "mac": f"02BB000000{place:02X}"} for place in range(_SHELLIES)]
    lamps: list[Json] = [{"ieee": lamp(place), "model": "zigbee-lamp"} for place in range(_LAMPS)]
    listed.append({"model": "zigbee2mqtt", "mac": "02CC00000001", "settings": {"devices": lamps}})
    faults: list[Json] = [
        {"fault": "boot_loop", "appliance": tasmota(5)},
        {"fault": "tells_new", "appliance": shelly(5)},
        {"fault": "vanish", "appliance": shelly(6), "percent": 50},
        {"fault": "own_check", "part": lamp(3)},
    ]
    (folder / "venue.json").write_text(json.dumps({"appliance": listed}))
    (folder / "faults.json").write_text(json.dumps({"fault": faults}))
    for name, arguments in IMAGES.items():
        assert main(["image", *arguments, str(folder / name)]) == 0
    return [
        *("--specifications", str(folder / "venue.json")),
        *("--faults", str(folder / "faults.json")),
        *("--journal", str(folder / "journal.jsonl")),
        *("--maker", str(folder / "maker.pub"), "--transfer", "0ms"),
    ]


def running(process: FleetProcess) -> dict[str, str]:
    """What truly runs, by appliance or address."""
    done = process.does("state")["done"]
    assert isinstance(done, dict)
    found = {}
    for appliance, state in done.items():
        for part, flash in state["flash"].items():
            found[appliance if part == "flash" else part] = str(flash["running"]["version"])
    return found


async def test_thirty_appliances_of_three_families_are_updated_and_the_faulty_ones_end_as_they_should(
    broker: Mosquitto, peer: Peer, tmp_path: Path
) -> None:
    arguments = written(tmp_path)
    files = {name: (tmp_path / name).read_bytes() for name in IMAGES}
    faulty = {tasmota(5), shelly(5), shelly(6), lamp(3)}

    async with serving(files) as site:
        with fleet(broker, *arguments) as process:
            before = running(process)
            for place in range(_TASMOTAS):
                topic = f"cmnd/tasmota_0000{place:02X}"
                peer.says(f"{topic}/OtaUrl", f"{site.url}/t.bin")
                peer.says(f"{topic}/Upgrade", "1")
            for place in range(_SHELLIES):
                peer.asks(shelly(place), "Shelly.Update", url=f"{site.url}/s.fw")
            for place in range(_LAMPS):
                asked = {"id": lamp(place), "url": f"{site.url}/l.ota", "transaction": place}
                peer.says("zigbee2mqtt/bridge/request/device/ota_update/update", json.dumps(asked))
                answers = "zigbee2mqtt/bridge/response/device/ota_update/update"
                await peer.hears(answers, lambda message, place=place: message.json["transaction"] == place)  # type: ignore[misc]  # a default binds it

            good = {"14.2.0", "1.7.2", "192"}
            await eventually(
                lambda: {name for name, version in running(process).items() if version not in good} == faulty,
            )
            process.does("reboot", "*")
            after = running(process)
            gone = process.state(shelly(6))["gone"]

    assert len(before) == _TASMOTAS + _SHELLIES + _LAMPS
    assert {name for name, version in after.items() if version not in good} == faulty
    assert gone is True
