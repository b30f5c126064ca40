"""What a person at the hub may ask of the agent."""

from typing import Protocol

from edgeagent.contracts.reports.commands import CommandsReport, SendReport, SendRequest
from edgeagent.contracts.reports.devices import AdmitRequest, DeviceReport, DevicesReport
from edgeagent.contracts.reports.health import HealthReport
from edgeagent.contracts.reports.status import OutboxReport, StatusReport
from edgeagent.ids import CommandId, DeviceId


class Operator(Protocol):
    """What a person at the hub may ask of the agent.

    Each ``actor`` is who the operating system says is asking.
    """

    async def health(self) -> HealthReport:
        """Look at everything."""
        ...

    async def status(self) -> StatusReport:
        """The hub at a glance."""
        ...

    async def devices(self) -> DevicesReport:
        """All devices and proposals."""
        ...

    async def device(self, device: DeviceId) -> DeviceReport:
        """One admitted device.

        Raises:
            RejectedError: it is not admitted.
        """
        ...

    async def admit(self, request: AdmitRequest, actor: str) -> DeviceReport:
        """Take a device in.

        Raises:
            RejectedError: it cannot be taken in; the message says why.
        """
        ...

    async def forget(self, device: DeviceId, actor: str) -> None:
        """Let a device go.

        Raises:
            RejectedError: it is not admitted.
        """
        ...

    async def commands(self) -> CommandsReport:
        """The commands that came last."""
        ...

    async def command(self, command: CommandId) -> CommandsReport:
        """One command, on each of its devices.

        Raises:
            RejectedError: none of that id has come.
        """
        ...

    async def send(self, request: SendRequest, actor: str) -> SendReport:
        """Make a command in the hub's own name, and wait for its end.

        Raises:
            StorageError: it was not stored, and so not done.
        """
        ...

    async def outbox(self) -> OutboxReport:
        """How much waits for the cloud."""
        ...
