"""Lists of devices that are updated: how they stand, what would become of one, and steering one."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from edgeagent.contracts.door import Contract
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.reports.commands import UpdateReport
from edgeagent.contracts.scalars import (
    ArtifactIdField,
    CommandIdField,
    DeviceIdField,
    KeyIdField,
    Timestamp,
    Words,
)
from edgeagent.contracts.update import Stage

MOST_PLANNED = 256
"""Devices of one plan: as many as one command may name."""


class SteerRequest(Contract):
    """Asks for the update of a list to be paused, to go on, or to be called off.

    Attributes:
        reason: for the record.
    """

    reason: Words


class CancelRequest(Contract):
    """Asks for the update of one device to be called off.

    Attributes:
        device: which; None where the command is for one.
        reason: for the record.
    """

    device: DeviceIdField | None = None
    reason: Words


class CancelAnswer(StrEnum):
    """What was said to the message that calls an update off."""

    NOT_NEEDED = "not_needed"
    """None was sent: nothing had been set off, and the command has ended."""
    TAKEN = "taken"
    """That it is called off."""
    DENIED = "denied"
    """That it is not."""
    NONE = "none"
    """Nothing yet."""


class CancelReport(Contract):
    """What came of calling off the update of one device.

    Attributes:
        command: that asked for it.
        device: which.
        state: of its run now.
        stage: of its update; None where none has begun.
        answer: what was said to the message that calls it off.
        words: why not, in the words of the device or its bridge.
    """

    command: CommandIdField
    device: DeviceIdField
    state: str
    stage: Stage | None = Field(default=None, strict=False)
    answer: CancelAnswer = Field(strict=False)
    words: str = ""


class PlanRequest(Contract):
    """Asks what would become of an update.

    Attributes:
        artifact: which file.
        devices: whom for, in this order.
    """

    artifact: ArtifactIdField
    devices: Annotated[list[DeviceIdField], Field(min_length=1, max_length=MOST_PLANNED)]


class RolloutDevice(Contract):
    """A device of a list.

    Attributes:
        device: which.
        state: of its last run.
        reason: why, where there is more to say.
        meaning: what that reason means.
        runs: the version that it tells now.
        update: how far its update is; None while it has not begun.
    """

    device: DeviceIdField
    state: str
    reason: Reason | None = Field(default=None, strict=False)
    meaning: str = ""
    runs: str | None = None
    update: UpdateReport | None = None


class RolloutReport(Contract):
    """How the update of a list stands.

    Attributes:
        command: that asks for it.
        artifact: what is installed.
        version: of that, as it is signed for now.
        issuer: the key in whose name.
        course: ``going``, ``paused`` or ``stopped``.
        by: who said so; empty where nobody did.
        why: what was said.
        succeeded: how many devices have it.
        bad: how many ended badly.
        under_way: how many are being updated.
        left: how many are not begun.
        never: how many ended without having been begun: refused, expired, called off.
        waits: why none of them may begin now; None where one may.
        devices: each of them; only where one list was asked for.
    """

    command: CommandIdField
    artifact: str
    version: str | None = None
    issuer: KeyIdField
    course: str
    by: str = ""
    why: str = ""
    succeeded: int
    bad: int
    under_way: int
    left: int
    never: int = 0
    waits: Reason | None = Field(default=None, strict=False)
    devices: list[RolloutDevice] = Field(default_factory=list)


class RolloutsReport(Contract):
    """The lists that came last, newest first."""

    rollouts: list[RolloutReport]


class PlannedDevice(Contract):
    """A device of a plan.

    Attributes:
        device: which.
        canary: whether it is among the first.
        lasts: how many seconds its update is reckoned to last.
        runs: the version that it tells now.
        refused: why the gate would refuse it now.
        detail: of that, for people.
    """

    device: DeviceIdField
    canary: bool = False
    lasts: float = 0.0
    runs: str | None = None
    refused: Reason | None = Field(default=None, strict=False)
    detail: str = ""


class PlanReport(Contract):
    """What would become of an update; nothing was done.

    Attributes:
        artifact: what would be installed.
        version: of that; None where nobody signs for it.
        parallel: how many at once; None where the tier says.
        canary: how many first.
        stop_after: after how many bad ends the rest is stopped; None for never.
        begins: when the first may begin; None where nobody can tell.
        ends: when the last is reckoned to be over, if all go well and none is away.
        devices: in the order in which they would begin; those that would be refused last.
    """

    artifact: str
    version: str | None = None
    parallel: int | None = None
    canary: int = 0
    stop_after: int | None = None
    begins: Timestamp | None = None
    ends: Timestamp | None = None
    devices: list[PlannedDevice]
