"""How a Shelly updates itself: events that say little, a signature that is looked at, and what runs."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from firmware_sim.appliance import Appliance
from firmware_sim.board import World
from firmware_sim.faults import Fault, FaultPlan, Kind
from firmware_sim.fields import Json
from firmware_sim.image import SECTOR, Damage, Flaw
from firmware_sim.journal import Journal, Line
from firmware_sim.shelly.settings import ShellySettings
from tests.firmware_sim.conftest import QUIET, a_shelly, in_world, runs
from tests.firmware_sim.images import PUBLIC, a_shelly_image
from tests.firmware_sim.peer import Message, Peer
from tests.firmware_sim.site import serving
from tests.support.brokers import Mosquitto
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("F6")

PLUG = "shellyplugsg3-02a1b2c3d4e5"
EVENTS = f"{PLUG}/events/rpc"
ONLINE = f"{PLUG}/online"
HURRY = replace(QUIET, transfer=timedelta(0), retry=timedelta(milliseconds=10))

Lines = Callable[..., list[Line]]


def world(broker: Mosquitto, journal: Journal, *faults: Fault, maker: bytes = PUBLIC) -> World:
    """A world in a hurry, whose maker is known."""
    return replace(in_world(broker, journal, timing=HURRY, plan=FaultPlan(faults)), maker=maker)


def happened(message: Message) -> Mapping[str, Json] | None:
    """What a notification tells of the device as a whole, if it does."""
    params = message.json["params"]
    assert isinstance(params, Mapping)
    told = params.get("events")
    if not isinstance(told, list):
        return None
    first = told[0]
    assert isinstance(first, Mapping)
    return first


def events(peer: Peer) -> list[Mapping[str, Json]]:
    """All that was told of the device as a whole."""
    return [event for message in peer.heard(EVENTS) if (event := happened(message)) is not None]


def tells(name: str) -> Callable[[Message], bool]:
    """Whether a notification is this event."""

    def fits(message: Message) -> bool:
        event = happened(message)
        return event is not None and event["event"] == name

    return fits


async def version(peer: Peer, number: int = 77) -> Json:
    """What it says that it runs."""
    peer.asks(PLUG, "Shelly.GetDeviceInfo", number)
    answer = await peer.answered(number)
    info = answer["result"]
    assert isinstance(info, dict)
    running: Json = info["ver"]
    return running


async def test_an_update_tells_its_progress_and_success_before_the_reboot_and_the_version_after_it(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    async with (
        serving({"s.fw": a_shelly_image(size=20 * SECTOR)}) as site,
        Appliance(a_shelly(), world(broker, journal)) as device,
    ):
        peer.asks(PLUG, "Shelly.Update", url=f"{site.url}/s.fw")
        answer = await peer.answered()
        await peer.hears(ONLINE, lambda message: message.text == "false")
        await eventually(lambda: len(lines("listening")) == 2)
        told = await version(peer)

    names = [event["event"] for event in events(peer)]
    assert answer["result"] is None
    assert (names[0], names[-1], set(names[1:-1])) == ("ota_begin", "ota_success", {"ota_progress"})
    percents = [int(str(event["progress_percent"])) for event in events(peer)[1:-1]]
    assert percents == sorted(percents)
    assert percents[-1] >= 90
    assert (told, runs(device)) == ("1.7.2", "1.7.2")


@pytest.mark.parametrize(
    ("image", "why"),
    [
        pytest.param(a_shelly_image(app="Plus2PM"), "Wrong app: Plus2PM, expected PlugSG3", id="model"),
        pytest.param(a_shelly_image(hardware="2"), "Wrong hardware: 2, expected 1", id="hardware"),
        pytest.param(
            a_shelly_image(damage=Damage.SIGNATURE), "Signature verification failed", id="signature"
        ),
        pytest.param(a_shelly_image(damage=Damage.CHECKSUM), "Checksum mismatch", id="checksum"),
        pytest.param(a_shelly_image(damage=Damage.MAGIC), "Invalid firmware file", id="magic"),
        pytest.param(a_shelly_image(damage=Damage.TRUNCATED), "Checksum mismatch", id="truncated"),
    ],
)
async def test_what_its_maker_did_not_sign_for_it_is_refused_and_nothing_reboots(
    broker: Mosquitto, peer: Peer, journal: Journal, image: bytes, why: str
) -> None:
    async with serving({"s.fw": image}) as site, Appliance(a_shelly(), world(broker, journal)) as device:
        peer.asks(PLUG, "Shelly.Update", url=f"{site.url}/s.fw")
        await peer.hears(EVENTS, tells("ota_error"))

    assert events(peer)[-1]["msg"] == why
    assert (runs(device), journal.count(PLUG, "reboot")) == ("1.7.1", 0)


async def test_a_device_without_its_makers_key_takes_nothing(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    async with (
        serving({"s.fw": a_shelly_image()}) as site,
        Appliance(a_shelly(), world(broker, journal, maker=b"")) as device,
    ):
        peer.asks(PLUG, "Shelly.Update", url=f"{site.url}/s.fw")
        await peer.hears(EVENTS, tells("ota_error"))

    assert runs(device) == "1.7.1"


async def test_a_cut_download_is_taken_up_where_it_was_cut(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    async with serving({"s.fw": a_shelly_image(size=64 * SECTOR)}) as site:
        site.cuts, site.cut_when = 1, lambda: len(events(peer)) > 1
        async with Appliance(a_shelly(), world(broker, journal)) as device:
            peer.asks(PLUG, "Shelly.Update", url=f"{site.url}/s.fw")
            await peer.hears(EVENTS, tells("ota_success"))
            await eventually(lambda: runs(device) == "1.7.2")

    (_, _, first), (_, _, second) = site.asked
    assert first is None
    assert second is not None
    assert int(second.removeprefix("bytes=").removesuffix("-")) > 0


async def test_a_second_update_is_refused_while_one_runs(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    stalled = Fault(kind=Kind.STALL, percent=20)
    async with (
        serving({"s.fw": a_shelly_image()}) as site,
        Appliance(a_shelly(), world(broker, journal, stalled)) as device,
    ):
        peer.asks(PLUG, "Shelly.Update", url=f"{site.url}/s.fw")
        await peer.hears(EVENTS, tells("ota_progress"))
        peer.asks(PLUG, "Shelly.Update", 2, url=f"{site.url}/s.fw")
        refused = await peer.answered(2)

    assert refused["error"] == {"code": -109, "message": "Already in progress!"}
    assert (len(site.asked), runs(device)) == (1, "1.7.1")


async def test_a_stage_comes_from_its_maker_if_the_maker_can_be_reached(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    async with serving({"s.fw": a_shelly_image()}) as site:
        settings = ShellySettings(stable=f"{site.url}/s.fw")
        async with Appliance(a_shelly(settings=settings), world(broker, journal)) as device:
            peer.asks(PLUG, "Shelly.Update", stage="beta")
            refused = await peer.answered()
            peer.asks(PLUG, "Shelly.Update", 2, stage="stable")
            await eventually(lambda: runs(device) == "1.7.2")

    assert refused["error"] == {"code": -114, "message": "No update info!"}


@pytest.mark.parametrize(
    "params",
    [
        {"url": 7},
        {"url": "ftp://192.0.2.9/s.fw"},
        {"url": "http://192.0.2.9/" + "x" * 2000},
        {"stage": "nightly"},
        {"stage": "stable", "url": "http://192.0.2.9/s.fw"},
    ],
)
async def test_parameters_that_do_not_fit_are_refused_and_nothing_begins(
    broker: Mosquitto, peer: Peer, journal: Journal, params: dict[str, Json], lines: Lines
) -> None:
    async with Appliance(a_shelly(), world(broker, journal)):
        frame: Json = {"id": 1, "src": "peer", "method": "Shelly.Update", "params": params}
        peer.says(f"{PLUG}/rpc", json.dumps(frame))
        answer = await peer.answered()

    error = answer["error"]
    assert isinstance(error, dict)
    assert error["code"] == -103
    assert (events(peer), lines("download")) == ([], [])


async def test_a_firmware_that_never_comes_up_was_a_success_and_the_old_one_is_back(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    async with (
        serving({"s.fw": a_shelly_image(flaw=Flaw.CRASH)}) as site,
        Appliance(a_shelly(), world(broker, journal)) as device,
    ):
        peer.asks(PLUG, "Shelly.Update", url=f"{site.url}/s.fw")
        await peer.hears(EVENTS, tells("ota_success"))
        await eventually(lambda: len(lines("booted")) == 4)
        await eventually(lambda: len(lines("listening")) == 2)
        told = await version(peer)

    assert [line.details["outcome"] for line in lines("booted")] == ["crashed"] * 3 + ["up"]
    assert (told, runs(device)) == ("1.7.1", "1.7.1")
