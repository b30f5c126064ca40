"""What waits for the cloud, for health: how much, how old, what the cloud will never take (SPEC U5)."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from edgeagent.contracts.event import Stream
from edgeagent.contracts.reports.health import Check, Level, Measure
from edgeagent.flows.store_health import in_words
from edgeagent.flows.surroundings import Surroundings
from edgeagent.flows.uplink import UplinkState
from edgeagent.store.outbox import Depth

LONG: Final = timedelta(hours=1)
"""How long the oldest may wait."""


def outbox_check(depths: Mapping[Stream, Depth], uplink: UplinkState | None, around: Surroundings) -> Check:
    """Look at the outbox.

    Args:
        depths: how much of each stream waits.
        uplink: how what sends them stands; None without a cloud.
        around: time.
    """
    waiting = sum(depth.events for depth in depths.values())
    size = sum(depth.bytes for depth in depths.values())
    refused = sum(depth.refused for depth in depths.values())
    oldest = min((depth.oldest for depth in depths.values() if depth.oldest is not None), default=None)
    age = timedelta(0)
    if oldest is not None:
        age = timedelta(microseconds=max(0, around.event_time().at - oldest))
    summary, level, advice = f"{waiting} events wait, {size // 1024} KiB", Level.OK, ""
    if refused:
        summary, level = f"{summary}; the cloud refused {refused} for good", Level.WARNING
        advice = "edgeagent outbox stats shows their streams; the log says why"
    elif uplink is not None and age > LONG:
        summary, level = f"{summary}, the oldest for {in_words(age)}", Level.WARNING
        advice = "see the check cloud"
    measures = [
        Measure(name="outbox", value=waiting),
        Measure(name="outbox_bytes", value=size, unit="B"),
        Measure(name="outbox_age", value=age.total_seconds(), unit="s", warning=_seconds(uplink)),
        Measure(name="outbox_refused", value=refused, warning="0"),
    ]
    return Check(name="outbox", level=level, summary=summary, advice=advice, measures=measures)


def _seconds(uplink: UplinkState | None) -> str:
    return "" if uplink is None else f"{LONG.total_seconds():.0f}"
