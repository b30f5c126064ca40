"""What messages say: documents, bare values, presence, and what is dropped whole."""

import json

import pytest

from edgeagent.contracts.mqtt import RetainHandling, Session
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.sources import ReadingKind
from edgeagent.core.profile.compile import CompiledDevice
from edgeagent.core.profile.decode import MOST_READINGS, Decoded
from edgeagent.core.profile.extraction import MOST_INSTANCES
from edgeagent.errors import MalformedError
from edgeagent.ids import ReadingName
from tests.core.profile.building import family, live, made, readings, tasmota, thing

pytestmark = pytest.mark.requirement("M1", "M6")

SENSOR = thing("""
[availability]
words = { true = "online", false = "offline" }
from = [{ topic = "{topic}/status" }]

[reading.temperature]
kind = "number"
unit = "°C"
range = [-50, 100]
from = [{ topic = "{topic}/data", pick = "$.*.temp" }, { topic = "{topic}/data", pick = "$.temps.*" }]

[reading.level]
kind = "integer"
from = [{ topic = "{topic}/data", pick = "$.level", when = ["$.type == 'full'"] }]

[reading.second]
kind = "integer"
from = [{ topic = "{topic}/data", pick = "$.list[1].v" }]

[reading.key]
kind = "text"
event = true
from = [{ topic = "{topic}/key" }]

[reading.woken]
kind = "boolean"
event = true
from = [{ topic = "{topic}/wake", const = true }]
""")


@pytest.fixture
def device() -> CompiledDevice:
    """A made-up sensor."""
    return made(SENSOR, "dev-1")


def test_a_member_gives_its_name_to_its_reading(device: CompiledDevice) -> None:
    decoded = live(device, "dev-1/data", '{"DS18B20-1":{"temp":20.5},"Kitchen Sink":{"temp":21},"n":1}')

    assert readings(decoded) == {"temperature.ds18b20-1": 20.5, "temperature.kitchen_sink": 21}


def test_a_list_numbers_its_members_from_one(device: CompiledDevice) -> None:
    decoded = live(device, "dev-1/data", '{"temps":[20,null,22.5]}')

    assert readings(decoded) == {"temperature.1": 20, "temperature.3": 22.5}


def test_two_members_with_one_name_are_one_reading_and_one_dropped(device: CompiledDevice) -> None:
    decoded = live(device, "dev-1/data", '{"A B":{"temp":1},"A_B":{"temp":2}}')

    assert readings(decoded) == {"temperature.a_b": 1}
    assert decoded.unusable == 1


@pytest.mark.requirement("R7")
def test_a_device_that_makes_up_members_gets_no_more_readings_than_are_allowed(
    device: CompiledDevice,
) -> None:
    """One that names its sensors anew in every message fills no table."""
    found: set[str] = set()
    for number in range(20 * MOST_INSTANCES):
        found |= readings(live(device, "dev-1/data", json.dumps({f"s{number}": {"temp": 1}}))).keys()

    assert len(found) == MOST_INSTANCES
    assert readings(live(device, "dev-1/data", '{"s0":{"temp":5}}')) == {"temperature.s0": 5}


@pytest.mark.requirement("R7")
def test_a_message_holds_no_more_readings_than_are_allowed() -> None:
    many = MOST_READINGS + 10
    lines = "\n".join(
        f'[reading.r{number}]\nkind = "integer"\nfrom = [{{ topic = "t", pick = "$.*.a" }}]'
        for number in range(20)
    )
    device = made(thing(lines))

    decoded = live(device, "t", json.dumps({f"m{number}": {"a": 1} for number in range(many)}))

    assert len(decoded.readings) == MOST_READINGS
    assert decoded.unusable > 0


def test_a_source_is_read_only_when_its_predicates_hold(device: CompiledDevice) -> None:
    assert readings(live(device, "dev-1/data", '{"type":"full","level":7}')) == {"level": 7}
    assert readings(live(device, "dev-1/data", '{"type":"delta","level":7}')) == {}


def test_a_place_in_a_list_is_read(device: CompiledDevice) -> None:
    assert readings(live(device, "dev-1/data", '{"list":[{"v":1},{"v":2}]}')) == {"second": 2}
    assert readings(live(device, "dev-1/data", '{"list":[{"v":1}]}')) == {}


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        pytest.param(b'{"a":1', Reason.INVALID_PAYLOAD, id="half of it"),
        pytest.param(b'{"a":1,"a":2}', Reason.INVALID_PAYLOAD, id="a key twice"),
        pytest.param(b"[" * 40 + b"]" * 40, Reason.INVALID_PAYLOAD, id="too deep"),
        pytest.param(b'{"a":"\xff"}', Reason.INVALID_UTF8, id="not UTF-8"),
        pytest.param(b"\xff\xfe{\x00", Reason.INVALID_UTF8, id="UTF-16"),
        pytest.param(b'\xef\xbb\xbf{"a":1}', Reason.INVALID_PAYLOAD, id="a byte order mark"),
        pytest.param(b"ON", Reason.INVALID_PAYLOAD, id="a word where a document is expected"),
        pytest.param(b'{"a":"' + b"x" * 20_000 + b'"}', Reason.TOO_LARGE, id="too large"),
        pytest.param(
            b'{"Power10\xf4\x02\x00\x1btele/DVES_1/STATE{"a":1}', Reason.INVALID_UTF8, id="two packets in one"
        ),
        pytest.param(b'{"a":{"temp":"warm"}}', Reason.UNUSABLE_VALUE, id="nothing of it usable"),
    ],
)
def test_a_message_that_cannot_be_read_is_dropped_whole_with_its_reason(
    device: CompiledDevice, payload: bytes, problem: Reason
) -> None:
    decoded = live(device, "dev-1/data", payload)

    assert decoded.readings == []
    assert decoded.problem is problem


def test_one_broken_value_leaves_its_siblings(device: CompiledDevice) -> None:
    decoded = live(device, "dev-1/data", '{"a":{"temp":NaN},"b":{"temp":20},"c":{"temp":9999}}')

    assert readings(decoded) == {"temperature.b": 20}
    assert (decoded.unusable, decoded.problem) == (2, None)


def test_a_document_where_a_word_is_expected_is_told(device: CompiledDevice) -> None:
    assert live(device, "dev-1/status", '{"a":1}').problem is Reason.INVALID_PAYLOAD
    assert live(device, "dev-1/status", "away").problem is Reason.UNUSABLE_VALUE


def test_space_around_a_payload_changes_nothing(device: CompiledDevice) -> None:
    assert live(device, "dev-1/status", " online\r\n").availability is True
    assert readings(live(device, "dev-1/data", ' {"type":"full","level":7}\n')) == {"level": 7}


def test_a_topic_that_is_not_the_devices_says_nothing(device: CompiledDevice) -> None:
    assert live(device, "dev-2/data", '{"level":7}') == Decoded()
    assert live(device, "", "") == Decoded()


def test_an_empty_message_is_nothing_but_where_it_is_an_event(device: CompiledDevice) -> None:
    empty, event = live(device, "dev-1/data", ""), live(device, "dev-1/wake", "")

    assert (empty.readings, empty.alive, empty.problem) == ([], False, None)
    assert readings(event) == {"woken": True}


def test_what_happened_once_is_not_told_from_a_stored_message(device: CompiledDevice) -> None:
    assert readings(live(device, "dev-1/key", "pressed")) == {"key": "pressed"}
    assert device.decode("dev-1/key", b"pressed", retained=True).readings == []
    assert device.decode("dev-1/wake", b"", retained=True).readings == []


def test_presence_is_no_reading_but_has_its_own_place(device: CompiledDevice) -> None:
    here, gone = live(device, "dev-1/status", "online"), live(device, "dev-1/status", "offline")

    assert (here.availability, gone.availability) == (True, False)
    assert here.readings == gone.readings == []
    assert (here.alive, gone.alive) == (False, False)


def test_a_live_message_overrides_a_last_will_that_comes_late() -> None:
    """The will of the old session may be told after the birth of the new one."""
    plug = tasmota()

    born, will = live(plug, "tele/plug-a/LWT", "Online"), live(plug, "tele/plug-a/LWT", "Offline")
    state = live(plug, "tele/plug-a/STATE", "{}")

    assert (born.availability, will.availability) == (True, False)
    assert (state.alive, state.availability) == (True, None)


def test_a_stored_message_proves_nothing() -> None:
    assert not tasmota().decode("tele/plug-a/STATE", b"{}", retained=True).alive


def test_telemetry_that_waited_in_the_other_session_does_not_call_a_device_back() -> None:
    assert not live(tasmota(), "tele/plug-a/SENSOR", "{}").alive


def test_a_device_that_sends_only_telemetry_is_believed_on_it() -> None:
    device = made(thing('[reading.level]\nkind = "integer"\nfrom = [{ topic = "{topic}" }]'), "t")

    assert live(device, "t", "5").alive


def test_a_bridge_that_repeats_what_it_remembers_proves_nothing() -> None:
    device = made(family("zigbee2mqtt"), "0x01", friendly_name="lamp")

    assert not live(device, "zigbee2mqtt/lamp", '{"state":"ON"}').alive
    assert live(device, "zigbee2mqtt/bridge/state", '{"state":"online"}').availability is True


@pytest.mark.requirement("M3")
@pytest.mark.parametrize(
    "topic", ["cmnd/plug-a/POWER", "cmnd/plug-a", "cmnd/tasmotas/POWER1", "cmnd/DVES_DDEEFF_fb/Restart"]
)
def test_a_stored_command_is_told_on_every_topic_on_which_it_would_act(topic: str) -> None:
    plug = tasmota(fallback="DVES_DDEEFF_fb")

    assert plug.decode(topic, b"ON", retained=True).problem is Reason.RETAINED_COMMAND
    assert plug.decode(topic, b"ON", retained=False) == Decoded()
    assert plug.decode(topic, b"", retained=True) == Decoded()
    assert plug.decode(topic, b"", retained=False) == Decoded()


@pytest.mark.requirement("M3")
def test_a_stored_message_where_state_and_command_share_a_topic_is_told_and_read() -> None:
    device = made(family("one-topic"), base="tv")

    decoded = device.decode("tv/volume", b"40", retained=True)

    assert decoded.problem is Reason.RETAINED_COMMAND
    assert readings(decoded) == {"volume": 40}


@pytest.mark.requirement("C1")
def test_what_a_command_sets_is_state_and_so_is_what_a_profile_says_is() -> None:
    plug = tasmota(light=5)

    state = {name for name in plug.readings if plug.spec(name).state}

    settable = {"power", "brightness", "color_temperature", "color"}
    assert state == settable | {"availability", "firmware", "hardware"}
    assert plug.spec(plug.availability).kind is ReadingKind.TEXT


@pytest.mark.requirement("U7")
def test_a_reading_says_how_it_is_told() -> None:
    spec = tasmota().spec(ReadingName("temperature.si7021"))

    assert (spec.unit, spec.low, spec.high, spec.state, spec.event) == ("°C", -100, 400, False, False)
    assert spec.deadband == 0.05
    with pytest.raises(MalformedError):
        tasmota().spec(ReadingName("taste"))


def test_what_can_confirm_a_command_or_tells_presence_is_of_the_control_session() -> None:
    plug = tasmota()

    control = {each.filter for each in plug.subscriptions if each.session is Session.CONTROL}
    telemetry = {each.filter for each in plug.subscriptions if each.session is Session.TELEMETRY}
    always = {each.filter for each in plug.subscriptions if each.retain_handling is RetainHandling.ALWAYS}

    assert {"tele/plug-a/LWT", "tele/plug-a/STATE", "stat/plug-a/RESULT", "stat/plug-a/POWER"} <= control
    assert "tele/plug-a/SENSOR" in telemetry
    assert not control & telemetry
    assert always == {"tele/plug-a/LWT"}


def test_answers_and_happenings_are_never_asked_of_the_brokers_store() -> None:
    handling = {str(each.filter): each.retain_handling for each in made(SENSOR, "dev-1").subscriptions}

    assert handling["dev-1/key"] is RetainHandling.NEVER
    assert handling["dev-1/data"] is RetainHandling.WHEN_NEW
