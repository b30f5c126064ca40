"""What is around a board: the appliance, and why something is done; and the timers on it."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final, Protocol

from firmware_sim.faults import Fault
from firmware_sim.firmware import Heard, Said, Subscription


class Cause(StrEnum):
    """Why something was done."""

    COMMAND = "command"
    """A message asked for it."""
    BUTTON = "button"
    """Somebody pressed a button."""
    CLOCK = "clock"
    """It was time."""
    FAULT = "fault"
    """It was to go wrong."""
    TEST = "test"
    """Whoever runs the simulation asked for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handling:
    """What is being done, and why.

    Attributes:
        cause: why.
        command: the number of the message that asked for it.
        honest: whether what is told is true.
        mute: whether nothing is told at all.
    """

    cause: Cause
    command: int | None = None
    honest: bool = True
    mute: bool = False


IDLE: Final = Handling(cause=Cause.CLOCK)
"""Nobody asked."""


class Wiring(Protocol):
    """The appliance around a board."""

    def put(self, work: Callable[[], None]) -> None:
        """Let the appliance's task do something."""
        ...

    def transmit(self, message: Said) -> None:
        """Send a message; nothing comes of it without a connection."""
        ...

    def ask(self, wanted: Sequence[Subscription]) -> None:
        """Ask the broker for messages."""
        ...

    def hear(self, message: Heard) -> None:
        """Let the firmware take a message."""
        ...

    def come_clean(self) -> None:
        """Let all parts tell the truth again."""
        ...

    def fall(self, fault: Fault) -> None:
        """Reboot, lose the connection, or be gone."""
        ...

    def power_cycle(self, lasting: timedelta | None, *, cold: bool = False) -> None:
        """Boot anew; None takes as long as usual. ``cold`` when the power was gone."""
        ...

    def spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Let something run beside the appliance's task, and no longer than it."""
        ...


class Alarm:
    """A timer of the firmware.

    Args:
        ring: what it does.
    """

    def __init__(self, ring: Callable[[], None]) -> None:
        self.ring = ring
        self.handle: asyncio.TimerHandle | None = None
        self.forgotten = False

    def cancel(self) -> None:
        """Forget it, even if it is due already."""
        self.forgotten = True
        if self.handle is not None:
            self.handle.cancel()
