"""How a person at the hub has drills held."""

from typing import Protocol

from edgeagent.contracts.reports.drills import DrillKind, DrillReport, DrillsReport


class DrillDesk(Protocol):
    """Holds drills."""

    async def drill(self, kind: DrillKind, actor: str) -> DrillReport:
        """Hold a drill; ``actor`` is who the operating system says is asking.

        Raises:
            RejectedError: another is being held; nothing was done.
        """
        ...

    async def drills(self) -> DrillsReport:
        """When each was held last.

        Raises:
            StorageError: it cannot be read.
        """
        ...
