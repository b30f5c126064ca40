"""Who is asking: by a bearer token, or by a certificate of the queue's own authority.

A certificate that TLS has verified says whose key is used. Whether it counts stands in the database: by its
serial number and its key, so that what was taken back, replaced, or made by a thief of the authority's key
lets nobody in, whatever it says of itself. Its time is judged here and by the queue's clock; TLS leaves that
to us, so that a hub that was away can still renew.
"""

import ssl
from dataclasses import field
from http import HTTPStatus
from typing import Final

from aiohttp import web
from cryptography import x509

from edgeagent.adapters.cloud.identity_wire import Standing
from edgeagent.adapters.cloud.wire import Fault
from edgeagent.clock import Clock
from edgeagent.core.certificates import (
    UnprovenCertificateError,
    hub_of,
    key_digest,
    public_key_of,
    serial_text,
)
from edgeagent.ids import HubId
from edgeagent.issuer.bodies import ProblemError
from edgeagent.issuer.store import identities
from edgeagent.issuer.store.identities import CertificateState, StoredCertificate
from edgeagent.issuer.store.opening import Instant
from edgeagent.issuer.tokens import Principal, Role, TokenFile
from edgeagent.store.database import Database
from edgeagent.values import dataclass

_SCHEME: Final = "bearer"
_MOST_TOKEN: Final = 1024
_WORDS: Final = {
    Standing.REPLACED: (Fault.CERTIFICATE_REPLACED, "a later certificate of this hub counts: enrol it anew"),
    Standing.REVOKED: (Fault.CERTIFICATE_REVOKED, "this hub's certificates were taken back: enrol it anew"),
    Standing.UNKNOWN: (Fault.CERTIFICATE_UNKNOWN, "this certificate is not known here: enrol the hub anew"),
    Standing.OVER: (Fault.CERTIFICATE_OVER, "this certificate has ended, or not begun: renew it"),
}


@dataclass(slots=True)
class Logins:
    """Everybody who may ask something.

    Attributes:
        tokens: bearer tokens.
        database: certificates.
        clock: judges when a certificate is over.
        hubs: those that a certificate stands for, or may; as the database has them.
    """

    tokens: TokenFile
    database: Database
    clock: Clock
    hubs: set[HubId] = field(default_factory=set)

    async def load(self) -> None:
        """Know the hubs of the database."""
        self.hubs = set(await self.database.read(identities.known_hubs))

    def knows_hub(self, hub: HubId) -> bool:
        """Whether some token or certificate stands for this hub."""
        return hub in self.hubs or self.tokens.knows_hub(hub)

    async def principal(self, request: web.Request) -> Principal:
        """Who asks.

        Raises:
            ProblemError: nobody that is known.
        """
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == _SCHEME and 0 < len(token) <= _MOST_TOKEN and token.isascii():
            principal = self.tokens.principal(token)
            if principal is not None:
                return principal
        elif "Authorization" not in request.headers and peer_certificate(request) is not None:
            shown = await self.shown(request)
            if (standing := shown.standing(Instant.of(self.clock))) is not Standing.VALID:
                raise not_valid(standing)
            await self.used(shown)
            return Principal(f"certificate:{shown.hub}", Role.HUB, shown.hub)
        raise ProblemError(HTTPStatus.UNAUTHORIZED, Fault.UNAUTHORISED, "a known bearer token is needed")

    async def shown(self, request: web.Request) -> StoredCertificate:
        """The certificate that somebody has shown, as it stands in the database.

        Raises:
            ProblemError: none, or none that was ever given.
        """
        certificate, hub = named(request)
        found = await self.find(certificate, hub)
        if found is None:
            # Of this authority, and not in this database: one of another life of it.
            raise not_valid(Standing.UNKNOWN)
        return found

    async def find(self, certificate: x509.Certificate, hub: HubId) -> StoredCertificate | None:
        """A hub's certificate as it stands in the database; None for one that was never given in its life."""
        serial = serial_text(certificate)
        found = await self.database.read(lambda db: identities.find_certificate(db, serial))
        if found is None or found.hub != hub:
            return None
        # Who has the authority's key can give a certificate of their own any number.
        return found if found.key == key_digest(public_key_of(certificate)) else None

    async def used(self, shown: StoredCertificate) -> None:
        """Note that a certificate counts and was shown: once it is, the one before it steps back."""
        if shown.state is CertificateState.NEW:
            await self.database.write(lambda tx: identities.first_use(tx, shown.hub))


def named(request: web.Request) -> tuple[x509.Certificate, HubId]:
    """The certificate that somebody has shown, and the hub that it names.

    Raises:
        ProblemError: none, or none of a hub.
    """
    certificate = peer_certificate(request)
    if certificate is None:
        raise ProblemError(HTTPStatus.UNAUTHORIZED, Fault.UNAUTHORISED, "a hub's certificate is needed")
    try:
        public_key_of(certificate)
        return certificate, hub_of(certificate)
    except UnprovenCertificateError as why:
        raise ProblemError(HTTPStatus.UNAUTHORIZED, Fault.UNAUTHORISED, str(why)) from why


def not_valid(standing: Standing) -> ProblemError:
    """Why a certificate lets nobody in."""
    fault, words = _WORDS[standing]
    return ProblemError(HTTPStatus.UNAUTHORIZED, fault, words)


def peer_certificate(request: web.Request) -> x509.Certificate | None:
    """What the far side has proven to have the key of; None where it has shown nothing."""
    transport = request.transport
    tls = None if transport is None else transport.get_extra_info("ssl_object")
    if not isinstance(tls, ssl.SSLObject | ssl.SSLSocket):
        return None
    der = tls.getpeercert(binary_form=True)
    return None if der is None else x509.load_der_x509_certificate(der)
