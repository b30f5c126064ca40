"""Where a policy comes from that is signed by metadata of The Update Framework (SPEC T2).

Who asks says what is held already; who answers gives back what verifies, with everything that has to be
held from then on. Nothing else is remembered in between: what is not held cannot be rolled back to.
"""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Protocol

from edgeagent.core.catalogue import Listing
from edgeagent.errors import RejectedError
from edgeagent.ids import Digest
from edgeagent.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """The metadata that stand behind a policy, byte for byte as they were signed.

    Attributes:
        root, timestamp, snapshot, targets: of the four roles.
        delegated: those of the catalogue, by the delegated role; a stale group's are those taken last.
    """

    root: bytes
    timestamp: bytes
    snapshot: bytes
    targets: bytes
    delegated: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """The versions of the four roles: marks below which nothing is taken any more."""

    root: int
    timestamp: int
    snapshot: int
    targets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What was accepted last.

    Attributes:
        policy: its bytes.
        metadata: those behind it; its root may have grown since.
        pin: the digest of the first root that all of it goes back to.
    """

    policy: bytes
    metadata: Metadata
    pin: Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A policy whose metadata verify.

    Attributes:
        held: what has to be held from now on.
        versions: of the roles.
        expires_at: the earliest end of the timestamp's, snapshot's and targets' time.
        is_anew: whether the root has replaced the keys that signed the held policy, so that the count
            of versions may begin anew (TUF 5.3.11, recovery from a fast-forward attack).
        listing: the artifacts; None where not even who signs for them is clear, and so none is taken.
        listing_problem: why not; empty for no problem.
    """

    held: Held
    versions: Versions
    expires_at: datetime
    is_anew: bool
    listing: Listing | None = field(default_factory=Listing)
    listing_problem: str = ""


class UnprovenMetadataError(RejectedError):
    """The metadata do not verify.

    Attributes:
        root: the newest root that does verify and is later than the held one, with its version; None
            for no such.
    """

    def __init__(self, why: str, root: tuple[int, bytes] | None = None) -> None:
        super().__init__(why)
        self.root = root


class PolicySource(Protocol):
    """Who gives the policy."""

    def vouches(self, held: Held) -> bool:
        """Whether the root that is pinned now stands behind what is held."""
        ...

    async def published(self, held: Held | None, now: datetime) -> Published:
        """Fetch and verify what is published now.

        Args:
            held: what was accepted last; None for nothing yet.
            now: a moment that is certainly past; whatever ended before it has expired.

        Raises:
            LinkError: it cannot be fetched now.
            UnprovenMetadataError: it does not verify.
        """
        ...

    def relisted(self, held: Held) -> Listing:
        """What held metadata list of artifacts, verified anew from their root on.

        Raises:
            UnprovenMetadataError: they do not verify.
        """
        ...
