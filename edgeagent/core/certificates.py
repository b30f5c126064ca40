"""What certificates of hubs and queues look like, and when one of them is believed (RFC 5280).

    root        offline; its sha256 stands in the claim code
      issuing   signs what follows; path length 0
        hub     CN and SAN urn:edgeagent:hub:<id>, clientAuth, 90 days
        queue   SAN of its names, serverAuth

Keys are on P-256, which every TLS that a venue may meet can do. A certificate says who somebody is; whether
that still counts is the queue's word, which knows the serial numbers that it has taken back.

An issuing certificate names the keys whose place its own has taken, by the root's word as all of it. Who has
a certificate by the newer key believes the earlier ones no more, whoever holds them by now.
"""

from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509 import verification

from edgeagent.errors import MalformedError
from edgeagent.ids import Digest, HubId, hub_id

CHAIN_BYTES: Final = 16 * 1024
"""The most bytes of a chain in PEM; an ordinary one has 1,500."""
REQUEST_BYTES: Final = 4 * 1024
"""The most bytes of a request for a certificate, DER; an ordinary one has 250."""
RENEWED_AT: Final = 2 / 3
"""After which part of its life a certificate is renewed."""

RETIRED: Final = x509.ObjectIdentifier("2.25.23799111668004986760386315746482046699")
"""The extension of an issuing certificate that names earlier keys: a SEQUENCE OF OCTET STRING, of the key
identifiers (RFC 5280 section 4.2.1.2) that stand in certificates of theirs. The number is a UUID (X.667)."""
MOST_RETIRED: Final = 5
"""The most that are named: with so many the sequence has a length of one byte."""

_KEY_ID: Final = 20
_SEQUENCE: Final = 0x30
_OCTETS: Final = bytes((0x04, _KEY_ID))
_URN: Final = "urn:edgeagent:hub:"
_MOST: Final = 4


class UnprovenCertificateError(MalformedError):
    """A certificate is not what it has to be."""


def urn_of(hub: HubId) -> str:
    """What a hub is called in its certificate."""
    return f"{_URN}{hub}"


def read_chain(pem: bytes) -> tuple[x509.Certificate, ...]:
    """Read certificates, the first for whoever shows them; keys beside them are passed over.

    Raises:
        UnprovenCertificateError: there are none, too many, or they are none.
    """
    if len(pem) > CHAIN_BYTES:
        raise UnprovenCertificateError(f"a chain of more than {CHAIN_BYTES} bytes")
    try:
        chain = tuple(x509.load_pem_x509_certificates(pem))
    except ValueError as why:
        raise UnprovenCertificateError("no certificates in PEM") from why
    if len(chain) > _MOST:
        raise UnprovenCertificateError(f"a chain of more than {_MOST} certificates")
    return chain


def pem_of(chain: Sequence[x509.Certificate]) -> bytes:
    """Write certificates as PEM."""
    return b"".join(each.public_bytes(Encoding.PEM) for each in chain)


def fingerprint(certificate: x509.Certificate) -> Digest:
    """The sha256 of a certificate's DER, as ``openssl x509 -fingerprint -sha256`` tells it."""
    return Digest(sha256(certificate.public_bytes(Encoding.DER)).hexdigest())


def serial_text(certificate: x509.Certificate) -> str:
    """A serial number in hexadecimal, as ``openssl x509 -serial`` tells it, in small letters."""
    return f"{certificate.serial_number:x}"


def key_digest(key: ec.EllipticCurvePublicKey) -> Digest:
    """The sha256 of a public key (SubjectPublicKeyInfo): by which a lost answer is known again."""
    return Digest(sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest())


def public_key_of(
    certificate: x509.Certificate | x509.CertificateSigningRequest,
) -> ec.EllipticCurvePublicKey:
    """The key that somebody holds the other half of.

    Raises:
        UnprovenCertificateError: it is of another kind than P-256.
    """
    try:
        key = certificate.public_key()
    except ValueError as why:
        raise UnprovenCertificateError("a key that cannot be read") from why
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise UnprovenCertificateError("a key that is not on P-256")
    return key


def read_request(der: bytes) -> x509.CertificateSigningRequest:
    """Read a request for a certificate (PKCS #10), signed by the key that it is for.

    Raises:
        UnprovenCertificateError: it is none, or somebody else's key.
    """
    if len(der) > REQUEST_BYTES:
        raise UnprovenCertificateError(f"a request of more than {REQUEST_BYTES} bytes")
    try:
        request = x509.load_der_x509_csr(der)
        is_signed = request.is_signature_valid
    except (ValueError, TypeError) as why:
        raise UnprovenCertificateError("no request for a certificate") from why
    public_key_of(request)
    if not is_signed:
        raise UnprovenCertificateError("the request is not signed by the key that it is for")
    return request


def hub_of(certificate: x509.Certificate) -> HubId:
    """Which hub a certificate names.

    Raises:
        UnprovenCertificateError: it names none, or more than one.
    """
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        [urn] = names.get_values_for_type(x509.UniformResourceIdentifier)
        if not urn.startswith(_URN) or len(list(names)) != 1:
            raise UnprovenCertificateError("a certificate of no hub")
        return hub_id(urn.removeprefix(_URN))
    except (x509.ExtensionNotFound, ValueError, MalformedError) as why:
        raise UnprovenCertificateError("a certificate of no hub") from why


def key_id(certificate: x509.Certificate) -> bytes:
    """What the certificates that its key signs know it by.

    Raises:
        UnprovenCertificateError: it does not say.
    """
    try:
        return certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    except (x509.ExtensionNotFound, ValueError) as why:
        raise UnprovenCertificateError("a certificate without the identifier of its key") from why


def signer_id(certificate: x509.Certificate) -> bytes | None:
    """The identifier of the key that has signed a certificate; None where it does not say."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    except (x509.ExtensionNotFound, ValueError):
        return None
    return found.key_identifier


def retired_by(certificate: x509.Certificate) -> tuple[bytes, ...]:
    """The identifiers of the keys whose place an issuing certificate's has taken, the last first.

    Raises:
        UnprovenCertificateError: it names them in another way.
    """
    try:
        value = certificate.extensions.get_extension_for_oid(RETIRED).value
    except x509.ExtensionNotFound:
        return ()
    except ValueError as why:
        raise UnprovenCertificateError("a certificate whose extensions cannot be read") from why
    raw = value.value if isinstance(value, x509.UnrecognizedExtension) else b""
    step = _KEY_ID + len(_OCTETS)
    keys = tuple(raw[at + len(_OCTETS) : at + step] for at in range(2, len(raw), step))
    is_short = len(keys) <= MOST_RETIRED and all(len(key) == _KEY_ID for key in keys)
    if not is_short or raw != retired_value(keys):
        raise UnprovenCertificateError("a certificate that names earlier keys in another way")
    return keys


def retired_value(keys: Sequence[bytes]) -> bytes:
    """The DER of the extension ``RETIRED``."""
    content = b"".join(_OCTETS + key for key in keys)
    return bytes((_SEQUENCE, len(content))) + content


def check_hub_chain(
    chain: Sequence[x509.Certificate], authority: x509.Certificate, hub: HubId, at: datetime
) -> None:
    """See that a chain goes back to an authority and is this hub's.

    Args:
        chain: the hub's certificate, and whatever lies between.
        authority: the root.
        hub: whose it has to be.
        at: when it has to be good.

    Raises:
        UnprovenCertificateError: says what is wrong.
    """
    leaf, *between = chain
    if (named := hub_of(leaf)) != hub:
        raise UnprovenCertificateError(f"the certificate is of {named}, not of {hub}")
    public_key_of(leaf)
    verifier = (
        verification.PolicyBuilder().store(verification.Store([authority])).time(at).build_client_verifier()
    )
    try:
        verifier.verify(leaf, between)
    except verification.VerificationError as why:
        raise UnprovenCertificateError(f"the certificate is not in order: {why}") from why


def renewal_due(certificate: x509.Certificate, chance: float) -> datetime:
    """When a certificate is to be renewed: at two thirds of its life, and up to a thirtieth later.

    Args:
        certificate: that one.
        chance: evenly from [0, 1), so that hubs that were enrolled together do not come together.
    """
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return begins + (ends - begins) * (RENEWED_AT + chance / 30)
