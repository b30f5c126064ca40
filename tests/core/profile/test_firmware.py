"""The firmware section of a profile: checked when it is loaded, compiled into the plan of one update."""

import json
from datetime import timedelta

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.sources import Value
from edgeagent.core.profile.compile import CompiledDevice
from edgeagent.core.profile.facts import Facts
from edgeagent.core.profile.load import load
from edgeagent.core.shadow import Shadow, TelemetryReading
from edgeagent.core.updating import Running
from edgeagent.core.versions import Order, compare
from edgeagent.errors import MalformedError
from edgeagent.ids import ReadingName
from tests.core.profile.building import FAMILIES, family, made, shelly, tasmota, thing

pytestmark = [pytest.mark.requirement("M1"), pytest.mark.requirement("F4")]

URL = "http://192.0.2.1:8070/f/0123456789abcdef"
INSTALL = {"artifact": "player-2.0.0", "digest": "2" * 64}
PLAYER = (FAMILIES / "url-and-progress.toml").read_text("utf-8")


def player() -> CompiledDevice:
    """A player that is given an address."""
    return made(family("url-and-progress"), "p-1")


def test_a_tasmota_is_given_the_address_and_then_told_to_fetch() -> None:
    plan = tasmota().firmware(url=URL, version="14.1.0", number=7)

    assert [(step.name, step.topic, step.payload) for step in plan.steps] == [
        ("address", "cmnd/plug-a/OtaUrl", URL.encode()),
        ("upgrade", "cmnd/plug-a/Upgrade", b"1"),
    ]
    assert [step.returns for step in plan.steps] == [None, timedelta(minutes=5)]
    assert (tasmota().cancel(number=7), plan.parent) == (None, None)
    assert plan.verification.reading == "firmware"


def test_a_shelly_is_told_by_one_request_with_our_number() -> None:
    (step,) = shelly().firmware(url=URL, version="1.4.2", number=7).steps

    assert json.loads(step.payload) == {
        "id": 7,
        "src": "edgeagent/hub-1/shellyplus1pm-a8032abe54dc",
        "method": "Shelly.Update",
        "params": {"url": URL},
    }


def test_each_message_of_an_update_has_a_number_of_its_own() -> None:
    plan = player().firmware(url=URL, version="2.0.0", number=2**31 - 1)
    (step,), cancel = plan.steps, player().cancel(number=0)

    assert json.loads(step.payload) == {"url": URL, "version": "2.0.0", "request": 2**31 - 1}
    assert cancel is not None
    assert json.loads(cancel.payload) == {"request": 0}
    assert cancel.expectation.within == timedelta(seconds=10)


def test_a_plan_lasts_as_long_as_its_steps_and_their_returns_together() -> None:
    plan = player().firmware(url=URL, version="2.0.0", number=7)

    assert plan.lasts == timedelta(minutes=20 + 3 + 2)
    assert [(each.reading, each.at_least) for each in player().charges] == [("battery", 70)]


@pytest.mark.parametrize(
    ("battery", "why"),
    [(None, ""), (70, ""), (100, ""), (69.5, "battery is 69.5, at least 70 is needed")],
)
def test_an_update_is_refused_where_the_battery_is_known_to_be_too_low(
    battery: float | None, why: str
) -> None:
    shadow = Shadow(version=0, etag="")
    if battery is not None:
        shadow.telemetry[ReadingName("battery")] = TelemetryReading(battery, 0)

    assert Facts(player()).unfit(ActionName.INSTALL, INSTALL, shadow) == why


def test_the_same_plan_is_made_again_after_a_restart() -> None:
    first, second = (tasmota().firmware(url=URL, version="14.1.0", number=7) for _ in range(2))

    assert [(step.topic, step.payload) for step in first.steps] == [
        (step.topic, step.payload) for step in second.steps
    ]
    assert first.verification == second.verification


def test_what_answers_an_update_is_subscribed_to() -> None:
    filters = {each.filter for each in player().subscriptions}

    assert {"player/p-1/update/answer", "player/p-1/update/progress"} <= filters


@pytest.mark.parametrize(
    ("url", "words"),
    [
        pytest.param("https://192.0.2.1/f", "it fetches over http", id="TLS, which it does not speak"),
        pytest.param(
            "http://192.0.2.1/" + "x" * 84, "101 characters, of which the device holds 100", id="long"
        ),
        pytest.param("ftp://192.0.2.1/f", "it fetches over http", id="another scheme"),
        pytest.param("192.0.2.1/f", "it fetches over http", id="no scheme"),
        pytest.param("http:///f", "it fetches over http", id="no host"),
        pytest.param("http://[192.0.2.1/f", "not an address", id="half a bracket"),
        pytest.param("http://user@192.0.2.1/f", "it fetches over http", id="a user"),
        pytest.param("http://192.0.2.1/a b", "not an address", id="a space"),
        pytest.param("http://192.0.2.1/a\nUpgrade 1", "not an address", id="a line more"),
        pytest.param("http://192.0.2.1/ü", "not an address", id="no ASCII"),
    ],
)
def test_an_address_that_the_device_could_not_use_is_refused_before_anything_is_sent(
    url: str, words: str
) -> None:
    with pytest.raises(MalformedError, match=words):
        tasmota().firmware(url=url, version="14.1.0", number=7)


@pytest.mark.parametrize("version", ["", "latest", "14.1.0(minimal)", "14.1.0; rm", "1.2.3.4.5"])
def test_what_is_no_version_of_the_family_is_refused(version: str) -> None:
    with pytest.raises(MalformedError, match="is no version of tasmota"):
        tasmota().firmware(url=URL, version=version, number=7)


def test_a_family_without_the_section_is_not_updated() -> None:
    with pytest.raises(MalformedError, match="thing is not updated over the air"):
        made(thing("")).firmware(url=URL, version="1.0.0", number=7)


@pytest.mark.parametrize(
    ("device", "told", "means"),
    [
        (tasmota(), "14.1.0(release-tasmota)", Running.WANTED),
        (tasmota(), "14.1(tasmota-de)", Running.WANTED),
        (tasmota(), "14.1.0(minimal)", Running.INTERIM),
        (tasmota(), "14.1.0.2(tasmota)", Running.OTHER),
        (tasmota(), "13.4.0", Running.OTHER),
        (tasmota(), "garbage", Running.UNKNOWN),
        (shelly(), "14.1.0", Running.WANTED),
        (shelly(), "20240213-140411/14.1.0-gabc1234", Running.WANTED),
        (shelly(), "14.1.0-beta1", Running.OTHER),
        (shelly(), "14.1.0(tasmota)", Running.UNKNOWN),
        (shelly(), True, Running.UNKNOWN),
        (shelly(), None, Running.UNKNOWN),
    ],
)
def test_only_the_wanted_version_proves_an_update(
    device: CompiledDevice, told: Value | None, means: Running
) -> None:
    assert device.firmware(url=URL, version="14.1.0", number=7).verification.of(told) is means


@pytest.mark.parametrize(
    ("device", "wanted", "told", "means"),
    [
        (tasmota(), "14.1.0(tasmota)", "14.1.0(release-tasmota)", Running.WANTED),
        (tasmota(), "14.1.0(tasmota)", "14.1.0(tasmota-lite)", Running.OTHER),
        (shelly(), "1.4.0-beta2", "1.4.0-beta2", Running.WANTED),
        (shelly(), "1.4.0-beta2", "1.4.0", Running.OTHER),
    ],
)
def test_the_gate_and_the_proof_of_an_update_go_by_one_order(
    device: CompiledDevice, wanted: str, told: str, means: Running
) -> None:
    verification = device.firmware(url=URL, version=wanted, number=7).verification

    assert verification.of(told) is means
    assert (compare(told, wanted) is Order.SAME) is (means is Running.WANTED)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('scheme = "dotted"', 'scheme = "roman"', "firmware.scheme: Input should be"),
        ('running = "firmware"', 'running = "taste"', "firmware.running: no reading 'taste'"),
        ('running = "firmware"', 'running = "battery"', "firmware.running: battery is of another kind"),
        ('reading = "battery"', 'reading = "firmware"', "require[0]: firmware is of another kind"),
        ("reversible = true", 'reversible = true\noccupies = "bridge"', "occupies: not declared in shared"),
        ("reversible = true", 'reversible = true\nmodel = { parameter = "m" }', "model: no parameter 'm'"),
        ("reversible = true", "reversible = true\nmodel = {}", "exactly one of reading and parameter"),
        ('url = "{url}", ', "", "{url} stands in exactly one message"),
        ('"{version}"', '"{level}"', "nothing is called {level} here"),
        (
            'topic = "player/{topic}/update", json',
            'topic = "{url}/{topic}", json',
            "nothing is called {url} here",
        ),
        ('topic = "player/{topic}/update", json', 'topic = "player/all", json', "others would obey as well"),
        ('topic = "player/{topic}/update/progress", percent', 'topic = "all", percent', "own topic only"),
        ('percent = "$.percent"', 'percent = "$.*"', "a * stands in a pick only"),
        ('percent = "$.percent", remaining = "$.seconds"', "when = []", "percent or remaining"),
        ("progress = [{", "done_too = [{", "Extra inputs"),
        (
            'request = "{number}" } }\nconfirm = [{ topic = "player/{topic}/update/answer"',
            'a = 1 } }\nconfirm = [{ topic = "player/{topic}/update/answer"',
            "the message carries no {number} that could come back",
        ),
        ('from = [{ topic = "player/{topic}/connected" }]', "", "does not tell when it goes and comes"),
    ],
)
def test_a_mistake_is_refused_with_its_place_and_reason(old: str, new: str, words: str) -> None:
    assert old in PLAYER

    with pytest.raises(MalformedError) as why:
        load(PLAYER.replace(old, new, 1).encode())

    assert words in str(why.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("[firmware.cancel]", 'unused = "x"\n[firmware.cancel]'), "Extra inputs"),
        (('stall = "2m"\n', ""), ""),
        (('returns = "3m"\n', ""), ""),
    ],
)
def test_what_may_be_left_out_may(change: tuple[str, str], words: str) -> None:
    text = PLAYER.replace(*change, 1).encode()

    if words:
        with pytest.raises(MalformedError, match=words):
            load(text)
    else:
        assert load(text).firmware is not None


def test_a_step_that_never_ends_and_a_stall_that_nobody_sees_are_refused() -> None:
    publish = 'publish = { topic = "player/{topic}/x", empty = true }'
    step = f'[[firmware.step]]\nname = "x"\n{publish}\nwithin = "1m"\n'

    with pytest.raises(MalformedError, match="nothing says when it is over"):
        load((PLAYER + step).encode())
    with pytest.raises(MalformedError, match="a stall is seen by progress"):
        load((PLAYER + step + 'returns = "1m"\nstall = "1m"').encode())
