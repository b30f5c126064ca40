"""DSSE envelopes: who signed these bytes, and nothing else counts."""

import json
from base64 import b64decode, b64encode
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue
from securesystemslib.dsse import Envelope as TheirEnvelope
from securesystemslib.signer import CryptoSigner, SSlibKey  # type: ignore[attr-defined]  # it has no __all__

from edgeagent.contracts.envelope import MOST_SIGNATURES
from edgeagent.contracts.policy import id_of_key
from edgeagent.contracts.reasons import Reason
from edgeagent.core.envelope import (
    RefusedEnvelopeError,
    Verified,
    digest_of,
    pre_authentication_encoding,
    sign,
    verify,
)
from tests.support.keys import MemoryKey, keyring_of

pytestmark = pytest.mark.requirement("T1")

TYPE = "application/vnd.edgeagent.command.v1+json"
LIMIT = 8 * 1024
ALICE, BOB, MALLORY = MemoryKey(), MemoryKey(), MemoryKey()


def their_key(key: MemoryKey) -> SSlibKey:
    """The same public key, as securesystemslib knows it."""
    return SSlibKey(key.id, "ed25519", "ed25519", {"public": key.public.hex()})


def refused(raw: bytes, *keys: MemoryKey, payload_type: str = TYPE, limit: int = LIMIT) -> Reason:
    """Why these bytes prove nothing."""
    with pytest.raises(RefusedEnvelopeError) as refusal:
        verify(raw, keyring_of(*keys), payload_type, limit=limit)
    return refusal.value.reason


def fields_of(raw: bytes) -> dict[str, JsonValue]:
    """The JSON of an envelope."""
    fields: dict[str, JsonValue] = json.loads(raw)
    return fields


def test_the_encoding_that_is_signed_is_that_of_the_standard() -> None:
    """The example of the DSSE protocol, version 1.0.2."""
    assert (
        pre_authentication_encoding("http://example.com/HelloWorld", b"hello world")
        == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )


@given(payload=st.binary(max_size=2000))
def test_what_we_sign_another_implementation_verifies(payload: bytes) -> None:
    raw = sign(payload, TYPE, [ALICE, BOB])

    theirs = TheirEnvelope.from_dict(json.loads(raw))

    assert theirs.payload == payload
    assert theirs.payload_type == TYPE
    assert theirs.verify([their_key(ALICE), their_key(BOB)], 2).keys() == {ALICE.id, BOB.id}


@given(payload=st.binary(max_size=2000))
def test_what_another_implementation_signs_we_verify(payload: bytes) -> None:
    theirs = TheirEnvelope(payload, TYPE, {})
    for key in (ALICE, BOB):
        theirs.sign(CryptoSigner(key.private, their_key(key)))

    verified = verify(json.dumps(theirs.to_dict()).encode(), keyring_of(ALICE, BOB), TYPE, limit=LIMIT)

    assert verified.payload == payload
    assert set(verified.signers) == {ALICE.id, BOB.id}


def test_what_is_verified_carries_its_bytes_their_digest_and_its_signers_in_order() -> None:
    raw = sign(b"payload", TYPE, [BOB, ALICE])

    verified = verify(raw, keyring_of(ALICE, BOB), TYPE, limit=LIMIT)

    assert verified == Verified(b"payload", digest_of(b"payload"), (BOB.id, ALICE.id))
    assert verified.sha256 == sha256(b"payload").hexdigest()


@given(place=st.integers(min_value=0), flip=st.integers(1, 255))
def test_no_changed_byte_makes_other_content_pass(place: int, flip: int) -> None:
    """A changed byte may leave the meaning as it is (the case of an escape)."""
    raw = bytearray(sign(b'{"on":true}', TYPE, [ALICE]))
    raw[place % len(raw)] ^= flip

    try:
        verified = verify(bytes(raw), keyring_of(ALICE, BOB), TYPE, limit=LIMIT)
    except RefusedEnvelopeError:
        return

    assert verified.payload == b'{"on":true}'
    assert verified.signers == (ALICE.id,)


@given(
    raw=st.binary(max_size=400) | st.text('{}[]",:payloadTypesignatureskeyid=', max_size=200).map(str.encode)
)
def test_any_bytes_are_refused_and_nothing_else_happens(raw: bytes) -> None:
    assert refused(raw, ALICE) is Reason.MALFORMED


def test_a_signature_by_an_unknown_key_counts_for_nothing() -> None:
    both = sign(b"payload", TYPE, [MALLORY, ALICE])

    assert refused(sign(b"payload", TYPE, [MALLORY]), ALICE) is Reason.BAD_SIGNATURE
    assert verify(both, keyring_of(ALICE), TYPE, limit=LIMIT).signers == (ALICE.id,)
    assert refused(both) is Reason.BAD_SIGNATURE


def test_a_signature_under_another_keys_name_counts_for_nothing() -> None:
    fields = fields_of(sign(b"payload", TYPE, [MALLORY]))
    fields["signatures"] = [{**signature, "keyid": ALICE.id} for signature in _signatures(fields)]

    assert refused(json.dumps(fields).encode(), ALICE, MALLORY) is Reason.BAD_SIGNATURE


def test_a_key_signs_once_however_often_its_signature_stands_there() -> None:
    fields = fields_of(sign(b"payload", TYPE, [ALICE]))
    fields["signatures"] = [*_signatures(fields)] * MOST_SIGNATURES

    verified = verify(json.dumps(fields).encode(), keyring_of(ALICE, BOB), TYPE, limit=LIMIT)

    assert verified.signers == (ALICE.id,)


def test_a_bad_signature_before_it_does_not_hide_a_good_one() -> None:
    fields = fields_of(sign(b"payload", TYPE, [ALICE]))
    bad: JsonValue = {"keyid": ALICE.id, "sig": b64encode(bytes(64)).decode()}
    fields["signatures"] = [bad, *_signatures(fields)]

    assert verify(json.dumps(fields).encode(), keyring_of(ALICE), TYPE, limit=LIMIT).signers == (ALICE.id,)


@pytest.mark.parametrize("length", [0, 1, 63, 65, 3000])
def test_a_signature_of_the_wrong_length_is_none(length: int) -> None:
    fields = fields_of(sign(b"payload", TYPE, [ALICE]))
    fields["signatures"] = [{"keyid": ALICE.id, "sig": b64encode(bytes(length)).decode()}]

    assert refused(json.dumps(fields).encode(), ALICE) is Reason.BAD_SIGNATURE


def test_a_key_listed_under_an_id_that_is_not_its_own_counts_for_nothing() -> None:
    """Else one key could stand in the ring twice and count twice."""
    fields = fields_of(sign(b"payload", TYPE, [ALICE]))
    fields["signatures"] = [*_signatures(fields), {**_signatures(fields)[0], "keyid": BOB.id}]
    keyring = {ALICE.id: ALICE.public, BOB.id: ALICE.public}

    verified = verify(json.dumps(fields).encode(), keyring, TYPE, limit=LIMIT)

    assert verified.signers == (ALICE.id,)


def test_a_broken_key_in_the_ring_does_not_hide_a_whole_one() -> None:
    stub = ALICE.public[:31]
    name = id_of_key(stub)
    fields = fields_of(sign(b"payload", TYPE, [ALICE]))
    fields["signatures"] = [{**_signatures(fields)[0], "keyid": name}, *_signatures(fields)]

    verified = verify(json.dumps(fields).encode(), keyring_of(ALICE) | {name: stub}, TYPE, limit=LIMIT)

    assert verified.signers == (ALICE.id,)


def test_a_signed_document_of_another_kind_is_no_command() -> None:
    raw = sign(b"payload", "application/vnd.edgeagent.time.v1+json", [ALICE])

    assert refused(raw, ALICE) is Reason.WRONG_PAYLOAD_TYPE


def test_calling_it_another_kind_breaks_its_signature() -> None:
    fields = fields_of(sign(b"payload", "application/vnd.edgeagent.time.v1+json", [ALICE]))
    fields["payloadType"] = TYPE

    assert refused(json.dumps(fields).encode(), ALICE) is Reason.BAD_SIGNATURE


def test_an_envelope_that_is_too_large_is_not_looked_at() -> None:
    raw = sign(b"payload", TYPE, [ALICE])

    assert refused(raw, ALICE, limit=len(raw) - 1) is Reason.TOO_LARGE
    assert verify(raw, keyring_of(ALICE), TYPE, limit=len(raw)).signers == (ALICE.id,)


def test_eight_signatures_are_tried_and_nine_refused() -> None:
    keys = [MemoryKey() for _ in range(MOST_SIGNATURES + 1)]

    most = verify(sign(b"payload", TYPE, keys[:-1]), keyring_of(*keys), TYPE, limit=LIMIT)

    assert len(most.signers) == MOST_SIGNATURES
    assert refused(sign(b"payload", TYPE, keys), *keys) is Reason.MALFORMED


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"payload": "not base64!"}, id="a payload that is no base64"),
        pytest.param({"payload": None}, id="no payload"),
        pytest.param({"payloadType": ""}, id="an empty type"),
        pytest.param({"payloadType": 1}, id="a number for a type"),
        pytest.param({"signatures": []}, id="no signature"),
        pytest.param({"signatures": {}}, id="an object for signatures"),
        pytest.param({"signatures": [{"sig": "QQ=="}]}, id="a signature without key id"),
        pytest.param({"signatures": [{"keyid": "0a" * 32}]}, id="a key id without signature"),
        pytest.param({"signatures": [{"keyid": "alice", "sig": "QQ=="}]}, id="a name for a key id"),
        pytest.param({"signatures": [{"keyid": "0a" * 32, "sig": "QQ==", "x": 1}]}, id="an unknown field"),
        pytest.param({"unsigned": {"role": "root"}}, id="an unknown field outside"),
    ],
)
def test_what_is_no_envelope_is_refused_before_any_signature_is_tried(changed: dict[str, JsonValue]) -> None:
    fields = fields_of(sign(b"payload", TYPE, [ALICE])) | changed

    assert refused(json.dumps(fields).encode(), ALICE) is Reason.MALFORMED


def test_the_same_field_twice_is_refused() -> None:
    """One parser would verify the first, another execute the second."""
    raw = sign(b"payload", TYPE, [ALICE]).replace(b'{"payload"', b'{"payload":"ZXZpbA==","payload"')

    assert refused(raw, ALICE) is Reason.MALFORMED


def test_the_payload_is_what_was_signed_to_the_byte() -> None:
    raw = sign(b' {"a" : 1}\r\n', TYPE, [ALICE])

    verified = verify(raw, keyring_of(ALICE), TYPE, limit=LIMIT)

    assert verified.payload == b' {"a" : 1}\r\n'
    assert b64decode(str(fields_of(raw)["payload"])) == verified.payload


def _signatures(fields: dict[str, JsonValue]) -> list[dict[str, JsonValue]]:
    signatures = fields["signatures"]
    assert isinstance(signatures, list)
    return [signature for signature in signatures if isinstance(signature, dict)]
