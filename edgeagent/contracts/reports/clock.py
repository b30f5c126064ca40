"""The clock: what ``edgeagent clock`` asks and is told."""

from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, Field

from edgeagent.clock import ClockSource, FloorSource
from edgeagent.contracts.door import Contract
from edgeagent.contracts.reports.status import Seconds
from edgeagent.contracts.scalars import Duration, Timestamp


def _honest(error: timedelta) -> timedelta:
    if not timedelta(seconds=1) <= error <= timedelta(days=1):
        raise ValueError("a person is right within 1s at best, and 1d at worst")
    return error


class ClockStanding(Contract):
    """What the agent knows of the time, and what that rests on.

    Attributes:
        source: of the interval.
        best: the best guess.
        earliest: certainly past.
        latest: certainly not yet reached; None when unknown.
        error: how far the guess may be off; None when unknown.
        proven: how long ago the interval was last proven; None when it is not.
        kernel: the kernel's wall clock, whatever it is worth.
        kernel_error: the kernel's word on its error; None when it is not synchronised.
        floor: a moment that is certainly past, now and after every restart.
        floor_source: what raised it last.
        kernel_is_behind: the kernel's synchronised clock contradicts the floor.
        boot_id: the kernel's name for this boot.
        boot: how long it lasts, suspend included.
        waiting: how many commands wait for the time.
    """

    source: ClockSource = Field(strict=False)
    best: Timestamp
    earliest: Timestamp
    latest: Timestamp | None = None
    error: Seconds | None = None
    proven: Seconds | None = None
    kernel: Timestamp
    kernel_error: Seconds | None = None
    floor: Timestamp
    floor_source: FloorSource = Field(strict=False)
    kernel_is_behind: bool
    boot_id: str
    boot: Seconds
    waiting: int


class ConfirmRequest(Contract):
    """A person says what time it is.

    Attributes:
        time: now; None says that the kernel's wall clock is right.
        within: how far that may be off.
    """

    time: Timestamp | None = None
    within: Annotated[Duration, AfterValidator(_honest)] = timedelta(minutes=1)


class ResetFloorRequest(Contract):
    """A person sets the floor of time back.

    Attributes:
        time: to which moment; None for that at which the software was made.
    """

    time: Timestamp | None = None
