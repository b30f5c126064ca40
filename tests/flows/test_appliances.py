"""What a device is for the gate: its model, hardware and version, from where its family tells them."""

from ipaddress import ip_address
from pathlib import Path

import pytest

from edgeagent.core.gate.world import Appliance
from edgeagent.flows.appliances import address_of, appliance_of
from edgeagent.ids import device_id, label
from tests.flows.building import new_hub

pytestmark = pytest.mark.requirement("F1", "V3")

PLUG = device_id("plug")


@pytest.mark.parametrize(
    ("profile", "parameters", "said", "expected"),
    [
        pytest.param(
            *("zigbee2mqtt", {"friendly_name": "lamp", "model": "TS011F"}, {}),
            Appliance(family="zigbee2mqtt", model="TS011F"),
            id="its model from the list of its bridge",
        ),
        pytest.param(
            *("zigbee2mqtt", {"friendly_name": "lamp"}),
            {"zigbee2mqtt/lamp": b'{"update":{"installed_version":192}}'},
            Appliance(family="zigbee2mqtt", version="192"),
            id="a model that nobody tells is none",
        ),
        pytest.param(
            *("tasmota", {"topic": "plug", "model": "PM-1"}),
            {"stat/plug/STATUS2": b'{"StatusFWR":{"Version":"14.1.0(tasmota)","Hardware":"ESP32-D0WD"}}'},
            Appliance(family="tasmota", model="PM-1", hardware="ESP32-D0WD", version="14.1.0(tasmota)"),
            id="the rest from its readings",
        ),
    ],
)
async def test_a_device_is_what_its_family_says_where_to_look_for(
    tmp_path: Path,
    profile: str,
    parameters: dict[str, str],
    said: dict[str, bytes],
    expected: Appliance,
) -> None:
    async with new_hub(tmp_path) as hub:
        device = await hub.devices.admit(PLUG, profile, dict(parameters), label("x"), actor="uid:0 root")

        for topic, payload in said.items():
            hub.bus.delivers(topic, payload)
        await hub.settles()

        assert appliance_of(device) == expected


TASMOTA = b'{"StatusNET":{"IPAddress":"%s"}}'
SHELLY = b'{"src":"plug","method":"%s","params":{"wifi":{"sta_ip":%s}}}'


@pytest.mark.requirement("F3")
@pytest.mark.parametrize(
    ("profile", "topic", "payload", "expected"),
    [
        ("tasmota", "stat/plug/STATUS5", TASMOTA % b"192.0.2.8", "192.0.2.8"),
        ("tasmota", "tele/plug/INFO2", b'{"Info2":{"IPAddress":"192.0.2.8"}}', "192.0.2.8"),
        ("tasmota", "stat/plug/STATUS5", TASMOTA % b"::ffff:192.0.2.8", "192.0.2.8"),
        ("tasmota", "stat/plug/STATUS5", TASMOTA % b"fe80::8%eth0", "fe80::8"),
        ("tasmota", "stat/plug/STATUS5", TASMOTA % b"0.0.0.0", None),
        ("tasmota", "stat/plug/STATUS5", TASMOTA % b"(IP unset)", None),
        ("tasmota", "stat/plug/STATUS5", TASMOTA % b"224.0.0.1", None),
        ("tasmota", "stat/plug/STATUS2", b'{"StatusFWR":{"Version":"14.1.0"}}', None),
        ("shelly-gen2", "plug/events/rpc", SHELLY % (b"NotifyFullStatus", b'"192.0.2.7"'), "192.0.2.7"),
        ("shelly-gen2", "plug/events/rpc", SHELLY % (b"NotifyFullStatus", b"null"), None),
        ("shelly-gen2", "plug/events/rpc", SHELLY % (b"NotifyEvent", b'"192.0.2.7"'), None),
        ("zigbee2mqtt", "zigbee2mqtt/plug", b'{"address":"192.0.2.7"}', None),
    ],
)
async def test_where_a_device_says_that_it_stands_is_known_if_it_can_be(
    tmp_path: Path, profile: str, topic: str, payload: bytes, expected: str | None
) -> None:
    parameters = {
        "tasmota": {"topic": "plug"},
        "shelly-gen2": {"prefix": "plug"},
        "zigbee2mqtt": {"friendly_name": "plug"},
    }
    async with new_hub(tmp_path) as hub:
        device = await hub.devices.admit(
            PLUG, profile, dict(parameters[profile]), label("x"), actor="uid:0 root"
        )

        hub.bus.delivers(topic, payload)
        await hub.settles()

        assert address_of(device) == (None if expected is None else ip_address(expected))
