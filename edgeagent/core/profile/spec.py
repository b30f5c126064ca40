"""What a reading of a device is: its type, its range, and how it is told."""

from datetime import timedelta
from typing import Final

from edgeagent.contracts.actions import CATALOGUE
from edgeagent.contracts.profile import DeviceProfile
from edgeagent.contracts.sources import Reading, ReadingKind
from edgeagent.core.profile.readers import LARGEST
from edgeagent.values import dataclass

FIRMWARE: Final = "firmware"
"""The reading that holds the version of a device's firmware; state in every family."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingSpec:
    """What is known of a reading before it is heard.

    Attributes:
        kind: of its values.
        unit: of its values; empty where there is none.
        low: the least number that it can be.
        high: the greatest number that it can be.
        state: whether it is state, with a version, rather than telemetry.
        event: whether each message is a happening of its own: an equal one is no repeat.
        deadband: numbers that differ by at most this are the same.
        min_interval: the least time between two tellings.
        max_interval: the most time between two tellings of a value that is heard; None for no bound.
    """

    kind: ReadingKind
    unit: str = ""
    low: float = -LARGEST
    high: float = LARGEST
    state: bool = False
    event: bool = False
    deadband: float = 0.0
    min_interval: timedelta = timedelta(0)
    max_interval: timedelta | None = timedelta(hours=1)


AVAILABILITY_SPEC: Final = ReadingSpec(kind=ReadingKind.TEXT, state=True, min_interval=timedelta(seconds=5))
"""Of the reading that says whether a device is there: one that comes and goes is told every few seconds."""


def specs_of(profile: DeviceProfile) -> dict[str, ReadingSpec]:
    """The readings of a profile by the part of their name before the dot.

    State is what a command of the profile can set, and the firmware's version (SPEC C1); the profile
    may say otherwise of a single reading.
    """
    settable = {CATALOGUE[action].slot for action in profile.commands} | {FIRMWARE}
    return {name: _spec(reading, is_state=name in settable) for name, reading in profile.readings.items()}


def _spec(reading: Reading, *, is_state: bool) -> ReadingSpec:
    low, high = reading.range or (-LARGEST, LARGEST)
    return ReadingSpec(
        kind=reading.kind,
        unit=reading.unit,
        low=low,
        high=high,
        state=is_state if reading.state is None else reading.state,
        event=reading.event,
        deadband=reading.deadband,
        min_interval=reading.min_interval,
        max_interval=reading.max_interval,
    )
