"""What a device is for the gate: its model, hardware and version, from where its family tells them."""

from pathlib import Path

import pytest

from edgeagent.core.gate.world import Appliance
from edgeagent.flows.appliances import appliance_of
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
