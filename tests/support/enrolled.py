"""A queue that certifies hubs, and a hub's end of it: for whoever needs identities.

with enrolling(tmp_path) as office:                  # authority, repository, queue over TLS
    claim = office.claims("venue-7")
    slots = await office.enrols(claim, tmp_path / "identity")
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509

from edgeagent.adapters.cloud.enrolling import QueueRegistry
from edgeagent.adapters.cloud.settings import CloudSettings
from edgeagent.clock import ProvenClock, SystemTime
from edgeagent.contracts.claim import Claim
from edgeagent.core.certificates import pem_of, read_chain
from edgeagent.ids import hub_id
from edgeagent.issuer.authority import AuthorityFolder
from edgeagent.issuer.claims import new_claim
from edgeagent.issuer.client import IssuerClient
from edgeagent.issuer.settings import Limits
from edgeagent.store.identity import IdentitySlots
from tests.support.queue_server import QueueServer

ZONE: Final = "Europe/Berlin"
DAY: Final = timedelta(days=1)
PASSPHRASE: Final = b"correct horse battery"


@dataclass(frozen=True, slots=True)
class Office:
    """Whoever certifies.

    Attributes:
        server: the queue.
        folder: of the authority.
        root_file: the policy's first root.
    """

    server: QueueServer
    folder: AuthorityFolder
    root_file: Path

    @property
    def root(self) -> x509.Certificate:
        """The authority's root certificate."""
        return self.folder.read_root()

    def issuer(self) -> IssuerClient:
        """An issuer's end of the queue; an async context."""
        settings = self.server.settings(self.server.issuer_token, ca_file=self.folder.root)
        return IssuerClient(settings, ProvenClock(SystemTime()))

    def code(self, hub: str = "venue-7", *, valid: timedelta = DAY) -> Claim:
        """A code that the queue does not know yet."""
        return new_claim(
            hub_id(hub),
            cloud=self.server.url,
            policy=None,
            zone=ZONE,
            pins=(self.folder.root, self.root_file),
            until=datetime.now(UTC) + valid,
        )

    async def claims(self, hub: str = "venue-7", *, valid: timedelta = DAY) -> Claim:
        """A code that the queue knows."""
        claim = self.code(hub, valid=valid)
        async with self.issuer() as issuer:
            await issuer.claim(claim)
        return claim

    def settings(self, slots: IdentitySlots | None = None) -> CloudSettings:
        """How a hub reaches the queue, by its certificate if it has one."""
        settings = CloudSettings(url=self.server.url, ca_file=self.folder.root)
        return settings if slots is None else replace(settings, certificate=slots.current)

    def registry(self, slots: IdentitySlots | None = None) -> QueueRegistry:
        """A hub's end of it."""
        return QueueRegistry(self.settings(slots), ProvenClock(SystemTime()))

    async def enrols(self, claim: Claim, folder: Path) -> IdentitySlots:
        """Make a hub of a code."""
        slots = IdentitySlots(folder)
        chain = read_chain(await self.registry().enrol(claim, slots.request(claim.facts.hub)))
        slots.write(slots.authority, pem_of([self.root]), mode=0o644)
        slots.show(slots.put(chain).file)
        return slots


@contextmanager
def enrolling(
    folder: Path,
    *,
    limits: Limits = Limits(),  # noqa: B008 - frozen
    repository: Path | None = None,
) -> Iterator[Office]:
    """A queue over TLS with an authority of its own.

    Args:
        folder: for all files.
        limits: of the server; a negative lifetime makes certificates that are over.
        repository: of the policy; without one some bytes stand for its first root.
    """
    authority = AuthorityFolder(folder / "ca")
    now = datetime.now(UTC)
    authority.found("test", now, passphrase=PASSPHRASE)
    authority.certify_server(["localhost", "127.0.0.1"], now, DAY)
    root = folder / "1.root.json" if repository is None else repository / "metadata" / "1.root.json"
    if repository is None:
        root.write_bytes(b"{}")
    with QueueServer(
        folder / "queue", limits=limits, authority=authority.path, repository=repository
    ) as server:
        yield Office(server, authority, root)
