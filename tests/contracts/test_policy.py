"""The policy: who may sign what, without contradictions."""

import json
from datetime import timedelta
from itertools import product

import pytest
from pydantic import JsonValue

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.door import decode, encode
from edgeagent.contracts.policy import (
    POLICY_BYTES,
    Level,
    Policy,
    Role,
    RoleKind,
    Tier,
    TierRule,
    id_of_key,
)
from edgeagent.errors import MalformedError
from edgeagent.ids import DeviceId, key_id
from tests.support.keys import MemoryKey

pytestmark = pytest.mark.requirement("T2")

ALICE, TIME, MALLORY = "0a" * 32, "0b" * 32, "0c" * 32


def fields_of(**changed: JsonValue) -> dict[str, JsonValue]:
    """An ordinary policy with some fields changed; ``None`` leaves one out."""
    fields: dict[str, JsonValue] = {
        "type": "policy",
        "version": 1,
        "hubs": ["hub-1"],
        "issued_at": "2027-03-01T12:00:00Z",
        "expires_at": "2028-03-01T12:00:00Z",
        "keys": {"alice": ALICE, "clock": TIME},
        "roles": {
            "operators": {"kind": "command", "keys": ["alice"], "actions": ["power"], "devices": "*"},
            "time": {"kind": "time", "keys": ["clock"]},
            "counter": {"kind": "local_operator", "hubs": ["hub-1"], "actions": "*", "devices": "*"},
        },
        "actions": {"power": {"tier": "low"}, "reboot": {"tier": "medium", "confirmation": "verified"}},
        "tiers": {"low": {"attempts": 5, "first_delay": "500ms"}},
    }
    return {name: value for name, value in (fields | changed).items() if value is not None}


def read(fields: dict[str, JsonValue]) -> Policy:
    """What the door makes of these fields."""
    return decode(Policy, json.dumps(fields).encode(), limit=POLICY_BYTES)


def test_an_ordinary_policy_comes_back_as_it_was_written() -> None:
    policy = read(fields_of())

    assert decode(Policy, encode(policy), limit=POLICY_BYTES) == policy
    assert policy.roles["operators"].actions == frozenset({ActionName.POWER})
    assert policy.actions[ActionName.REBOOT].confirmation is Level.VERIFIED


@pytest.mark.requirement("V3")
def test_a_policy_lists_what_may_be_installed_and_comes_back_as_it_was_written() -> None:
    policy = read(fields_of(artifacts={"plug-1.4.2": ["5e" * 32, "6f" * 32]}))

    assert decode(Policy, encode(policy), limit=POLICY_BYTES) == policy
    assert policy.artifacts == {"plug-1.4.2": {"5e" * 32, "6f" * 32}}
    assert read(fields_of()).artifacts == {}


def test_a_tier_without_a_rule_has_the_default() -> None:
    policy = read(fields_of())

    assert policy.tier_rule(Tier.LOW).attempts == 5
    assert policy.tier_rule(Tier.HIGH) == TierRule()


@pytest.mark.requirement("Q8", "B1")
def test_of_an_action_of_the_high_tier_half_as_much_is_too_much() -> None:
    high: JsonValue = {"tier": "high", "approvals": {"signatures": 1}}
    actions: JsonValue = {"power": {"tier": "low"}, "reboot": high}
    policy = read(fields_of(actions=actions, breaker={"refusals": 20, "lease_losses": 5, "retries": 1}))

    rule, strict = policy.breaker_of(ActionName.POWER), policy.breaker_of(ActionName.REBOOT)

    assert rule == policy.breaker_of(ActionName.VOLUME) == policy.breaker
    assert (strict.refusals, strict.lease_losses, strict.retries, strict.dead_letters) == (10, 3, 1, 3)
    assert (strict.within, strict.open_for) == (rule.within, rule.open_for)


def test_without_a_word_an_action_has_to_show_its_effect_and_lives_for_ten_minutes() -> None:
    rule = read(fields_of()).actions[ActionName.POWER]

    assert rule.confirmation is Level.APPLIED
    assert rule.longest_validity == timedelta(minutes=10)


@pytest.mark.requirement("O6")
def test_how_often_drills_are_to_be_held_is_said_or_not() -> None:
    assert read(fields_of()).drill_every is None
    assert b"drill_every" not in encode(read(fields_of()))
    assert read(fields_of(drill_every="30d")).drill_every == timedelta(days=30)


@pytest.mark.requirement("O6")
@pytest.mark.parametrize("every", ["59m", "0s", "-1d", "often", 30, ["30d"]])
def test_a_policy_that_wants_drills_all_the_time_or_says_it_wrong_is_refused(every: JsonValue) -> None:
    with pytest.raises(MalformedError, match="drill_every"):
        read(fields_of(drill_every=every))


@pytest.mark.requirement("T1")
def test_one_key_under_two_names_is_refused() -> None:
    """It would count twice towards a threshold."""
    with pytest.raises(MalformedError, match="one public key has two names"):
        read(fields_of(keys={"alice": ALICE, "clock": TIME, "alice-again": ALICE}))


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        pytest.param({"expires_at": "2027-03-01T12:00:00Z"}, "expires before", id="over at once"),
        pytest.param({"version": 0}, "version", id="no version"),
        pytest.param({"artifacts": {"../plug": ["5e" * 32]}}, "artifacts", id="a path for an artifact"),
        pytest.param({"artifacts": {"plug": []}}, "artifacts.plug", id="an artifact without a file"),
        pytest.param({"artifacts": {"plug": ["5e"]}}, "artifacts.plug", id="a short sha256"),
        pytest.param(
            {"artifacts": {"plug": [f"{n:064x}" for n in range(17)]}}, "artifacts.plug", id="17 files"
        ),
        pytest.param({"version": 2**53}, "version", id="a version that not every parser holds"),
        pytest.param({"hubs": "hub-1"}, "hubs", id="a hub that is no list"),
        pytest.param({"hubs": ["*"]}, "hubs", id="every hub, in a list"),
        pytest.param({"keys": {"alice": "0A" * 32}}, "keys.alice", id="a key in capitals"),
        pytest.param({"keys": {"alice": "0a"}}, "keys.alice", id="a short key"),
        pytest.param({"keys": {"Alice!": ALICE}}, "keys.Alice!", id="a name that is none"),
        pytest.param({"keys": {"alice": ALICE}}, "a key that is not listed", id="a role of a key not there"),
        pytest.param({"keys": {f"k{n}": f"{n:064x}" for n in range(65)}, "roles": {}}, "keys", id="65 keys"),
        pytest.param(
            {"roles": {"r": {"kind": "root", "keys": ["alice"]}}}, "roles.r.kind", id="no such kind"
        ),
        pytest.param({"roles": {"r": {"kind": "command"}}}, "role r", id="a role that nobody holds"),
        pytest.param(
            {"roles": {"r": {"kind": "local_operator", "keys": ["alice"], "hubs": ["hub-1"]}}},
            "role r",
            id="a listed key as a local operator's",
        ),
        pytest.param(
            {"roles": {"r": {"kind": "command", "keys": ["alice"], "hubs": ["hub-1"], "actions": "*"}}},
            "role r: only a local operator",
            id="a listed key at some hubs only",
        ),
        pytest.param(
            {"roles": {"r": {"kind": "command", "keys": ["alice"], "actions": ["shell"]}}},
            "roles.r.actions",
            id="no such action",
        ),
        pytest.param(
            {"roles": {"r": {"kind": "command", "keys": ["alice"], "devices": ["a/#"]}}},
            "roles.r.devices",
            id="a wildcard for a device",
        ),
        pytest.param({"actions": {"shell": {"tier": "low"}}}, "actions.shell", id="a rule of no action"),
        pytest.param({"actions": {"power": {}}}, "actions.power.tier", id="an action without tier"),
        pytest.param({"actions": {"power": {"tier": "none"}}}, "actions.power.tier", id="no such tier"),
        pytest.param({"tiers": {"low": {"attempts": 0}}}, "tiers.low.attempts", id="no attempt"),
        pytest.param({"tiers": {"low": {"attempts": 11}}}, "tiers.low.attempts", id="attempts without end"),
        pytest.param({"tiers": {"low": {"concurrency": 0}}}, "tiers.low.concurrency", id="nothing at once"),
        pytest.param({"tiers": {"low": {"first_delay": 5}}}, "tiers.low.first_delay", id="no unit"),
        pytest.param(
            {"tiers": {"medium": {"accept_unsure_clock": True}}}, "only the low tier", id="an unsure clock"
        ),
        pytest.param(
            {"actions": {"power": {"tier": "high"}}}, "needs approvals", id="high without approvals"
        ),
        pytest.param({"bans": {"keys": ["mallory"]}}, "bans: a key", id="a ban of a key not there"),
        pytest.param(
            {"roles": {"r": {"kind": "stop", "keys": ["alice"], "actions": ["power"]}}},
            "role r: one that stops",
            id="a narrow role to stop",
        ),
        pytest.param({"threshold": 2}, "threshold", id="an unknown field"),
        pytest.param({"type": "command"}, "type", id="another kind of document"),
    ],
)
def test_a_policy_that_contradicts_itself_is_refused(changed: dict[str, JsonValue], fault: str) -> None:
    with pytest.raises(MalformedError) as refusal:
        read(fields_of(**changed))

    assert fault in str(refusal.value)


@pytest.mark.requirement("V2")
@pytest.mark.parametrize("actions", ["*", ["power"]], ids=repr)
@pytest.mark.parametrize("devices", ["*", ["tv"]], ids=repr)
def test_a_role_covers_what_it_lists_and_nothing_else(actions: JsonValue, devices: JsonValue) -> None:
    fields = {"kind": "command", "keys": ["alice"], "actions": actions, "devices": devices}

    role = decode(Role, json.dumps(fields).encode(), limit=POLICY_BYTES)

    tv, plug = DeviceId("tv"), DeviceId("plug")
    assert role.covers(ActionName.POWER, tv)
    assert role.covers(ActionName.REBOOT, tv) == (actions == "*")
    assert role.covers(ActionName.POWER, plug) == (devices == "*")
    assert role.covers(ActionName.REBOOT, plug) == (actions == devices == "*")


@pytest.mark.requirement("V2")
@pytest.mark.parametrize("kind", [RoleKind.COMMAND, RoleKind.TIME])
def test_a_role_that_lists_nothing_covers_nothing(kind: RoleKind) -> None:
    role = decode(Role, json.dumps({"kind": kind, "keys": ["alice"]}).encode(), limit=POLICY_BYTES)

    assert not any(role.covers(action, DeviceId("tv")) for action in ActionName)


@pytest.mark.requirement("M2")
def test_levels_are_ordered_from_sent_to_verified() -> None:
    levels = [Level.SENT, Level.ACCEPTED, Level.APPLIED, Level.VERIFIED]

    for left, right in product(levels, levels):
        assert left.reaches(right) == (levels.index(left) >= levels.index(right))


@pytest.mark.requirement("T1")
def test_the_id_of_a_key_is_made_of_its_bytes_alone() -> None:
    key = MemoryKey()

    assert key_id(id_of_key(key.public)) == key.id
    assert id_of_key(bytes(32)) == "66687aadf862bd776c8fc18b8e9f8e20089714856ee233b3902a591d0d5f2925"


@pytest.mark.requirement("T1")
@pytest.mark.parametrize(
    "public",
    [
        pytest.param("00" * 32, id="of order 4"),
        pytest.param("01" + "00" * 31, id="of order 1"),
        pytest.param("ec" + "ff" * 30 + "7f", id="of order 2"),
        pytest.param("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05", id="of order 8"),
        pytest.param("f1" + "ff" * 30 + "7f", id="beyond the prime"),
    ],
)
def test_a_policy_with_a_key_that_anybody_can_sign_for_is_refused_whole(public: str) -> None:
    with pytest.raises(MalformedError, match="only its holder can sign for"):
        read(fields_of(keys={"alice": public, "clock": TIME}))
