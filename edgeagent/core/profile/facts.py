"""A compiled device as the gate asks it; the same in the daemon and in the isolated worker."""

from collections.abc import Iterable

from edgeagent.contracts.actions import ActionName, Arguments
from edgeagent.contracts.policy import Level
from edgeagent.core.profile.compile import CompiledDevice
from edgeagent.core.profile.firmware import Charge
from edgeagent.core.shadow import Shadow, differs
from edgeagent.errors import RejectedError
from edgeagent.values import dataclass


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
        return too_low(self.compiled.charges, shadow) if action is ActionName.INSTALL else ""


def too_low(charges: Iterable[Charge], shadow: Shadow) -> str:
    """What stands in the way of an update, such as an empty battery; empty for nothing.

    What is not known of a device stands in nobody's way.
    """
    for charge in charges:
        value = shadow.value(charge.reading)
        if isinstance(value, int | float) and value < charge.at_least:
            return f"{charge.reading} is {value:g}, at least {charge.at_least:g} is needed"
    return ""
