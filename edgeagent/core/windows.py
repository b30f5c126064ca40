"""When windows of the clock on the wall are open, as instants (SPEC F5).

A local time that a change of the clock leaves out is the instant of the change; one that comes twice is the
first of the two. Windows that touch are one. A clock that gives an interval has to lie in a window with the
whole of it, and what is begun has to be over before the window closes: whoever does not know the time begins
nothing.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from edgeagent.clock import Wall
from edgeagent.contracts.rollout import Day, FirmwareRule, Window
from edgeagent.values import dataclass

_AHEAD: Final = 15
"""Days that are looked at: a week, twice, since a change of the clock may leave a window out."""
_DAY: Final = timedelta(days=1)
_SECOND: Final = timedelta(seconds=1)
_DAYS: Final = tuple(Day)


@dataclass(frozen=True, slots=True)
class Span:
    """A time from an instant on, to one that is no more in it."""

    opens: datetime
    closes: datetime


@dataclass(frozen=True, slots=True)
class Opening:
    """Whether something may be begun by the windows.

    Attributes:
        is_open: whether it may.
        at: where it may not: the first instant at which it may; None where nobody can tell.
    """

    is_open: bool
    at: datetime | None = None


def opening(rule: FirmwareRule, wall: Wall, lasts: timedelta) -> Opening:
    """Whether what lasts so long may be begun now."""
    if not rule.windows:
        return Opening(is_open=True)
    if wall.latest is None:
        return Opening(is_open=False)
    for span in spans(rule, wall.earliest):
        if span.closes - span.opens < lasts:
            continue
        if span.opens > wall.earliest:
            return Opening(is_open=False, at=span.opens)
        if wall.latest + lasts <= span.closes:
            return Opening(is_open=True)
    return Opening(is_open=False)


def spans(rule: FirmwareRule, since: datetime) -> list[Span]:
    """The windows that close after an instant, of the next two weeks, in order, those that touch as one."""
    today = since.astimezone(ZoneInfo(rule.zone)).date()
    return [span for span in _around(rule.zone, rule.windows, today) if span.closes > since]


@lru_cache(maxsize=4)
def _around(zone: str, windows: tuple[Window, ...], today: date) -> tuple[Span, ...]:
    """The windows around a day; kept, since a plan asks for each of its devices, and it takes a while."""
    joined: list[Span] = []
    for span in sorted(_single(ZoneInfo(zone), windows, today), key=lambda each: each.opens):
        if joined and span.opens <= joined[-1].closes:
            joined[-1] = Span(joined[-1].opens, max(joined[-1].closes, span.closes))
        else:
            joined.append(span)
    return tuple(joined)


def _single(zone: ZoneInfo, windows: tuple[Window, ...], today: date) -> Iterator[Span]:
    # What has opened before today may go on.
    for day in (today + number * _DAY for number in range(-8, _AHEAD)):
        for window in windows:
            if _DAYS[day.weekday()] not in window.days:
                continue
            opens, closes = window.times
            span = Span(
                instant(day, opens, zone), instant(day if closes > opens else day + _DAY, closes, zone)
            )
            if span.closes > span.opens:
                yield span


def instant(day: date, at: time, zone: ZoneInfo) -> datetime:
    """The instant of a local time; the change of the clock where that leaves it out."""
    local = datetime.combine(day, at, tzinfo=zone)
    found, other = local.astimezone(UTC), local.replace(fold=1).astimezone(UTC)
    if found <= other:
        return found
    # The clock leaves it out (PEP 495): read by the offset after the change it lies before it, and the other
    # way round.
    before, after = other, found
    offset = before.astimezone(zone).utcoffset()
    while after - before > _SECOND:
        middle = before + (after - before) // 2
        if middle.astimezone(zone).utcoffset() == offset:
            before = middle
        else:
            after = middle
    return after.replace(microsecond=0)
