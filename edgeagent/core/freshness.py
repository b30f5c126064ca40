"""Whether something signed is still good: valid, expired, or not to be told (SPEC T5).

The clock gives an interval. What has certainly passed is expired; what certainly lies ahead is valid;
anything else is *unsure*, and nobody may take it for valid where it matters.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from edgeagent.clock import BootId, Wall

# An issuer's clock may be ahead of ours by this much: it has its own error, which we do not know.
ISSUER_SKEW: Final = timedelta(seconds=30)


class Validity(StrEnum):
    """What can be said of a span of time."""

    VALID = "valid"
    """It has begun and has not ended."""
    EXPIRED = "expired"
    """It has ended."""
    NOT_YET = "not_yet"
    """It has not begun."""
    UNSURE = "unsure"
    """The clock does not know well enough."""


@dataclass(frozen=True, slots=True)
class BootDeadline:
    """An end on boot time, for what was made at this hub and needs no wall clock.

    Attributes:
        boot_id: the boot that it counts in; it has passed in any other.
        until: boot time.
    """

    boot_id: BootId
    until: timedelta

    def passed(self, boot_id: BootId, now: timedelta) -> bool:
        """Whether it has passed."""
        return self.boot_id != boot_id or now >= self.until


def validity(issued_at: datetime, expires_at: datetime, wall: Wall) -> Validity:
    """Judge a span of time by the clock's interval."""
    if wall.earliest >= expires_at:
        return Validity.EXPIRED
    if wall.latest is None:
        return Validity.UNSURE
    if wall.latest + ISSUER_SKEW < issued_at:
        return Validity.NOT_YET
    return Validity.VALID if wall.latest < expires_at else Validity.UNSURE
