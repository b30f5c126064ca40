"""Where whoever works commands gets them and brings them back."""

from datetime import timedelta
from typing import Protocol

from edgeagent.contracts.mqtt import PublishResult
from edgeagent.contracts.policy import Level, Tier
from edgeagent.contracts.update import Stage
from edgeagent.core.firmware import Served, Sight, Update
from edgeagent.core.gate.world import World
from edgeagent.core.saga import Mark
from edgeagent.core.work import Answered, Claim, Ending, Later, StepName
from edgeagent.errors import RejectedError, TransientError


class BarredError(RejectedError):
    """It may be sent no more; nothing was."""


class StoppedError(BarredError):
    """The kill switch is thrown for such commands; nothing was sent."""


class ExpiredError(BarredError):
    """The command's time is over; nothing was sent."""


class DeskGoneError(TransientError):
    """The desk is gone, or does not answer; what was claimed there is let go of."""


class WorkDesk(Protocol):
    """Where whoever works commands gets them and brings them back.

    Whoever works never names a topic, a payload or an address: it asks for a step of the claimed
    command's plan, and the desk sends it if the lock is still held (DESIGN decision 9).
    """

    async def claim(self, lane: Tier, holder: str) -> Claim:
        """Wait for a command of a lane and lock its device."""
        ...

    async def renew(self, claim: Claim) -> None:
        """Lengthen the lease.

        Raises:
            LostRaceError: somebody else may have the device by now.
        """
        ...

    async def publish(self, claim: Claim, step: StepName, part: int = 0) -> PublishResult:
        """Send a step, recorded before it leaves; and begin to wait for what answers it.

        Args:
            claim: whose.
            step: what is sent.
            part: of which part of the plan, from 0 on; 0 for a plan that has none.

        Raises:
            LostRaceError: the lock is not ours any more; nothing was sent.
            LinkError: the broker cannot be reached; nothing was sent.
            StoppedError: such commands are stopped; nothing was sent.
            ExpiredError: its time is over; nothing was sent. What undoes a part is sent all the same.
            RejectedError: the device has no such step, it is not the next of the plan, or the message is too
                large; nothing was sent.
        """
        ...

    async def checkpoint(self, claim: Claim, mark: Mark) -> None:
        """Record what became of the part that is next. Of ``mark`` what the desk knows itself is not asked.

        Raises:
            LostRaceError: the lock is not ours any more; nothing was written.
            RejectedError: it is not next, or may not become that; nothing was written.
        """
        ...

    async def await_confirmation(self, claim: Claim, *, level: Level, within: timedelta) -> Answered:
        """Wait until the last step is proven to ``level``, denied, read back or over; at most so long."""
        ...

    async def read_device(self, claim: Claim) -> World:
        """What is known now of everything that the gate judges by."""
        ...

    async def serve(self, claim: Claim) -> Served:
        """Have an update's file served to its device where it is needed, and say where the update stands.

        Raises:
            LostRaceError: the lock is not ours any more.
            TransientError: the file is not at hand yet.
            RejectedError: the device is not to be updated with it; nothing was begun.
        """
        ...

    async def await_progress(self, claim: Claim, *, within: timedelta) -> Sight:
        """Wait until more is seen of an update; at most so long.

        Raises:
            LostRaceError: the lock is not ours any more.
        """
        ...

    async def enter(self, claim: Claim, stage: Stage) -> Update:
        """Record which stage an update is at, by what was seen last.

        Raises:
            LostRaceError: the lock is not ours any more; nothing was written.
            SuspiciousError: nobody has seen that; nothing was written.
        """
        ...

    async def finish(self, claim: Claim, ending: Ending) -> None:
        """End the command, in one commit.

        Raises:
            LostRaceError: the lock is not ours any more; nothing was written.
            RejectedError: the parts of its plan have not come to that end; nothing was written.
        """
        ...

    async def postpone(self, claim: Claim, later: Later) -> None:
        """Give the command back, to be taken up again later.

        Raises:
            LostRaceError: the lock is not ours any more; nothing was written.
        """
        ...


class LendingDesk(WorkDesk, Protocol):
    """A desk whose claims go out to somebody who may be gone before they come back."""

    async def abandon(self, claim: Claim) -> None:
        """Let a claim go whose holder is gone: whoever claims next takes it over (SPEC L3).

        Raises:
            LostRaceError: the lock is not the holder's any more; nothing was written.
        """
        ...
