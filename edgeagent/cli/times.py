"""Times as people read them: how long ago, or how soon; or as they are.

They are compared with the agent's own idea of the present. While that is not proven, and where a moment lies
on the wrong side of it, the moment itself is written: a difference to a wrong clock says nothing.
"""

from datetime import datetime, timedelta
from typing import Final

from edgeagent.contracts.scalars import timestamp_text
from edgeagent.values import dataclass

_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))
# Rounding, and what passes between a question and its answer.
_SLACK: Final = timedelta(seconds=2)


@dataclass(frozen=True, slots=True)
class Times:
    """Writes times.

    Attributes:
        now: the present, as far as it is proven; None for moments as they are.
    """

    now: datetime | None

    def since(self, moment: datetime | None) -> str:
        """How long ago something was."""
        if moment is None:
            return "-"
        if self.now is None or moment > self.now + _SLACK:
            return timestamp_text(moment.replace(microsecond=0))
        return ago((self.now - moment).total_seconds())

    def until(self, moment: datetime) -> str:
        """How soon something will be, or how long ago it was."""
        if self.now is None:
            return timestamp_text(moment.replace(microsecond=0))
        left = (moment - self.now).total_seconds()
        return f"in {length(left)}" if left > 0 else ago(-left)

    def by(self, moment: datetime) -> str:
        """A moment that is kept in a calendar too: as it is, with how soon."""
        told = timestamp_text(moment.replace(microsecond=0))
        return told if self.now is None else f"{told} ({self.until(moment)})"


def ago(seconds: float | None) -> str:
    """A length of time before now, in one unit."""
    return "never" if seconds is None else f"{length(max(0.0, seconds))} ago"


def length(seconds: float) -> str:
    """A length of time, in one unit."""
    for size, unit in _UNITS:
        if seconds >= 2 * size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"
