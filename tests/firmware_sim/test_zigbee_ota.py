"""Updates through a Zigbee2MQTT bridge: what it answers, what it leaves open, and what runs in the end."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from firmware_sim.appliance import Appliance
from firmware_sim.board import World
from firmware_sim.faults import Fault, FaultPlan, Kind
from firmware_sim.fields import Json
from firmware_sim.image import Damage, Flaw
from firmware_sim.journal import Journal, Line
from firmware_sim.specification import BridgeSpecification
from firmware_sim.zigbee2mqtt.image import Kind as Model
from firmware_sim.zigbee2mqtt.models import ZigbeeModel
from firmware_sim.zigbee2mqtt.ota import BUSY
from firmware_sim.zigbee2mqtt.settings import Paired, ZigbeeSettings
from tests.firmware_sim.conftest import MAC, QUIET, in_world, runs
from tests.firmware_sim.images import a_zigbee_image
from tests.firmware_sim.peer import Peer
from tests.firmware_sim.site import serving
from tests.support.brokers import Mosquitto
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("F6")

BASE = "zigbee2mqtt"
OTA = "device/ota_update"
LAMP, OTHER = "0x00158d0001020304", "0x00158d0001020305"
HURRY = replace(QUIET, transfer=timedelta(milliseconds=100))
FILES = {"l.ota": a_zigbee_image()}

Lines = Callable[..., list[Line]]


def two_lamps() -> BridgeSpecification:
    """A bridge with two lamps."""
    devices = (
        Paired(ieee=LAMP, model=ZigbeeModel.LAMP, name="lamp"),
        Paired(ieee=OTHER, model=ZigbeeModel.LAMP, name="other"),
    )
    return BridgeSpecification(mac=MAC, settings=ZigbeeSettings(devices=devices))


def world(broker: Mosquitto, journal: Journal, *faults: Fault) -> World:
    """A world where this goes wrong."""
    return in_world(broker, journal, timing=HURRY, plan=FaultPlan(faults))


def asks(peer: Peer, verb: str, number: str = "t1", **more: Json) -> None:
    """Send a request about the lamp."""
    frame: dict[str, Json] = {"id": LAMP, "transaction": number, **more}
    peer.says(f"{BASE}/bridge/request/{OTA}/{verb}", json.dumps(frame))


async def answered(peer: Peer, verb: str, number: str = "t1") -> dict[str, Json]:
    """Wait for its answer."""
    topic = f"{BASE}/bridge/response/{OTA}/{verb}"
    return (await peer.hears(topic, lambda message: message.json["transaction"] == number)).json


def standings(peer: Peer, name: str = "lamp") -> list[dict[str, Json]]:
    """What was told of its updates so far."""
    told = []
    for message in peer.heard(f"{BASE}/{name}"):
        update = message.json["update"]
        assert isinstance(update, dict)
        told.append(update)
    return told


async def test_an_update_tells_its_progress_on_the_device_and_answers_when_it_has_booted(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    async with serving(FILES) as site, Appliance(two_lamps(), world(broker, journal)) as bridge:
        asks(peer, "check", url=f"{site.url}/l.ota")
        checked = await answered(peer, "check")
        asks(peer, "update", "t2", url=f"{site.url}/l.ota")
        updated = await answered(peer, "update", "t2")
        running = (runs(bridge, LAMP), runs(bridge, OTHER))
        await eventually(lambda: standings(peer)[-1]["state"] == "idle")

    assert checked["data"] == {
        "id": LAMP,
        "update_available": True,
        "downgrade": False,
        "source": f"{site.url}/l.ota",
    }
    assert updated["status"] == "ok"
    data = updated["data"]
    assert isinstance(data, dict)
    assert (data["from"]["file_version"], data["to"]["file_version"]) == (100, 192)
    assert running == ("192", "100")
    told = [one for one in standings(peer) if one["state"] == "updating"]
    percents = [int(str(one["progress"])) for one in told]
    assert percents == sorted(percents)
    assert percents[-1] == 100
    assert standings(peer)[-1] == {"state": "idle", "installed_version": 192, "latest_version": 192}
    assert {one["state"] for one in standings(peer, "other")} == {"idle"}


async def test_only_one_update_runs_in_the_network(broker: Mosquitto, peer: Peer, journal: Journal) -> None:
    stalled = Fault(kind=Kind.STALL, part=LAMP, percent=30)

    async with serving(FILES) as site, Appliance(two_lamps(), world(broker, journal, stalled)) as bridge:
        asks(peer, "update", url=f"{site.url}/l.ota")
        await eventually(lambda: [told["state"] for told in standings(peer)][-1:] == ["updating"])
        asks(peer, "update", "t2", id=OTHER, url=f"{site.url}/l.ota")
        refused = await answered(peer, "update", "t2")
        running = runs(bridge, OTHER)

    assert refused == {"data": {}, "status": "error", "error": BUSY, "transaction": "t2"}
    assert (running, len(site.asked)) == ("100", 1)


async def test_an_abort_answers_both_and_the_network_is_free_again(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    stalled = Fault(kind=Kind.STALL, part=LAMP, percent=30, times=1)

    async with serving(FILES) as site, Appliance(two_lamps(), world(broker, journal, stalled)) as bridge:
        asks(peer, "update", url=f"{site.url}/l.ota")
        await eventually(lambda: lines("fault"))
        asks(peer, "update/abort", "t2")
        aborted, ended = await answered(peer, "update/abort", "t2"), await answered(peer, "update")
        standing, running = standings(peer)[-1], runs(bridge, LAMP)
        asks(peer, "update", "t3", url=f"{site.url}/l.ota")
        again = await answered(peer, "update", "t3")

    assert (aborted["status"], ended["status"], again["status"]) == ("ok", "error", "ok")
    assert (standing["state"], running) == ("available", "100")


async def test_a_restart_of_the_bridge_forgets_the_update_and_answers_nobody(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    stalled = Fault(kind=Kind.STALL, part=LAMP, percent=30, times=1)

    async with serving(FILES) as site, Appliance(two_lamps(), world(broker, journal, stalled)) as bridge:
        asks(peer, "update", url=f"{site.url}/l.ota")
        await eventually(lambda: lines("fault"))
        peer.says(f"{BASE}/bridge/request/restart", "")
        await peer.hears(f"{BASE}/bridge/state", lambda message: message.json["state"] == "offline")
        await eventually(lambda: len(lines("listening")) == 2)
        asks(peer, "update/abort", "t2")
        refused = await answered(peer, "update/abort", "t2")
        running = runs(bridge, LAMP)

    assert standings(peer)[-1]["state"] == "idle"
    assert (refused["status"], running) == ("error", "100")
    assert peer.heard(f"{BASE}/bridge/response/{OTA}/update") == []


@pytest.mark.parametrize(
    "image",
    [
        pytest.param(a_zigbee_image(kind=Model(0x7E51, 0x0999)), id="of another type"),
        pytest.param(a_zigbee_image(kind=Model(0x1111, 0x0102)), id="of another maker"),
        pytest.param(a_zigbee_image(99), id="older"),
        pytest.param(a_zigbee_image(100), id="the same"),
        pytest.param(a_zigbee_image(hardware=2), id="for another hardware"),
        pytest.param(a_zigbee_image(damage=Damage.MAGIC), id="magic"),
        pytest.param(a_zigbee_image(damage=Damage.CHECKSUM), id="one bit wrong"),
        pytest.param(a_zigbee_image(damage=Damage.TRUNCATED), id="truncated"),
        pytest.param(b"", id="nothing"),
    ],
)
async def test_an_image_that_is_not_for_the_device_is_refused_and_nothing_boots(
    broker: Mosquitto, peer: Peer, journal: Journal, image: bytes, lines: Lines
) -> None:
    async with serving({"l.ota": image}) as site, Appliance(two_lamps(), world(broker, journal)) as bridge:
        asks(peer, "update", url=f"{site.url}/l.ota")
        refused = await answered(peer, "update")
        running = runs(bridge, LAMP)

    assert (refused["status"], refused["data"]) == ("error", {})
    assert standings(peer)[-1]["state"] == "available"
    assert (running, lines("booted")) == ("100", [])


@pytest.mark.parametrize(
    ("verb", "more"),
    [
        ("update", {}),
        ("update", {"url": 7}),
        ("update", {"url": "file:///etc/hosts"}),
        ("check", {"id": "nobody"}),
        ("update/abort", {}),
        ("sideways", {}),
    ],
)
async def test_a_request_that_does_not_fit_is_refused_and_nothing_is_fetched(
    broker: Mosquitto, peer: Peer, journal: Journal, verb: str, more: dict[str, Json], lines: Lines
) -> None:
    async with Appliance(two_lamps(), world(broker, journal)):
        peer.says(
            f"{BASE}/bridge/request/{OTA}/{verb}", json.dumps({"id": LAMP, "transaction": "t1", **more})
        )
        refused = await answered(peer, verb)

    assert refused["status"] == "error"
    assert lines("download") == []


async def test_a_downgrade_takes_an_older_image_and_no_newer(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    files = {"new.ota": a_zigbee_image(192), "old.ota": a_zigbee_image(90)}
    async with serving(files) as site, Appliance(two_lamps(), world(broker, journal)) as bridge:
        asks(peer, "update/downgrade", url=f"{site.url}/new.ota")
        refused = await answered(peer, "update/downgrade")
        asks(peer, "update/downgrade", "t2", url=f"{site.url}/old.ota")
        taken = await answered(peer, "update/downgrade", "t2")
        running = runs(bridge, LAMP)

    assert (refused["status"], taken["status"], running) == ("error", "ok", "90")


async def test_a_scheduled_update_runs_when_the_device_asks_and_an_unscheduled_one_does_not(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    lively = replace(HURRY, period=timedelta(milliseconds=200))
    async with (
        serving(FILES) as site,
        Appliance(two_lamps(), in_world(broker, journal, timing=lively)) as bridge,
    ):
        asks(peer, "schedule", id=OTHER, url=f"{site.url}/gone.ota")
        asks(peer, "unschedule", "t2", id=OTHER)
        await answered(peer, "unschedule", "t2")
        asks(peer, "schedule", "t3", url=f"{site.url}/l.ota")
        scheduled = await answered(peer, "schedule", "t3")
        await eventually(lambda: runs(bridge, LAMP) == "192")

    assert scheduled["status"] == "ok"
    assert "scheduled" in {one["state"] for one in standings(peer)}


@pytest.mark.parametrize("place", [1, 2, 9, 10, 11, 12])
async def test_a_brown_out_of_the_device_leaves_the_bridge_and_something_whole(
    broker: Mosquitto, peer: Peer, journal: Journal, place: int
) -> None:
    torn = Fault(kind=Kind.BROWN_OUT, part=LAMP, nth=place)

    async with serving(FILES) as site, Appliance(two_lamps(), world(broker, journal, torn)) as bridge:
        asks(peer, "update", url=f"{site.url}/l.ota")
        ended = await answered(peer, "update")
        await eventually(lambda: peer.heard(f"{BASE}/lamp/availability")[-1].json == {"state": "online"})
        running = runs(bridge, LAMP)

    assert running in {"100", "192"}
    assert ended["status"] == ("ok" if place > 10 else "error")
    assert journal.count(bridge.id, "reboot") >= 1


@pytest.mark.parametrize(
    ("fault", "status", "running", "there"),
    [
        pytest.param(Fault(kind=Kind.VANISH, part=LAMP, percent=40), "error", "100", "offline", id="gone"),
        pytest.param(Fault(kind=Kind.WIFI_LOST, part=LAMP, percent=40), "error", "100", "online", id="lost"),
        pytest.param(Fault(kind=Kind.OWN_CHECK, part=LAMP), "error", "100", "online", id="own check"),
        pytest.param(Fault(kind=Kind.BOOT_LOOP, part=LAMP), "ok", "100", "online", id="boot loop"),
        pytest.param(Fault(kind=Kind.DOUBLE_REBOOT, part=LAMP), "ok", "192", "online", id="twice"),
        pytest.param(Fault(kind=Kind.TELLS_NEW, part=LAMP), "ok", "100", "online", id="tells new"),
        pytest.param(Fault(kind=Kind.TELLS_OLD, part=LAMP), "ok", "192", "online", id="tells old"),
        pytest.param(Fault(kind=Kind.EARLY_SUCCESS, part=LAMP), "ok", "192", "online", id="early"),
        pytest.param(Fault(kind=Kind.PROGRESS_BACK, part=LAMP, percent=50), "ok", "192", "online", id="back"),
    ],
)
async def test_what_goes_wrong_with_the_device_ends_as_it_should(
    broker: Mosquitto,
    peer: Peer,
    journal: Journal,
    fault: Fault,
    status: str,
    running: str,
    there: str,
) -> None:
    async with serving(FILES) as site, Appliance(two_lamps(), world(broker, journal, fault)) as bridge:
        asks(peer, "update", url=f"{site.url}/l.ota")
        ended = await answered(peer, "update")
        await eventually(lambda: runs(bridge, LAMP) == running)
        await eventually(lambda: peer.heard(f"{BASE}/lamp/availability")[-1].json == {"state": there})
        await eventually(lambda: standings(peer)[-1]["state"] != "updating")

    assert ended["status"] == status


async def test_the_answer_is_ok_and_names_the_old_version_when_the_new_one_never_comes_up(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    async with (
        serving({"l.ota": a_zigbee_image(flaw=Flaw.CRASH)}) as site,
        Appliance(two_lamps(), world(broker, journal)),
    ):
        asks(peer, "update", url=f"{site.url}/l.ota")
        ended = await answered(peer, "update")
        await eventually(lambda: standings(peer)[-1]["state"] == "available")

    data = ended["data"]
    assert isinstance(data, dict)
    assert (ended["status"], data["to"]["file_version"]) == ("ok", 100)
    assert standings(peer)[-1]["installed_version"] == 100
