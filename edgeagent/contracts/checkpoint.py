"""A checkpoint: the head of a hub's audit trail, signed by the hub (SPEC A3).

The ``data`` of an event of type ``edgeagent.audit.checkpoint``; its ``proof`` is a DSSE envelope of type
``CHECKPOINT_TYPE`` around all of it but the proof. It is no row of the trail: that of row n needs no row
n+1, and a trail that rests grows none.
"""

from typing import Final, Literal

from pydantic import Field

from edgeagent.clock import ClockSource
from edgeagent.contracts.door import Contract
from edgeagent.contracts.envelope import Envelope
from edgeagent.contracts.receipt import AuditMark
from edgeagent.contracts.scalars import EpochField, HubIdField, Timestamp

CHECKPOINT_TYPE: Final = "application/vnd.edgeagent.checkpoint.v1+json"
"""The DSSE payload type of a checkpoint."""
CHECKPOINT_BYTES: Final = 4 * 1024
"""The most bytes of a checkpoint with its proof, and of the envelope alone."""


class Checkpoint(Contract):
    """Up to here the trail says what it says.

    Attributes:
        hub: whose trail.
        epoch: of which life of its database.
        audit: the last row.
        at: when it was signed.
        clock: what that time rests on.
        proof: the hub's signature over all of the above; absent in what is signed.
    """

    type: Literal["checkpoint"] = "checkpoint"
    hub: HubIdField
    epoch: EpochField
    audit: AuditMark
    at: Timestamp
    clock: ClockSource = Field(strict=False)
    proof: Envelope | None = None
