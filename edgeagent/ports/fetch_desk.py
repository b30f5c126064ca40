"""What a person at the hub may ask about fetching files."""

from typing import Protocol

from edgeagent.contracts.reports.fetches import CollectReport, FetchReport
from edgeagent.ids import ArtifactId


class FetchDesk(Protocol):
    """Has files fetched, and unused ones removed; ``actor`` is who the operating system says is asking."""

    async def fetch(self, artifact: ArtifactId, actor: str) -> FetchReport:
        """Begin to fetch a file, unless it is here or on its way.

        Raises:
            UnknownError: nothing is called so.
            RejectedError: it cannot be fetched: nowhere to fetch from, revoked, or too large.
            StorageError: the disk cannot be read.
        """
        ...

    async def progress(self, artifact: ArtifactId) -> FetchReport:
        """How its fetch stands, or how the last one ended.

        Raises:
            UnknownError: it was not fetched since the agent's start.
        """
        ...

    async def stop(self, artifact: ArtifactId) -> FetchReport:
        """Stop its fetch; what has come stays, and the next one goes on from there.

        Raises:
            UnknownError: it is not being fetched.
            RejectedError: an update waits for it.
        """
        ...

    async def collect(self, actor: str, *, dry_run: bool) -> CollectReport:
        """Remove what nobody uses.

        Raises:
            StorageError: the disk does not do it now.
        """
        ...
