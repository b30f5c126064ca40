"""Whatever a device can send, nothing is raised out of decoding and recognising it (SPEC M6)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.core.profile.compile import CompiledDevice
from edgeagent.core.profile.match import Inventory, Matcher
from tests.core.profile.building import family, made, shelly, tasmota

pytestmark = pytest.mark.requirement("M6")

DEVICES = [
    tasmota(light=5, relays=[1, 2], own_topics=True, fallback="DVES_DDEEFF_fb"),
    shelly(switches=[0, 1], lights=[0], covers=[0], meters=[0], clamps=[0], inputs=[0], thermometers=[100]),
    made(family("denon"), "avr", name="avr"),
    made(family("zigbee2mqtt"), "0x01", friendly_name="lamp"),
    made(family("hisense"), "tv", peer="p"),
    made(family("one-topic"), base="tv"),
]
TOPICS = [(device, str(each.filter)) for device in DEVICES for each in device.subscriptions]
KEYS = [
    "POWER",
    "POWER1",
    "Dimmer",
    "Color",
    "CT",
    "ENERGY",
    "Power",
    "Temperature",
    "TempUnit",
    "StatusSTS",
    "StatusSNS",
    "Wifi",
    "Signal",
    "params",
    "result",
    "switch:0",
    "light:0",
    "cover:0",
    "src",
    "id",
    "method",
    "events",
    "component",
    "event",
    "output",
    "state",
    "current_pos",
    "volume",
    "update",
    "x",
]
json_documents = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["ON", "F", "NotifyStatus", "NotifyEvent", str(DEVICES[1].device), "input:0"]),
    lambda child: st.lists(child, max_size=3) | st.dictionaries(st.sampled_from(KEYS), child, max_size=4),
    max_leaves=12,
)


@given(
    st.sampled_from(TOPICS),
    st.binary(max_size=200) | json_documents.map(lambda value: json.dumps(value).encode()),
    st.booleans(),
)
def test_no_bytes_on_any_topic_do_more_than_be_decoded(
    place: tuple[CompiledDevice, str],
    payload: bytes,
    retained: bool,  # noqa: FBT001 - a drawn value
) -> None:
    device, topic = place

    decoded = device.decode(topic, payload, retained=retained)

    assert decoded.unusable >= 0
    for name, value in decoded.readings:
        spec = device.spec(name)
        assert name != device.availability
        if isinstance(value, int | float) and not isinstance(value, bool):
            assert spec.low <= value <= spec.high
        json.dumps(value, allow_nan=False).encode()


@given(st.sampled_from(DEVICES), st.text(max_size=40), st.binary(max_size=40), st.booleans())
def test_no_topic_does_more_than_be_passed_over(
    device: CompiledDevice,
    topic: str,
    payload: bytes,
    retained: bool,  # noqa: FBT001 - a drawn value
) -> None:
    decoded = device.decode(topic, payload, retained=retained)

    assert decoded.readings == [] or any(each.filter == topic for each in device.subscriptions)


MATCHER = Matcher([family(name) for name in ("tasmota", "shelly-gen2", "shelly-gen1", "zigbee2mqtt")])


@given(
    st.sampled_from(
        [
            "tasmota/discovery/AABBCCDDEEFF/config",
            "x/events/rpc",
            "shellies/announce",
            "zigbee2mqtt/bridge/devices",
        ]
    )
    | st.text(max_size=40),
    st.binary(max_size=100)
    | st.dictionaries(
        st.sampled_from(
            ["mac", "ver", "ft", "tp", "t", "rl", "so", "state", "method", "src", "params", "id", "fw_ver"]
        ),
        json_documents
        | st.sampled_from([1, "AABBCCDDEEFF", "%prefix%/%topic%/", ["cmnd", "stat", "tele"], "shelly1"]),
        max_size=10,
    ).map(lambda value: json.dumps(value).encode()),
)
def test_no_announcement_does_more_than_be_passed_over(topic: str, payload: bytes) -> None:
    found = MATCHER.match(topic, payload)

    assert found is None or isinstance(found, Inventory) or found.device
