"""Policies from a file that people read."""

from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.door import decode
from edgeagent.contracts.policy import POLICY_BYTES, POLICY_TYPE, Policy, RoleKind, Tier
from edgeagent.core.envelope import sign, verify
from edgeagent.errors import ConfigurationError, MalformedError
from edgeagent.ids import hub_id
from edgeagent.issuer.keys import PrivateKey, save_public_key
from edgeagent.issuer.policies import load_policy, policy_of, read_policy, sign_policy
from tests.issuer.building import NOON

TEXT = """
version = 3
hubs = ["venue-7"]
valid_for = "30d"

[keys]
desk = "{key}"

[roles.operators]
kind = "command"
keys = ["desk"]
actions = ["power", "volume"]
devices = "*"
not_after = 2027-06-01T00:00:00Z

[actions.power]
tier = "low"
longest_validity = "2m"

[tiers.low]
concurrency = 8
"""


def no_files(name: str) -> bytes:
    raise AssertionError(f"{name} is not to be read")


def read(text: str) -> Policy:
    return read_policy(text.encode(), now=NOON, key_file=no_files)


@pytest.mark.requirement("T2")
def test_a_policy_is_read_as_people_write_it() -> None:
    key = PrivateKey.new()

    policy = read(TEXT.format(key=key.public.hex()))

    assert policy.version == 3
    assert policy.hubs == frozenset({hub_id("venue-7")})
    assert (policy.issued_at, policy.expires_at) == (NOON, NOON + timedelta(days=30))
    assert policy.roles["operators"].kind is RoleKind.COMMAND
    assert policy.roles["operators"].actions == frozenset({ActionName.POWER, ActionName.VOLUME})
    assert policy.actions[ActionName.POWER].longest_validity == timedelta(minutes=2)
    assert policy.tier_rule(Tier.LOW).concurrency == 8
    assert policy.keys == {"desk": key.public.hex()}


@pytest.mark.requirement("T2", "P1")
def test_keys_may_be_named_by_their_files(tmp_path: Path) -> None:
    key = PrivateKey.new()
    save_public_key(key.public, tmp_path / "desk.pub.pem")
    (tmp_path / "policy.toml").write_text(TEXT.format(key="desk.pub.pem"))

    policy = load_policy(tmp_path / "policy.toml", now=NOON)

    assert policy.keys == {"desk": key.public.hex()}


@pytest.mark.requirement("T1", "T2")
def test_a_signed_policy_is_the_policy_that_was_read() -> None:
    signer = PrivateKey.new()
    policy = read(TEXT.format(key=PrivateKey.new().public.hex()))

    envelope = sign_policy(policy, [signer])

    verified = verify(envelope, {signer.id: signer.public}, POLICY_TYPE, limit=POLICY_BYTES)
    assert decode(Policy, verified.payload, limit=POLICY_BYTES) == policy
    assert policy_of(envelope) == policy


@pytest.mark.requirement("T2", "V1")
@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param(("version = 3", "version = 3.5"), "version", id="wrong type"),
        pytest.param(("version = 3", "verson = 3"), "verson", id="misspelt"),
        pytest.param(('kind = "command"', 'kind = "commander"'), "roles.operators.kind", id="unknown role"),
        pytest.param(('["desk"]', '["dask"]'), "names a key that is not listed", id="unlisted key"),
        pytest.param(('"2m"', '"2 minutes"'), "longest_validity", id="no length of time"),
        pytest.param(('"30d"', "30"), "valid_for", id="a number for a length"),
        pytest.param(('"30d"', '"999999999d"'), "valid_for", id="beyond the calendar"),
        pytest.param(("00:00:00Z", "00:00:00"), "zone", id="a time without zone"),
        pytest.param(("2027-06-01T00:00:00Z", "2027-06-01"), "zone", id="a day for a time"),
        pytest.param(
            ('valid_for = "30d"', "expires_at = 2026-11-30T00:00:00Z"), "expires", id="over already"
        ),
        pytest.param(("version = 3", "version = nan"), "JSON", id="not a number"),
        pytest.param(("[keys]", "[keys"), "not TOML", id="no TOML"),
        pytest.param(("concurrency = 8", "concurrency = 0"), "tiers.low.concurrency", id="out of range"),
    ],
)
def test_a_policy_that_is_not_in_order_is_refused_by_its_place(change: tuple[str, str], told: str) -> None:
    text = TEXT.format(key="ab" * 32).replace(*change)

    with pytest.raises(MalformedError, match=told):
        read(text)


@pytest.mark.requirement("T1")
def test_one_key_under_two_names_is_refused() -> None:
    text = TEXT.format(key="ab" * 32).replace("[keys]", f'[keys]\nother = "{"ab" * 32}"')

    with pytest.raises(MalformedError, match="two names"):
        read(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"\xff\xfe", id="not UTF-8"),
        pytest.param(b"a = " + b"[" * 5000, id="deep"),
        pytest.param(b"#" * (POLICY_BYTES + 1), id="huge"),
        pytest.param(b"", id="empty"),
    ],
)
def test_bytes_that_are_no_policy_are_refused(text: bytes) -> None:
    with pytest.raises(MalformedError):
        read_policy(text, now=NOON, key_file=no_files)


def test_a_missing_key_file_is_told_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(TEXT.format(key="gone.pem"))

    with pytest.raises(ConfigurationError, match=r"^keys\..*gone\.pem"):
        load_policy(tmp_path / "policy.toml", now=NOON)
    with pytest.raises(ConfigurationError, match=r"nowhere\.toml"):
        load_policy(tmp_path / "nowhere.toml", now=NOON)


def test_another_signed_document_is_no_policy() -> None:
    with pytest.raises(MalformedError, match="another kind"):
        policy_of(sign(b"{}", "application/other", [PrivateKey.new()]))
