"""The named points in a drill: the work may be cut at one, as if the process ended there."""

from edgeagent.ports.crash import CrashPoint


class CutError(BaseException):
    """The work ends here. No handler of ours catches it, and so nothing after it is done."""


class CutPoints:
    """Cuts the work at the point that a drill has named."""

    def __init__(self) -> None:
        self._last: CrashPoint | None = None

    def cuts_at(self, point: CrashPoint | None) -> None:
        """Cut whatever next passes this point; None: let all go on."""
        self._last = point

    def reached(self, point: CrashPoint) -> None:
        """See ``CrashPoints``."""
        if point is self._last:
            self._last = None
            raise CutError(point)
