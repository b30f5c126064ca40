"""A compiled device as the gate asks it; the same in the daemon and in the isolated worker."""

from dataclasses import dataclass

from edgeagent.contracts.actions import ActionName, Arguments
from edgeagent.contracts.policy import Level
from edgeagent.core.profile.compile import CompiledDevice
from edgeagent.core.shadow import Shadow, differs
from edgeagent.errors import RejectedError


@dataclass(frozen=True, slots=True)
class Facts:
    """A compiled device as the gate asks it."""

    compiled: CompiledDevice

    def check(self, action: ActionName, arguments: Arguments) -> None:
        """Refuse what this device cannot do."""
        known = self.compiled.actions.get(action)
        if known is None:
            raise RejectedError(f"{self.compiled.device} has no action {action}")
        known.check(arguments)

    def best(self, action: ActionName) -> Level:
        """The highest level of confirmation that it can give of a supported action."""
        return self.compiled.actions[action].best

    def unfit(self, action: ActionName, arguments: Arguments, shadow: Shadow) -> str:
        """Why the device's present state does not allow the action; empty when it does."""
        for needed in self.compiled.requires(action, arguments):
            held = shadow.state.get(needed.reading)
            wanted = needed.equals
            if held is not None and wanted is not None and differs(held.value, wanted, 0.0):
                return f"{needed.reading} is {held.value}, not {wanted}"
        return ""
