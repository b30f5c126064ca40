"""Devices behind a bridge: proposed by its list, admitted, commanded, gone with it, and followed by name."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from pydantic import JsonValue

from edgeagent.contracts.actions import ActionName, Arguments
from edgeagent.contracts.policy import Level
from edgeagent.contracts.receipt import Outcome, Receipt
from edgeagent.ids import DeviceId
from firmware_sim.journal import What
from tests.firmware_sim.peer import Peer
from tests.support.agents_venue import BRIDGE, Venue
from tests.support.brokers import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.requirement("M1", "M2", "M4")]


def behind(place: int) -> DeviceId:
    """The address of a device of the bridge."""
    return DeviceId(f"0x{BRIDGE.lower()}{place:04x}")


PLUG, LAMP, BLIND, VALVE, SENSOR = (behind(place) for place in range(1, 6))
ALL: Final = (PLUG, LAMP, BLIND, VALVE, SENSOR)


@pytest.fixture
def venue(tmp_path: Path) -> Iterator[Venue]:
    """A venue whose only appliance is a bridge, and whose agent has admitted what is behind it."""
    with Venue(tmp_path, plugs=0, bridge=True) as made:
        made.agent.start()
        made.agent.wait_for_broker()
        for device in ALL:
            made.agent.admit(device)
        wait_until(lambda: made.cloud.has_heard, "the hub's hello at the cloud")
        until(made, online=True)
        yield made


def until(venue: Venue, *, online: bool) -> None:
    """Wait until all are there, or none."""
    wait_until(
        lambda: all(device.online is online for device in venue.agent.devices().devices),
        f"all to be {'there' if online else 'gone'}",
    )


def asks(venue: Venue, request: str, **fields: JsonValue) -> None:
    """Somebody in the venue uses the bridge's own page."""
    with Peer(venue.broker.host, venue.broker.port) as somebody:
        somebody.says(f"zigbee2mqtt/bridge/request/{request}", json.dumps(fields))


def done(venue: Venue, device: DeviceId, action: ActionName, arguments: Arguments) -> Receipt:
    """How a command ends."""
    return venue.end_of(venue.order(device, action, arguments))


def value(venue: Venue, device: DeviceId, reading: str) -> object:
    """What the hub knows of a reading."""
    known = venue.agent.device(device).readings.get(reading)
    return None if known is None else known.value


def test_a_venue_behind_a_bridge_is_read_and_commanded(venue: Venue) -> None:
    # What each can do is what the bridge says of it.
    actions = {
        device.device: [str(each) for each in device.actions] for device in venue.agent.devices().devices
    }
    assert actions == {
        PLUG: ["install", "power"],
        LAMP: ["brightness", "color_temperature", "install", "power", "scene"],
        BLIND: ["install", "position"],
        VALVE: ["install", "mode", "setpoint"],
        SENSOR: ["install"],
    }

    # Read back at once after the echo: nobody waits until the time for an answer is over.
    orders: list[tuple[DeviceId, ActionName, Arguments]] = [
        (PLUG, ActionName.POWER, {"on": True}),
        (LAMP, ActionName.BRIGHTNESS, {"level": 40}),
        (VALVE, ActionName.SETPOINT, {"celsius": 21.5}),
    ]
    for device, action, arguments in orders:
        receipt = done(venue, device, action, arguments)
        assert (receipt.outcome, receipt.level) == (Outcome.SUCCEEDED, Level.VERIFIED)
    assert value(venue, PLUG, "power") is True
    assert value(venue, LAMP, "brightness") == 40
    assert value(venue, VALVE, "setpoint") == 21.5
    assert value(venue, LAMP, "firmware") == "100"

    # The bridge goes and takes all of them along; it comes back with all of them, and tells what it knows.
    venue.unplug()
    until(venue, online=False)
    venue.plug_in()
    until(venue, online=True)
    wait_until(lambda: value(venue, SENSOR, "temperature") is not None, "what the sensor measures")

    # Another name is followed, and it stays the same device.
    asks(venue, "device/rename", **{"from": "plug", "to": "bar/plug 1"})
    wait_until(
        lambda: venue.agent.device(PLUG).parameters["friendly_name"] == "bar/plug 1",
        "the name to be followed",
    )
    assert done(venue, PLUG, ActionName.POWER, {"on": True}).outcome is Outcome.SUCCEEDED
    told = {line.details["action"] for line in venue.journal() if line.what is What.EFFECT}
    assert {"power", "brightness", "setpoint"} <= told

    assert venue.agent.stop() == 0
    assert venue.audit_break() is None


def test_a_blind_is_moved_and_a_sensor_has_nothing_to_be_told(venue: Venue) -> None:
    moved = done(venue, BLIND, ActionName.POSITION, {"percent": 30})
    refused = done(venue, SENSOR, ActionName.POWER, {"on": True})

    assert (moved.outcome, value(venue, BLIND, "position")) == (Outcome.SUCCEEDED, 30)
    assert refused.outcome is Outcome.REFUSED


def test_a_device_that_is_removed_from_the_bridge_is_proposed_no_more(tmp_path: Path) -> None:
    with Venue(tmp_path, plugs=0, bridge=True) as venue:
        venue.agent.start()
        venue.agent.wait_for_broker()
        wait_until(
            lambda: {each.device for each in venue.agent.devices().proposals} == set(ALL),
            "all to be proposed",
        )

        asks(venue, "device/remove", id="blind")

        wait_until(
            lambda: {each.device for each in venue.agent.devices().proposals} == {*ALL} - {BLIND},
            "it to be proposed no more",
        )
