"""A display of no particular make: what it shows, and an update by URL and progress."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from firmware_sim.appliance import Appliance
from firmware_sim.board import World
from firmware_sim.display.image import made
from firmware_sim.display.settings import DisplaySettings
from firmware_sim.faults import Fault, FaultPlan, Kind
from firmware_sim.fields import InputError, Json
from firmware_sim.image import SECTOR, Damage, Family, Flaw, Label, Order
from firmware_sim.journal import Journal, Line
from firmware_sim.specification import DisplaySpecification, specifications
from tests.firmware_sim.conftest import MAC, QUIET, in_world, runs
from tests.firmware_sim.peer import Message, Peer
from tests.firmware_sim.site import serving
from tests.support.brokers import Mosquitto
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("F6")

TOPIC = "display/display-02a1b2c3d4e5"
HURRY = replace(QUIET, transfer=timedelta(0), retry=timedelta(milliseconds=10))
Lines = Callable[..., list[Line]]


def an_image(
    version: str = "1.1.0",
    *,
    model: str = "display",
    hardware: str = "1",
    damage: Damage = Damage.NONE,
    flaw: Flaw = Flaw.NONE,
) -> bytes:
    """For a display."""
    label = Label(family=Family.DISPLAY, model=model, hardware=hardware, version=version, flaw=flaw)
    return made(Order(label=label, size=20 * SECTOR, damage=damage))


def a_display() -> DisplaySpecification:
    """A display."""
    return DisplaySpecification(mac=MAC, settings=DisplaySettings())


def world(broker: Mosquitto, journal: Journal, *faults: Fault) -> World:
    """A world where this goes wrong."""
    return in_world(broker, journal, timing=HURRY, plan=FaultPlan(faults))


def telling(**wanted: Json) -> Callable[[Message], bool]:
    """Whether a message tells this."""
    return lambda message: all(message.json.get(name, ...) == value for name, value in wanted.items())


def update(peer: Peer, url: str, number: Json = "u1") -> None:
    """Let it update itself."""
    peer.says(f"{TOPIC}/update/set", json.dumps({"url": url, "id": number}))


async def test_it_tells_its_progress_and_after_the_reboot_its_version(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    async with serving({"d.img": an_image()}) as site, Appliance(a_display(), world(broker, journal)) as one:
        update(peer, f"{site.url}/d.img")
        await peer.hears(f"{TOPIC}/update", telling(installed_version="1.1.0", in_progress=False))
        await peer.hears(f"{TOPIC}/state", telling(version="1.1.0"))
        running = runs(one)

    told = [message.json for message in peer.heard(f"{TOPIC}/update")]
    percents = [int(str(entry["update_percentage"])) for entry in told if entry["in_progress"]]
    assert (percents[0], percents[-1], percents == sorted(percents)) == (0, 100, True)
    assert {entry["error"] for entry in told} == {None}
    assert running == "1.1.0"


@pytest.mark.parametrize(
    ("image", "why"),
    [
        pytest.param(an_image(damage=Damage.CHECKSUM), "damaged", id="one bit wrong"),
        pytest.param(an_image(damage=Damage.TRUNCATED), "damaged", id="truncated"),
        pytest.param(an_image(damage=Damage.MAGIC), "not an image", id="magic"),
        pytest.param(an_image(model="fridge"), "made for fridge 1", id="model"),
        pytest.param(an_image(hardware="2"), "made for display 2", id="hardware"),
        pytest.param(b"", "not an image", id="nothing"),
    ],
)
async def test_what_is_not_for_it_is_refused_and_nothing_reboots(
    broker: Mosquitto, peer: Peer, journal: Journal, image: bytes, why: str
) -> None:
    async with serving({"d.img": image}) as site, Appliance(a_display(), world(broker, journal)) as one:
        update(peer, f"{site.url}/d.img")
        told = await peer.hears(f"{TOPIC}/update", lambda message: message.json["error"])

    assert (told.json["error"], told.json["id"], told.json["in_progress"]) == (why, "u1", False)
    assert (runs(one), journal.count(one.id, "reboot")) == ("1.0.0", 0)


async def test_a_download_can_be_cancelled_and_begun_anew(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    stalled = Fault(kind=Kind.STALL, percent=30, nth=1)

    async with (
        serving({"d.img": an_image()}) as site,
        Appliance(a_display(), world(broker, journal, stalled)) as one,
    ):
        update(peer, f"{site.url}/d.img")
        await eventually(lambda: lines("fault"))
        update(peer, f"{site.url}/d.img", "u2")
        await peer.hears(f"{TOPIC}/update", telling(error="busy", id="u2", in_progress=True))
        peer.says(f"{TOPIC}/update/cancel", "")
        await peer.hears(f"{TOPIC}/update", telling(error="cancelled", id="u1", in_progress=False))
        assert runs(one) == "1.0.0"
        update(peer, f"{site.url}/d.img", "u3")
        await eventually(lambda: runs(one) == "1.1.0")


async def test_a_cut_download_is_taken_up_where_it_was_cut(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    async with serving({"d.img": an_image()}) as site, Appliance(a_display(), world(broker, journal)) as one:
        site.cuts, site.cut_when = 1, lambda: len(peer.heard(f"{TOPIC}/update")) > 3
        update(peer, f"{site.url}/d.img")
        await eventually(lambda: runs(one) == "1.1.0")

    assert [asked is None for _, _, asked in site.asked] == [True, False]


async def test_a_firmware_that_never_comes_up_is_told_by_the_old_version(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    image = an_image(flaw=Flaw.CRASH)
    async with serving({"d.img": image}) as site, Appliance(a_display(), world(broker, journal)) as one:
        update(peer, f"{site.url}/d.img")
        await peer.hears(f"{TOPIC}/update", telling(update_percentage=100))
        await peer.hears(f"{TOPIC}/state", telling(version="1.0.0"), after=1)

    assert runs(one) == "1.0.0"


async def test_what_is_set_is_told_and_what_is_none_changes_nothing(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    async with Appliance(a_display(), world(broker, journal)) as one:
        for wrong in ('{"power": 1}', '{"brightness": 101}', '{"brightness": true}', "[", b"\xff", "[1]"):
            peer.says(f"{TOPIC}/set", wrong)
        for wrong in ('{"url": 7}', '{"url": "ftp://x/y"}', "nonsense"):
            peer.says(f"{TOPIC}/update/set", wrong)
        await peer.hears(f"{TOPIC}/update", telling(error="no such URL"), after=2)
        assert lines("effect") == []
        peer.says(f"{TOPIC}/set", '{"power": false, "brightness": 40}')
        await peer.hears(f"{TOPIC}/state", telling(power=False, brightness=40))
        one.press()
        await peer.hears(f"{TOPIC}/state", telling(power=True))
        with pytest.raises(InputError):
            one.press(2)

    assert [line.details["action"] for line in lines("effect")] == ["power", "brightness", "power"]
    assert lines("download") == []


def test_a_display_is_read_from_a_list_of_appliances() -> None:
    (read,) = specifications([{"model": "display", "mac": MAC, "settings": {"version": "2.0-rc1"}}])

    assert read == DisplaySpecification(mac=MAC, settings=DisplaySettings(version="2.0-rc1"))


@pytest.mark.parametrize("settings", [{"topic": ""}, {"topic": "a/#"}, {"version": "a b"}, {"colour": "red"}])
def test_wrong_settings_are_refused(settings: Json) -> None:
    with pytest.raises(InputError):
        specifications([{"model": "display", "mac": MAC, "settings": settings}])
