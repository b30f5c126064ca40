"""When firmware is installed, on how many devices at once, and when it is believed: a rule of the policy."""

from datetime import time, timedelta
from enum import StrEnum
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from pydantic import AfterValidator, Field

from edgeagent.contracts.door import Contract
from edgeagent.contracts.scalars import Duration


class Day(StrEnum):
    """A day of the week, in the order of ``date.weekday``."""

    MONDAY = "mon"
    TUESDAY = "tue"
    WEDNESDAY = "wed"
    THURSDAY = "thu"
    FRIDAY = "fri"
    SATURDAY = "sat"
    SUNDAY = "sun"


def known_zone(name: str) -> str:
    """See that this machine knows a time zone.

    Raises:
        ValueError: it does not.
    """
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as why:
        known = available_timezones()
        what = "no time zone is called" if known else "this machine knows no time zones (tzdata), so not"
        raise ValueError(f"{what} {name!r}") from why
    return name


ZoneName = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(known_zone)]
"""A zone of the IANA time zone database that this machine knows."""
LocalTime = Annotated[str, Field(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")]
"""A time of day on a clock on the wall, like ``02:30``."""


class Window(Contract):
    """When something may be begun and has to be over, by the clock on the wall.

    Attributes:
        days: on which days it opens.
        opens: at what time.
        closes: at what time: on the next day where that is not later.
    """

    days: Annotated[frozenset[Annotated[Day, Field(strict=False)]], Field(min_length=1)]
    opens: LocalTime
    closes: LocalTime

    @property
    def times(self) -> tuple[time, time]:
        """When it opens and closes."""
        return time.fromisoformat(self.opens), time.fromisoformat(self.closes)


class FirmwareRule(Contract):
    """How firmware comes to devices; with nothing said, to all those of a list at once.

    Attributes:
        zone: whose clock the windows go by.
        windows: when devices may be updated; always if there are none.
        parallel: how many devices of a hub are updated at once, whoever asks. In any case no more than the
            tier works at once but one, so that others of it need not wait for an update.
        canary: how many devices of a command have to be done before the others are begun.
        stop_after: after how many bad ends of a command the rest of it is not begun; never if absent.
        longest: how long an update is reckoned to last until the new version has stayed; if absent, as long
            as the device's profile and ``patience`` allow it, and ``soak``.
        soak: how long a version has to stay before it is believed.
        patience: how long an update may take in all, whatever its profile says.
    """

    zone: ZoneName = "UTC"
    windows: Annotated[tuple[Window, ...], Field(max_length=32)] = ()
    parallel: Annotated[int, Field(ge=1, le=1000)] | None = None
    canary: Annotated[int, Field(ge=0, le=1000)] = 0
    stop_after: Annotated[int, Field(ge=1, le=1000)] | None = None
    longest: Annotated[Duration, Field(ge=timedelta(seconds=1), le=timedelta(days=1))] | None = None
    soak: Annotated[Duration, Field(ge=timedelta(seconds=1), le=timedelta(days=1))] = timedelta(minutes=5)
    patience: Annotated[Duration, Field(ge=timedelta(seconds=1), le=timedelta(days=1))] = timedelta(hours=2)
