"""DSSE envelopes: who signed these bytes.

The signature covers the *pre-authentication encoding* of payload type and payload (DSSE protocol
v1.0.2), so nothing inside has to be parsed before it is verified, and what was verified is what is
executed. The payload type is pinned by the caller: a signed time statement is no command.

Signatures are Ed25519 (RFC 8032), over keys known by the sha256 of their raw bytes. Every key is
tried with its own signature only; a key id that is not in the keyring counts for nothing.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from edgeagent.contracts.door import decode, encode
from edgeagent.contracts.envelope import MOST_SIGNATURES, Envelope
from edgeagent.contracts.policy import id_of_key
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.scalars import is_sound_key
from edgeagent.errors import MalformedError, RejectedError
from edgeagent.ids import Digest, KeyId
from edgeagent.values import dataclass

Keyring = Mapping[KeyId, bytes]
"""Raw Ed25519 public keys (32 bytes) by their id."""


@dataclass(frozen=True, slots=True)
class Verified:
    """Bytes with the keys that are known to have signed them.

    Attributes:
        payload: what was signed.
        sha256: of the payload; the identity of what was signed.
        signers: the keys of the keyring whose signature verifies, in the envelope's order.
    """

    payload: bytes
    sha256: Digest
    signers: tuple[KeyId, ...]


class RefusedEnvelopeError(RejectedError):
    """An envelope that proves nothing.

    Attributes:
        reason: why, as a code.
    """

    def __init__(self, reason: Reason, why: str) -> None:
        super().__init__(why)
        self.reason = reason


class Signer(Protocol):
    """Something that can sign: a key in memory, or a program that holds one."""

    @property
    def public(self) -> bytes:
        """The 32 raw bytes of its Ed25519 public key."""
        ...

    def sign(self, message: bytes) -> bytes:
        """The 64 bytes of an Ed25519 signature over ``message``."""
        ...


def verify(raw: bytes, keyring: Keyring, payload_type: str, *, limit: int) -> Verified:
    """Find out who signed the payload of an envelope.

    Args:
        raw: the envelope as it came.
        keyring: the keys whose word counts.
        payload_type: the kind of document that is expected.
        limit: the most bytes that an envelope of this kind has.

    Raises:
        RefusedEnvelopeError: too large, malformed, of another kind, or without one good signature.
    """
    if len(raw) > limit:
        raise RefusedEnvelopeError(Reason.TOO_LARGE, f"{len(raw)} bytes, of which {limit} are allowed")
    try:
        envelope = decode(Envelope, raw, limit=limit)
    except MalformedError as why:
        raise RefusedEnvelopeError(Reason.MALFORMED, str(why)) from why
    if envelope.payloadType != payload_type:
        raise RefusedEnvelopeError(Reason.WRONG_PAYLOAD_TYPE, "a document of another kind")
    signers = _signers(envelope, keyring)
    if not signers:
        raise RefusedEnvelopeError(Reason.BAD_SIGNATURE, "no signature by a known key verifies")
    return Verified(envelope.payload, digest_of(envelope.payload), signers)


def sign(payload: bytes, payload_type: str, signers: Sequence[Signer]) -> bytes:
    """Make an envelope around ``payload``, signed by each of ``signers``."""
    message = pre_authentication_encoding(payload_type, payload)
    return b"".join(
        (
            b'{"payload":"',
            b64encode(payload),
            b'","payloadType":"',
            payload_type.encode("ascii"),
            b'","signatures":[',
            b",".join(
                b'{"keyid":"'
                + id_of_key(signer.public).encode("ascii")
                + b'","sig":"'
                + b64encode(signer.sign(message))
                + b'"}'
                for signer in signers
            ),
            b"]}",
        )
    )


def unproven_payload(raw: bytes) -> bytes:
    """The payload of an envelope whose signatures were verified before it was stored.

    Raises:
        MalformedError: it is no envelope.
    """
    return decode(Envelope, raw, limit=len(raw)).payload


def type_of(raw: bytes, *, limit: int) -> str | None:
    """The payload type that an envelope claims, before anything is verified; None where it is no envelope.

    Args:
        raw: the envelope as it came.
        limit: the most bytes that are looked at.
    """
    try:
        return decode(Envelope, raw, limit=limit).payloadType
    except MalformedError:
        return None


def merged(first: bytes, second: bytes) -> bytes:
    """One envelope with the signatures of two around the same payload.

    Raises:
        MalformedError: one is no envelope, or together they have too many signatures.
        RejectedError: they are around different payloads.
    """
    one, other = (decode(Envelope, raw, limit=len(raw)) for raw in (first, second))
    if (one.payload, one.payloadType) != (other.payload, other.payloadType):
        raise RejectedError("envelopes around different payloads")
    known = {(each.keyid, each.sig) for each in one.signatures}
    more = [each for each in other.signatures if (each.keyid, each.sig) not in known]
    if len(one.signatures) + len(more) > MOST_SIGNATURES:
        raise MalformedError(f"more than {MOST_SIGNATURES} signatures")
    return encode(
        Envelope(payload=one.payload, payloadType=one.payloadType, signatures=[*one.signatures, *more])
    )


def pre_authentication_encoding(payload_type: str, payload: bytes) -> bytes:
    """PAE of DSSE: ``DSSEv1 SP LEN(type) SP type SP LEN(body) SP body``."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def is_signed(message: bytes, signature: bytes, public: bytes) -> bool:
    """Whether these are the 64 bytes of an Ed25519 signature over ``message`` (RFC 8032 section 5.1.7).

    False too where ``public`` is no key: of another length, or one that anybody can sign for.
    """
    try:
        _public_key(public).verify(signature, message)
    except (InvalidSignature, ValueError):  # the latter: no such key
        return False
    return True


def digest_of(payload: bytes) -> Digest:
    """The sha256 of some bytes, in hexadecimal."""
    return Digest(sha256(payload).hexdigest())


def _signers(envelope: Envelope, keyring: Keyring) -> tuple[KeyId, ...]:
    message = pre_authentication_encoding(envelope.payloadType, envelope.payload)
    found: list[KeyId] = []
    for signature in envelope.signatures:
        public = keyring.get(signature.keyid)
        # A key signs once, however often its signature is listed.
        if public is None or signature.keyid in found or id_of_key(public) != signature.keyid:
            continue
        if is_signed(message, signature.sig, public):
            found.append(signature.keyid)
    return tuple(found)


@lru_cache(maxsize=64)
def _public_key(raw: bytes) -> Ed25519PublicKey:
    if not is_sound_key(raw):
        raise ValueError("no key that only its holder can sign for")
    return Ed25519PublicKey.from_public_bytes(raw)
