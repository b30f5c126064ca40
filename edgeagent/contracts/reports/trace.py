"""The way of a command as spans: the answer of ``GET /v1/commands/{command}/trace``."""

from edgeagent.contracts.door import Contract
from edgeagent.contracts.scalars import CommandIdField, DeviceIdField, Timestamp


class SpanReport(Contract):
    """A stretch of a command's way.

    Attributes:
        name: what it is, as ``core/timeline`` has it.
        span: its id, 16 hexadecimal digits.
        parent: the id of the span that it is a part of; empty where the trace begins here.
        start: when it began.
        end: when it ended; None while it goes on.
        says: what else is known of it.
    """

    name: str
    span: str
    parent: str
    start: Timestamp
    end: Timestamp | None
    says: dict[str, str]


class WayReport(Contract):
    """A run of the command on a device.

    Attributes:
        device: which device.
        run: the number of the run there.
        trace: the id of the trace, 32 hexadecimal digits.
        sampled: whether whoever began the trace records it.
        spans: the whole first, the others as they began.
    """

    device: DeviceIdField
    run: int
    trace: str
    sampled: bool
    spans: list[SpanReport]


class TraceReport(Contract):
    """A command on each of its devices."""

    command: CommandIdField
    ways: list[WayReport]
