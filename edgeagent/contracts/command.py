"""A command: what an issuer signs.

The payload of a DSSE envelope of type ``COMMAND_TYPE``. It is bound to hub, epoch, device, action,
arguments, operation, sequence, issue time and expiry (SPEC T3); whatever changes one of them changes
the bytes, and the identity of a command is that of its payload bytes.
"""

from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from edgeagent.contracts.actions import ActionName, ArgumentValue
from edgeagent.contracts.door import Contract
from edgeagent.contracts.scalars import (
    CommandIdField,
    DeviceIdField,
    EpochField,
    HubIdField,
    OperationField,
    ReadingNameField,
    Timestamp,
)

COMMAND_TYPE: Final = "application/vnd.edgeagent.command.v1+json"
"""The DSSE payload type of a command."""
MOST_DEVICES: Final = 256
"""The most devices that one command may name."""
COMMAND_BYTES: Final = 32 * 1024
"""The most bytes of an envelope around a command; one for a single device has 900.

256 ids of 64 characters, with quotes and commas, are 17,152 bytes; 4 KiB are left for all other fields.
In base64 these are 28,332 bytes, and eight signatures and the envelope itself add less than 1,600.
"""

Version = Annotated[int, Field(ge=0, lt=2**63)]
Etag = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
Sequence = Annotated[int, Field(ge=1, lt=2**63)]
ArgumentName = Annotated[str, Field(pattern=r"^[a-z][a-z_]{0,31}$")]


class Precondition(Contract):
    """The state that an issuer decided on (SPEC C2). What is absent is not compared."""

    version: Version | None = None
    etag: Etag | None = None
    readings: dict[ReadingNameField, Version] = Field(default_factory=dict, max_length=16)


class Command(Contract):
    """One action, for one device or for each of a list.

    A list is signed as it is: whoever signs says which devices a group has, never the hub. What is asked
    of each device is a matter of its own, with its own row, operation, verdict and receipt.

    Attributes:
        id: chosen by the issuer, unique among its commands.
        hub: the hub that is to act.
        epoch: the life of that hub's database for which it was signed.
        devices: whom it is for, each named once.
        action: what to do.
        arguments: with what; checked against the catalogue and the device's profile by the gate.
        operation: the intent; the same for each command that means the same happening. Default: the id.
        sequence: time-ordered and unique per issuer and device; 41 bits of milliseconds since 1970
            over 20 bits of chance need no shared counter.
        issued_at: when it was signed.
        expires_at: from when on it must not be begun.
        precondition: the state that the issuer decided on.
    """

    type: Literal["command"] = "command"
    id: CommandIdField
    hub: HubIdField
    epoch: EpochField
    devices: Annotated[list[DeviceIdField], Field(min_length=1, max_length=MOST_DEVICES)]
    action: ActionName = Field(strict=False)
    arguments: dict[ArgumentName, ArgumentValue] = Field(default_factory=dict, max_length=8)
    operation: OperationField
    sequence: Sequence
    issued_at: Timestamp
    expires_at: Timestamp
    precondition: Precondition | None = None

    @model_validator(mode="after")
    def _names_each_once(self) -> "Command":
        if len(set(self.devices)) < len(self.devices):
            raise ValueError("a device is named twice")
        return self

    @model_validator(mode="after")
    def _ends_after_it_begins(self) -> "Command":
        if self.expires_at <= self.issued_at:
            raise ValueError("it expires before it is issued")
        return self
