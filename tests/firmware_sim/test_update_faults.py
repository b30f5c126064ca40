"""What may go wrong in an update, as an outsider meets it, and as the journal tells it."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from firmware_sim.appliance import Appliance
from firmware_sim.board import World
from firmware_sim.faults import Fault, FaultPlan, ImpossibleFaultError, Kind, Way, plan
from firmware_sim.image import SECTOR
from firmware_sim.journal import Journal, Line
from tests.firmware_sim.conftest import QUIET, a_shelly, a_tasmota, flash, in_world, runs
from tests.firmware_sim.images import PUBLIC, a_shelly_image, a_tasmota_image
from tests.firmware_sim.peer import Peer
from tests.firmware_sim.site import Site, serving
from tests.support.brokers import Mosquitto
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("F6")

PLUG = "shellyplugsg3-02a1b2c3d4e5"
TOPIC = "tasmota_C3D4E5"
OUTCOME = f"stat/{TOPIC}/UPGRADE"
LWT = f"tele/{TOPIC}/LWT"
INFO = f"tele/{TOPIC}/INFO1"
FILES = {"t.bin": a_tasmota_image(), "s.fw": a_shelly_image(size=20 * SECTOR)}
HURRY = replace(QUIET, transfer=timedelta(0), retry=timedelta(milliseconds=10))

Lines = Callable[..., list[Line]]


def world(broker: Mosquitto, journal: Journal, *faults: Fault) -> World:
    """A world where this goes wrong."""
    return replace(in_world(broker, journal, timing=HURRY, plan=FaultPlan(faults)), maker=PUBLIC)


def upgrade(peer: Peer, site: Site) -> None:
    """Let the Tasmota update itself."""
    peer.says(f"cmnd/{TOPIC}/OtaUrl", f"{site.url}/t.bin")
    peer.says(f"cmnd/{TOPIC}/Upgrade", "1")


def percents(peer: Peer) -> list[int]:
    """The progress that the Shelly told."""
    told = []
    for message in peer.heard(f"{PLUG}/events/rpc"):
        text = message.text
        if "progress_percent" in text:
            told.append(int(text.partition('"progress_percent":')[2].partition(",")[0]))
    return told


@pytest.mark.parametrize("place", [1, 2, 5, 9, 10, 11, 12])
async def test_a_brown_out_at_a_flash_write_boots_what_is_whole(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines, place: int
) -> None:
    torn = Fault(kind=Kind.BROWN_OUT, nth=place)

    async with serving(FILES) as site, Appliance(a_tasmota(), world(broker, journal, torn)) as device:
        upgrade(peer, site)
        await eventually(lambda: lines("fault"))
        await eventually(lambda: len(peer.heard(INFO)) > 1)
        await eventually(lambda: flash(device)["trial"] is False)
        running = runs(device)

    # Eight sectors after the erasing; then the flag, the counter and the end of the trial.
    assert running == ("14.1.0" if place <= 10 else "14.2.0")
    assert [line.details["part"] for line in lines("fault")] == ["flash"]


async def test_a_stall_keeps_the_connection_and_ends_when_it_ends(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    stalled = Fault(kind=Kind.STALL, percent=50, lasting=timedelta(milliseconds=300))

    async with serving(FILES) as site, Appliance(a_tasmota(), world(broker, journal, stalled)) as device:
        upgrade(peer, site)
        await eventually(lambda: lines("fault"))
        assert (device.connected, peer.heard(OUTCOME)) == (True, [])
        await eventually(lambda: runs(device) == "14.2.0")

    assert len(site.asked) == 1


async def test_a_stall_for_good_is_ended_by_a_power_cut_only(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    stalled = Fault(kind=Kind.STALL, percent=50)

    async with serving(FILES) as site, Appliance(a_tasmota(), world(broker, journal, stalled)) as device:
        upgrade(peer, site)
        await eventually(lambda: lines("fault"))
        device.reboot()
        await peer.hears(INFO, after=1)

    assert [line.details["why"] for line in lines("download")] == ["cancelled"]
    assert runs(device) == "14.1.0"


async def test_lost_wifi_ends_the_download_and_publishes_the_will(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    lost = Fault(kind=Kind.WIFI_LOST, percent=50)

    async with serving(FILES) as site, Appliance(a_tasmota(), world(broker, journal, lost)) as device:
        upgrade(peer, site)
        await peer.hears(LWT, lambda message: message.text == "Offline")
        await eventually(lambda: runs(device) == "14.2.0")

    assert [line.details["why"] for line in lines("download")] == ["connection lost", ""]


async def test_a_device_that_vanishes_is_gone_and_does_nothing_any_more(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    gone = Fault(kind=Kind.VANISH, percent=50)

    async with serving(FILES) as site, Appliance(a_tasmota(), world(broker, journal, gone)) as device:
        upgrade(peer, site)
        await peer.hears(LWT, lambda message: message.text == "Offline")
        device.press()
        device.reboot()
        state = device.state()

    assert (state["gone"], state["connected"]) == (True, False)
    assert [line.details["why"] for line in lines("gone")] == ["vanished"]
    assert lines("effect") == []
    assert len(peer.heard(LWT)) == 2


async def test_progress_that_goes_back_ends_well(broker: Mosquitto, peer: Peer, journal: Journal) -> None:
    back = Fault(kind=Kind.PROGRESS_BACK, percent=60)

    async with serving(FILES) as site, Appliance(a_shelly(), world(broker, journal, back)) as device:
        peer.asks(PLUG, "Shelly.Update", url=f"{site.url}/s.fw")
        await eventually(lambda: runs(device) == "1.7.2")

    told = percents(peer)
    assert told != sorted(told)
    assert max(told) < 70


async def test_success_is_told_before_anything_has_come(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    early = [Fault(kind=Kind.EARLY_SUCCESS), Fault(kind=Kind.STALL)]

    async with serving(FILES) as site, Appliance(a_tasmota(), world(broker, journal, *early)) as device:
        upgrade(peer, site)
        outcome = await peer.hears(OUTCOME)
        running = runs(device)

    assert outcome.json == {"Upgrade": "Successful. Restarting"}
    assert (running, journal.count(device.id, "reboot")) == ("14.1.0", 0)


async def test_its_own_check_may_refuse_a_whole_image(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    wrong = Fault(kind=Kind.OWN_CHECK)

    async with serving(FILES) as site, Appliance(a_shelly(), world(broker, journal, wrong)) as device:
        peer.asks(PLUG, "Shelly.Update", url=f"{site.url}/s.fw")
        await peer.hears(f"{PLUG}/events/rpc", lambda message: "Verification failed" in message.text)

    assert runs(device) == "1.7.1"


async def test_a_boot_loop_falls_back_after_three_boots(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    loop = Fault(kind=Kind.BOOT_LOOP)

    async with serving(FILES) as site, Appliance(a_tasmota(), world(broker, journal, loop)) as device:
        upgrade(peer, site)
        await peer.hears(INFO, after=1)

    assert [line.details["outcome"] for line in lines("booted")] == ["crashed"] * 3 + ["up"]
    assert runs(device) == "14.1.0"


async def test_a_double_reboot_comes_after_the_update_only(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    twice = Fault(kind=Kind.DOUBLE_REBOOT)

    async with serving(FILES) as site, Appliance(a_tasmota(), world(broker, journal, twice)) as device:
        upgrade(peer, site)
        await peer.hears(INFO, after=2)
        await eventually(lambda: device.connected)

    assert journal.count(device.id, "reboot") == 2
    assert runs(device) == "14.2.0"


async def test_a_fault_of_the_second_update_leaves_the_first_alone(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    second = Fault(kind=Kind.OWN_CHECK, nth=2)
    files = {"s.fw": a_shelly_image("1.7.2")}

    async with serving(files) as site, Appliance(a_shelly(), world(broker, journal, second)) as device:
        peer.asks(PLUG, "Shelly.Update", url=f"{site.url}/s.fw")
        await eventually(lambda: runs(device) == "1.7.2")
        await eventually(lambda: device.connected and len(lines("listening")) == 2)
        site.files["s.fw"] = a_shelly_image("1.7.3")
        peer.asks(PLUG, "Shelly.Update", 2, url=f"{site.url}/s.fw")
        await peer.hears(f"{PLUG}/events/rpc", lambda message: "Verification failed" in message.text)

    assert runs(device) == "1.7.2"


def test_faults_of_updates_are_read_from_data() -> None:
    read = plan([{"fault": "stall", "part": "0x*", "percent": 40, "lasting": "2s"}])

    assert read.faults == (Fault(kind=Kind.STALL, part="0x*", percent=40, lasting=timedelta(seconds=2)),)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: Fault(kind=Kind.STALL, topic="a/b"), id="a topic"),
        pytest.param(lambda: Fault(kind=Kind.BROWN_OUT, way=Way.SAID), id="a way"),
        pytest.param(lambda: Fault(kind=Kind.DROP, part="flash"), id="a part of a message"),
        pytest.param(lambda: Fault(kind=Kind.BOOT_LOOP, percent=4), id="a percent of a boot"),
        pytest.param(lambda: Fault(kind=Kind.SLOW_REBOOT), id="slow by nothing"),
        pytest.param(lambda: Fault(kind=Kind.STALL, at=timedelta(1)), id="a time of a stall"),
    ],
)
def test_fields_that_do_not_go_together_are_refused(make: Callable[[], Fault]) -> None:
    with pytest.raises(ImpossibleFaultError):
        make()


async def test_a_device_may_vanish_at_a_time(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    gone = Fault(kind=Kind.VANISH, at=timedelta(milliseconds=100))

    async with Appliance(a_tasmota(), world(broker, journal, gone)) as device:
        await peer.hears(LWT, lambda message: message.text == "Offline")
        assert device.state()["gone"] is True

    assert [line.details["why"] for line in lines("gone")] == ["vanished"]


@pytest.mark.parametrize(
    "url",
    [
        "http://",
        "http://:80/x",
        "http://[::1/x",
        "http://a b/",
        "http://\u00e9\ufffd/",
        "http://127.0.0.1:1/x",
    ],
)
async def test_no_url_breaks_a_device(broker: Mosquitto, peer: Peer, journal: Journal, url: str) -> None:
    async with (
        Appliance(a_tasmota(), world(broker, journal)) as plug,
        Appliance(a_shelly(), world(broker, journal)) as shelly,
    ):
        peer.says(f"cmnd/{TOPIC}/OtaUrl", url)
        peer.says(f"cmnd/{TOPIC}/Upgrade", "1")
        peer.asks(PLUG, "Shelly.Update", url=url)
        outcome = await peer.hears(OUTCOME)
        await peer.hears(f"{PLUG}/events/rpc", lambda message: "ota_error" in message.text)

    assert str(outcome.json["Upgrade"]).startswith("Failed ")
    assert (runs(plug), runs(shelly)) == ("14.1.0", "1.7.1")
