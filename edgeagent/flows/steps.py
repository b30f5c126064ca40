"""What is sent to a device for a claimed command: planned from its profile as it is now.

Each message has a number of its own that nobody can guess, where the device repeats it in its answer.
"""

from itertools import repeat
from secrets import randbits
from typing import Final

from edgeagent.core.gate.verdict import Opened
from edgeagent.core.profile.plan import Plan, Step
from edgeagent.core.work import Claim, StepName
from edgeagent.errors import MalformedError, RejectedError
from edgeagent.flows.devices import Devices

_NUMBER_BITS: Final = 31


class Steps:
    """Plans what commands send."""

    def __init__(self, devices: Devices) -> None:
        self._devices = devices

    def plan(self, asked: Opened) -> Plan | None:
        """How a command is carried out; None when it cannot be any more."""
        command, device = asked.command, self._devices.get(asked.device)
        if device is None:
            return None
        try:
            return device.compiled.plan(command.action, command.arguments, number=randbits(_NUMBER_BITS))
        except MalformedError:
            # The gate says so at ACT, with its reason.
            return None

    def step(self, claim: Claim, step: StepName) -> Step:
        """What is sent for a step.

        Raises:
            RejectedError: the device cannot do it, or cannot be asked.
        """
        plan = claim.plan
        device = self._devices.get(claim.device)
        if plan is None or device is None:
            raise RejectedError("the device cannot do this any more")
        if step is StepName.ACT:
            return plan.steps[0]
        looked_at = plan.requires[:1] if plan.wish is None else (plan.wish,)
        number = randbits(_NUMBER_BITS)
        if step is StepName.READ_BACK and looked_at:
            planned = device.compiled.read_back(looked_at[0].reading, number=number)
        else:
            planned = next(iter(device.compiled.questions(repeat(number))), None)
        if planned is None:
            raise RejectedError("the device cannot be read back")
        return planned
