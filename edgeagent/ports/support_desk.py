"""What whoever has to help from afar may ask of the agent."""

from typing import Protocol

from edgeagent.contracts.reports.support import SupportReport


class SupportDesk(Protocol):
    """Tells how much there is, and never what."""

    async def support(self) -> SupportReport:
        """The database by numbers, and the instruments.

        Raises:
            StorageError: the database cannot be read.
        """
        ...
