"""What a person at the hub may ask of the kill switch."""

from typing import Protocol

from edgeagent.contracts.order import Verb
from edgeagent.contracts.reports.switch import StopsReport, SwitchRequest


class Switch(Protocol):
    """Stops and resumes kinds of command."""

    def stops(self) -> StopsReport:
        """The last word on each kind that there was one on."""
        ...

    async def throw(self, request: SwitchRequest, verb: Verb, actor: str) -> StopsReport:
        """Stop or resume a kind; ``actor`` is who the operating system says is asking.

        Raises:
            RejectedError: there is nothing to resume.
            StorageError: nothing was done.
        """
        ...
