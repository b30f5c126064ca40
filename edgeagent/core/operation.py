"""Operations: what an issuer means to happen once, however many commands say it (SPEC I1, I2)."""

import json
from enum import StrEnum
from hashlib import sha256

from edgeagent.contracts.command import Command
from edgeagent.ids import DeviceId, Digest


class OperationState(StrEnum):
    """What became of an operation."""

    PROCESSING = "processing"
    """A command that says it is open."""
    COMPLETED = "completed"
    """It has happened; its receipt is the answer to every further command that says it."""
    FAILED = "failed"
    """It has not happened, and nothing was done: it may be said again."""
    UNKNOWN = "unknown"
    """It may have happened."""


def operation_key(command: Command, device: DeviceId) -> Digest:
    """The key of a command's operation on a device: sha256 over hub, device, action, arguments and operation.

    Never over a time or a chance value made at the hub, so that it is the same for the same intent.
    """
    parts = [command.hub, device, command.action, dict(command.arguments), command.operation]
    text = json.dumps(parts, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return Digest(sha256(text.encode()).hexdigest())
