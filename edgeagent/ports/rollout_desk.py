"""How a person at the hub looks at lists of devices that are updated, and steers them."""

from typing import Protocol

from edgeagent.contracts.reports.rollouts import (
    CancelReport,
    CancelRequest,
    PlanReport,
    PlanRequest,
    RolloutReport,
    RolloutsReport,
    SteerRequest,
)
from edgeagent.ids import CommandId


class RolloutDesk(Protocol):
    """Answers about lists; each ``actor`` is who the operating system says is asking."""

    async def report(self) -> RolloutsReport:
        """Those that came last."""
        ...

    async def one(self, command: CommandId) -> RolloutReport:
        """One of them, with its devices.

        Raises:
            UnknownError: no such command has come that updates devices.
        """
        ...

    async def plan(self, request: PlanRequest) -> PlanReport:
        """What would become of an update. Nothing is done."""
        ...

    async def plan_of(self, command: CommandId) -> PlanReport:
        """What will become of what is not begun of a list. Raises as ``one``."""
        ...

    async def pause(self, command: CommandId, request: SteerRequest, actor: str) -> RolloutReport:
        """Begin nothing more of a list.

        Raises:
            RejectedError: nothing of it is left, or nothing of it begins as it is; nothing was changed.
            UnknownError: as ``one``.
        """
        ...

    async def resume(self, command: CommandId, request: SteerRequest, actor: str) -> RolloutReport:
        """Let a list go on that is paused or stopped: what ended badly so far counts no more.

        Raises:
            RejectedError: it is neither; nothing was changed.
            UnknownError: as ``one``.
        """
        ...

    async def abort(self, command: CommandId, request: SteerRequest, actor: str) -> RolloutReport:
        """Cancel what is not begun of a list. What is under way goes on.

        Raises:
            RejectedError: nothing of it is left; nothing was changed.
            UnknownError: as ``one``.
        """
        ...

    async def cancel(self, command: CommandId, request: CancelRequest, actor: str) -> CancelReport:
        """Call off the update of one device: what has not set anything off ends, what runs is told to stop.

        Raises:
            RejectedError: it is over, cannot be called off any more or by its family, or was before; nothing
                was changed.
            AmbiguousError: it is for several devices, and none is named.
            TransientError: the broker cannot be reached; nothing was sent, and it may be tried again.
            UnknownError: as ``one``, or it is not for that device.
        """
        ...
