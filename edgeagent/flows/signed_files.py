"""The files that the catalogue lists, for whoever fetches them."""

from typing_extensions import override

from edgeagent.errors import RejectedError, UnknownError
from edgeagent.flows.surroundings import Surroundings
from edgeagent.flows.trust import Trust
from edgeagent.ids import ArtifactId
from edgeagent.ports.artifacts import SignedFile, SignedFiles
from edgeagent.values import dataclass


@dataclass(frozen=True, slots=True)
class ListedFiles(SignedFiles):
    """Reads the catalogue as the gate does.

    Attributes:
        trust: the catalogue.
        around: time.
    """

    trust: Trust
    around: Surroundings

    @override
    async def file(self, artifact: ArtifactId) -> SignedFile:
        catalogue = self.trust.catalogue
        found = catalogue.listed.get(artifact)
        if found is None and artifact in catalogue.revoked:
            raise RejectedError(f"{artifact} was taken back: it is signed for no more")
        if found is None:
            raise UnknownError(f"nobody signs for {artifact}: edgeagent artifacts list has those that are")
        if doubt := catalogue.doubt(found):
            raise RejectedError(f"what signs for {artifact} is refused: {doubt}")
        until = found.signed.until
        if self.around.clock.wall().earliest >= until:
            raise RejectedError(
                f"what signs for {artifact} ended at {until:%Y-%m-%d %H:%M} UTC: edgeagent issuer refresh"
            )
        return SignedFile(artifact=found.id, sha256=found.sha256, length=found.length, path=found.path)
