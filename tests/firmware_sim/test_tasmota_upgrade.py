"""How a Tasmota updates itself: what it tells, what it leaves out, and what runs in the end."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from firmware_sim.appliance import Appliance
from firmware_sim.board import World
from firmware_sim.faults import Fault, FaultPlan, Kind
from firmware_sim.image import Damage, Flaw
from firmware_sim.journal import Journal, Line
from firmware_sim.tasmota.settings import FlashKind, TasmotaSettings
from tests.firmware_sim.conftest import QUIET, a_tasmota, flash, in_world, runs
from tests.firmware_sim.images import a_tasmota_image
from tests.firmware_sim.peer import Message, Peer
from tests.firmware_sim.site import Site, serving
from tests.support.brokers import Mosquitto
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("F6")

TOPIC = "tasmota_C3D4E5"
RESULT = f"stat/{TOPIC}/RESULT"
OUTCOME = f"stat/{TOPIC}/UPGRADE"
INFO = f"tele/{TOPIC}/INFO1"
SMALL = TasmotaSettings(flash=FlashKind.ONE_MEGABYTE)
HURRY = replace(QUIET, transfer=timedelta(0), retry=timedelta(milliseconds=10))

Lines = Callable[..., list[Line]]


def world(broker: Mosquitto, journal: Journal, *faults: Fault) -> World:
    """A world in a hurry."""
    return in_world(broker, journal, timing=HURRY, plan=FaultPlan(faults))


def version(told: str) -> Callable[[Message], bool]:
    """Whether ``INFO1`` tells this version."""

    def fits(message: Message) -> bool:
        info = message.json["Info1"]
        return isinstance(info, dict) and info["Version"] == told

    return fits


def upgrade(peer: Peer, site: Site, name: str = "t.bin") -> None:
    """Let it fetch and install a file."""
    peer.says(f"cmnd/{TOPIC}/OtaUrl", f"{site.url}/{name}")
    peer.says(f"cmnd/{TOPIC}/Upgrade", "1")


async def test_an_upgrade_is_answered_fetched_over_http_1_0_and_told_by_the_version_after_a_reboot(
    broker: Mosquitto, peer: Peer, journal: Journal, lines: Lines
) -> None:
    async with (
        serving({"t.bin": a_tasmota_image()}) as site,
        Appliance(a_tasmota(), world(broker, journal)) as device,
    ):
        upgrade(peer, site)
        begun = await peer.hears(RESULT, lambda message: "Upgrade" in message.json)
        outcome = await peer.hears(OUTCOME)
        await peer.hears(INFO, version("14.2.0(release-tasmota)"))
        await peer.hears("tasmota/discovery/+/config", lambda message: message.json["sw"] == "14.2.0")
        await eventually(lambda: flash(device)["trial"] is False)

    assert begun.json == {"Upgrade": f"Version 14.1.0 from {site.url}/t.bin"}
    assert outcome.json == {"Upgrade": "Successful. Restarting"}
    assert site.asked == [("GET", "t.bin", None)]
    assert [(line.details["bytes"], line.details["why"]) for line in lines("download")] == [(8 * 4096, "")]
    assert runs(device) == "14.2.0"


async def test_an_upgrade_to_a_version_that_is_not_newer_is_refused_and_nothing_is_fetched(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    async with (
        serving({"t.bin": a_tasmota_image()}) as site,
        Appliance(a_tasmota(), world(broker, journal)) as device,
    ):
        peer.says(f"cmnd/{TOPIC}/OtaUrl", f"{site.url}/t.bin")
        peer.says(f"cmnd/{TOPIC}/Upgrade", "14.0.9")
        refused = await peer.hears(RESULT, lambda message: "Upgrade" in message.json)

    assert refused.json == {"Upgrade": "1 or >14.1.0 to upgrade"}
    assert (site.asked, runs(device)) == ([], "14.1.0")


async def test_a_url_of_more_than_a_hundred_characters_is_not_taken(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    async with Appliance(a_tasmota(), world(broker, journal)):
        peer.says(f"cmnd/{TOPIC}/OtaUrl", "http://192.0.2.9/" + "x" * 84)
        peer.says(f"cmnd/{TOPIC}/OtaUrl", "http://192.0.2.9/" + "x" * 83)
        await peer.hears(RESULT, lambda message: str(message.json.get("OtaUrl", "")).endswith("x" * 83))

    told = [str(message.json["OtaUrl"]) for message in peer.heard(RESULT) if "OtaUrl" in message.json]
    assert [len(url) for url in told] == [53, 100]


async def test_it_tries_five_times_and_restarts_after_the_failure_too(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    async with serving({}) as site, Appliance(a_tasmota(), world(broker, journal)) as device:
        upgrade(peer, site)
        outcome = await peer.hears(OUTCOME)
        await peer.hears(INFO, after=1)

    assert outcome.json == {"Upgrade": "Failed HTTP 404"}
    assert len(site.asked) == 5
    assert (runs(device), journal.count(device.id, "reboot")) == ("14.1.0", 1)


async def test_a_server_that_is_cut_is_asked_again_from_the_beginning(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    async with serving({"t.bin": a_tasmota_image()}) as site:
        site.cuts = 2
        async with Appliance(a_tasmota(), world(broker, journal)) as device:
            upgrade(peer, site)
            await peer.hears(INFO, version("14.2.0(release-tasmota)"))

    assert site.asked == [("GET", "t.bin", None)] * 3
    assert runs(device) == "14.2.0"


@pytest.mark.parametrize("url", ["https://192.0.2.9/t.bin", "ftp://192.0.2.9/t.bin", "nonsense"])
async def test_it_fetches_over_plain_http_only(
    broker: Mosquitto, peer: Peer, journal: Journal, url: str
) -> None:
    async with Appliance(a_tasmota(), world(broker, journal)) as device:
        peer.says(f"cmnd/{TOPIC}/OtaUrl", url)
        peer.says(f"cmnd/{TOPIC}/Upgrade", "1")
        outcome = await peer.hears(OUTCOME)

    assert str(outcome.json["Upgrade"]).startswith("Failed ")
    assert runs(device) == "14.1.0"


@pytest.mark.parametrize("damage", [Damage.MAGIC, Damage.TRUNCATED])
async def test_what_does_not_begin_or_end_as_an_image_is_refused_before_it_boots(
    broker: Mosquitto, peer: Peer, journal: Journal, damage: Damage
) -> None:
    async with (
        serving({"t.bin": a_tasmota_image(damage=damage)}) as site,
        Appliance(a_tasmota(), world(broker, journal)) as device,
    ):
        upgrade(peer, site)
        outcome = await peer.hears(OUTCOME)

    assert str(outcome.json["Upgrade"]).startswith("Failed ")
    assert runs(device) == "14.1.0"


@pytest.mark.parametrize(
    "image",
    [
        pytest.param(a_tasmota_image(damage=Damage.CHECKSUM), id="one bit wrong"),
        pytest.param(a_tasmota_image(chip="esp32"), id="for another chip"),
        pytest.param(a_tasmota_image(flaw=Flaw.CRASH), id="never comes up"),
    ],
)
async def test_what_cannot_boot_is_called_a_success_and_the_boot_falls_back(
    broker: Mosquitto, peer: Peer, journal: Journal, image: bytes
) -> None:
    async with (
        serving({"t.bin": image}) as site,
        Appliance(a_tasmota(), world(broker, journal)) as device,
    ):
        upgrade(peer, site)
        outcome = await peer.hears(OUTCOME)
        await peer.hears(INFO, version("14.1.0(release-tasmota)"), after=1)

    assert outcome.json == {"Upgrade": "Successful. Restarting"}
    assert runs(device) == "14.1.0"


async def test_one_megabyte_takes_the_minimal_image_first_and_reboots_twice(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    files = {"t.bin": a_tasmota_image(size=600_000), "t-minimal.bin": a_tasmota_image(minimal=True)}
    async with serving(files) as site, Appliance(a_tasmota(settings=SMALL), world(broker, journal)) as device:
        upgrade(peer, site)
        await peer.hears(INFO, version("14.2.0(minimal)"))
        await peer.hears(INFO, version("14.2.0(release-tasmota)"))

    assert [name for _, name, _ in site.asked] == ["t.bin", "t-minimal.bin", "t.bin"]
    assert (runs(device), journal.count(device.id, "reboot")) == ("14.2.0", 2)


async def test_one_megabyte_stays_on_the_minimal_image_when_the_full_one_never_comes(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    files = {"t.bin": a_tasmota_image(size=600_000), "t-minimal.bin": a_tasmota_image(minimal=True)}
    slow = replace(HURRY, settle=timedelta(seconds=2))
    async with (
        serving(files) as site,
        Appliance(a_tasmota(settings=SMALL), in_world(broker, journal, timing=slow)),
    ):
        upgrade(peer, site)
        await peer.hears(INFO, version("14.2.0(minimal)"))
        del site.files["t.bin"]
        outcome = await peer.hears(OUTCOME, lambda message: "Failed" in message.text)
        await peer.hears(INFO, version("14.2.0(minimal)"), after=1)

    assert outcome.json == {"Upgrade": "Failed HTTP 404"}


async def test_a_power_cut_on_the_minimal_image_makes_it_forget_the_full_one(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    files = {"t.bin": a_tasmota_image(size=600_000), "t-minimal.bin": a_tasmota_image(minimal=True)}
    slow = replace(HURRY, settle=timedelta(seconds=2))
    async with (
        serving(files) as site,
        Appliance(a_tasmota(settings=SMALL), in_world(broker, journal, timing=slow)) as device,
    ):
        upgrade(peer, site)
        await peer.hears(INFO, version("14.2.0(minimal)"))
        device.reboot()
        await peer.hears(INFO, version("14.2.0(minimal)"), after=1)
        await peer.hears("tasmota/discovery/+/config")

    assert [name for _, name, _ in site.asked] == ["t.bin", "t-minimal.bin"]


async def test_an_unstable_firmware_tells_its_version_and_keeps_rebooting(
    broker: Mosquitto, peer: Peer, journal: Journal
) -> None:
    async with (
        serving({"t.bin": a_tasmota_image(flaw=Flaw.UNSTABLE)}) as site,
        Appliance(a_tasmota(), world(broker, journal)) as device,
    ):
        upgrade(peer, site)
        await peer.hears(INFO, version("14.2.0(release-tasmota)"), after=2)

    assert journal.count(device.id, "reboot") >= 3


@pytest.mark.parametrize(
    ("kind", "running", "told"),
    [(Kind.TELLS_NEW, "14.1.0", "14.2.0"), (Kind.TELLS_OLD, "14.2.0", "14.1.0")],
)
async def test_a_liar_tells_one_version_and_runs_another(
    broker: Mosquitto, peer: Peer, journal: Journal, kind: Kind, running: str, told: str
) -> None:
    async with (
        serving({"t.bin": a_tasmota_image()}) as site,
        Appliance(a_tasmota(), world(broker, journal, Fault(kind=kind))) as device,
    ):
        upgrade(peer, site)
        await peer.hears(OUTCOME)
        info = await peer.hears(INFO, after=1)

    assert version(f"{told}(release-tasmota)")(info)
    assert runs(device) == running
