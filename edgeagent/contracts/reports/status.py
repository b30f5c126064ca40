"""The hub at a glance: clock, links, outbox, policy."""

from typing import Annotated

from pydantic import Field

from edgeagent.clock import ClockSource
from edgeagent.contracts.door import Contract
from edgeagent.contracts.event import Stream
from edgeagent.contracts.mqtt import Session
from edgeagent.contracts.scalars import EpochField, HubIdField, Timestamp

Seconds = Annotated[float, Field(ge=0)]
"""A length of time in seconds, as Prometheus has it."""


class ClockReport(Contract):
    """What the agent knows of the time."""

    source: ClockSource = Field(strict=False)
    best: Timestamp
    error: Seconds | None = None
    floor: Timestamp


class LinkReport(Contract):
    """How a connection stands."""

    connected: bool
    since: Seconds
    attempts: int
    why: str = ""


class StreamReport(Contract):
    """How much of a stream waits.

    Attributes:
        next: the number of its next event.
        events: how many wait for the cloud.
        bytes: of their data.
        oldest: when the oldest of them happened.
        refused: how many the cloud will never take.
    """

    next: int
    events: int
    bytes: int
    oldest: Timestamp | None = None
    refused: int


class OutboxReport(Contract):
    """The outbox by stream."""

    streams: dict[Annotated[Stream, Field(strict=False)], StreamReport]


class CloudReport(Contract):
    """How the uplink stands."""

    configured: bool
    last_success: Seconds | None = None
    failing_for: Seconds | None = None
    why: str = ""


class PolicyReport(Contract):
    """The policy in force, if there is one."""

    version: int | None = None
    expires_at: Timestamp | None = None
    problem: str = ""


class StatusReport(Contract):
    """The hub at a glance."""

    hub: HubIdField
    zone: str = "UTC"
    epoch: EpochField
    incarnation: int
    version: str
    uptime: Seconds
    clock: ClockReport
    broker: dict[Annotated[Session, Field(strict=False)], LinkReport]
    cloud: CloudReport
    policy: PolicyReport
    devices: int
    proposals: int
    outbox: OutboxReport
