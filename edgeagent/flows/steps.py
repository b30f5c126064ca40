"""What is sent to a device for a claimed command: planned from its profile as it is now.

Each message has a number of its own that nobody can guess, where the device repeats it in its answer.
"""

from collections.abc import Mapping
from itertools import repeat
from secrets import randbits
from typing import Final

from edgeagent.contracts.actions import CATALOGUE, ActionName, Arguments
from edgeagent.core.confirmation import Wish
from edgeagent.core.gate.verdict import Opened
from edgeagent.core.profile.compile import CompiledDevice
from edgeagent.core.profile.plan import Plan, Step
from edgeagent.core.saga import Mark
from edgeagent.core.work import Claim, StepName
from edgeagent.errors import MalformedError, RejectedError
from edgeagent.flows.devices import Devices
from edgeagent.ids import ReadingName
from edgeagent.values import dataclass

_NUMBER_BITS: Final = 31


@dataclass(frozen=True, slots=True)
class Planned:
    """A message that is about to be sent.

    Attributes:
        step: the message, and what may be heard after it.
        wish: what the device shall show after it, or was asked whether it shows.
    """

    step: Step
    wish: Wish | None


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
            return _plan(device.compiled, command.action, command.arguments)
        except MalformedError:
            # The gate says so at ACT, with its reason.
            return None

    def step(self, claim: Claim, step: StepName, part: int, marks: Mapping[int, Mark]) -> Planned:
        """What is sent for a step.

        Args:
            claim: whose.
            step: which.
            part: of which part of its plan.
            marks: what is recorded of those.

        Raises:
            RejectedError: the device cannot do it, cannot be asked, or the plan has no such step.
        """
        device = self._devices.get(claim.device)
        if claim.plan is None or device is None:
            raise RejectedError("the device cannot do this any more")
        if step is StepName.READ_VERSION:
            return Planned(_question_for_version(device.compiled), None)
        plan = _part(claim.plan, part, marks, device.compiled)
        if step.is_backward:
            plan = _undoing(plan, marks.get(part), device.compiled)
        if step.acts and plan.steps:
            return Planned(plan.steps[0], plan.wish)
        if step.acts:
            raise RejectedError("the plan has no such step")
        looked_at = plan.requires[:1] if plan.wish is None else (plan.wish,)
        number = randbits(_NUMBER_BITS)
        if step is not StepName.REFRESH and looked_at:
            planned = device.compiled.read_back(looked_at[0].reading, number=number)
        else:
            planned = next(iter(device.compiled.questions(repeat(number))), None)
        if planned is None:
            raise RejectedError("the device cannot be read back")
        return Planned(planned, plan.wish)


def _question_for_version(compiled: CompiledDevice) -> Step:
    recipe = compiled.profile.firmware
    planned = (
        None
        if recipe is None
        else compiled.read_back(ReadingName(recipe.running), number=randbits(_NUMBER_BITS))
    )
    if planned is None:
        raise RejectedError("the device cannot be asked which version runs")
    return planned


def _plan(compiled: CompiledDevice, action: ActionName, arguments: Arguments) -> Plan:
    return compiled.plan(action, arguments, number=randbits(_NUMBER_BITS))


def _part(whole: Plan, part: int, marks: Mapping[int, Mark], compiled: CompiledDevice) -> Plan:
    """The plan of one part, with a number of its own; the whole where it has none."""
    if not 0 <= part < max(1, len(whole.parts)):
        raise RejectedError(f"the plan has no part {part + 1}")
    if not whole.parts:
        return whole
    planned = whole.parts[part]
    if part in marks and marks[part].name != planned.action:
        raise RejectedError(f"part {part + 1} was begun as {marks[part].name}")
    return _plan(compiled, planned.action, planned.arguments)


def _undoing(plan: Plan, mark: Mark | None, compiled: CompiledDevice) -> Plan:
    """How a part is undone: by the same action, with the value that the device showed before."""
    shows = CATALOGUE[plan.action].shows
    if mark is None or mark.before is None or shows is None:
        raise RejectedError("it is not known what it was before")
    return _plan(compiled, plan.action, {**plan.arguments, shows: mark.before})
