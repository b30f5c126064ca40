"""How much waited at the hub, over time."""

from typing import Annotated

from pydantic import Field

from edgeagent.contracts.door import Contract
from edgeagent.contracts.event import Stream
from edgeagent.contracts.policy import Tier

Count = Annotated[int, Field(ge=0)]


class HistorySample(Contract):
    """What waited at one moment.

    Attributes:
        at: seconds since the machine's boot, which nobody can set.
        stored: events that were ever stored, over all streams.
        outbox: events that wait for the cloud, by stream.
        lanes: commands that are not over, by lane.
    """

    at: Count
    stored: Count
    outbox: dict[Annotated[Stream, Field(strict=False)], Count]
    lanes: dict[Annotated[Tier, Field(strict=False)], Count]


class HistorySpan(Contract):
    """Samples at one distance: columns of equal length, the oldest first.

    Attributes:
        every: seconds from one to the next, where the machine did not sleep.
        at: of each, as in ``HistorySample``; the others too.
    """

    every: Count
    at: list[Count]
    stored: list[Count]
    outbox: dict[Annotated[Stream, Field(strict=False)], list[Count]]
    lanes: dict[Annotated[Tier, Field(strict=False)], list[Count]]


class HistoryReport(Contract):
    """What is remembered since the agent's start.

    Attributes:
        now: seconds since the machine's boot.
        spans: the finest and shortest first.
    """

    now: Count
    spans: list[HistorySpan]
