"""Who hubs are: enrolment by a claim code, renewal by the certificate itself, and what is told of both.

    enrol      secret of a code + request for a certificate  >  certificate
    renew      certificate, also one that ended not long ago + request  >  the next certificate
    identity   certificate  >  whose it is, and whether it counts
    authority  anybody  >  the root, which whoever asks knows by its sha256

A request that comes again for the same key gets the same certificate, as long as that is good: an answer may
be lost. A code works once, a wrong one is counted, and whoever sends many waits.
"""

import logging
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from typing import Final, NoReturn

from aiohttp import web
from cryptography import x509

from edgeagent.adapters.cloud.identity_wire import (
    AuthorityAnswer,
    CertificateAnswer,
    EnrolmentRequest,
    IdentityAnswer,
    RenewalRequest,
    Standing,
)
from edgeagent.adapters.cloud.wire import Fault
from edgeagent.contracts.claim import secret_digest
from edgeagent.contracts.reasons import Reason
from edgeagent.core.certificates import (
    UnprovenCertificateError,
    key_digest,
    pem_of,
    public_key_of,
    read_request,
    serial_text,
)
from edgeagent.ids import Digest, HubId
from edgeagent.issuer.bells import About
from edgeagent.issuer.bodies import ProblemError, answer, read_json
from edgeagent.issuer.certifying import Authority
from edgeagent.issuer.claim_wire import ClaimState
from edgeagent.issuer.instruments import Given
from edgeagent.issuer.logins import named, not_valid
from edgeagent.issuer.service import Service
from edgeagent.issuer.store import identities
from edgeagent.issuer.store.identities import CertificateState, StoredCertificate, StoredClaim
from edgeagent.issuer.store.opening import Instant, milliseconds_of
from edgeagent.store.database import Snapshot, Transaction

log = logging.getLogger(__name__)

_MILLISECOND: Final = timedelta(milliseconds=1)


class IdentitySide:
    """Answers whoever is to become a hub, or is one."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def authority(self, _request: web.Request) -> web.Response:
        """GET authority: the root certificate, for everybody."""
        return answer(AuthorityAnswer(root=pem_of([self._authority().root]).decode("ascii")))

    async def enrol(self, request: web.Request) -> web.Response:
        """POST enrolment: certify the key of whoever knows a claim's secret."""
        service, authority = self._service, self._authority()
        address = request.remote or ""
        wait = service.attempts.wait(address, service.clock.boot())
        if wait > timedelta(0):
            service.instruments.identity(Given.SLOWED)
            raise ProblemError(
                HTTPStatus.TOO_MANY_REQUESTS, Fault.BUSY, "too many codes that are none", retry_after=wait
            )
        asked = await read_json(request, EnrolmentRequest, within=service.limits.body_time)
        csr, secret = _read(asked.request), secret_digest(bytes.fromhex(asked.secret))
        claim = await service.database.read(lambda db: identities.find_claim(db, secret))
        if claim is None:
            service.attempts.failed(address, service.clock.boot())
            service.attempts.forget(service.clock.boot())
            self._refuse(HTTPStatus.NOT_FOUND, Fault.CLAIM_UNKNOWN, "there is no such claim code")
        offered = self._certify(authority, claim.hub, csr)
        given = await service.database.write(partial(self._enrol, secret, offered, self._now()))
        service.logins.hubs.add(given.hub)
        # A lease that waits by an earlier certificate is sent away.
        service.bells.ring(given.hub, About.QUEUE)
        service.instruments.identity(Given.ENROLLED)
        log.info("hub enrolled", extra={"hub": given.hub, "serial": given.serial})
        return answer(CertificateAnswer(hub=given.hub, chain=given.chain))

    async def renew(self, request: web.Request) -> web.Response:
        """POST renewal: certify the next key of the hub whose certificate is shown."""
        service, authority = self._service, self._authority()
        shown = await service.logins.find(*named(request))
        if shown is None:
            self._refuse_standing(Standing.UNKNOWN)
        grace = service.limits.renewal_grace // _MILLISECOND
        if (standing := shown.standing(self._now(), grace=grace)) is not Standing.VALID:
            self._refuse_standing(standing)
        asked = await read_json(request, RenewalRequest, within=service.limits.body_time)
        await service.logins.used(shown)
        offered = self._certify(authority, shown.hub, _read(asked.request))
        given = await service.database.write(partial(self._renew, shown.serial, offered, self._now()))
        service.instruments.identity(Given.RENEWED)
        log.info("certificate renewed", extra={"hub": given.hub, "serial": given.serial})
        return answer(CertificateAnswer(hub=given.hub, chain=given.chain))

    async def identity(self, request: web.Request) -> web.Response:
        """GET identity: whose the shown certificate is; one that counts is in use from now on."""
        logins = self._service.logins
        certificate, hub = named(request)
        found = await logins.find(certificate, hub)
        standing = Standing.UNKNOWN if found is None else found.standing(self._now())
        if found is not None and standing is Standing.VALID:
            await logins.used(found)
        authority = self._service.authority
        is_to_renew = (
            standing is Standing.VALID and authority is not None and authority.is_to_renew(certificate)
        )
        return answer(
            IdentityAnswer(
                hub=hub,
                serial=serial_text(certificate),
                standing=standing,
                ends=certificate.not_valid_after_utc,
                renew=is_to_renew,
            )
        )

    def _authority(self) -> Authority:
        if self._service.authority is None:
            raise ProblemError(HTTPStatus.NOT_FOUND, Fault.NOT_FOUND, "no hub is enrolled here")
        return self._service.authority.current()

    def _certify(
        self, authority: Authority, hub: HubId, csr: x509.CertificateSigningRequest
    ) -> StoredCertificate:
        """Make the certificate that is given if the database agrees."""
        now, public = self._service.clock.wall().best, public_key_of(csr)
        chain = authority.certify_hub(hub, public, now, self._service.limits.certificate_lifetime)
        return StoredCertificate(
            serial=serial_text(chain[0]),
            hub=hub,
            state=CertificateState.NEW,
            key=key_digest(public),
            chain=pem_of(chain).decode("ascii"),
            begins=milliseconds_of(chain[0].not_valid_before_utc),
            ends=milliseconds_of(chain[0].not_valid_after_utc),
        )

    def _enrol(
        self, secret: Digest, offered: StoredCertificate, now: Instant, tx: Transaction
    ) -> StoredCertificate:
        claim = identities.find_claim(tx, secret)
        if claim is None or claim.state is ClaimState.REVOKED or now.milliseconds >= claim.until:
            self._refuse(HTTPStatus.GONE, Fault.CLAIM_OVER, "the claim code came too late, or was taken back")
        if claim.state is ClaimState.USED:
            return self._given_before(tx, claim, offered)
        identities.enrol(tx, secret, offered, now)
        return offered

    def _given_before(
        self, db: Snapshot, claim: StoredClaim, offered: StoredCertificate
    ) -> StoredCertificate:
        """What was given for a code, if it is asked for again with the same key."""
        given = None if claim.serial is None else identities.find_certificate(db, claim.serial)
        if claim.key != offered.key or given is None or not given.state.counts:
            self._refuse(HTTPStatus.CONFLICT, Fault.CLAIM_USED, "the claim code was used: ask for a new one")
        return given

    def _renew(
        self, serial: str, offered: StoredCertificate, now: Instant, tx: Transaction
    ) -> StoredCertificate:
        shown = identities.find_certificate(tx, serial)
        if shown is None or not shown.state.counts:
            self._refuse_standing(Standing.REPLACED)
        for state in (CertificateState.NEW, CertificateState.CURRENT):
            earlier = identities.in_state(tx, offered.hub, state)
            if earlier is None or earlier.key != offered.key or earlier.serial == serial:
                continue
            # Whoever was away until that one had ended as well could do nothing with it.
            if earlier.standing(now) is Standing.VALID:
                return earlier
        if shown.state is CertificateState.PREVIOUS:
            log.warning("an earlier certificate asks for another", extra={"hub": shown.hub, "serial": serial})
            self._refuse_standing(Standing.REPLACED)
        identities.renew(tx, offered, now)
        return offered

    def _refuse(self, status: HTTPStatus, fault: Fault, words: str) -> NoReturn:
        self._service.instruments.identity(Given.REFUSED)
        raise ProblemError(status, fault, words)

    def _refuse_standing(self, standing: Standing) -> NoReturn:
        self._service.instruments.identity(Given.REFUSED)
        refused = not_valid(standing)
        # Not 401: that says nothing to a hub, whose login is its certificate.
        raise ProblemError(HTTPStatus.CONFLICT, refused.reason, refused.detail)

    def _now(self) -> Instant:
        return Instant.of(self._service.clock)


def _read(der: bytes) -> x509.CertificateSigningRequest:
    try:
        return read_request(der)
    except UnprovenCertificateError as why:
        raise ProblemError(HTTPStatus.BAD_REQUEST, Reason.MALFORMED, str(why)) from why
