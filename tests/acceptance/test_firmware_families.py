"""Updates family by family, by the real agent and its worker: whatever is told, the version decides."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest
from pydantic import JsonValue

from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome, Receipt
from edgeagent.issuer.commands import SignedCommand
from firmware_sim.display.image import made as made_display
from firmware_sim.image import SECTOR, Family, Label, Order
from firmware_sim.journal import What
from firmware_sim.zigbee2mqtt.models import BORN, ZigbeeModel
from tests.firmware_sim.images import PUBLIC, a_shelly_image, a_zigbee_image
from tests.support.agents_updates import Released, UpdatingVenue
from tests.support.brokers import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.requirement("F4", "S2", "W1")]

BRIDGE: Final = "02A1B2000201"
LAMP, OTHER, STALLED, RESTARTED, LOW = (f"0x{BRIDGE.lower()}{place:04x}" for place in range(1, 6))

RELAY: Final = Released(name="relay-1.7.2", image=a_shelly_image(), family="shelly-gen2", version="1.7.2")
BEFORE: Final = Released(
    name="relay-1.7.1", image=a_shelly_image("1.7.1"), family="shelly-gen2", version="1.7.1"
)
MISNAMED: Final = Released(
    name="relay-1.7.9", image=a_shelly_image("1.7.3"), family="shelly-gen2", version="1.7.9"
)


def a_display_image(version: str) -> bytes:
    """For a display."""
    label = Label(family=Family.DISPLAY, model="display", hardware="1", version=version)
    return made_display(Order(label=label, size=8 * SECTOR))


PICTURE: Final = Released(
    name="picture-1.1.0", image=a_display_image("1.1.0"), family="url-update", version="1.1.0"
)
BULB: Final = Released(name="bulb-192", image=a_zigbee_image(), family="zigbee2mqtt", version="192")
SOCKET: Final = Released(
    name="socket-192",
    image=a_zigbee_image(kind=BORN[ZigbeeModel.PLUG].kind),
    family="zigbee2mqtt",
    version="192",
)
VALVE: Final = Released(
    name="valve-192",
    image=a_zigbee_image(kind=BORN[ZigbeeModel.THERMOSTAT].kind),
    family="zigbee2mqtt",
    version="192",
)


def relay(place: int) -> str:
    """The id of a Shelly plug."""
    return f"shellyplugsg3-{mac(place).lower()}"


def display(place: int) -> str:
    """The id of a display."""
    return f"display-{mac(place).lower()}"


def mac(place: int) -> str:
    """Of an appliance."""
    return f"02A1B2{place:06X}"


def fault(appliance: str, kind: str, **more: JsonValue) -> dict[str, JsonValue]:
    """That this goes wrong with an appliance."""
    return {"fault": kind, "appliance": appliance, **more}


def ends(venue: UpdatingVenue, orders: Mapping[str, SignedCommand]) -> dict[str, Receipt]:
    """How all of these end."""
    return {device: venue.end_of(order) for device, order in orders.items()}


def runs(venue: UpdatingVenue, appliance: str, part: str = "flash") -> object:
    """What truly runs on a device."""
    flash = venue.fleet.state(appliance)["flash"]
    assert isinstance(flash, dict)
    held = flash[part]
    assert isinstance(held, dict)
    running = held["running"]
    assert isinstance(running, dict)
    return running["version"]


def told(venue: UpdatingVenue, ending: str) -> int:
    """How many messages the appliances heard on such a topic."""
    return sum(
        line.what is What.HEARD and str(line.details.get("topic", "")).endswith(ending)
        for line in venue.journal()
    )


def cancels(venue: UpdatingVenue, order: SignedCommand) -> tuple[int, str]:
    """Somebody at the hub calls it off."""
    said = venue.agent.run("firmware", "cancel", order.command.id, "--reason", "guests are here")
    return said.returncode, said.stdout + said.stderr


@pytest.mark.requirement("F6", "F3")
def test_devices_that_fetch_by_themselves_end_by_the_version_that_runs(tmp_path: Path) -> None:
    good, loops, strays = relay(1), relay(2), relay(3)
    back, cut, stopped = display(11), display(12), display(13)
    places = {good: 1, loops: 2, strays: 3, back: 11, cut: 12, stopped: 13}
    appliances: list[dict[str, JsonValue]] = [
        {"model": "shelly-plug" if device.startswith("shelly") else "display", "mac": mac(place)}
        for device, place in places.items()
    ]
    faults = [
        fault(good, "early_success"),
        fault(loops, "boot_loop"),
        fault(back, "progress_back", percent=60),
        fault(cut, "wifi_lost", percent=40),
        fault(stopped, "stall", percent=40),
    ]
    images = [RELAY, BEFORE, MISNAMED, PICTURE]
    with UpdatingVenue(
        tmp_path, appliances=appliances, images=images, faults=faults, maker=PUBLIC, soak="1s"
    ) as venue:
        venue.open()
        for device in places:
            if device.startswith("shelly"):
                venue.agent.admit_by_hand(device, "shelly-gen2", switches=[0])
            else:
                venue.agent.admit_by_hand(device, "url-update", topic=f"display/{device}")
        wait_until(lambda: all(venue.agent.device(device).online for device in places), "the devices")
        wait_until(lambda: venue.cloud.has_heard, "the hub's hello at the cloud")

        wanted = {good: RELAY, loops: RELAY, strays: MISNAMED, back: PICTURE, cut: PICTURE, stopped: PICTURE}
        orders = {device: venue.installs(device, image.name) for device, image in wanted.items()}
        wait_until(lambda: "installing" in venue.stages(orders[stopped]), "the update to stall")
        called_off = cancels(venue, orders[stopped])
        found = ends(venue, orders)

        outcomes = {device: receipt.outcome for device, receipt in found.items()}
        assert outcomes == {
            good: Outcome.SUCCEEDED,
            loops: Outcome.FAILED,
            strays: Outcome.ROLLED_BACK,
            back: Outcome.SUCCEEDED,
            cut: Outcome.SUCCEEDED,
            stopped: Outcome.FAILED,
        }, found
        assert [runs(venue, device) for device in (good, loops, strays)] == ["1.7.2", "1.7.1", "1.7.1"]
        assert [runs(venue, device) for device in (back, cut, stopped)] == ["1.1.0", "1.1.0", "1.0.0"]
        # What strays is told twice: there, and back. A fetch that was cut goes on where it was.
        assert told(venue, "/update/set") == 3
        resumed = [line for line in venue.journal() if line.what is What.DOWNLOAD and line.details["begin"]]
        assert cut in {line.appliance for line in resumed}
        assert (called_off[0], "it says that it stops" in called_off[1]) == (0, True), called_off[1]
        assert found[stopped].detail == "it runs 1.0.0, as before: cancelled"


@pytest.fixture
def bridged(tmp_path: Path) -> Iterator[UpdatingVenue]:
    """A venue with a bridge, behind which two lamps will be well and two plugs will stall."""
    models = {LAMP: "lamp", OTHER: "lamp", STALLED: "plug", RESTARTED: "plug", LOW: "thermostat"}
    devices: list[JsonValue] = [
        {"ieee": ieee, "model": f"zigbee-{model}", "name": f"bar {model} {ieee[-1]}", "battery": 40}
        for ieee, model in models.items()
    ]
    faults = [fault("*", "stall", part=part, percent=30) for part in (STALLED, RESTARTED)]
    appliances: list[dict[str, JsonValue]] = [
        {"model": "zigbee2mqtt", "mac": BRIDGE, "settings": {"devices": devices}}
    ]
    with UpdatingVenue(
        tmp_path, appliances=appliances, images=[BULB, SOCKET, VALVE], faults=faults, soak="1s"
    ) as made:
        made.opens(*models)
        yield made


def test_behind_a_bridge_one_after_the_other_is_updated_called_off_and_ends_when_it_restarts(
    bridged: UpdatingVenue,
) -> None:
    venue = bridged
    # Both lamps at once: the bridge would refuse the second one.
    lamps = {device: venue.installs(device, BULB.name) for device in (LAMP, OTHER)}
    low = venue.installs(LOW, VALVE.name)
    updated, refused = ends(venue, lamps), venue.end_of(low)

    stalled = venue.installs(STALLED, SOCKET.name)
    wait_until(lambda: "installing" in venue.stages(stalled), "the first plug to stall")
    status, said = cancels(venue, stalled)
    aborted = venue.end_of(stalled)

    restarted = venue.installs(RESTARTED, SOCKET.name)
    wait_until(lambda: "installing" in venue.stages(restarted), "the second plug to stall")
    venue.fleet.does("reboot")
    forgotten = venue.end_of(restarted)

    assert [(end.outcome, end.detail) for end in updated.values()] == [
        (Outcome.SUCCEEDED, "100 to 192"),
        (Outcome.SUCCEEDED, "100 to 192"),
    ]
    assert (refused.outcome, refused.reason) == (Outcome.REFUSED, Reason.UNFIT_STATE)
    assert refused.detail == "battery is 40, at least 70 is needed"
    assert (status, "it says that it stops" in said) == (0, True), said
    assert (aborted.outcome, forgotten.outcome) == (Outcome.FAILED, Outcome.FAILED)
    assert aborted.detail is not None
    assert aborted.detail.endswith("failed (Aborted)")
    assert forgotten.detail is not None
    assert forgotten.detail.startswith("it runs 100, as before")
    assert "the bridge" in forgotten.detail
    bridge = str(venue.fleet.appliances[0]["id"])
    assert [runs(venue, bridge, part) for part in (LAMP, OTHER, STALLED, RESTARTED)] == [
        *("192", "192", "100", "100")
    ]
    assert (told(venue, "/ota_update/update"), told(venue, "/update/abort")) == (4, 1)
