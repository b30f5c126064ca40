"""What the agent tells its operator: the answers of the admin socket, and what ``--json`` prints."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from edgeagent.clock import ClockSource
from edgeagent.contracts.actions import ActionName, ArgumentValue
from edgeagent.contracts.command import ArgumentName, Precondition
from edgeagent.contracts.door import Contract
from edgeagent.contracts.event import Stream
from edgeagent.contracts.mqtt import Session
from edgeagent.contracts.policy import Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Receipt
from edgeagent.contracts.scalars import (
    CommandIdField,
    DeviceIdField,
    Duration,
    EpochField,
    HubIdField,
    KeyIdField,
    LabelField,
    OperationField,
    Timestamp,
)

Seconds = Annotated[float, Field(ge=0)]
"""A length of time in seconds, as Prometheus has it."""


class Level(StrEnum):
    """How a check stands, best first. Its place is the exit status of ``edgeagent health``."""

    OK = "ok"
    """Nothing to do."""
    WARNING = "warning"
    """It works; somebody should look."""
    CRITICAL = "critical"
    """Something does not work."""
    UNKNOWN = "unknown"
    """It cannot be told from here."""

    @property
    def exit_status(self) -> int:
        """0, 1, 2 or 3, as monitoring plugins have it."""
        return list(Level).index(self)


class Check(Contract):
    """One thing that was looked at.

    Attributes:
        name: of the check, for scripts.
        level: how it stands.
        summary: what was seen.
        advice: what to do next; empty when nothing is.
    """

    name: str
    level: Level = Field(strict=False)
    summary: str
    advice: str = ""


class HealthReport(Contract):
    """All checks, worst first."""

    at: Timestamp
    checks: list[Check]

    @property
    def level(self) -> Level:
        """The worst of the checks; CRITICAL is worse than UNKNOWN."""
        order = [Level.OK, Level.UNKNOWN, Level.WARNING, Level.CRITICAL]
        return max((check.level for check in self.checks), key=order.index, default=Level.UNKNOWN)


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


class ReadingReport(Contract):
    """A reading of a device.

    Attributes:
        value: what it is.
        unit: of a number.
        version: of a state reading.
        at: when it changed last; of a state reading.
        live: whether it was heard since the device came online; of a state reading.
    """

    value: bool | int | float | str
    unit: str = ""
    version: int | None = None
    at: Timestamp | None = None
    live: bool | None = None


class DeviceReport(Contract):
    """An admitted device."""

    device: DeviceIdField
    label: LabelField
    profile: str
    online: bool | None = None
    version: int
    etag: str
    readings: dict[str, ReadingReport]
    actions: list[Annotated[ActionName, Field(strict=False)]]
    parameters: dict[str, JsonValue]
    heard: Seconds | None = None
    unsafe_messages: int


class ProposalReport(Contract):
    """A device that has shown itself and waits for admission."""

    device: DeviceIdField
    profile: str
    label: str
    model: str = ""
    firmware: str = ""
    parameters: dict[str, JsonValue]


class DevicesReport(Contract):
    """All devices, and those that wait for admission."""

    devices: list[DeviceReport]
    proposals: list[ProposalReport]


class CommandReport(Contract):
    """A command at this hub.

    Attributes:
        command: its id.
        device: whom it is for.
        action: what it asks.
        arguments: with what.
        state: where it stands.
        reason: why, where there is more to say.
        meaning: what that reason means.
        lane: where it is worked.
        run: which run of it.
        attempts: how often it was sent.
        issuer: the key in whose name.
        actor: who is on record for it.
        received_at: when it came.
        expires_at: from when on it is not begun.
        last_error: what went wrong last.
        receipt: its result, once it has one.
    """

    command: CommandIdField
    device: DeviceIdField
    action: ActionName = Field(strict=False)
    arguments: dict[str, ArgumentValue]
    state: str
    reason: Reason | None = Field(default=None, strict=False)
    meaning: str = ""
    lane: Tier = Field(strict=False)
    run: int
    attempts: int
    issuer: KeyIdField
    actor: str
    received_at: Timestamp
    expires_at: Timestamp
    last_error: str | None = None
    receipt: Receipt | None = None


class CommandsReport(Contract):
    """The commands that came last, newest first."""

    commands: list[CommandReport]


class SendRequest(Contract):
    """Asks for a command to be made, signed with the hub's own key, and carried out.

    Attributes:
        device: whom for.
        action: what.
        arguments: with what.
        operation: the intent, if it is the same as that of an earlier command.
        precondition: the state that it was decided on.
        wait: how long to wait for its end.
    """

    device: DeviceIdField
    action: ActionName = Field(strict=False)
    arguments: dict[ArgumentName, ArgumentValue] = Field(default_factory=dict, max_length=8)
    operation: OperationField | None = None
    precondition: Precondition | None = None
    wait: Annotated[Duration, Field(le=timedelta(minutes=2))] = timedelta(seconds=30)


class SendReport(Contract):
    """What became of a command that was asked for.

    Attributes:
        refused: why it was not let in; None if it was.
        detail: of that, for people.
        command: the command; None when it was not stored.
    """

    refused: Reason | None = Field(default=None, strict=False)
    detail: str = ""
    command: CommandReport | None = None


class AdmitRequest(Contract):
    """Asks for a device to be admitted.

    Attributes:
        device: which.
        label: what people call it; the proposed label if absent.
        profile: of its family; the proposed one if absent.
        parameters: of the profile; they add to the proposed ones.
    """

    device: DeviceIdField
    label: LabelField | None = None
    profile: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,63}$")] | None = None
    parameters: dict[str, JsonValue] = Field(default_factory=dict, max_length=32)


class Refusal(Contract):
    """Why a request was not done."""

    type: Literal["refusal"] = "refusal"
    error: str
    advice: str = ""
