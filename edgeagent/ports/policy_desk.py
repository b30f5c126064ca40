"""What a person at the hub may ask of the policy in force."""

from typing import Protocol

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.reports.policy import ActionReport, PolicyShown
from edgeagent.ids import DeviceId


class PolicyDesk(Protocol):
    """Explains the policy."""

    def show(self) -> PolicyShown:
        """The policy in force: who signed it, until when it is good, who may what.

        Raises:
            RejectedError: there is none.
        """
        ...

    def explain(self, action: ActionName, device: DeviceId | None) -> ActionReport:
        """What stands about an action, on one device or on any.

        Raises:
            RejectedError: there is no policy.
        """
        ...
