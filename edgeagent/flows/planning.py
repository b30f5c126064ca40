"""What would become of an update of a list, without doing any of it (SPEC F5).

By the rule of the policy in force, what the gate judges artifacts by, and what the devices tell now. The end
is reckoned as if all went well and every device were there.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from edgeagent.clock import ClockSource, Wall
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.reports.rollouts import PlannedDevice, PlanReport
from edgeagent.core.gate.artifacts import unfit
from edgeagent.core.gate.verdict import Refuse
from edgeagent.core.windows import opening
from edgeagent.flows.rollouts import Rollouts
from edgeagent.flows.worlds import Worlds
from edgeagent.ids import ArtifactId, DeviceId
from edgeagent.values import dataclass


@dataclass(frozen=True, slots=True)
class Planning:
    """Makes plans. On the event loop only.

    Attributes:
        worlds: what the gate judges by.
        rollouts: the rule of the policy, and how long an update lasts.
    """

    worlds: Worlds
    rollouts: Rollouts

    def plan(self, artifact: ArtifactId, devices: Sequence[DeviceId], *, succeeded: int) -> PlanReport:
        """The plan of an update.

        Args:
            artifact: what is to be installed.
            devices: whom for, in this order.
            succeeded: how many others of the list have it or are about to.
        """
        rule = self.rollouts.rule
        listed = self.worlds.trust.catalogue.listed.get(artifact)
        every = [self._planned(artifact, device) for device in devices]
        fit = [each for each in every if each.refused is None]
        first = max(0, rule.canary - succeeded)
        fit = [each.model_copy(update={"canary": place < first}) for place, each in enumerate(fit)]
        begins, ends = self._times([fit[:first], fit[first:]])
        return PlanReport(
            artifact=artifact,
            version=None if listed is None else listed.facts.version,
            parallel=rule.parallel,
            canary=rule.canary,
            stop_after=rule.stop_after,
            begins=begins,
            ends=ends,
            devices=[*fit, *(each for each in every if each.refused is not None)],
        )

    def _planned(self, artifact: ArtifactId, device: DeviceId) -> PlannedDevice:
        world = self.worlds.around_device(device, None)
        refused = self._refused(artifact, device)
        return PlannedDevice(
            device=device,
            lasts=self.rollouts.reckoned(device).total_seconds(),
            runs=None if world.appliance is None else world.appliance.version,
            refused=None if refused is None else refused.reason,
            detail="" if refused is None else refused.detail,
        )

    def _refused(self, artifact: ArtifactId, device: DeviceId) -> Refuse | None:
        world, known = self.worlds.around_device(device, None), self.worlds.devices.get(device)
        if world.policy is None:
            return Refuse(Reason.NO_POLICY)
        if known is None:
            return Refuse(Reason.DEVICE_UNKNOWN)
        if known.compiled.profile.firmware is None:
            return Refuse(Reason.UNSUPPORTED_ACTION, f"{known.admitted.profile} is not updated over the air")
        return unfit(artifact, world.policy, world)

    def _times(self, groups: Sequence[Sequence[PlannedDevice]]) -> tuple[datetime | None, datetime | None]:
        """When the first begins and the last is over: group by group, so many at once."""
        rule, begins = self.rollouts.rule, None
        wall = self.worlds.around.clock.wall()
        for group in groups:
            size = rule.parallel or max(1, len(group))
            for place in range(0, len(group), size):
                lasts = timedelta(seconds=max(each.lasts for each in group[place : place + size]))
                found = opening(rule, wall, lasts)
                at = wall.earliest if found.is_open else found.at
                if wall.latest is None or at is None:
                    return begins, None
                begins = begins or at
                end = at + lasts
                wall = Wall(best=end, earliest=end, latest=end, source=ClockSource.NONE)
        return begins, None if begins is None else wall.best
