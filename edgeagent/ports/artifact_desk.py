"""What a person at the hub may ask of artifacts."""

from typing import Protocol

from edgeagent.contracts.reports.artifacts import ArtifactShown, ArtifactsShown, ArtifactsVerified
from edgeagent.ids import ArtifactId


class ArtifactDesk(Protocol):
    """Tells what is signed for."""

    def show_all(self) -> ArtifactsShown:
        """All that is known."""
        ...

    def show(self, artifact: ArtifactId) -> ArtifactShown:
        """One of them.

        Raises:
            UnknownError: nobody has ever signed for it.
        """
        ...

    async def verify(self) -> ArtifactsVerified:
        """Look anew at the signatures and at the files that are here.

        Raises:
            StorageError: something cannot be read.
        """
        ...
