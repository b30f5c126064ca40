"""How a person at the hub agrees to a command."""

from typing import Protocol

from edgeagent.contracts.reports.approvals import ApprovalReport, ApproveRequest
from edgeagent.ids import CommandId


class Approver(Protocol):
    """Takes people's word on commands that wait for it."""

    async def approve(self, command: CommandId, request: ApproveRequest, actor: str) -> ApprovalReport:
        """Agree to a command; ``actor`` is who the operating system says is asking.

        Raises:
            RejectedError: it is not to be approved so; nothing was changed.
            StorageError: nothing was stored.
        """
        ...
