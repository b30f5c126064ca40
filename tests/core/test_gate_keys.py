"""Which envelopes the gate opens, and what the hub's own key may say."""

import json
from base64 import b64decode, b64encode
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.clock import BootId
from edgeagent.contracts.command import COMMAND_BYTES, COMMAND_TYPE
from edgeagent.contracts.door import encode
from edgeagent.contracts.policy import POLICY_TYPE, RoleKind, id_of_key
from edgeagent.contracts.reasons import Reason
from edgeagent.core.envelope import RefusedEnvelopeError, sign
from edgeagent.core.freshness import BootDeadline
from edgeagent.core.gate.opening import opened
from edgeagent.core.gate.roles import keyring
from edgeagent.core.gate.verdict import Accept, Moment, Refuse
from edgeagent.ids import HubId, KeyId
from tests.core.gating import (
    DESK,
    HOUR,
    HUB,
    LOCAL,
    NIGHT,
    NOW,
    OPERATORS,
    OWN,
    SECOND,
    command,
    envelope,
    judged,
    policy,
    wall,
    world,
)
from tests.support.clocks import FIRST_BOOT, SECOND_BOOT
from tests.support.keys import MemoryKey, keyring_of

KEYS = keyring(policy(), HUB, OWN.public)
GOOD = envelope(command())


def reason_of(raw: bytes) -> Reason:
    """Why an envelope is not opened."""
    with pytest.raises(RefusedEnvelopeError) as caught:
        opened(raw, KEYS)
    return caught.value.reason


def edited(raw: bytes, **fields: object) -> bytes:
    """An envelope with other fields."""
    return json.dumps(json.loads(raw) | fields).encode()


def signatures(raw: bytes) -> list[dict[str, str]]:
    """The signatures of an envelope."""
    found: list[dict[str, str]] = json.loads(raw)["signatures"]
    return found


def signed_fields(**changes: object) -> bytes:
    """A payload of a command with fields of any kind, well signed."""
    fields = json.loads(encode(command())) | changes
    return sign(json.dumps(fields).encode(), COMMAND_TYPE, [DESK])


# The keys that count.


@pytest.mark.requirement("T2")
def test_the_keys_that_count_are_those_of_command_roles() -> None:
    time_only = OPERATORS.model_copy(update={"kind": RoleKind.TIME, "keys": frozenset({"night"})})
    desk_only = OPERATORS.model_copy(update={"keys": frozenset({"desk"})})

    ring = keyring(policy(roles={"operators": desk_only, "time": time_only}), HUB, OWN.public)

    assert ring == keyring_of(DESK)


@pytest.mark.requirement("V6")
@pytest.mark.parametrize(
    ("roles", "counts"),
    [
        pytest.param({"local": LOCAL}, True, id="a role that names this hub"),
        pytest.param(
            {"local": LOCAL.model_copy(update={"hubs": frozenset({HubId("venue-8")})})}, False, id="other hub"
        ),
        pytest.param({"operators": OPERATORS}, False, id="no such role"),
    ],
)
def test_the_hubs_own_key_counts_where_the_policy_gives_it_a_role(
    roles: dict[str, object],
    counts: bool,  # noqa: FBT001 - a column of the table
) -> None:
    assert (OWN.id in keyring(policy(roles=roles), HUB, OWN.public)) is counts


@pytest.mark.requirement("T2")
def test_without_a_policy_no_key_counts() -> None:
    assert keyring(None, HUB, OWN.public) == {}


# Envelopes.


@pytest.mark.requirement("T1")
def test_a_good_envelope_is_opened_and_what_was_verified_is_what_is_read() -> None:
    [found] = opened(envelope(command(), DESK, NIGHT), KEYS)

    assert found.command == command()
    assert found.verified.payload == encode(command())
    assert found.verified.signers == (DESK.id, NIGHT.id)


@pytest.mark.requirement("T1", "V1")
@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(b"", Reason.MALFORMED, id="nothing"),
        pytest.param(GOOD[:-1], Reason.MALFORMED, id="cut off"),
        pytest.param(GOOD + b" " * COMMAND_BYTES, Reason.TOO_LARGE, id="too many bytes"),
        pytest.param(b"\xff" + GOOD, Reason.MALFORMED, id="no UTF-8"),
        pytest.param(b"\xef\xbb\xbf" + GOOD, Reason.MALFORMED, id="byte order mark"),
        pytest.param(b"[" * 500, Reason.MALFORMED, id="deep"),
        pytest.param(edited(GOOD, signatures=[]), Reason.MALFORMED, id="no signature"),
        pytest.param(edited(GOOD, signatures=signatures(GOOD) * 9), Reason.MALFORMED, id="nine signatures"),
        pytest.param(edited(GOOD, further=1), Reason.MALFORMED, id="unknown field"),
        pytest.param(GOOD[:-1] + b',"payload":"eA=="}', Reason.MALFORMED, id="payload twice"),
        pytest.param(edited(GOOD, payloadType=POLICY_TYPE), Reason.WRONG_PAYLOAD_TYPE, id="other type"),
        pytest.param(
            sign(encode(policy()), POLICY_TYPE, [DESK]), Reason.WRONG_PAYLOAD_TYPE, id="a signed policy"
        ),
        pytest.param(
            sign(encode(policy()), COMMAND_TYPE, [DESK]), Reason.MALFORMED, id="a policy signed as a command"
        ),
        pytest.param(
            edited(GOOD, payload=b64encode(b"{}").decode()), Reason.BAD_SIGNATURE, id="other payload"
        ),
        pytest.param(envelope(command(), MemoryKey()), Reason.BAD_SIGNATURE, id="unknown key"),
        pytest.param(
            edited(GOOD, signatures=[{**signatures(GOOD)[0], "keyid": NIGHT.id}]),
            Reason.BAD_SIGNATURE,
            id="under another's name",
        ),
        pytest.param(
            edited(GOOD, signatures=[{**signatures(GOOD)[0], "keyid": "0" * 64}]),
            Reason.BAD_SIGNATURE,
            id="under no name",
        ),
    ],
)
def test_an_envelope_that_proves_nothing_is_not_opened(raw: bytes, expected: Reason) -> None:
    assert reason_of(raw) is expected


@pytest.mark.requirement("V1", "V5")
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({name: "x"}, id=f"field {name}")
        for name in ("script", "topic", "payload", "path", "url", "override", "retain")
    ]
    + [
        pytest.param({"action": "shell"}, id="unknown action"),
        pytest.param({"devices": ["tv-1/#"]}, id="wildcard in the device"),
        pytest.param({"devices": [""]}, id="no device"),
        pytest.param({"id": "c\u0000"}, id="NUL in the id"),
        pytest.param({"id": "\u0430dmin"}, id="a letter that looks like another"),
        pytest.param({"sequence": "7"}, id="a number as text"),
        pytest.param({"sequence": 0}, id="sequence of nothing"),
        pytest.param({"issued_at": "2027-03-01T12:00:00"}, id="a time without a zone"),
        pytest.param({"expires_at": "2027-03-01T11:59:59Z"}, id="over before it begins"),
        pytest.param({"arguments": {"on": [True]}}, id="a list for an argument"),
        pytest.param({"arguments": {"on": None}}, id="nothing for an argument"),
        pytest.param({"arguments": {f"a{n}": 1 for n in "bcdefghij"}}, id="too many arguments"),
    ],
)
def test_a_signed_payload_that_is_no_command_is_refused_whole(changes: dict[str, object]) -> None:
    assert reason_of(signed_fields(**changes)) is Reason.MALFORMED


@pytest.mark.requirement("T1")
def test_one_key_counts_once_however_often_it_has_signed() -> None:
    twice = edited(GOOD, signatures=signatures(GOOD) * 2)

    [found] = opened(twice, KEYS)
    assert found.verified.signers == (DESK.id,)


@pytest.mark.requirement("T1")
def test_a_key_under_another_id_than_its_own_counts_for_nothing() -> None:
    raw = edited(GOOD, signatures=[{**signatures(GOOD)[0], "keyid": "1" * 64}])

    with pytest.raises(RefusedEnvelopeError):
        opened(raw, {KeyId("1" * 64): DESK.public})


@pytest.mark.requirement("T1")
def test_bad_signatures_beside_a_good_one_are_passed_over() -> None:
    noise = signatures(envelope(command(sequence=9), NIGHT)) + signatures(envelope(command(), MemoryKey()))

    [found] = opened(edited(GOOD, signatures=noise + signatures(GOOD)), KEYS)

    assert found.verified.signers == (DESK.id,)


@pytest.mark.requirement("T1", "V1")
@given(
    st.binary(max_size=300)
    | st.integers(0, len(GOOD) - 1).map(lambda at: GOOD[:at] + b"\x00" + GOOD[at + 1 :])
)
def test_no_bytes_do_anything_but_open_or_be_refused(raw: bytes) -> None:
    with suppress(RefusedEnvelopeError):
        [found] = opened(raw, KEYS)
        assert found.verified.payload == b64decode(json.loads(GOOD)["payload"])


# Typed at this hub.


def local(until: object = HOUR + 60 * SECOND, boot: BootId = FIRST_BOOT) -> BootDeadline:
    """Until when a command that was typed is good."""
    return BootDeadline(boot, until)  # type: ignore[arg-type]  # a length of time


@pytest.mark.requirement("V6")
def test_what_the_hubs_key_has_signed_is_refused_when_it_comes_from_elsewhere() -> None:
    for moment in Moment:
        verdict = judged(world(), moment, OWN)
        assert isinstance(verdict, Refuse)
        assert verdict.reason is Reason.NOT_ALLOWED


@pytest.mark.requirement("V6", "T5", "R4")
@pytest.mark.parametrize(
    "clock",
    [
        pytest.param(wall(), id="known"),
        pytest.param(wall(error=None), id="unknown"),
        pytest.param(wall(ahead=400 * 24 * HOUR - HOUR), id="400 days ahead"),
        pytest.param(wall(ahead=-400 * 24 * HOUR), id="400 days behind"),
    ],
)
def test_a_typed_command_needs_no_wall_clock(clock: object) -> None:
    lasting = policy(expires_at=command().expires_at + 1000 * 24 * HOUR)

    verdict = judged(world(wall=clock, policy=lasting, local=local()), Moment.ADMIT, OWN)

    assert isinstance(verdict, Accept)
    assert verdict.issuer == id_of_key(OWN.public)


@pytest.mark.requirement("V6", "L5")
@pytest.mark.parametrize(
    ("deadline", "boot"),
    [
        pytest.param(local(), (BootId(FIRST_BOOT), HOUR + 60 * SECOND), id="after a minute of boot time"),
        pytest.param(local(), (BootId(SECOND_BOOT), 20 * SECOND), id="in another boot"),
    ],
)
def test_a_typed_command_is_over_after_a_minute_and_with_the_boot(
    deadline: BootDeadline, boot: tuple[BootId, object]
) -> None:
    fresh = judged(world(local=deadline, boot=NOW), Moment.ACT, OWN)
    over = judged(world(local=deadline, boot=boot), Moment.ACT, OWN)

    assert isinstance(fresh, Accept)
    assert isinstance(over, Refuse)
    assert over.reason is Reason.EXPIRED


@pytest.mark.requirement("V6")
def test_what_may_be_typed_is_the_policys_word() -> None:
    narrow = LOCAL.model_copy(update={"devices": frozenset({"lamp-2"})})
    around = world(policy=policy(roles={"operators": OPERATORS, "local": narrow}), local=local())

    verdict = judged(around, Moment.ADMIT, OWN)

    assert isinstance(verdict, Refuse)
    assert verdict.reason is Reason.NOT_ALLOWED
