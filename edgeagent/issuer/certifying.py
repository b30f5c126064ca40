"""What the small authority signs: certificates of its own keys, of hubs, and of the queue itself.

None begins before, or outlasts, that of whoever signs it.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from edgeagent.core.certificates import public_key_of, urn_of
from edgeagent.errors import ConfigurationError, MalformedError
from edgeagent.ids import HubId
from edgeagent.values import dataclass

HUB_LIFETIME: Final = timedelta(days=90)
BACKDATED: Final = timedelta(hours=1)
"""How far back a certificate begins, for clocks that are a little slow."""
SHORTEST: Final = timedelta(seconds=1)
"""The shortest life that a certificate may have."""


@dataclass(frozen=True, slots=True)
class Authority:
    """An authority that signs.

    Attributes:
        root: its root certificate.
        issuing: the certificate of the key that signs.
        key: that key.
    """

    root: x509.Certificate
    issuing: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def certify_hub(
        self, hub: HubId, public: ec.EllipticCurvePublicKey, now: datetime, lifetime: timedelta
    ) -> tuple[x509.Certificate, ...]:
        """Sign for a hub's key.

        Returns:
            The chain that the hub shows: its certificate, and the issuing one.
        """
        builder = _of_leaf(hub, self.issuing, public, now, lifetime)
        names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(urn_of(hub))])
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        signed = builder.add_extension(names, critical=False).add_extension(usage, critical=False)
        return signed.sign(self.key, hashes.SHA256()), self.issuing

    def certify_server(
        self, names: Sequence[str], public: ec.EllipticCurvePublicKey, now: datetime, lifetime: timedelta
    ) -> tuple[x509.Certificate, ...]:
        """Sign for a server that is called so. Returns the chain that it shows."""
        builder = _of_leaf(names[0], self.issuing, public, now, lifetime)
        known = x509.SubjectAlternativeName([_general_name(name) for name in names])
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        signed = builder.add_extension(known, critical=False).add_extension(usage, critical=False)
        return signed.sign(self.key, hashes.SHA256()), self.issuing


def names_of(certificate: x509.Certificate) -> list[str]:
    """What a server is called."""
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [
        *names.get_values_for_type(x509.DNSName),
        *(str(address) for address in names.get_values_for_type(x509.IPAddress)),
    ]


def _builder(
    name: str,
    issuer: x509.Certificate | None,
    public: ec.EllipticCurvePublicKey,
    now: datetime,
    lifetime: timedelta,
) -> x509.CertificateBuilder:
    """What all certificates have in common; none outlasts whoever signs it."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
    begins, ends = now - BACKDATED, now + lifetime
    signer = public
    if issuer is not None:
        begins, ends = max(begins, issuer.not_valid_before_utc), min(ends, issuer.not_valid_after_utc)
        signer = public_key_of(issuer)
    if begins + SHORTEST > ends:
        raise ConfigurationError("the authority's own certificate has ended")
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.subject)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer), critical=False)
    )


def of_authority(
    name: str,
    issuer: x509.Certificate | None,
    public: ec.EllipticCurvePublicKey,
    now: datetime,
    lifetime: timedelta,
) -> x509.CertificateBuilder:
    """A certificate of a key that certifies others, to be signed; of the root where there is no issuer.

    Raises:
        ConfigurationError: that of whoever signs it has ended.
    """
    length = 1 if issuer is None else 0
    return (
        _builder(name, issuer, public, now, lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=length), critical=True)
        .add_extension(_usage(signs=True), critical=True)
    )


def _of_leaf(
    name: str,
    issuer: x509.Certificate,
    public: ec.EllipticCurvePublicKey,
    now: datetime,
    lifetime: timedelta,
) -> x509.CertificateBuilder:
    return (
        _builder(name, issuer, public, now, lifetime)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        pass
    try:
        return x509.DNSName(name)
    except ValueError as why:
        raise MalformedError(f"{name!r} is neither a host's name nor an address") from why
