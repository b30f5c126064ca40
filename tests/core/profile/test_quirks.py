"""Every recorded oddity of a real device comes to what it should.

The lines of ``tests/vectors/quirks.jsonl`` that are one message. Those of families that are not shipped
yet run on small profiles of the tests, which shows that the format carries them.
"""

from collections.abc import Callable

import pytest

from edgeagent.contracts.reasons import Reason
from edgeagent.core.profile.compile import CompiledDevice
from edgeagent.core.profile.match import Matcher, Proposal
from tests.core.profile.building import family, made, shelly, tasmota
from tests.core.profile.quirks import quirks

pytestmark = pytest.mark.requirement("M1", "M6")

Making = Callable[[], CompiledDevice]


def meter() -> CompiledDevice:
    return made(family("meter"), "meter-a")


def zigbee(name: str) -> CompiledDevice:
    return made(family("zigbee2mqtt"), "0x00158d0001", friendly_name=name)


def hisense() -> CompiledDevice:
    return made(family("hisense"), "tv-1", peer="HomeAssistant")


def gen1() -> CompiledDevice:
    return made(family("shelly-gen1"), "sh-a", id_text="sh-a")


UNKNOWN: dict[str, object] = {}

# id, device, readings, values dropped, problem
CASES: list[tuple[str, Making, dict[str, object], int, Reason | None]] = [
    ("form-on", tasmota, {"power": True}, 0, None),
    ("form-power-case", tasmota, {"power": True}, 0, None),
    ("form-power1", lambda: tasmota(relays=[1, 2]), {"power.1": True, "power.2": False}, 0, None),
    ("form-NaN-py", tasmota, UNKNOWN, 1, Reason.UNUSABLE_VALUE),
    ("form-inf", tasmota, UNKNOWN, 1, Reason.UNUSABLE_VALUE),
    ("form-None", lambda: made(family("esphome"), "n", prefix="node-a"), UNKNOWN, 0, None),
    ("form-comma", meter, UNKNOWN, 1, Reason.UNUSABLE_VALUE),
    ("form-underscore", meter, UNKNOWN, 1, Reason.UNUSABLE_VALUE),
    ("form-arabic", meter, UNKNOWN, 1, Reason.UNUSABLE_VALUE),
    ("form-hex", meter, UNKNOWN, 1, Reason.UNUSABLE_VALUE),
    ("form-bool-word", meter, {"flag": False}, 0, None),
    ("form-xml", meter, UNKNOWN, 0, None),
    ("form-png", meter, UNKNOWN, 0, None),
    ("form-trailing", tasmota, UNKNOWN, 0, None),
    (
        "form-unquoted",
        lambda: made(family("smarthome"), "x", base="lgtv", item="x"),
        UNKNOWN,
        0,
        Reason.INVALID_PAYLOAD,
    ),
    ("form-dupkey", tasmota, UNKNOWN, 0, Reason.INVALID_PAYLOAD),
    ("form-bigint", tasmota, UNKNOWN, 0, None),
    ("form-int64", tasmota, UNKNOWN, 0, None),
    ("form-u0000", lambda: zigbee("lamp"), {"maker": "Acme"}, 0, None),
    ("form-latin1", tasmota, UNKNOWN, 0, None),
    ("form-bom", tasmota, UNKNOWN, 0, Reason.INVALID_PAYLOAD),
    ("form-utf16", tasmota, UNKNOWN, 0, Reason.INVALID_UTF8),
    ("val-null", lambda: zigbee("trv-a"), UNKNOWN, 0, None),
    ("val-dict", tasmota, {"energy.phase1": 0.1, "energy.phase2": 0.2}, 0, None),
    (
        "val-string-number",
        lambda: made(family("denon"), "avr", name="avr"),
        {"volume": 50.5, "loudest": 98},
        1,
        None,
    ),
    ("val-minus1", gen1, UNKNOWN, 0, None),
    ("val-overpower", gen1, {"fault": "overpower"}, 0, None),
    ("val-kelvin", tasmota, {"temperature.t": 22.5}, 0, None),
    ("val-time-local", tasmota, {"temperature.t": 1}, 0, None),
    ("val-time-dots", tasmota, UNKNOWN, 0, None),
    ("val-uptime", tasmota, UNKNOWN, 0, None),
    ("val-ver-suffix", tasmota, {"firmware": "14.1.0(release-tasmota)"}, 0, None),
    ("val-sleep0", hisense, {"power": False}, 0, None),
    ("val-source-text", hisense, {"power": True, "input": "HDMI1"}, 0, None),
    ("val-tvsleep-empty", hisense, {"power": False}, 0, None),
    ("val-hotel", hisense, UNKNOWN, 0, None),
    ("val-ver-minus1", lambda: zigbee("plug-b"), UNKNOWN, 0, None),
    ("val-linkquality", lambda: zigbee("btn"), {"link_quality": 0}, 0, None),
    (
        "top-space",
        lambda: made(family("smarthome"), "x", base="hm", item="Light Kitchen Front Left/LEVEL"),
        {"level": 0.5},
        0,
        None,
    ),
    ("top-leading", hisense, {"power": True}, 0, None),
    ("top-double", meter, UNKNOWN, 0, None),
    ("top-long", meter, UNKNOWN, 0, None),
    ("top-set-suffix", lambda: zigbee("set"), UNKNOWN, 0, None),
    ("ret-cmd", tasmota, UNKNOWN, 0, Reason.RETAINED_COMMAND),
    ("ret-state-old", hisense, {"power": True}, 0, None),
]

# Told by tests of their own, below.
ALONE = {"size-discovery", "val-ver-shelly", "ret-poison"}
# Homie's escaping comes with Homie.
LATER = {"form-nul"}


def test_no_recorded_oddity_is_forgotten() -> None:
    assert {case[0] for case in CASES} | ALONE | LATER == quirks().keys()


@pytest.mark.parametrize(
    ("quirk", "making", "expected", "unusable", "problem"),
    [pytest.param(*case, id=case[0]) for case in CASES],
)
def test_a_recorded_oddity_comes_to_what_it_should(
    quirk: str, making: Making, expected: dict[str, object], unusable: int, problem: Reason | None
) -> None:
    message, device = quirks()[quirk], making()

    decoded = device.decode(message.topic, message.payload, retained=message.retain)

    assert dict(decoded.readings) == expected, message.expect
    assert (decoded.unusable, decoded.problem) == (unusable, problem), message.expect


@pytest.mark.parametrize("quirk", ["form-bigint", "form-int64"])
def test_a_number_beyond_64_bits_is_unknown_and_its_siblings_survive(quirk: str) -> None:
    device = made(family("denon"), "avr", name="avr")
    number = quirks()[quirk].payload.removeprefix(b'{"v":').removesuffix(b"}")

    decoded = device.decode(
        "denon/avr/main_zone/state", b'{"state":{"volume":%b,"max_volume":98}}' % number, retained=False
    )

    assert dict(decoded.readings) == {"loudest": 98}
    assert decoded.unusable == 2


def test_a_topic_with_a_leading_slash_is_another_than_the_one_without() -> None:
    message = quirks()["top-leading"]

    decoded = hisense().decode(message.topic.removeprefix("/"), message.payload, retained=False)

    assert decoded.readings == []


def test_a_list_beyond_the_limit_is_dropped_whole() -> None:
    message = quirks()["size-discovery"]
    device = zigbee("bridge/devices")

    decoded = device.decode(message.topic, message.payload, retained=False)

    assert (decoded.readings, decoded.document, decoded.problem) == ([], None, Reason.TOO_LARGE)


def test_a_malformed_payload_is_no_document_so_that_no_step_is_confirmed_by_it() -> None:
    message = quirks()["form-trailing"]

    decoded = tasmota().decode("stat/plug-a/RESULT", message.payload, retained=False)

    assert (decoded.document, decoded.problem) == (None, Reason.INVALID_PAYLOAD)


def test_an_announced_version_is_kept_as_it_is() -> None:
    message = quirks()["val-ver-shelly"]

    found = Matcher([family("shelly-gen1")]).match(message.topic, message.payload)

    assert isinstance(found, Proposal)
    assert found.firmware == "20230913-113421/v1.14.0-gcb84623"


def test_a_poisoned_announcement_of_another_system_is_not_evaluated() -> None:
    message = quirks()["ret-poison"]

    found = Matcher([family("tasmota"), family("shelly-gen2")]).match(message.topic, message.payload)

    assert found is None


def test_a_version_that_is_null_for_a_moment_disturbs_nothing() -> None:
    decoded = shelly().decode(f"{shelly().device}/status/sys", b'{"available_updates":null}', retained=False)

    assert (decoded.readings, decoded.problem, decoded.unusable) == ([], None, 0)
