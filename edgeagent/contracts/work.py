"""What the isolated worker and the daemon say to each other over the work socket (SPEC W1).

The worker asks, the daemon answers, one after the other on each connection. A request names a step of the
claimed command's plan and never a topic, payload or address. A claim carries all that the gate judges by:
the worker judges on it, and the daemon judges again before anything is sent.

A *grip* says which claim is meant: its token proves it, and its fence and run have to be those of the token.
"""

from datetime import timedelta
from typing import Annotated, Final, Literal

from pydantic import Field

from edgeagent.clock import BootId, ClockSource
from edgeagent.contracts.command import Etag, Version
from edgeagent.contracts.door import Contract
from edgeagent.contracts.mqtt import PublishResult
from edgeagent.contracts.policy import Level, Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome, StepPhase
from edgeagent.contracts.scalars import (
    Base64,
    CommandIdField,
    DeviceIdField,
    DigestField,
    Duration,
    EpochField,
    HubIdField,
    KeyIdField,
    Microseconds,
    PublicKeyHex,
    ReadingNameField,
    Timestamp,
    Words,
)
from edgeagent.contracts.sources import Value
from edgeagent.contracts.traceparent import TraceparentText
from edgeagent.contracts.update import Stage
from edgeagent.contracts.work_update import DeniedRecord, ServedRecord, SightRecord, UpdateRecord

REQUEST_BYTES: Final = 8 * 1024
"""The most bytes of a request; an ordinary one has 300."""
ANSWER_BYTES: Final = 2 * 1024 * 1024
"""The most bytes of an answer; that to a claim has 40,000 with an ordinary policy."""
LONGEST_WAIT: Final = timedelta(minutes=1)
"""How long a worker may have the daemon wait for a device at once."""
LONGEST_DELAY: Final = timedelta(days=1)
"""How long a worker may put a command off."""

MOST_PARTS: Final = 8
"""The most parts of a plan."""
PartNumber = Annotated[int, Field(ge=0, lt=MOST_PARTS)]
Wait = Annotated[Duration, Field(ge=timedelta(0), le=LONGEST_WAIT)]
Delay = Annotated[Duration, Field(ge=timedelta(0), le=LONGEST_DELAY)]


class Grip(Contract):
    """Which claim is meant.

    Attributes:
        run: of the command.
        token: by which its device is locked.
        fence: of that lock.
    """

    run: Annotated[int, Field(ge=1, lt=2**63)]
    token: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    fence: Annotated[int, Field(ge=1, lt=2**63)]


class ClaimRequest(Contract):
    """Asks for a command; answered when there is one."""

    type: Literal["claim"] = "claim"
    lane: Tier = Field(strict=False)
    holder: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,32}$")]


class RenewRequest(Contract):
    """Asks for a longer lease."""

    type: Literal["renew"] = "renew"
    grip: Grip


class PublishRequest(Contract):
    """Asks for a step of the plan to be sent."""

    type: Literal["publish"] = "publish"
    grip: Grip
    step: Annotated[str, Field(pattern=r"^[a-z0-9_.-]{1,64}$")]
    part: PartNumber = 0


class CheckpointRequest(Contract):
    """Says what became of a part of the plan."""

    type: Literal["checkpoint"] = "checkpoint"
    grip: Grip
    part: PartNumber
    phase: StepPhase = Field(strict=False)
    level: Level | None = Field(default=None, strict=False)
    reason: Reason | None = Field(default=None, strict=False)
    detail: Words | None = None


class AwaitRequest(Contract):
    """Asks what the last step's answers prove; answered when that is enough, or ``within`` is over."""

    type: Literal["await_confirmation"] = "await_confirmation"
    grip: Grip
    level: Level = Field(strict=False)
    within: Wait


class ReadRequest(Contract):
    """Asks for what the gate judges by, as it is now."""

    type: Literal["read_device"] = "read_device"
    grip: Grip


class ServeRequest(Contract):
    """Asks for an update's file to be served to its device, and for where the update stands."""

    type: Literal["serve"] = "serve"
    grip: Grip


class ProgressRequest(Contract):
    """Asks what is seen of an update; answered when that is more, or ``within`` is over."""

    type: Literal["await_progress"] = "await_progress"
    grip: Grip
    within: Wait


class EnterRequest(Contract):
    """Says which stage an update is at, by what was seen."""

    type: Literal["enter"] = "enter"
    grip: Grip
    stage: Stage = Field(strict=False)


class FinishRequest(Contract):
    """Says how the command ends."""

    type: Literal["finish"] = "finish"
    grip: Grip
    outcome: Outcome = Field(strict=False)
    reason: Reason | None = Field(default=None, strict=False)
    detail: Words | None = None
    level: Level | None = Field(default=None, strict=False)


class PostponeRequest(Contract):
    """Gives the command back, to be taken up again later."""

    type: Literal["postpone"] = "postpone"
    grip: Grip
    reason: Reason = Field(strict=False)
    after: Delay | None = None
    error: Words | None = None
    unsent: bool = False


Held = (
    RenewRequest
    | PublishRequest
    | CheckpointRequest
    | AwaitRequest
    | ReadRequest
    | ServeRequest
    | ProgressRequest
    | EnterRequest
    | FinishRequest
    | PostponeRequest
)
"""What may be asked of a claim."""


class WorkRequest(Contract):
    """One thing that a worker asks."""

    request: Annotated[ClaimRequest | Held, Field(discriminator="type")]


class WallRecord(Contract):
    """What is known of the time of day."""

    best: Timestamp
    earliest: Timestamp
    latest: Timestamp | None = None
    source: ClockSource = Field(strict=False)


class DeadlineRecord(Contract):
    """An end on boot time, of the boot that it counts in."""

    boot_id: BootId
    until: Microseconds


class ReadingRecord(Contract):
    """One state reading of the device; ``live_at`` in nanoseconds of boot time."""

    value: Value
    version: Version
    at: int
    retained: bool
    live_at: int | None = None


class ShadowRecord(Contract):
    """What is known of the device's state."""

    version: Version
    etag: Etag
    state: dict[ReadingNameField, ReadingRecord]


class DeviceRecord(Contract):
    """The device: its profile, as JSON, and the values of the profile's parameters."""

    device: DeviceIdField
    profile: Base64
    parameters: dict[str, bool | int | str | list[int]]


class KnownRecord(Contract):
    """What is stored under the command's id."""

    sha256: DigestField
    held: bool
    signers: list[KeyIdField]


class OperationRecord(Contract):
    """What became of the command's operation, and which command said it."""

    state: str
    command: CommandIdField


class ApprovalRecord(Contract):
    """The word of somebody at the hub."""

    by: str
    until: DeadlineRecord


class WorldRecord(Contract):
    """All that the gate judges by; the fields are those of ``core.gate.world.World``."""

    hub: HubIdField
    epoch: EpochField
    policy: Base64 | None = None
    policy_sha256: DigestField | None = None
    policy_until: Timestamp | None = None
    operator_key: PublicKeyHex | None = None
    wall: WallRecord
    boot: DeadlineRecord
    local: DeadlineRecord | None = None
    device: DeviceRecord | None = None
    shadow: ShadowRecord | None = None
    known: KnownRecord | None = None
    sequence_of: CommandIdField | None = None
    superseded_by: CommandIdField | None = None
    forgotten: Timestamp | None = None
    operation: OperationRecord | None = None
    stops: list[str] = Field(default_factory=list)
    approvals: list[ApprovalRecord] = Field(default_factory=list)
    actor: str = ""


class MarkRecord(Contract):
    """What is recorded of a part of the plan; the fields are those of ``core.saga.Mark``."""

    part: PartNumber
    name: str
    phase: StepPhase = Field(strict=False)
    tries: Annotated[int, Field(ge=0)]
    before: Value | None = None
    level: Level | None = Field(default=None, strict=False)
    reason: Reason | None = Field(default=None, strict=False)
    detail: str = ""


class ClaimRecord(Contract):
    """A command that is the worker's now.

    Attributes:
        grip: what proves it.
        lane: of which it is.
        device: which of the command's devices is meant.
        envelope: what was signed, with the signatures.
        world: what the gate judges by, as of the claim.
        attempts: how often it was sent before.
        sent: whether this run may have been sent already.
        force_refresh: whether the device has to be read before anything is sent.
        steps: what is recorded of the parts of the plan.
        update: what is recorded of its update.
        lease: how long it holds without being renewed.
        traceparent: the place in a trace that came beside it.
    """

    grip: Grip
    lane: Tier = Field(strict=False)
    device: DeviceIdField
    envelope: Base64
    world: WorldRecord
    attempts: Annotated[int, Field(ge=0)]
    sent: bool
    force_refresh: bool
    lease: Microseconds
    steps: Annotated[list[MarkRecord], Field(max_length=MOST_PARTS)] = Field(default_factory=list)
    update: UpdateRecord | None = None
    traceparent: TraceparentText | None = None


class ConfirmedRecord(Contract):
    """The effect is there."""

    type: Literal["confirmed"] = "confirmed"
    level: Level = Field(strict=False)
    value: Value | None = None


class ContradictedRecord(Contract):
    """The device shows another value."""

    type: Literal["contradicted"] = "contradicted"
    value: Value


class AnsweredRecord(Contract):
    """What was heard of a step so far."""

    confirmed: ConfirmedRecord | None = None
    denied: DeniedRecord | None = None
    seen: Annotated[ConfirmedRecord | ContradictedRecord, Field(discriminator="type")] | None = None
    is_over: bool


class FailureRecord(Contract):
    """Why something was not done.

    Attributes:
        kind: ``lost``: somebody else may have the device; ``stopped``: by the kill switch; ``expired``:
            its time is over; ``rejected``: it can never be done; ``link``: the broker cannot be reached;
            ``busy``: not this time; ``cut_off``: no worker asks or says that, and the connection ends.
        why: for people.
        trouble: of the link.
        retry_after: how long it asked us to wait.
    """

    kind: Literal["lost", "stopped", "expired", "rejected", "link", "busy", "cut_off"]
    why: Words
    trouble: str | None = None
    retry_after: Duration | None = None


class WorkAnswer(Contract):
    """What the daemon says to a request: at most one of these; none says that it is done."""

    claim: ClaimRecord | None = None
    result: PublishResult | None = Field(default=None, strict=False)
    answered: AnsweredRecord | None = None
    world: WorldRecord | None = None
    served: ServedRecord | None = None
    sight: SightRecord | None = None
    update: UpdateRecord | None = None
    failure: FailureRecord | None = None
