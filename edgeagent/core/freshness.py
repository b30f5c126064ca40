"""Whether something signed is still good: valid, expired, or not to be told (SPEC T5).

The clock gives an interval. What has certainly passed is expired; what certainly lies ahead is valid;
anything else is *unsure*, and nobody may take it for valid where it matters.
"""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from edgeagent.clock import EPOCH, BootId, Wall
from edgeagent.values import dataclass

# An issuer's clock may be ahead of ours by this much: it has its own error, which we do not know.
ISSUER_SKEW: Final = timedelta(seconds=30)
CHANCE_BITS: Final = 20
"""The low bits of a sequence, below the milliseconds since 1970."""

# A sequence may run ahead of its issuer's clock, as after that was set back. One that runs further ahead
# would take the place of all that its issuer signs until then (SPEC T4).
_AHEAD: Final = timedelta(days=1)
_MILLISECOND: Final = timedelta(milliseconds=1)
LARGEST_SEQUENCE: Final = 2**63 - 1
"""Of all that a command can have."""


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


def largest_sequence(wall: Wall) -> int:
    """The largest sequence that is not far ahead of trusted time; any where the clock cannot tell."""
    if wall.latest is None:
        return LARGEST_SEQUENCE
    milliseconds = (wall.latest + _AHEAD - EPOCH) // _MILLISECOND
    return min((milliseconds + 1 << CHANCE_BITS) - 1, LARGEST_SEQUENCE)


def begins(issued_at: datetime, sequence: int) -> datetime:
    """From when on what bears this time and sequence is not taken for one of the future."""
    return max(issued_at - ISSUER_SKEW, EPOCH + (sequence >> CHANCE_BITS) * _MILLISECOND - _AHEAD)
