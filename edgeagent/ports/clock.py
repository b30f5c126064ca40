"""What a person at the hub may ask of its clock."""

from typing import Protocol

from edgeagent.contracts.reports.clock import ClockStanding, ConfirmRequest, ResetFloorRequest


class ClockDesk(Protocol):
    """What a person at the hub may ask of its clock.

    Each ``actor`` is who the operating system says is asking.
    """

    async def clock(self) -> ClockStanding:
        """What is known of the time, and what that rests on."""
        ...

    async def confirm(self, request: ConfirmRequest, actor: str) -> ClockStanding:
        """Take a person's word for the time.

        Raises:
            RejectedError: it is certainly past, or the time is known better.
            StorageError: it was not put on record, and so counts for nothing.
        """
        ...

    async def reset_floor(self, request: ResetFloorRequest, actor: str) -> ClockStanding:
        """Set the floor of time back.

        Raises:
            RejectedError: it would not go back, or go back too far.
            StorageError: it was not put on record, and is as it was.
        """
        ...
