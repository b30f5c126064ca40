"""What a person at the hub may ask of the locks."""

from typing import Protocol

from edgeagent.contracts.reports.locks import LockReport, LocksReport, ReleaseRequest
from edgeagent.ids import DeviceId


class LockDesk(Protocol):
    """Shows who works which device, and takes a device from whoever does."""

    async def locks(self) -> LocksReport:
        """All locks that are held."""
        ...

    async def release(self, device: DeviceId, request: ReleaseRequest, actor: str) -> LockReport:
        """Release a device's lock; its command is worked anew, the device read first.

        Args:
            device: whose.
            request: why.
            actor: who the operating system says is asking.

        Returns:
            The lock as it was.

        Raises:
            RejectedError: nobody works the device.
            StorageError: nothing was done.
        """
        ...
