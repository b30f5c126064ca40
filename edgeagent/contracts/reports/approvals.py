"""Agreeing to a command at the hub."""

from edgeagent.contracts.door import Contract
from edgeagent.contracts.scalars import CommandIdField, DeviceIdField, DigestField, Duration


class ApproveRequest(Contract):
    """Asks for a command to be approved.

    Attributes:
        sha256: of the payload that was shown.
        device: for which device.
    """

    sha256: DigestField
    device: DeviceIdField


class ApprovalReport(Contract):
    """An approval that was taken.

    Attributes:
        command: of which command.
        device: for which device.
        sha256: of which payload.
        by: whose word, as the kernel tells.
        good_for: how long it is good.
    """

    command: CommandIdField
    device: DeviceIdField
    sha256: DigestField
    by: str
    good_for: Duration
