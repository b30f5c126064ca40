"""From an intent to signed bytes."""

import json
from base64 import b64decode
from datetime import datetime, timedelta

import pytest

from edgeagent.clock import EPOCH as UNIX_EPOCH
from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.command import COMMAND_BYTES, COMMAND_TYPE, Command, Precondition
from edgeagent.contracts.door import decode
from edgeagent.core.envelope import sign, unproven_payload, verify
from edgeagent.errors import MalformedError, RejectedError
from edgeagent.ids import hub_id, operation
from edgeagent.issuer.commands import Intent, Issuer, approved
from edgeagent.issuer.keys import PrivateKey
from tests.issuer.building import EPOCH, NOON, TV, ManualClock, intent

HUB = hub_id("venue-7")


def issuer(*keys: PrivateKey, clock: ManualClock | None = None, bits: int | None = None) -> Issuer:
    signers = keys or (PrivateKey.new(),)
    if bits is None:
        return Issuer(signers, clock or ManualClock())
    return Issuer(signers, clock or ManualClock(), random_bits=lambda count: bits % 2**count)


@pytest.mark.requirement("T1", "T3", "P1")
def test_a_signed_command_verifies_and_says_what_was_meant() -> None:
    key = PrivateKey.new()

    signed = issuer(key).sign(intent(HUB, arguments={"on": False, "channel": 2}))

    verified = verify(signed.envelope, {key.id: key.public}, COMMAND_TYPE, limit=8192)
    assert verified.sha256 == signed.sha256
    command = decode(Command, verified.payload, limit=8192)
    assert command == signed.command
    assert (command.hub, command.epoch, command.devices) == (HUB, EPOCH, [TV])
    assert command.arguments == {"on": False, "channel": 2}
    assert (command.issued_at, command.expires_at) == (NOON, NOON + timedelta(minutes=5))
    assert str(command.operation) == str(command.id)


@pytest.mark.requirement("T1")
def test_the_envelope_is_plain_dsse() -> None:
    key = PrivateKey.new()

    envelope = json.loads(issuer(key).sign(intent(HUB)).envelope)

    assert envelope.keys() == {"payload", "payloadType", "signatures"}
    assert envelope["payloadType"] == COMMAND_TYPE
    assert json.loads(b64decode(envelope["payload"]))["action"] == "power"
    assert [signature["keyid"] for signature in envelope["signatures"]] == [key.id]


@pytest.mark.requirement("T4")
def test_a_sequence_is_milliseconds_over_twenty_bits_of_chance() -> None:
    signed = issuer(bits=0b1011).sign(intent(HUB))

    milliseconds = (NOON - UNIX_EPOCH) // timedelta(milliseconds=1)
    assert signed.command.sequence == milliseconds << 20 | 0b1011


@pytest.mark.requirement("T4")
def test_of_two_commands_of_one_millisecond_the_later_has_the_greater_sequence() -> None:
    one = issuer(bits=2**20 - 1)

    first = one.sign(intent(HUB, arguments={"on": True}))
    second = one.sign(intent(HUB, arguments={"on": False}))

    assert second.command.sequence > first.command.sequence


@pytest.mark.requirement("T4")
def test_a_clock_that_is_set_back_does_not_set_the_sequence_back() -> None:
    clock = ManualClock()
    one = issuer(clock=clock)
    before = one.sign(intent(HUB))
    clock.passes(-timedelta(days=1))

    after = one.sign(intent(HUB))

    assert after.command.sequence > before.command.sequence


@pytest.mark.requirement("T4", "P1")
def test_two_issuers_without_shared_state_do_not_collide() -> None:
    clock = ManualClock()
    one, other = issuer(clock=clock), issuer(clock=clock)

    signed = [each.sign(intent(HUB)).command for each in (one, other) for _ in range(50)]

    assert len({command.id for command in signed}) == 100


@pytest.mark.requirement("I1")
def test_an_operation_is_what_the_issuer_says() -> None:
    meant = Intent(
        hub=HUB,
        epoch=EPOCH,
        devices=[TV],
        action=ActionName.REBOOT,
        operation=operation("ticket/4711"),
        precondition=Precondition(version=41),
    )

    command = issuer().sign(meant).command

    assert command.operation == "ticket/4711"
    assert command.precondition == Precondition(version=41)


@pytest.mark.requirement("V1", "V7")
@pytest.mark.parametrize(
    ("action", "arguments"),
    [
        pytest.param(ActionName.POWER, {}, id="missing"),
        pytest.param(ActionName.POWER, {"on": 1}, id="a number for a truth"),
        pytest.param(ActionName.VOLUME, {"level": 101}, id="out of range"),
        pytest.param(ActionName.POWER, {"on": True, "topic": "a/b"}, id="unknown"),
        pytest.param(ActionName.INPUT, {"name": "hdmi1\x1b[2J"}, id="what a terminal acts on"),
    ],
)
def test_what_no_device_could_do_is_not_signed(
    action: ActionName, arguments: dict[str, bool | int | float | str]
) -> None:
    with pytest.raises(MalformedError):
        issuer().sign(intent(HUB, action=action, arguments=arguments))


@pytest.mark.parametrize("length", [timedelta(0), -timedelta(seconds=1), timedelta(days=4_000_000)], ids=str)
def test_a_command_that_is_never_valid_or_for_ever_is_not_signed(length: timedelta) -> None:
    with pytest.raises(MalformedError):
        issuer().sign(intent(HUB, valid_for=length))


def test_a_time_beyond_the_sequence_is_refused() -> None:
    clock = ManualClock(datetime.fromisoformat("2039-09-08T00:00:00Z"))

    with pytest.raises(MalformedError, match="beyond"):
        issuer(clock=clock).sign(intent(HUB))


@pytest.mark.requirement("T1", "T7")
def test_a_command_carries_one_to_eight_signatures() -> None:
    keys = [PrivateKey.new() for _ in range(9)]

    assert issuer(*keys[:8]).sign(intent(HUB)).signers == tuple(key.id for key in keys[:8])

    with pytest.raises(RejectedError):
        issuer(*keys).sign(intent(HUB))
    with pytest.raises(RejectedError):
        Issuer([], ManualClock()).sign(intent(HUB))


@pytest.mark.requirement("T7")
def test_somebody_else_adds_a_signature_to_the_same_payload() -> None:
    chief = PrivateKey.new()
    order = Issuer([PrivateKey.new()], ManualClock()).sign(intent(hub_id("venue-7")))

    both = approved(order.envelope, [chief])

    keys = {chief.id: chief.public}
    assert verify(both, keys, COMMAND_TYPE, limit=COMMAND_BYTES).signers == (chief.id,)
    assert unproven_payload(both) == unproven_payload(order.envelope)
    assert approved(both, [chief]) == both


@pytest.mark.requirement("T7")
@pytest.mark.parametrize(
    "raw",
    [b"", b"{}", sign(b"{}", COMMAND_TYPE, [PrivateKey.new()])],
    ids=["nothing", "no envelope", "no command"],
)
def test_what_is_no_command_is_not_approved(raw: bytes) -> None:
    with pytest.raises(MalformedError):
        approved(raw, [PrivateKey.new()])
