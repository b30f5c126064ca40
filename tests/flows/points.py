"""The named points on a command's way, in the hands of a test."""

from collections.abc import Callable

from edgeagent.ports.crash import CrashPoint


class KilledError(BaseException):
    """The process ends here: nothing after it is done. No handler of ours catches it."""


class Points:
    """The named points: a test may let something happen at one, or end the process there.

    Attributes:
        passed: the points that were passed, oldest first.
    """

    def __init__(self) -> None:
        self._last: CrashPoint | None = None
        self._left = 1
        self._happens: dict[CrashPoint, Callable[[], None]] = {}
        self.passed: list[CrashPoint] = []

    def dies_at(self, point: CrashPoint | None, *, nth: int = 1) -> None:
        """End the process when it passes ``point`` for the ``nth`` time from now on; None: let it live."""
        self._last = point
        self._left = nth

    def happens_at(self, point: CrashPoint, what: Callable[[], None]) -> None:
        """Let something happen when ``point`` is next passed."""
        self._happens[point] = what

    def reached(self, point: CrashPoint) -> None:
        """See ``CrashPoints``."""
        self.passed.append(point)
        what = self._happens.pop(point, None)
        if what is not None:
            what()
        if point is self._last:
            self._left -= 1
            if self._left == 0:
                self._last = None
                raise KilledError(point)
