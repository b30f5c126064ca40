"""Since when each flow is at its present piece of work: what the watchdog goes by (SPEC R6).

    resting ──begins a piece of work──> at work ──ends it, well or badly──> resting
                                           └──its time is over──> stuck, as long as it lasts

A flow that waits for the world (for a message, a command, a disk that is well again) rests, however long that
takes: a restart would bring none of them. What it has begun it ends within a time that no slow card or link
needs; whoever takes longer will not come back by itself.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

from edgeagent.values import dataclass

LONGEST: Final = timedelta(minutes=5)
"""What a piece of work may take: several times what its own time-outs, or a card at its worst, make of it."""


@dataclass(frozen=True, slots=True)
class Stuck:
    """A flow that does not come back.

    Attributes:
        flow: its name.
        late: since how long its time is over.
    """

    flow: str
    late: timedelta


@dataclass(eq=False, slots=True)
class Work:
    """A piece of work that is not ended yet.

    Attributes:
        flow: whose.
        until: when it has to be over; later, where it is seen to get on.
    """

    flow: str
    until: timedelta


class Pulses:
    """The pieces of work that are not ended yet. Times are boot times."""

    def __init__(self) -> None:
        # One name may stand for several who work beside each other.
        self._works: set[Work] = set()

    @contextmanager
    def at_work(self, flow: str, until: timedelta) -> Iterator[None]:
        """Be at a piece of work; it ends with the block, however that is left.

        Args:
            flow: whose.
            until: when it has to be over.
        """
        work = self.begin(flow, until)
        try:
            yield
        finally:
            self.end(work)

    def begin(self, flow: str, until: timedelta) -> Work:
        """Begin a piece of work whose end is no block's; whoever begins it has to end it."""
        work = Work(flow, until)
        self._works.add(work)
        return work

    def end(self, work: Work) -> None:
        """End a piece of work."""
        self._works.discard(work)

    def stuck(self, now: timedelta) -> Stuck | None:
        """Whoever is latest of those whose time is over; None when nobody is."""
        work = min(self._works, key=lambda each: each.until, default=None)
        return None if work is None or work.until >= now else Stuck(work.flow, now - work.until)
