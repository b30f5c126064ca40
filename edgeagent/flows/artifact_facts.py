"""The artifacts that this hub knows of, told to people: the ``ArtifactDesk`` port.

What is told is what the gate judges by. To verify is to go back from it to its signatures, and to read every
file that is here from its beginning to its end.
"""

import asyncio
from collections.abc import Container

from edgeagent.contracts.reports.artifacts import (
    ArtifactShown,
    ArtifactsShown,
    ArtifactsVerified,
    ArtifactVerified,
    Cached,
    FloorShown,
    Standing,
)
from edgeagent.core.catalogue import Artifact, Catalogue, Listing
from edgeagent.errors import UnknownError
from edgeagent.flows.surroundings import Surroundings
from edgeagent.flows.trust import Trust
from edgeagent.ids import ArtifactId, Digest
from edgeagent.ports.policy_source import PolicySource, UnprovenMetadataError
from edgeagent.store import policy as policies
from edgeagent.store.artifact_files import ArtifactFiles
from edgeagent.store.database import Database
from edgeagent.values import dataclass


@dataclass(frozen=True, slots=True)
class ArtifactFactsDesk:
    """Reads the catalogue as the gate does.

    Attributes:
        store: where it is held.
        trust: the catalogue and the policy.
        source: verifies metadata; None where no repository is configured.
        around: time.
        files: those that are here.
    """

    store: Database
    trust: Trust
    source: PolicySource | None
    around: Surroundings
    files: ArtifactFiles

    def show_all(self) -> ArtifactsShown:
        """All that is known."""
        catalogue, here = self.trust.catalogue, self._here()
        every = sorted({**catalogue.revoked, **catalogue.listed}.values(), key=lambda one: one.id)
        return ArtifactsShown(
            artifacts=[self._shown(artifact, here) for artifact in every],
            floors=[
                FloorShown(group=one.group, family=one.family, model=one.model, version=one.version)
                for one in catalogue.floors
            ],
            problem=self.trust.refused_artifacts,
        )

    def show(self, artifact: ArtifactId) -> ArtifactShown:
        """One of them."""
        catalogue = self.trust.catalogue
        known = catalogue.listed.get(artifact) or catalogue.revoked.get(artifact)
        if known is None:
            raise UnknownError(f"nobody signs for {artifact}")
        return self._shown(known, self._here())

    async def verify(self) -> ArtifactsVerified:
        """Look anew at the signatures and at the files that are here."""
        listed = list(self.trust.catalogue.listed.values())
        taken = await self.store.read(policies.load_published)
        problem, roles = "", 0
        if taken is not None and self.source is not None:
            roles = len(taken.held.metadata.delegated)
            try:
                found = await asyncio.to_thread(self.source.relisted, taken.held)
            except UnprovenMetadataError as why:
                problem = str(why)
            else:
                problem = _difference(self.trust.catalogue, found)
        states = [await asyncio.to_thread(_cached, self.files, artifact) for artifact in listed]
        return ArtifactsVerified(artifacts=states, metadata=problem, roles=roles)

    def _here(self) -> frozenset[Digest]:
        return frozenset(each.sha256 for each in self.files.all() if not each.is_part)

    def _shown(self, artifact: Artifact, here: Container[Digest]) -> ArtifactShown:
        return ArtifactShown(
            artifact=artifact.id,
            standing=self._standing(artifact),
            sha256=artifact.sha256,
            length=artifact.length,
            group=artifact.signed.group,
            role_version=artifact.signed.version,
            until=artifact.signed.until,
            facts=artifact.facts,
            here=artifact.sha256 in here,
        )

    def _standing(self, artifact: Artifact) -> Standing:
        if artifact.id not in self.trust.catalogue.listed:
            return Standing.REVOKED
        if self.around.clock.wall().earliest >= artifact.signed.until:
            return Standing.ENDED
        if self.trust.catalogue.doubt(artifact):
            return Standing.STALE
        policy = self.trust.policy
        approved = frozenset() if policy is None else policy.artifacts.get(artifact.id, frozenset())
        return Standing.RELEASED if artifact.sha256 in approved else Standing.SIGNED


def _difference(catalogue: Catalogue, listing: Listing) -> str:
    """What the catalogue says that the metadata do not, or the other way round; empty for nothing."""
    for group, why in listing.stale.items():
        if group not in catalogue.stale:
            return f"{group}: {why}"
    listed = {
        one.id: one for group, own in listing.groups.items() if group not in catalogue.stale for one in own
    }
    ours = {name: one for name, one in catalogue.listed.items() if not catalogue.doubt(one)}
    if ours != {name: one for name, one in listed.items() if name not in catalogue.contested}:
        return "the catalogue is not what the stored metadata list"
    return ""


def _cached(files: ArtifactFiles, artifact: Artifact) -> ArtifactVerified:
    found = files.is_whole(artifact.sha256, artifact.length)
    cached = Cached.ABSENT if found is None else Cached.WHOLE if found else Cached.DAMAGED
    return ArtifactVerified(artifact=artifact.id, cached=cached)
