"""Announcements: what a device says of itself is proposed as far as it fits, and no further."""

import json

import pytest

from edgeagent.contracts.mqtt import RetainHandling, Session
from edgeagent.core.profile.compile import compile_device
from edgeagent.core.profile.match import Announced, Matcher, Proposal, Removal, covers
from tests.core.profile.building import GATEWAY, PLUG, SHELLY, family, thing

pytestmark = [pytest.mark.requirement("M4"), pytest.mark.requirement("M1")]

MATCHER = Matcher([family("tasmota"), family("shelly-gen2")])
CONFIG: dict[str, object] = {
    "ip": "192.0.2.7",
    "dn": "Coffee machine",
    "fn": ["Coffee machine", None],
    "hn": "tasmota-DDEEFF-3567",
    "mac": PLUG,
    "md": "Sonoff Basic",
    "ty": 0,
    "if": 0,
    "ofln": "Offline",
    "onln": "Online",
    "state": ["OFF", "ON", "TOGGLE", "HOLD"],
    "sw": "14.1.0",
    "t": "tasmota_DDEEFF",
    "ft": "%prefix%/%topic%/",
    "tp": ["cmnd", "stat", "tele"],
    "rl": [1, 0, 0, 0, 0, 0, 0, 0],
    "swc": [-1, -1],
    "btn": [0, 0],
    "so": {"4": 0, "11": 0, "13": 0},
    "lk": 0,
    "lt_st": 0,
    "ver": 1,
}


def announced(**changes: object) -> Announced | None:
    """What becomes of a Tasmota announcement that differs from an ordinary one in this."""
    return MATCHER.match(f"tasmota/discovery/{PLUG}/config", json.dumps(CONFIG | changes).encode())


def proposed(**changes: object) -> Proposal:
    """The proposal that comes of it."""
    found = announced(**changes)
    assert isinstance(found, Proposal)
    return found


def test_a_tasmota_proposes_itself_with_all_that_its_profile_needs() -> None:
    found = proposed()

    assert (found.device, found.profile, found.label) == (PLUG, "tasmota", "Coffee machine")
    assert (found.model, found.firmware) == ("Sonoff Basic", "14.1.0")
    assert found.parameters == {
        "topic": "tasmota_DDEEFF",
        "cmnd": "cmnd/tasmota_DDEEFF",
        "stat": "stat/tasmota_DDEEFF",
        "tele": "tele/tasmota_DDEEFF",
        "group": "cmnd/tasmotas",
        "fallback": "DVES_DDEEFF_fb",
        "relays": [1],
        "light": 0,
        "own_topics": False,
        "model": "Sonoff Basic",
        "on_word": "ON",
        "off_word": "OFF",
        "online_word": "Online",
        "offline_word": "Offline",
    }


def test_what_is_proposed_can_be_admitted_as_it_is() -> None:
    found = proposed(rl=[1, 2], lt_st=5)

    device = compile_device(family("tasmota"), found.device, found.parameters, gateway=GATEWAY)

    decoded = device.decode("stat/tasmota_DDEEFF/RESULT", b'{"POWER2":"ON"}', retained=False)
    assert decoded.readings == [("power.2", True)]


def test_topics_are_made_of_the_announced_full_topic_and_prefixes() -> None:
    found = proposed(ft="home//%topic%/%hostname%/%prefix%/%id%", tp=["do", "did", "says"])

    assert found.parameters["cmnd"] == f"home/tasmota_DDEEFF/tasmota-DDEEFF-3567/do/{PLUG}"
    assert found.parameters["tele"] == f"home/tasmota_DDEEFF/tasmota-DDEEFF-3567/says/{PLUG}"
    assert found.parameters["group"] == f"home/tasmotas/tasmota-DDEEFF-3567/do/{PLUG}"


def test_localised_words_are_taken_over() -> None:
    found = proposed(state=["AUS", "EIN", "UM", "HALT"], onln="Verbunden", ofln="Getrennt")

    device = compile_device(family("tasmota"), found.device, found.parameters, gateway=GATEWAY)

    assert device.decode("stat/tasmota_DDEEFF/POWER", b"EIN", retained=False).readings == [("power", True)]
    assert device.decode("tele/tasmota_DDEEFF/LWT", b"Getrennt", retained=True).availability is False


@pytest.mark.parametrize(
    ("rl", "light", "relays", "light_relay"),
    [
        ([1, 1, 0, 0], 0, [1, 2], None),
        ([2, 0, 0, 0], 3, [1], 1),
        ([1, 2, 0, 0], 1, [1, 2], 2),
        ([3, 3, 1, 0], 0, [3], None),
        ([0, 0], 0, [], None),
    ],
)
def test_relays_and_lights_are_counted_and_shutters_left_out(
    rl: list[int], light: int, relays: list[int], light_relay: int | None
) -> None:
    found = proposed(rl=rl, lt_st=light).parameters

    assert (found["relays"], found["light"], found.get("light_relay")) == (relays, light, light_relay)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"mac": "FFFFFFFFFFFF"}, id="another device's MAC address"),
        pytest.param({"ver": 2}, id="another format"),
        pytest.param({"ft": "%topic%/"}, id="commands and answers on one topic"),
        pytest.param({"t": "a/b"}, id="a topic of two levels"),
        pytest.param({"t": "+"}, id="a wildcard for a topic"),
        pytest.param({"t": "#"}, id="a wildcard for all topics"),
        pytest.param({"tp": ["#", "stat", "tele"]}, id="a wildcard for a prefix"),
        pytest.param({"tp": ["$SYS", "stat", "tele"]}, id="the broker's own topics"),
        pytest.param({"tp": "cmnd"}, id="no list of prefixes"),
        pytest.param({"ft": "%prefix%/%topic%\n"}, id="a control character"),
        pytest.param({"ft": "%prefix%/" + "%topic%/" * 40}, id="a topic that grows"),
        pytest.param({"t": "x" * 600}, id="a topic that is too long"),
        pytest.param({"state": ["ON", "\x1b"]}, id="a word that a terminal would obey"),
        pytest.param({"lt_st": 9}, id="an unknown kind of light"),
        pytest.param({"rl": [1] * 40}, id="too many relays"),
        pytest.param({"rl": 1}, id="no list of relays"),
    ],
)
def test_what_does_not_fit_makes_no_proposal(changes: dict[str, object]) -> None:
    assert announced(**changes) is None


def test_a_name_for_people_is_cleaned_and_one_that_is_missing_is_the_id() -> None:
    assert proposed(dn="Bar\x1b[2J<b>").label == "Bar[2J<b>"
    assert proposed(dn="  ").label == PLUG
    assert proposed(dn=None).label == PLUG
    assert len(proposed(dn="x" * 200).label) == 64


def test_an_optional_word_that_is_empty_is_left_out_and_hinders_no_proposal() -> None:
    assert "model" not in proposed(md="").parameters


def test_an_empty_message_takes_an_announcement_back() -> None:
    assert MATCHER.match(f"tasmota/discovery/{PLUG}/config", b"") == Removal(found := proposed().device)
    assert found == PLUG
    assert MATCHER.match(f"tasmota/discovery/{PLUG}/sensors", b"") is None
    assert MATCHER.match("tasmota/discovery/+/config", b"") is None


@pytest.mark.parametrize("payload", [b"{", b"[]", b"null", b"ON", b"\xff", b'{"ver":1}', b"{" * 100])
def test_what_is_no_announcement_proposes_nothing(payload: bytes) -> None:
    assert MATCHER.match(f"tasmota/discovery/{PLUG}/config", payload) is None


def full_status(**changes: object) -> bytes:
    """A Shelly's full status, as it comes on ``events/rpc``."""
    frame = {
        "src": SHELLY,
        "dst": "x/events",
        "method": "NotifyFullStatus",
        "params": {
            "ts": 1700000000.5,
            "switch:0": {"id": 0, "output": False},
            "switch:1": {"id": 1, "output": True},
            "input:0": {"id": 0, "state": False},
            "temperature:100": {"id": 100, "tC": 20.1},
            "sys": {"mac": "A8032ABE54DC", "uptime": 5},
            "switch:x": {},
        },
    }
    return json.dumps(frame | changes).encode()


def test_a_shelly_proposes_itself_with_its_components_by_a_full_status() -> None:
    found = MATCHER.match("bar-left/events/rpc", full_status())

    assert isinstance(found, Proposal)
    assert (found.device, found.profile, found.label) == (SHELLY, "shelly-gen2", SHELLY)
    given = {name: value for name, value in found.parameters.items() if value != []}
    assert given == {"prefix": "bar-left", "switches": [0, 1], "inputs": [0], "thermometers": [100]}


@pytest.mark.parametrize(
    "payload",
    [
        full_status(method="NotifyStatus"),
        full_status(src="evil/#"),
        full_status(src=None),
        full_status(params=[]),
    ],
)
def test_a_difference_or_a_strange_frame_proposes_no_shelly(payload: bytes) -> None:
    assert MATCHER.match("bar-left/events/rpc", payload) is None


def test_what_is_listened_to_is_one_wildcard_for_each_way_of_announcing() -> None:
    assert {str(each.filter) for each in MATCHER.subscriptions} == {
        "tasmota/discovery/+/config",
        "+/events/rpc",
    }
    assert {each.session for each in MATCHER.subscriptions} == {Session.TELEMETRY}
    assert {each.retain_handling for each in MATCHER.subscriptions} == {RetainHandling.ALWAYS}


def test_a_profile_without_announcements_is_admitted_by_hand_only() -> None:
    assert Matcher([thing("")]).subscriptions == ()
    assert Matcher([]).match("a", b"{}") is None


@pytest.mark.parametrize(
    ("topic_filter", "topic", "covered"),
    [
        ("a/#", "a/b/c", True),
        ("a/#", "a", True),
        ("a/#", "ab", False),
        ("a/+/c", "a/b/c", True),
        ("a/+/c", "a//c", True),
        ("a/+", "a/b/c", False),
        ("+", "/a", False),
        ("#", "$SYS/x", False),
        ("#", "a", True),
        ("a/b", "a/b", True),
        ("a/b", "a", False),
        ("a", "a/b", False),
    ],
)
def test_a_filter_covers_what_the_standard_says(topic_filter: str, topic: str, covered: bool) -> None:  # noqa: FBT001 - a table's outcome
    assert covers(topic_filter, topic) is covered


TREE = thing("""
[parameter.lit]
type = "boolean"
optional = true

[parameter.gangs]
type = "integers"
optional = true

[parameter.kind]
type = "choice"
choices = ["new", "old"]
optional = true

[[match]]
topic = "tree/{id}"
device = "{id}"

[match.bind]
topic = "{id}"
lit = { take = "$.has", holds = ["$.name == 'light'", "$.set == true"] }
gangs = { take = "$.has", holds = ["$.set == true"], collect = "name", numbers = { left = 1, right = 2 } }
kind = { take = "$.has", collect = "name", first = { fresh = "new", stale = "old" } }
""")


def grown(has: object) -> object:
    """What is bound of a tree of abilities."""
    found = Matcher([TREE]).match("tree/x", json.dumps({"has": has}).encode())
    return {**found.parameters} if isinstance(found, Proposal) else found


def test_a_tree_of_abilities_is_searched_however_deep_and_whatever_else_is_in_it() -> None:
    deep = [{"in": [{"name": "light", "set": True}, None, 7, "light"]}, {"name": "right", "set": True}]
    old = [{"name": "stale"}, {"name": "left", "set": False}, {"name": ["light"], "set": True}]

    assert grown(deep) == {"topic": "x", "lit": True, "gangs": [2]}
    assert grown(old) == {"topic": "x", "lit": False, "gangs": [], "kind": "old"}
    assert grown([*old, {"name": "fresh"}]) == {"topic": "x", "lit": False, "gangs": [], "kind": "new"}
    assert grown(None) == {"topic": "x"}
    assert grown("light") == {"topic": "x", "lit": False, "gangs": []}
