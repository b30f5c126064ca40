"""What the desk keeps in memory of the claims that are out: how long they hold, and who waits for answers.

It is kept by token: a late holder and its successor both take a run for theirs, and neither may disturb
the other. A claim that nobody brings back is forgotten when its lease has lapsed.
"""

from collections.abc import Mapping
from dataclasses import field
from datetime import timedelta

from edgeagent.contracts.policy import Tier
from edgeagent.contracts.sources import Value
from edgeagent.core.saga import Mark
from edgeagent.core.work import Claim, StepName
from edgeagent.errors import LostRaceError
from edgeagent.flows.confirmations import Confirmations, Waiter
from edgeagent.flows.holdtimes import HoldTimes, Kind
from edgeagent.flows.steps import Planned
from edgeagent.ids import ReadingName
from edgeagent.metrics import Metrics
from edgeagent.values import dataclass


@dataclass(slots=True)
class Loan:
    """A claim that is out.

    Attributes:
        until: boot time at which its lease ends, as the locks table has it.
        lease: how long it holds without being renewed.
        since: boot time at which it went out.
        lane: of which lane.
        kind: of work; None when the device is not known any more.
        marks: what is recorded of the parts of its plan, by their numbers.
        about: which part the messages are about, and whether they undo it.
        act: waits for what answers the command itself, also while the device is read back.
        last: waits for what answers the last step.
    """

    until: timedelta
    lease: timedelta
    since: timedelta
    lane: Tier
    kind: Kind | None
    marks: dict[int, Mark] = field(default_factory=dict)
    about: tuple[int, bool] = (0, False)
    act: Waiter | None = None
    last: Waiter | None = None


class Loans:
    """The claims that are out."""

    def __init__(self, confirmations: Confirmations, holds: HoldTimes, metrics: Metrics) -> None:
        self._confirmations = confirmations
        self._holds = holds
        self._metrics = metrics
        self._loans: dict[str, Loan] = {}

    def begin(self, token: str, loan: Loan) -> None:
        """Note that a claim goes out, and forget those whose lease has lapsed without a word."""
        for lapsed in [each for each, other in self._loans.items() if other.until <= loan.since]:
            self.end(lapsed)
        self._loans[token] = loan

    def brought_back(self, token: str, now: timedelta) -> None:
        """Note for how long a device was locked; of how long the work takes where something was sent."""
        loan = self._loans.get(token)
        if loan is None:
            return
        self._metrics.lock_hold.labels(loan.lane).observe((now - loan.since).total_seconds())
        if loan.act is not None and loan.kind is not None:
            self._holds.add(loan.kind, now - loan.since)

    def of(self, claim: Claim) -> Loan:
        """What is kept of a claim.

        Raises:
            LostRaceError: nothing any more; somebody else may have the device.
        """
        loan = self._loans.get(claim.token)
        if loan is None:
            raise LostRaceError(f"the lock of {claim.device} is lost")
        return loan

    def end(self, token: str) -> Waiter | None:
        """Forget a claim, and stop waiting for its answers.

        Returns:
            Who waited for what answers the command itself; None if it was not sent, or is forgotten.
        """
        loan = self._loans.pop(token, None)
        if loan is None:
            return None
        self._close(loan.act)
        self._close(loan.last)
        return loan.act

    def wait_for(
        self,
        claim: Claim,
        step: StepName,
        planned: Planned,
        before: Mapping[ReadingName, Value],
        *,
        part: int = 0,
    ) -> Waiter:
        """Begin to wait for what answers a step, before it is sent.

        Args:
            claim: whose.
            step: which.
            planned: the step itself.
            before: what the device showed live.
            part: of which part of the plan.
        """
        loan = self.of(claim)
        if loan.about != (part, step.is_backward):
            # What answers another part says nothing of this one.
            self._close(loan.act)
            loan.about, loan.act = (part, step.is_backward), None
        if loan.last is not loan.act:
            self._close(loan.last)
        wish = None if step.acts else planned.wish
        waiter = loan.last = self._confirmations.open(claim.device, planned.step.expectation, wish)
        waiter.know(before)
        if step.acts:
            self._close(loan.act)
            loan.act = waiter
            self._confirmations.narrow_late(claim.device)
        return waiter

    def _close(self, waiter: Waiter | None) -> None:
        if waiter is not None:
            self._confirmations.close(waiter)
