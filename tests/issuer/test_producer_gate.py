"""The producer's gate: what never reaches a hub."""

from dataclasses import replace
from datetime import timedelta

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.command import COMMAND_BYTES, COMMAND_TYPE
from edgeagent.contracts.policy import Policy
from edgeagent.contracts.reasons import Reason
from edgeagent.core.catalogue import Catalogue
from edgeagent.core.envelope import sign
from edgeagent.ids import device_id, hub_id, new_epoch
from edgeagent.issuer.commands import Intent, Issuer, SignedCommand
from edgeagent.issuer.keys import PrivateKey
from edgeagent.issuer.policies import read_policy
from edgeagent.issuer.producer_gate import GateRefusedError, GateWorld, judge
from tests.issuer.building import EPOCH, NOON, ManualClock, intent

HUB = hub_id("venue-7")
DESK = PrivateKey.new()
CLERK = PrivateKey.new()
APPROVED = "5e" * 32


def policy(**changes: str) -> Policy:
    fields = {
        "hubs": '["venue-7"]',
        "devices": '["tv-1"]',
        "not_after": "2027-06-01T00:00:00Z",
        "expires_at": "2027-11-01T00:00:00Z",
    } | changes
    text = f"""
        version = 3
        hubs = {fields["hubs"]}
        expires_at = {fields["expires_at"]}
        [keys]
        desk = "{DESK.public.hex()}"
        clerk = "{CLERK.public.hex()}"
        [roles.operators]
        kind = "command"
        keys = ["desk"]
        actions = ["power", "volume", "install"]
        devices = {fields["devices"]}
        not_after = {fields["not_after"]}
        [roles.clock]
        kind = "time"
        keys = ["clerk"]
        [actions.power]
        tier = "low"
        longest_validity = "10m"
        [actions.reboot]
        tier = "medium"
        [actions.install]
        tier = "medium"
        [artifacts]
        "tv-9.1" = ["{APPROVED}"]
    """
    return read_policy(text.encode(), now=NOON - timedelta(days=30), key_file=lambda _: b"")


def world(**changes: object) -> GateWorld:
    return replace(GateWorld(hub=HUB, epoch=EPOCH, now=NOON, policy=policy()), **changes)  # type: ignore[arg-type]


def signed(meant: Intent | None = None, *, key: PrivateKey = DESK) -> SignedCommand:
    return Issuer([key], ManualClock()).sign(meant or intent(HUB))


def refusal(raw: bytes, seen: GateWorld) -> GateRefusedError:
    with pytest.raises(GateRefusedError) as refused:
        judge(raw, seen)
    return refused.value


@pytest.mark.requirement("V7")
def test_a_good_command_passes_with_its_signer_known() -> None:
    order = signed()

    passed = judge(order.envelope, world())

    assert passed.command == order.command
    assert passed.sha256 == order.sha256
    assert passed.signers == (DESK.id,)


@pytest.mark.requirement("V7")
def test_without_a_policy_nobody_is_known_and_the_rest_is_judged_all_the_same() -> None:
    passed = judge(signed(key=PrivateKey.new()).envelope, world(policy=None))
    assert passed.signers == ()

    late = refusal(signed().envelope, world(policy=None, now=NOON + timedelta(minutes=6)))
    assert (late.reason, late.origin) == (Reason.EXPIRED, None)


@pytest.mark.requirement("V3", "V7")
@pytest.mark.parametrize("known", [True, False], ids=["with a policy", "without one"])
@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        pytest.param(b"", Reason.MALFORMED, id="none of it"),
        pytest.param(signed().envelope[:-20], Reason.MALFORMED, id="half of it"),
        pytest.param(b" " * (COMMAND_BYTES + 1), Reason.TOO_LARGE, id="too large"),
        pytest.param(b"[" * 200 + b"]" * 200, Reason.MALFORMED, id="too deep"),
        pytest.param(b'{"payload":"\xff"}', Reason.MALFORMED, id="not UTF-8"),
        pytest.param(sign(b"{}", "application/other", [DESK]), Reason.WRONG_PAYLOAD_TYPE, id="another kind"),
        pytest.param(sign(b"{}", COMMAND_TYPE, [DESK]), Reason.MALFORMED, id="no command inside"),
    ],
)
def test_bytes_that_are_no_command_are_refused(raw: bytes, reason: Reason, *, known: bool) -> None:
    assert refusal(raw, world() if known else world(policy=None)).reason is reason


@pytest.mark.requirement("T1", "V7")
@pytest.mark.parametrize("key", [PrivateKey.new(), CLERK], ids=["a stranger", "a key of another role"])
def test_a_command_that_no_command_key_has_signed_is_refused(key: PrivateKey) -> None:
    refused = refusal(signed(key=key).envelope, world())

    assert refused.reason is Reason.BAD_SIGNATURE
    assert refused.origin is None


@pytest.mark.requirement("V7", "T3", "T9")
@pytest.mark.parametrize(
    ("meant", "seen", "reason"),
    [
        pytest.param(intent(hub_id("venue-8")), world(), Reason.WRONG_HUB, id="another hub"),
        pytest.param(intent(HUB, epoch=new_epoch(1, 1)), world(), Reason.WRONG_EPOCH, id="another epoch"),
        pytest.param(intent(HUB), world(epoch=None), Reason.WRONG_EPOCH, id="no hello yet"),
        pytest.param(intent(HUB), world(now=NOON + timedelta(minutes=5)), Reason.EXPIRED, id="late"),
        pytest.param(intent(HUB), world(now=NOON - timedelta(hours=1)), Reason.NOT_YET_VALID, id="early"),
        pytest.param(
            intent(HUB, valid_for=timedelta(minutes=11)), world(), Reason.VALID_TOO_LONG, id="valid too long"
        ),
        pytest.param(intent(HUB, device=device_id("tv-2")), world(), Reason.NOT_ALLOWED, id="another device"),
        pytest.param(
            intent(HUB, action=ActionName.REBOOT, arguments={}),
            world(),
            Reason.NOT_ALLOWED,
            id="another action",
        ),
        pytest.param(
            intent(HUB, action=ActionName.VOLUME, arguments={"level": 5}),
            world(),
            Reason.NOT_ALLOWED,
            id="an action without a rule",
        ),
        pytest.param(
            intent(HUB), world(policy=policy(hubs='["venue-8"]')), Reason.NO_POLICY, id="a policy for others"
        ),
        pytest.param(
            intent(HUB),
            world(policy=policy(expires_at="2026-12-01T11:59:59Z")),
            Reason.POLICY_EXPIRED,
            id="an expired policy",
        ),
        pytest.param(
            intent(HUB),
            world(policy=policy(not_after="2026-12-01T11:59:59Z")),
            Reason.NOT_ALLOWED,
            id="a role that is over",
        ),
    ],
)
def test_what_may_not_be_done_is_refused_with_its_origin(
    meant: Intent, seen: GateWorld, reason: Reason
) -> None:
    order = signed(meant)

    refused = refusal(order.envelope, seen)

    assert refused.reason is reason
    assert refused.origin == DESK.id
    assert refused.command == order.command.id
    assert str(refused)


@pytest.mark.requirement("T3", "V7")
def test_a_list_passes_if_one_of_its_devices_may_be_commanded_and_is_refused_if_none_may() -> None:
    names = [device_id("tv-2"), device_id("tv-1"), device_id("tv-3")]
    some, none = (replace(intent(HUB), devices=devices) for devices in (names, [names[0], names[2]]))

    passed = judge(signed(some).envelope, world())

    assert passed.command.devices == names
    assert refusal(signed(none).envelope, world()).reason is Reason.NOT_ALLOWED


@pytest.mark.requirement("V3", "V7", "B4")
@pytest.mark.parametrize(
    ("artifact", "sha256"),
    [
        pytest.param("tv-9.1", "6f" * 32, id="another file under its name"),
        pytest.param("tv-9.2", APPROVED, id="its file under another name"),
    ],
)
def test_a_file_that_nobody_has_approved_is_refused_with_who_asked(artifact: str, sha256: str) -> None:
    meant = replace(
        intent(HUB), action=ActionName.INSTALL, arguments={"artifact": artifact, "digest": sha256}
    )

    why = refusal(signed(meant).envelope, world())

    assert (why.reason, why.origin) == (Reason.ARTIFACT_NOT_APPROVED, DESK.id)
    assert (why.action, why.command is not None) == (ActionName.INSTALL, True)


@pytest.mark.requirement("V3", "V7")
def test_a_file_that_is_approved_passes() -> None:
    meant = replace(
        intent(HUB), action=ActionName.INSTALL, arguments={"artifact": "tv-9.1", "digest": APPROVED}
    )

    assert judge(signed(meant).envelope, world()).command.action is ActionName.INSTALL


@pytest.mark.requirement("F1", "V3")
def test_a_file_that_is_approved_and_that_nobody_signs_for_is_refused_where_the_repository_is_known() -> None:
    meant = replace(
        intent(HUB), action=ActionName.INSTALL, arguments={"artifact": "tv-9.1", "digest": APPROVED}
    )

    with pytest.raises(GateRefusedError) as caught:
        judge(signed(meant).envelope, world(catalogue=Catalogue()))

    assert caught.value.reason is Reason.ARTIFACT_UNSIGNED
