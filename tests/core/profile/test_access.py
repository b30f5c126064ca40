"""What a device's login may do at a broker: its own topics, written out, and nobody else's (SPEC M4, W2)."""

import json
from itertools import product

import pytest

from edgeagent.contracts.profile import DeviceProfile
from edgeagent.core.broker_rules import digest_of, rules_of
from edgeagent.core.profile.access import Access, access_before, access_of, clashes, overlap
from edgeagent.core.profile.compile import CompiledDevice
from edgeagent.core.profile.load import load
from edgeagent.errors import MalformedError
from edgeagent.ids import device_id, topic_filter
from tests.core.profile.building import GATEWAY, HEAD, PLUG, SHELLY, family, made, shelly, tasmota

pytestmark = pytest.mark.requirement("M4", "W2")


def lamp(name: str, device: str = "0x01") -> CompiledDevice:
    """A lamp behind a bridge."""
    return made(family("zigbee2mqtt"), device, friendly_name=name)


def screen(topic: str) -> CompiledDevice:
    """A screen that is updated from a URL."""
    return made(family("url-update"), "screen-1", topic=topic)


def commanded(topics: list[str], body: str) -> DeviceProfile:
    """A profile of one's own that says nothing of logins."""
    return load(f"command_topics = {json.dumps(topics)}\n{HEAD}{body}".encode())


def test_a_plug_writes_where_it_reports_and_hears_where_it_is_commanded() -> None:
    assert access_of(tasmota()) == Access(
        login=PLUG,
        device=device_id(PLUG),
        write=tuple(map(topic_filter, ("stat/plug-a/#", "tele/plug-a/#", f"tasmota/discovery/{PLUG}/#"))),
        read=(topic_filter("cmnd/plug-a/#"),),
    )


def test_a_shelly_answers_under_a_name_of_its_own() -> None:
    assert f"edgeagent/hub-1/{SHELLY}/rpc" in access_of(shelly()).write


def test_all_devices_of_a_bridge_come_with_its_login() -> None:
    assert {access_of(lamp(name)).login for name in ("kitchen", "hall/2")} == {"zigbee2mqtt"}
    several = made(family("zigbee2mqtt"), "0x02", base="home/zigbee", friendly_name="lamp")
    assert access_of(several).login == "home_zigbee"


@pytest.mark.parametrize("device", [tasmota(), shelly(), lamp("hall/2"), screen("screens/1")])
def test_all_that_the_agent_hears_of_a_device_its_login_may_write(device: CompiledDevice) -> None:
    access = access_of(device)

    for heard in device.subscriptions:
        assert any(overlap(may, heard.filter) for may in access.write), heard


@pytest.mark.parametrize("name", ["tasmota", "shelly-gen2", "zigbee2mqtt", "url-update"])
def test_wherever_a_shipped_family_is_commanded_its_login_may_hear(name: str) -> None:
    profile = family(name)
    assert profile.access is not None
    recipes = [recipe.publish.topic for recipes in profile.commands.values() for recipe in recipes]
    recipes += [question.publish.topic for question in profile.read]
    recipes += [] if profile.firmware is None else [step.publish.topic for step in profile.firmware.steps]

    for topic in recipes:
        assert any(overlap(may, topic) for may in profile.access.read), topic


def test_a_profile_that_says_nothing_of_logins_gives_what_is_listened_to_and_no_more() -> None:
    profile = commanded(
        ["{topic}/set"],
        '[reading.power]\nkind = "boolean"\nfrom = [{ topic = "{topic}/state", pick = "$.power" }]\n',
    )

    access = access_of(made(profile, "dev-1"))

    assert (access.login, access.write, access.read) == ("dev-1", ("dev-1/state",), ("dev-1/set",))
    with pytest.raises(MalformedError, match="has no \\[access\\]"):
        access_before(profile, device_id("dev-1"), {}, GATEWAY)


def test_a_login_is_made_before_its_device_is_admitted_when_its_topics_are_known() -> None:
    plug = access_before(family("tasmota"), device_id(PLUG), {"topic": "plug-a"}, GATEWAY)
    bridge = access_before(family("zigbee2mqtt"), device_id("bridge"), {}, GATEWAY)

    assert plug == access_of(tasmota())
    assert (bridge.login, bridge.write) == ("zigbee2mqtt", ("zigbee2mqtt/#",))
    with pytest.raises(MalformedError, match="need the parameter topic"):
        access_before(family("tasmota"), device_id(PLUG), {}, GATEWAY)


@pytest.mark.threat("T2")
def test_two_logins_of_which_one_could_speak_for_the_other_are_told() -> None:
    outer, inner = made(family("shelly-gen2"), "a", prefix="hall/tv"), screen("hall/tv/status")

    assert clashes([access_of(tasmota()), access_of(shelly()), access_of(screen("screens/1"))]) == []
    told, back = clashes([access_of(outer), access_of(inner)])
    assert told.startswith("a may write hall/tv/status/#, which reaches hall/tv/status/")
    assert "of screen-1" in told
    assert back.startswith("screen-1 may write hall/tv/status/")


@pytest.mark.threat("T2")
def test_one_login_is_not_of_two_bridges() -> None:
    zigbee = family("zigbee2mqtt")
    one = made(zigbee, "0x1", base="a/b", friendly_name="a")
    other = made(zigbee, "0x2", base="a_b", friendly_name="a")

    assert clashes([access_of(one), access_of(other)]) != []


@pytest.mark.parametrize("topic", [" plug", "plug "])
def test_a_topic_that_a_list_of_rules_would_read_as_another_has_no_place_in_it(topic: str) -> None:
    """Mosquitto takes the spaces away: what begins with one would be another device's."""
    reading = '[reading.power]\nkind = "boolean"\nfrom = [{ topic = "{topic}" }]\n'
    profile = commanded(["{topic}"], reading)

    with pytest.raises(MalformedError, match="begins or ends with a space"):
        access_of(made(profile, "dev-1", topic=topic))


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        ("a/b", "a/b", True),
        ("a/b", "a/c", False),
        ("a/#", "a", True),
        ("a/#", "a/b/c", True),
        ("a/+", "a/b", True),
        ("a/+", "a/b/c", False),
        ("+/b", "a/+", True),
        ("a/b/#", "a/+", True),
        ("a/b/c/#", "a/+", False),
        ("a", "a/b", False),
    ],
)
def test_filters_meet_where_a_topic_is_under_both(one: str, other: str, meet: bool) -> None:  # noqa: FBT001 - a column
    assert overlap(one, other) is meet
    assert overlap(other, one) is meet


def test_the_rules_name_each_login_once_and_give_the_agent_only_what_is_its_devices() -> None:
    everything = [access_of(device) for device in (tasmota(), lamp("a"), lamp("b", "0x02"))]

    lines = rules_of("edgeagent", ["+/events/rpc"], everything)

    assert lines == [
        "user edgeagent",
        "topic read $SYS/broker/#",
        "topic read +/events/rpc",
        "topic read stat/plug-a/#",
        f"topic read tasmota/discovery/{PLUG}/#",
        "topic read tele/plug-a/#",
        "topic readwrite cmnd/plug-a/#",
        "topic readwrite zigbee2mqtt/#",
        "",
        f"user {PLUG}",
        "topic read cmnd/plug-a/#",
        "topic write stat/plug-a/#",
        f"topic write tasmota/discovery/{PLUG}/#",
        "topic write tele/plug-a/#",
        "",
        "user zigbee2mqtt",
        "topic readwrite zigbee2mqtt/#",
    ]


def test_the_digest_of_a_devices_rules_changes_with_them_and_with_nothing_else() -> None:
    devices = [tasmota(), tasmota(topic="plug-b"), tasmota(relays=[1, 2]), shelly()]
    digests = [digest_of(access_of(device)) for device in devices]

    assert digests[0] == digests[2]
    assert all(a != b for a, b in product(digests[:1], digests[1::2]))
