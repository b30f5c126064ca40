"""From a claim code to an identity and the policy's first root: both fetched, both known by their sha256.

    the next key ──> authority, by its sha256 ──> certificate for the code ──> slot ──> code noted ──> shown

Each step leaves a whole file or none, and is made again after a death: the same key with the same code gets
the same certificate. The key is one to come until its certificate is shown; so that is the last step. What is
fetched takes its place only when it is what the code names.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime
from hashlib import sha256
from http import HTTPStatus

from cryptography import x509

from edgeagent.adapters.cloud.enrolling import QueueRegistry, RefusedEnrolmentError, fetch_authority
from edgeagent.adapters.cloud.exchange import Exchange, Question
from edgeagent.adapters.cloud.settings import CloudSettings
from edgeagent.clock import Clock
from edgeagent.contracts.claim import Claim, secret_digest
from edgeagent.core.certificates import check_hub_chain, pem_of, read_chain, serial_text
from edgeagent.errors import RejectedError, SuspiciousError
from edgeagent.ports.crash import CrashPoint
from edgeagent.ports.links import LinkError, Trouble
from edgeagent.setup.configuration import is_of_the_cloud
from edgeagent.setup.places import Places
from edgeagent.store.identity import UnusableSlotError
from edgeagent.values import dataclass

_ROOT_BYTES = 512 * 1024
_CLAIM_MODE = 0o600


@dataclass(frozen=True, slots=True)
class Claiming:
    """One hub's claim, being made good.

    Attributes:
        claim: the code.
        places: where things go.
        clock: the present.
        proxy: to go through.
        reached: told at the named points; a test's.
    """

    claim: Claim
    places: Places
    clock: Clock
    proxy: str | None = None
    reached: Callable[[CrashPoint], None] = lambda _point: None

    @property
    def is_enrolled(self) -> bool:
        """Whether this very code was made good here."""
        slots = self.places.slots
        try:
            noted, *serial = (slots.folder / "claim").read_text("ascii").split()
            identity, waiting = slots.load(), slots.waiting()
        except (OSError, ValueError, UnusableSlotError):
            return False
        if waiting is not None and serial_text(waiting.certificate) in serial:
            # A death, or the disk, has kept it from being shown.
            return False
        return noted == secret_digest(self.claim.secret) and identity.hub == self.claim.facts.hub

    def enrol(self) -> None:
        """Become the hub.

        Raises:
            RejectedError: the code is over, used or unknown, or what came is not ours.
            SuspiciousError: another authority answers.
            LinkError: the queue cannot be reached; the same again goes on.
            StorageError: the disk does not take it.
        """
        slots, facts, as_agent = self.places.slots, self.claim.facts, self.places.as_agent
        with as_agent():
            request = slots.request(facts.hub)
        root = asyncio.run(fetch_authority(self.claim, proxy=self.proxy))
        # Beside the one that a hub which is enrolled anew still trusts.
        offered = slots.folder / "next-authority.pem"
        with as_agent():
            slots.write(offered, pem_of([root]), mode=0o644)
        settings = CloudSettings(url=facts.cloud, ca_file=offered, proxy=self.proxy)
        try:
            raw = asyncio.run(QueueRegistry(settings, self.clock).enrol(self.claim, request))
        except RefusedEnrolmentError as why:
            raise RejectedError(f"the claim code is not taken: {why}") from why
        self.reached(CrashPoint.CERTIFICATE_GIVEN)
        chain = read_chain(raw)
        check_hub_chain(chain, root, facts.hub, self._now(chain))
        with as_agent():
            stored = slots.put(chain)
            self.reached(CrashPoint.CERTIFICATE_STORED)
            slots.write(slots.authority, pem_of([root]), mode=0o644)
            offered.unlink(missing_ok=True)
            noted = f"{secret_digest(self.claim.secret)} {serial_text(stored.certificate)}\n"
            slots.write(slots.folder / "claim", noted.encode("ascii"), mode=_CLAIM_MODE)
            slots.show(stored.file)
            self.reached(CrashPoint.CERTIFICATE_SHOWN)

    @property
    def has_root(self) -> bool:
        """Whether the policy's first root is here."""
        try:
            return sha256(self.places.root.read_bytes()).hexdigest() == self.claim.facts.root
        except OSError:
            return False

    def fetch_root(self) -> None:
        """Fetch the policy's first root.

        Raises:
            SuspiciousError: what is published there is another one.
            LinkError: it cannot be fetched.
            ConfigurationError: it cannot be written.
        """
        facts = self.claim.facts
        ca_file = self.places.slots.authority if is_of_the_cloud(facts) else None
        settings = CloudSettings(url=facts.policy, ca_file=ca_file, proxy=self.proxy)
        raw = asyncio.run(_get(settings, self.clock, "/metadata/1.root.json"))
        if sha256(raw).hexdigest() != facts.root:
            raise SuspiciousError(
                f"{facts.policy} publishes another root than the claim code names; nothing was written"
            )
        self.places.write(self.places.root, raw, mode=0o644)

    def _now(self, chain: tuple[x509.Certificate, ...]) -> datetime:
        """The present; a clock that is a little behind or ahead of the queue's is no reason to refuse it.

        TLS has held the queue's own certificate against this machine's clock.
        """
        now, leaf = self.clock.wall().best, chain[0]
        return min(max(now, leaf.not_valid_before_utc), leaf.not_valid_after_utc)


async def _get(settings: CloudSettings, clock: Clock, path: str) -> bytes:
    exchange = Exchange(settings, clock)
    try:
        answer = await exchange.ask(Question(method="GET", path=path))
    finally:
        await exchange.close()
    if answer.status != HTTPStatus.OK or len(answer.body) > _ROOT_BYTES:
        raise LinkError(Trouble.BROKEN_ANSWER, f"{settings.url}{path} answers {answer.status}")
    return answer.body
