"""How a device is locked for a command: for how long at a time, and what is occupied beside it.

A lease holds for twice as long as the work was ever seen to take, so that one that is not renewed says that
whoever worked is gone (SPEC L7). Until anything was seen, what the profile declares is taken for it.
"""

from collections import deque
from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from edgeagent.values import dataclass

SHORTEST: Final = timedelta(seconds=30)
"""The shortest lease; it is renewed at a third of it."""
LONGEST: Final = timedelta(minutes=10)
"""The longest lease: for so long nobody works the device of a holder that is gone."""
REMEMBERED: Final = 64
"""Of how many of the last holds a digest is made."""

_ENOUGH: Final = 5


@dataclass(frozen=True, slots=True)
class Parent:
    """What several devices share, such as a bridge or a radio, and an action occupies (SPEC L6).

    Attributes:
        name: the same for whoever shares it.
        most: how many may occupy it at once beside this one, itself counted.
    """

    name: str
    most: int


@dataclass(frozen=True, slots=True)
class Terms:
    """Under which terms a device is locked for a command.

    Attributes:
        length: of the lease, until it is renewed.
        parent: what is occupied beside the device; None for nothing.
    """

    length: timedelta = SHORTEST
    parent: Parent | None = None


ANY: Final = Terms()
"""The terms of work of which nothing is known."""


def length_for(declared: timedelta, measured: timedelta | None) -> timedelta:
    """How long a lease is.

    Args:
        declared: how long the work takes, by its profile.
        measured: within which time 95 of 100 were done; None while that is not known.
    """
    known = max(declared, measured or declared)
    return min(max(2 * known, SHORTEST), LONGEST)


class Holds:
    """How long the last holds of one kind of work took."""

    def __init__(self) -> None:
        self._lengths: deque[timedelta] = deque(maxlen=REMEMBERED)

    def add(self, length: timedelta) -> None:
        """Note one."""
        self._lengths.append(length)

    @property
    def p95(self) -> timedelta | None:
        """Within which time 95 of 100 were done; None while too few are known."""
        return _p95(self._lengths) if len(self._lengths) >= _ENOUGH else None


def _p95(lengths: Iterable[timedelta]) -> timedelta:
    ordered = sorted(lengths)
    # The smallest of which at least 95 % are not longer (the nearest-rank method).
    return ordered[-(-len(ordered) * 95 // 100) - 1]
