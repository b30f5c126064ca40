"""Sending the steps of claimed commands: recorded before they leave, and only what may leave.

    planned ─> next of the plan? stopped? ─> recorded ─> lease running? stopped? over? ─> handed to the broker

The last questions and the handing over are one stretch of the loop: nothing comes between (DESIGN,
decision 9).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial

from edgeagent.contracts.mqtt import Outgoing, PublishResult
from edgeagent.contracts.sources import Value
from edgeagent.core.profile.plan import Step
from edgeagent.core.saga import Mark, check_end
from edgeagent.core.stops import stopped_by
from edgeagent.core.work import Claim, Ending, StepName
from edgeagent.errors import LostRaceError, RejectedError
from edgeagent.flows.loans import Loans
from edgeagent.flows.stepping import Recorder, became, coming, unsent
from edgeagent.flows.steps import Steps
from edgeagent.flows.worlds import Worlds
from edgeagent.ids import DeviceId, ReadingName
from edgeagent.ports.broker import DeviceBus
from edgeagent.ports.crash import CrashPoint
from edgeagent.ports.desk import BarredError, ExpiredError, StoppedError
from edgeagent.ports.links import LinkError
from edgeagent.store.database import Database


class Sending:
    """Sends what whoever works a command asks for, if it may leave."""

    def __init__(self, store: Database, bus: DeviceBus, worlds: Worlds, loans: Loans, planned: Steps) -> None:
        self._store = store
        self._bus = bus
        self._worlds = worlds
        self._around = worlds.around
        self._loans = loans
        self._steps = planned

    async def publish(self, claim: Claim, step: StepName, part: int = 0) -> PublishResult:
        """Send a step, recorded before it leaves; and begin to wait for what answers it."""
        marks = self._loans.of(claim).marks
        planned = self._steps.step(claim, step, part, marks)
        live = self._live(claim.device)
        mark = None if claim.plan is None else coming(claim.plan, step, part, marks, live)
        if step.acts:
            self.check_not_stopped(claim)
        waiter = self._loans.wait_for(claim, step, planned, live, part=part)
        if step.acts:
            sending = partial(self._recorder(claim).sending, topic=planned.step.topic, mark=mark)
            await self._store.write(sending)
            self._around.crash.reached(CrashPoint.STEP_RECORDED)
        if mark is not None:
            marks[part] = mark
        try:
            trace = str(claim.trace_of_step(step, mark))
            return await self.hand_over(
                claim,
                message_of(planned.step, trace),
                waiter.sending,
                acts=step.acts,
                may_expire=step is StepName.ACT,
            )
        except (LinkError, RejectedError) as why:
            if mark is not None or isinstance(why, BarredError):
                await self._store.write(partial(unsent, run=claim.run))
            if mark is not None:
                marks[part] = replace(mark, tries=mark.tries - 1)
            raise

    async def hand_over(
        self,
        claim: Claim,
        message: Outgoing,
        leaves: Callable[[timedelta], None],
        *,
        acts: bool,
        may_expire: bool,
    ) -> PublishResult:
        """Give a recorded message to the broker, if the lock still holds and nothing was stopped meanwhile.

        Args:
            claim: whose.
            message: of the step.
            leaves: told right before, with the boot time.
            acts: whether it changes the device.
            may_expire: whether it is not sent once the command's time is over.
        """
        if self._loans.of(claim).until <= self._around.clock.boot():
            raise LostRaceError(f"the lock of {claim.device} is lost")
        if acts:
            # Stopped or over while the step was recorded: it never leaves.
            self.check_not_stopped(claim)
        if may_expire:
            self._check_not_over(claim)
        leaves(self._around.clock.boot())
        result = await self._bus.publish(message)
        self._around.crash.reached(CrashPoint.STEP_SENT)
        return result

    async def checkpoint(self, claim: Claim, mark: Mark) -> None:
        """Record what became of the part that is next."""
        loan = self._loans.of(claim)
        if claim.plan is None:
            raise RejectedError("the device cannot do this any more")
        known = became(claim.plan, mark, loan.marks)
        await self._store.write(partial(self._recorder(claim).checkpoint, mark=known))
        loan.marks[mark.part] = known
        self._around.crash.reached(CrashPoint.STEP_CHECKPOINTED)

    def check_end(self, claim: Claim, ending: Ending) -> None:
        """Refuse an end to which the recorded parts of a plan have not come.

        Raises:
            LostRaceError: the lock is not ours any more.
            RejectedError: they have not come to it.
        """
        if claim.plan is not None and claim.plan.parts:
            check_end(len(claim.plan.parts), self._loans.of(claim).marks, ending.outcome, ending.level)

    def _recorder(self, claim: Claim) -> Recorder:
        return Recorder(claim, self._around.present(), self._around.stamp())

    def check_not_stopped(self, claim: Claim) -> None:
        """Refuse to send what is stopped.

        Raises:
            StoppedError: such commands are.
        """
        kind = stopped_by(self._worlds.stops.kinds, claim.asked.command.action, claim.rule.tier)
        if kind is not None:
            raise StoppedError(f"{kind} is stopped")

    def _check_not_over(self, claim: Claim) -> None:
        clock, local = self._around.clock, claim.world.local
        if local is not None:
            is_over = local.passed(clock.boot_id, clock.boot())
        else:
            is_over = clock.wall().earliest >= claim.asked.command.expires_at
        if is_over:
            raise ExpiredError("its time was over before it was sent")

    def _live(self, device: DeviceId) -> Mapping[ReadingName, Value]:
        """What a device shows live."""
        found = self._worlds.devices.get(device)
        state = {} if found is None else found.shadow.state
        return {name: held.value for name, held in state.items() if held.live_at is not None}


def message_of(planned: Step, trace: str) -> Outgoing:
    """The message of a step, with the time after which the broker drops it and its place in the trace."""
    return Outgoing(
        topic=planned.topic,
        payload=planned.payload,
        expires_in=max(1, int(planned.expectation.within.total_seconds())),
        traceparent=trace,
    )
