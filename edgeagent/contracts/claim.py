"""The claim code: one text that a hub is set up with, byte for byte (docs/protocol.md).

    EA1-XXXXXXXX-XXXXXXXX-...    base32 (RFC 4648 section 6) of

    secret          16 bytes of chance, good once
    authority       32 bytes: sha256 of the DER of the authority's root certificate
    root            32 bytes: sha256 of the first root of the policy's metadata
    until            4 bytes: seconds since 1970, unsigned, big-endian; the code is over then
    cloud, policy, hub, zone
                    each one byte of length and so many bytes of ASCII; an empty policy stands for
                    ``cloud`` + /v1/policy
    checksum         4 bytes: the first of the sha256 of all before

Hyphens, spaces, line ends and the size of letters do not count, so that a code survives a letter, a chat and
a telephone. Whoever mistypes it is told at once, and nothing is sent.
"""

import re
from base64 import b32decode, b32encode
from dataclasses import field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Annotated, Final

from pydantic import AfterValidator, StringConstraints, ValidationError

from edgeagent.contracts.door import Contract, faults
from edgeagent.contracts.scalars import DigestField, HubIdField, Timestamp
from edgeagent.errors import MalformedError
from edgeagent.ids import Digest
from edgeagent.values import dataclass

CLAIM_CHARACTERS: Final = 2000
"""The most characters of a code that are looked at; an ordinary one has 300."""
SECRET_BYTES: Final = 16
"""128 bits: nobody finds one by trying."""

_PREFIX: Final = "EA1"
_GROUP: Final = 8
_DIGEST: Final = 32
_CHECKSUM: Final = 4
_INSTANT: Final = 4
_LONGEST: Final = 255
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)
_POLICY: Final = "/v1/policy"
_NOISE: Final = re.compile(r"[\s\-]+")
# What people read where there is another letter; none of the left ones is in the alphabet.
_MISREAD: Final = str.maketrans("018", "OIB")


def _address(url: str) -> str:
    if re.fullmatch(r"https://[A-Za-z0-9.\-\[\]:]+(/[A-Za-z0-9._~/-]*)?", url) is None:
        raise ValueError("not an address like https://queue.example.org")
    return url.rstrip("/")


Address = Annotated[str, StringConstraints(max_length=_LONGEST), AfterValidator(_address)]
"""Where something is reached by https."""
Zone = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_+/-]{1,64}$")]
"""A name of the IANA time zone database, by its look."""


class ClaimFacts(Contract):
    """What a claim code tells a hub, beside its secret.

    Attributes:
        cloud: the queue's address.
        policy: where the policy is published.
        authority: sha256 of the DER of the root certificate that the queue's goes back to.
        root: sha256 of the first root of what is published there.
        hub: who the hub is to be.
        zone: the venue's time zone.
        until: when the code is over.
    """

    cloud: Address
    policy: Address
    authority: DigestField
    root: DigestField
    hub: HubIdField
    zone: Zone
    until: Timestamp


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim code that was read.

    Attributes:
        facts: what it tells.
        secret: what it proves; it never prints.
    """

    facts: ClaimFacts
    secret: bytes = field(repr=False)


def default_policy(cloud: str) -> str:
    """Where the policy is published, if a code does not say otherwise."""
    return f"{cloud}{_POLICY}"


def secret_digest(secret: bytes) -> Digest:
    """What a queue keeps of a secret. It is all chance, so that a plain hash of it cannot be searched."""
    return Digest(sha256(secret).hexdigest())


def claim_text(claim: Claim) -> str:
    """Write a code, as it is handed to people: one line, in capitals."""
    facts = claim.facts
    policy = "" if facts.policy == default_policy(facts.cloud) else facts.policy
    body = b"".join(
        (
            claim.secret,
            bytes.fromhex(facts.authority),
            bytes.fromhex(facts.root),
            ((facts.until - _EPOCH) // _SECOND).to_bytes(_INSTANT, "big"),
            *(
                bytes([len(text)]) + text.encode("ascii")
                for text in (facts.cloud, policy, facts.hub, facts.zone)
            ),
        )
    )
    text = b32encode(body + _checksum(body)).decode("ascii").rstrip("=")
    return "-".join([_PREFIX, *(text[start : start + _GROUP] for start in range(0, len(text), _GROUP))])


def read_claim(text: str) -> Claim:
    """Read a code as somebody has pasted or typed it.

    Raises:
        MalformedError: it is none, of another version, mistyped, or cut. The message shows nothing of it.
    """
    if len(text) > CLAIM_CHARACTERS:
        raise MalformedError("that is longer than any claim code")
    letters = _NOISE.sub("", text).upper()
    if not letters:
        raise MalformedError("that is no claim code: nothing is in it")
    if not letters.startswith(_PREFIX):
        raise MalformedError(f"that is no claim code: one begins with {_PREFIX}-")
    body = _body(letters.removeprefix(_PREFIX).translate(_MISREAD))
    try:
        return _claim_of(body)
    except (ValidationError, UnicodeDecodeError, IndexError) as why:
        words = faults(why) if isinstance(why, ValidationError) else "it is cut"
        # Its checksum is right: whoever made it made it wrong.
        raise MalformedError(f"the claim code was not made as it should be: {words}") from why


def _text(text: str) -> bytes:
    return bytes([len(text)]) + text.encode("ascii")


def _body(letters: str) -> bytes:
    """What stands in a code before its checksum."""
    try:
        raw = b32decode(letters + "=" * (-len(letters) % _GROUP))
    except ValueError as why:
        raise MalformedError("the claim code is mistyped or cut: copy it again") from why
    body, checksum = raw[:-_CHECKSUM], raw[-_CHECKSUM:]
    if _checksum(body) != checksum or b32encode(raw).decode("ascii").rstrip("=") != letters:
        raise MalformedError("the claim code is mistyped or cut: its checksum does not fit; copy it again")
    return body


def _claim_of(body: bytes) -> Claim:
    secret, rest = body[:SECRET_BYTES], body[SECRET_BYTES:]
    authority, root, rest = rest[:_DIGEST], rest[_DIGEST : 2 * _DIGEST], rest[2 * _DIGEST :]
    until, rest = _EPOCH + int.from_bytes(rest[:_INSTANT], "big") * _SECOND, rest[_INSTANT:]
    texts: list[str] = []
    for _ in range(4):
        length = rest[0]
        if len(rest) <= length:
            raise IndexError
        texts.append(rest[1 : 1 + length].decode("ascii"))
        rest = rest[1 + length :]
    if rest:
        raise MalformedError("the claim code is of a newer kind: install a newer edgeagent")
    cloud, policy, hub, zone = texts
    facts = {
        "cloud": cloud,
        "policy": policy or default_policy(cloud),
        "authority": authority.hex(),
        "root": root.hex(),
        "hub": hub,
        "zone": zone,
        "until": until,
    }
    return Claim(ClaimFacts.model_validate(facts), secret)


def _checksum(body: bytes) -> bytes:
    return sha256(body).digest()[:_CHECKSUM]
