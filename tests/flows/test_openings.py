"""What was verified once is remembered by its bytes, and only while the same keys count."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from edgeagent.contracts.policy import Bans, Role, RoleKind
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.envelope import RefusedEnvelopeError
from edgeagent.core.gate.roles import keyring
from edgeagent.flows import openings
from edgeagent.flows.openings import Openings
from edgeagent.ids import CommandId, DeviceId
from tests.core.gating import HUB, LAMP, NIGHT, OWN, command, envelope, policy
from tests.flows.commanding import Hub, new_hub
from tests.flows.signing import POWER
from tests.support.keys import MemoryKey

KEYS = keyring(policy(), HUB, OWN.public)
GOOD = envelope(command())


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub with a television."""
    async with new_hub(tmp_path) as made:
        await made.television()
        yield made


@pytest.mark.requirement("T3")
def test_the_same_bytes_are_verified_once_under_the_same_keys() -> None:
    known = Openings()

    first = known.opened(GOOD, KEYS)
    again = known.opened_for(LAMP, bytes(bytearray(GOOD)), dict(KEYS))

    assert known.verified == 1
    assert first == [again]


@pytest.mark.requirement("T3")
def test_other_bytes_around_the_same_payload_are_verified_themselves() -> None:
    known = Openings()
    known.opened(GOOD, KEYS)

    with pytest.raises(RefusedEnvelopeError) as caught:
        known.opened(GOOD[:-6] + bytes([GOOD[-6] ^ 1]) + GOOD[-5:], KEYS)

    assert caught.value.reason in {Reason.BAD_SIGNATURE, Reason.MALFORMED}
    assert len(known) == 1


@pytest.mark.requirement("T3")
def test_under_other_keys_everything_is_verified_again() -> None:
    # Given an envelope that a key of the keyring has signed.
    known = Openings()
    known.opened(GOOD, KEYS)
    without = keyring(policy(keys={"night": NIGHT.public.hex(), "desk": MemoryKey().public.hex()}), HUB, None)

    # When that key is not among those that count any more.
    with pytest.raises(RefusedEnvelopeError) as caught:
        known.opened(GOOD, without)

    # Then it is refused, and is verified once more when it counts again.
    assert caught.value.reason is Reason.BAD_SIGNATURE
    assert len(known) == 0
    known.opened(GOOD, KEYS)
    assert known.verified == 3


def test_a_refusal_is_not_remembered() -> None:
    known = Openings()
    bad = envelope(command(), MemoryKey())

    for _ in range(2):
        with pytest.raises(RefusedEnvelopeError):
            known.opened(bad, KEYS)

    assert known.verified == 2
    assert len(known) == 0


@pytest.mark.requirement("T3")
def test_an_envelope_is_opened_for_the_devices_only_that_it_names() -> None:
    known = Openings()
    known.opened(GOOD, KEYS)

    with pytest.raises(RefusedEnvelopeError) as caught:
        known.opened_for(DeviceId("lamp-2"), GOOD, KEYS)

    assert caught.value.reason is Reason.MALFORMED


def test_only_so_many_are_remembered_and_the_first_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given room for two by number, and then for one by its bytes.
    raw = [envelope(command(id=CommandId(f"c-{number}"), sequence=number)) for number in (1, 2, 3)]
    known = Openings()
    monkeypatch.setattr(openings, "MOST", 2)

    # When three come.
    for each in raw:
        known.opened(each, KEYS)

    # Then the first is gone, and the last is known.
    assert len(known) == 2
    known.opened(raw[2], KEYS)
    assert known.verified == 3
    monkeypatch.setattr(openings, "MOST_BYTES", len(raw[0]) + 1)
    known.opened(raw[0], KEYS)
    assert len(known) == 1


@pytest.mark.requirement("T2", "V4")
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"roles": {"operators": Role(kind=RoleKind.COMMAND, keys=frozenset({"night"}))}},
            Reason.BAD_SIGNATURE,
        ),
        ({"bans": Bans(keys=frozenset({"desk"}))}, Reason.BANNED),
        ({"actions": {}}, Reason.NOT_ALLOWED),
    ],
)
async def test_whoever_lost_the_right_after_a_command_was_let_in_is_refused_at_the_act(
    hub: Hub, changes: dict[str, object], reason: Reason
) -> None:
    # Given a command that was let in, and so is remembered as verified.
    command = hub.command(POWER)
    await hub.admits(command)
    sent = len(hub.bus.published)

    # When another policy comes, and it is to be worked.
    await hub.has_policy(version=2, **changes)
    await hub.works_until(lambda: hub.receipt(command))

    # Then it is refused for what the policy of now says, and nothing was sent.
    ended = await hub.ended(command)
    assert (ended.outcome, ended.reason) == (Outcome.REFUSED, reason)
    assert len(hub.bus.published) == sent


@pytest.mark.requirement("T2", "V4")
async def test_a_key_that_was_changed_under_its_name_is_not_the_one_that_signed(hub: Hub) -> None:
    # Given a command that was let in.
    command = hub.command(POWER)
    await hub.admits(command)
    sent = len(hub.bus.published)

    # When the operator's key is another one.
    keys = hub.keys.policy().keys | {"desk": MemoryKey().public.hex()}
    await hub.has_policy(version=2, keys=keys)
    await hub.works_until(lambda: hub.receipt(command))

    # Then it is refused, and nothing was sent.
    ended = await hub.ended(command)
    assert (ended.outcome, ended.reason) == (Outcome.REFUSED, Reason.BAD_SIGNATURE)
    assert len(hub.bus.published) == sent
