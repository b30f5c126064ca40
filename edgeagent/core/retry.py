"""When to try again.

Exponential backoff with full jitter: the delay is drawn evenly from nothing to the cap, so that hubs
which lost the cloud together do not come back together (SPEC E2, E4). Time and chance are arguments.
"""

from datetime import timedelta
from typing import Final

from edgeagent.values import dataclass

_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackoffRule:
    """How long to wait after failures.

    Attributes:
        first: the longest wait after the first failure; it doubles with each further one.
        longest: where the doubling stops.
        stable_after: how long a link has to work before its failures are forgotten.
    """

    first: timedelta = timedelta(seconds=1)
    longest: timedelta = timedelta(seconds=60)
    stable_after: timedelta = timedelta(seconds=60)


def delay(failures: int, *, first: timedelta, longest: timedelta, chance: float) -> timedelta:
    """How long to wait after ``failures`` in a row.

    Args:
        failures: at least 1.
        first: the cap after one failure.
        longest: the greatest cap.
        chance: evenly from [0, 1).
    """
    # In whole numbers, and with a bounded exponent: a timedelta overflows long before min() would cap it.
    cap = min((first // _MICROSECOND) << min(failures - 1, 64), longest // _MICROSECOND)
    return cap * _MICROSECOND * chance


class Backoff:
    """The failures of one link."""

    def __init__(self, rule: BackoffRule) -> None:
        self._rule = rule
        self._failures = 0
        self._working_since: timedelta | None = None

    @property
    def failures(self) -> int:
        """Failures since the link last worked for long enough."""
        return self._failures

    def worked(self, now: timedelta) -> None:
        """Note that the link works; a link that fails at once again goes on where it was."""
        if self._working_since is None:
            self._working_since = now
        elif now - self._working_since >= self._rule.stable_after:
            self._failures = 0

    def failed(self, now: timedelta, *, chance: float, at_least: timedelta | None = None) -> timedelta:
        """Note a failure.

        Args:
            now: boot time.
            chance: evenly from [0, 1).
            at_least: what the peer asked for (``Retry-After``); bounded by an hour.

        Returns:
            How long to wait before the next try.
        """
        if self._working_since is not None and now - self._working_since >= self._rule.stable_after:
            self._failures = 0
        self._working_since = None
        self._failures += 1
        wait = delay(self._failures, first=self._rule.first, longest=self._rule.longest, chance=chance)
        asked = min(at_least or timedelta(0), timedelta(hours=1))
        return max(wait, asked)
