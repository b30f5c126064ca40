"""A receipt: the final result of one command for one device.

The ``data`` of an event of type ``edgeagent.command.receipt``. It is stored with the run and given
again, under the same event id, whenever the same command comes again (SPEC T4). The hub signs it: its
``proof`` is a DSSE envelope of type ``RECEIPT_TYPE`` around all of the receipt but the proof (SPEC A4).
"""

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field

from edgeagent.clock import ClockSource
from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.command import Etag, Version
from edgeagent.contracts.door import Contract
from edgeagent.contracts.envelope import Envelope
from edgeagent.contracts.policy import Level
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.scalars import (
    CommandIdField,
    DeviceIdField,
    DigestField,
    EpochField,
    HubIdField,
    KeyIdField,
    Timestamp,
)
from edgeagent.contracts.update import UpdateMark

RECEIPT_TYPE: Final = "application/vnd.edgeagent.receipt.v1+json"
"""The DSSE payload type of a receipt."""
RECEIPT_BYTES: Final = 8 * 1024
"""The most bytes of a receipt with its proof, and of the envelope alone; an ordinary one has 2,000."""


class Outcome(StrEnum):
    """How a command ended. The final states of ``core/lifecycle``."""

    SUCCEEDED = "succeeded"
    """The effect is there, at the receipt's level."""
    REFUSED = "refused"
    """Nothing was done, and nothing will be."""
    SUPERSEDED = "superseded"
    """A later command of the same slot came before it began."""
    CANCELLED = "cancelled"
    """Withdrawn before it began."""
    EXPIRED = "expired"
    """Its time was over before it began."""
    FAILED = "failed"
    """It was tried, and is known not to have happened."""
    ROLLED_BACK = "rolled_back"
    """It failed in the middle; what was done is undone."""
    ROLLBACK_FAILED = "rollback_failed"
    """It failed in the middle, and undoing it failed too."""
    UNKNOWN = "unknown"
    """It was sent; nothing tells whether it happened."""


class StateMark(Contract):
    """A device's state, by version and etag."""

    version: Version
    etag: Etag


class AuditMark(Contract):
    """A row of a hub's audit trail, by its number and hash. Together they name all rows before it too."""

    number: Annotated[int, Field(ge=0, lt=2**53)]
    hash: DigestField


class StepPhase(StrEnum):
    """Where a step of several stands; see ``core/saga``."""

    FOUND = "found"
    """The device was so already; nothing was sent."""
    BEGUN = "begun"
    """It is about to be sent, or was; nothing is known of its effect."""
    DONE = "done"
    """Its effect is confirmed."""
    FAILED = "failed"
    """It was sent and is known not to have happened."""
    UNSURE = "unsure"
    """It was sent, and nothing tells that it did not happen."""
    BARRED = "barred"
    """It was not sent and never will be."""
    UNDOING = "undoing"
    """What undoes it is about to be sent, or was."""
    UNDONE = "undone"
    """The device is confirmed to be as it was before."""
    STUCK = "stuck"
    """It could not be undone, or nothing tells that it was."""


class StepMark(Contract):
    """What became of one step of several.

    Attributes:
        action: which action it is.
        phase: where it ended.
        level: how surely that is known.
    """

    action: ActionName = Field(strict=False)
    phase: StepPhase = Field(strict=False)
    level: Level | None = Field(default=None, strict=False)


class Receipt(Contract):
    """The result of a command.

    Attributes:
        hub: who worked it.
        epoch: the life of its database.
        command: its id.
        payload_sha256: of the payload bytes that were signed.
        issuer: the key that signed it.
        device: whom it was for.
        action: what was asked.
        run: which run of the command: 1, or more after a replay of a dead letter.
        outcome: how it ended.
        reason: why, where there is more to say.
        detail: what the device said of it, cleaned for people.
        level: how surely it is known; of a success.
        attempts: how often it was sent.
        fence: of the lock under which it was worked; 0 when it never began.
        steps: what became of each step that was come to, of an action that is made of several.
        update: what became of an update of firmware; absent where none was begun.
        before: the device's state when it was begun.
        after: the device's state at the end.
        finished_at: when.
        clock: what that time rests on.
        audit: the row of the trail that was written in the same commit.
        proof: the hub's signature over all of the above; absent in what is signed.
    """

    type: Literal["receipt"] = "receipt"
    hub: HubIdField
    epoch: EpochField
    command: CommandIdField
    payload_sha256: DigestField
    issuer: KeyIdField
    device: DeviceIdField
    action: ActionName = Field(strict=False)
    run: Annotated[int, Field(ge=1)]
    outcome: Outcome = Field(strict=False)
    reason: Reason | None = Field(default=None, strict=False)
    detail: Annotated[str, Field(max_length=200)] | None = None
    level: Level | None = Field(default=None, strict=False)
    attempts: Annotated[int, Field(ge=0)]
    fence: Annotated[int, Field(ge=0)]
    steps: Annotated[list[StepMark], Field(max_length=8)] | None = None
    update: UpdateMark | None = None
    before: StateMark | None = None
    after: StateMark | None = None
    finished_at: Timestamp
    clock: ClockSource = Field(strict=False)
    audit: AuditMark
    proof: Envelope | None = None
