"""How a hub becomes known to the queue: the authority's root, the first certificate, the next ones.

The root is fetched before anything can be verified by it. Nothing is sent for that, and nothing is believed
but the one certificate whose sha256 stands in the claim code; from then on every connection is verified, and
the claim's secret leaves by a verified one only.
"""

import ssl
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Final

import aiohttp
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from edgeagent.adapters.cloud.exchange import Answer, Exchange, Question
from edgeagent.adapters.cloud.identity_wire import (
    AUTHORITY_BYTES,
    AuthorityAnswer,
    CertificateAnswer,
    EnrolmentRequest,
    IdentityAnswer,
    RenewalRequest,
    Standing,
)
from edgeagent.adapters.cloud.settings import CloudSettings
from edgeagent.adapters.cloud.trouble import of_exception
from edgeagent.adapters.cloud.wire import Fault
from edgeagent.clock import Clock
from edgeagent.contracts.claim import Claim
from edgeagent.contracts.door import decode, encode
from edgeagent.core.certificates import fingerprint, read_chain
from edgeagent.errors import MalformedError, RejectedError, SuspiciousError
from edgeagent.ports.identity import NotRenewedError, Shown
from edgeagent.ports.links import LinkError, Trouble

_FIRST_CONTACT: Final = aiohttp.ClientTimeout(total=30, connect=10)
_JSON_AROUND: Final = 4096


class RefusedEnrolmentError(RejectedError):
    """The queue does not enrol us.

    Attributes:
        reason: its code.
    """

    def __init__(self, reason: str, why: str) -> None:
        super().__init__(why)
        self.reason = reason


async def fetch_authority(claim: Claim, *, proxy: str | None = None) -> x509.Certificate:
    """Fetch the root certificate that a claim code pins.

    Raises:
        LinkError: nothing came back that may be it.
        SuspiciousError: another certificate came: somebody stands between, or the code is another queue's.
    """
    # There is nothing yet to verify this connection with. What comes is known by its digest, or not at all.
    unproven = ssl.create_default_context()
    unproven.check_hostname = False
    unproven.verify_mode = ssl.CERT_NONE
    unproven.minimum_version = ssl.TLSVersion.TLSv1_2
    url = f"{claim.facts.cloud}/v1/authority"
    try:
        async with (
            aiohttp.ClientSession(trust_env=False, timeout=_FIRST_CONTACT) as session,
            session.get(url, ssl=unproven, allow_redirects=False, proxy=proxy) as response,
        ):
            if response.status != HTTPStatus.OK:
                raise LinkError(Trouble.BROKEN_ANSWER, f"{url} answers {response.status}: it enrols no hubs")
            raw = await _at_most(response.content, AUTHORITY_BYTES + _JSON_AROUND)
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as why:
        raise of_exception(why) from why
    try:
        [root] = read_chain(decode(AuthorityAnswer, raw, limit=AUTHORITY_BYTES + _JSON_AROUND).root.encode())
    except (MalformedError, ValueError) as why:
        raise LinkError(Trouble.BROKEN_ANSWER, f"{url} tells no authority") from why
    if fingerprint(root) != claim.facts.authority:
        raise SuspiciousError(
            "the queue shows another authority than the claim code names: somebody stands between, or the "
            "code is another queue's; nothing was sent"
        )
    return root


async def _at_most(content: aiohttp.StreamReader, limit: int) -> bytes:
    """All of an answer, in however many pieces it comes; of a larger one a byte more than the limit."""
    found = bytearray()
    while piece := await content.read(limit + 1 - len(found)):
        found += piece
    return bytes(found)


class QueueRegistry:
    """The queue, as it certifies hubs; keeps the promises of ``ports.identity.Registry``.

    Args:
        settings: where it is and whom we trust; its certificate is the hub's present one.
        clock: for dates in answers.
    """

    def __init__(self, settings: CloudSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock

    async def enrol(self, claim: Claim, request: x509.CertificateSigningRequest) -> bytes:
        """Become the hub of a claim.

        Returns:
            The chain, PEM; whoever asked looks whether it is theirs.

        Raises:
            RefusedEnrolmentError: the queue takes the code no more, or knows none such.
            LinkError: unknown whether it was taken; the same request may be sent again.
        """
        asked = EnrolmentRequest(secret=claim.secret.hex(), request=request.public_bytes(Encoding.DER))
        settings = replace(self._settings, certificate=None, key=None, token=None)
        answer = await self._ask(settings, Question(path="/v1/enrolment", body=encode(asked)))
        problem = answer.problem()
        if problem is not None:
            raise RefusedEnrolmentError(problem.reason, problem.detail)
        return _chain_of(answer)

    async def renew(self, request: bytes) -> bytes:
        """Get the next certificate by the present one. See ``Registry``."""
        question = Question(path="/v1/renewal", body=encode(RenewalRequest(request=request)))
        answer = await self._ask(self._settings, question)
        problem = answer.problem()
        if problem is not None:
            raise NotRenewedError(_standing_of(problem.reason), problem.detail)
        return _chain_of(answer)

    async def shown(self, certificate: Path) -> Shown:
        """Ask by a certificate whether it counts. See ``Registry``."""
        settings = replace(self._settings, certificate=certificate, key=None, token=None)
        told = (await self._ask(settings, Question(method="GET", path="/v1/identity"))).read(IdentityAnswer)
        return Shown(
            hub=told.hub,
            serial=told.serial,
            counts=told.standing is Standing.VALID,
            why=told.standing,
            is_to_renew=told.renew,
        )

    async def _ask(self, settings: CloudSettings, question: Question) -> Answer:
        # A session of its own: a connection that stands shows the certificate that it was made with.
        exchange = Exchange(settings, self._clock)
        try:
            return await exchange.ask(question)
        finally:
            await exchange.close()


def _chain_of(answer: Answer) -> bytes:
    return answer.read(CertificateAnswer).chain.encode("ascii")


def _standing_of(reason: str) -> str:
    return {
        Fault.CERTIFICATE_REPLACED: Standing.REPLACED,
        Fault.CERTIFICATE_REVOKED: Standing.REVOKED,
        Fault.CERTIFICATE_OVER: Standing.OVER,
        Fault.CERTIFICATE_UNKNOWN: Standing.UNKNOWN,
    }.get(Fault(reason) if reason in set(Fault) else Fault.BROKEN, reason)
