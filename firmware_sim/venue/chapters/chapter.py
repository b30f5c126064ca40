"""What a chapter is."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from firmware_sim.venue.stage import Venue
from firmware_sim.venue.verdict import Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """One story.

    Attributes:
        title: its name.
        shows: what it is about, in a sentence for whoever watches.
        play: does it, waits for what comes of it, and judges.
    """

    title: str
    shows: str
    play: Callable[[Venue], Awaitable[list[Statement]]]
