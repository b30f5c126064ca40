"""What a person at the hub may ask: the ``Operator`` port, answered from store and memory."""

from datetime import timedelta
from importlib.metadata import version

from edgeagent.clock import EPOCH, ProvenClock
from edgeagent.contracts.firmware import FirmwareRecipe
from edgeagent.contracts.mqtt import Session
from edgeagent.contracts.policy import Tier
from edgeagent.contracts.reports.commands import CommandsReport, SendReport, SendRequest
from edgeagent.contracts.reports.devices import (
    AdmitRequest,
    DeviceReport,
    DevicesReport,
    ProposalReport,
    ReadingReport,
    UpdatesReport,
)
from edgeagent.contracts.reports.health import HealthReport
from edgeagent.contracts.reports.status import (
    ClockReport,
    CloudReport,
    LinkReport,
    OutboxReport,
    PolicyReport,
    StatusReport,
    StreamReport,
)
from edgeagent.core.blame import Blame
from edgeagent.core.lifecycle import OPEN
from edgeagent.core.profile.match import Proposal
from edgeagent.core.short_names import meant, named_whole
from edgeagent.errors import RejectedError, UnknownError
from edgeagent.flows.devices import Device
from edgeagent.flows.gauges import set_clock, set_outbox, set_written
from edgeagent.flows.health import Health
from edgeagent.flows.local import LocalCommands
from edgeagent.ids import CommandId, DeviceId
from edgeagent.ids import label as checked_label
from edgeagent.store import breakers, dead_letters, lines, outbox
from edgeagent.store.database import Snapshot
from edgeagent.values import dataclass


@dataclass(frozen=True, slots=True)
class HubOperator:
    """Answers the admin socket."""

    look: Health
    clock: ProvenClock
    local: LocalCommands

    async def health(self) -> HealthReport:
        """Look at everything."""
        return await self.look.report()

    async def status(self) -> StatusReport:
        """The hub at a glance; brings the gauges up to date on the way."""
        around, now = self.look.around, self.clock.boot()
        report = StatusReport(
            hub=around.origin.hub,
            zone=around.origin.zone,
            epoch=around.origin.epoch,
            incarnation=around.origin.incarnation,
            version=version("edgeagent"),
            uptime=(now - self.look.started).total_seconds(),
            clock=self._clock_report(),
            broker={session: self._link(session, now) for session in Session},
            cloud=self._cloud(now),
            policy=self._policy(),
            devices=len(self.look.devices.all()),
            proposals=len(self.look.devices.proposals),
            outbox=await self.outbox(),
        )
        self._set_gauges(report)
        await self._set_lane_gauges()
        await self.look.store.read(self._count_what_ended_badly)
        return report

    async def devices(self) -> DevicesReport:
        """All devices and proposals."""
        now = self.clock.boot()
        proposals = self.look.devices.proposals
        return DevicesReport(
            devices=[_device(device, now) for device in self.look.devices.all()],
            proposals=[_proposal(proposals[name]) for name in sorted(proposals)],
        )

    async def device(self, device: DeviceId) -> DeviceReport:
        """One admitted device."""
        found = self.look.devices.get(device)
        if found is None:
            raise UnknownError(f"{device} is not admitted")
        return _device(found, self.clock.boot())

    async def admit(self, request: AdmitRequest, actor: str) -> DeviceReport:
        """Take a device in, by its proposal or by what the request says."""
        proposals = self.look.devices.proposals
        name = request.device
        if self.look.devices.get(name) is not None:
            raise RejectedError(f"{name} is admitted already: edgeagent devices forget lets it go")
        proposal = proposals.get(name)
        profile = request.profile or (proposal.profile if proposal else None)
        if profile is None:
            # It may be on its way: whoever is called nearly so is not meant.
            named_whole(name, meant(name, [each for each in sorted(proposals) if each.startswith(name)]))
            raise RejectedError(f"{name} has not shown itself: name its profile and parameters")
        proposed = dict(proposal.parameters) if proposal and proposal.profile == profile else {}
        label = request.label or checked_label((proposal.label if proposal else "") or name)
        device = await self.look.devices.admit(
            name, profile, proposed | request.parameters, label, actor=actor
        )
        return _device(device, self.clock.boot())

    async def forget(self, device: DeviceId, actor: str) -> None:
        """Let a device go."""
        await self.look.devices.forget(device, actor=actor)

    async def commands(self) -> CommandsReport:
        """The commands that came last."""
        return await self.local.recent()

    async def command(self, command: CommandId) -> CommandsReport:
        """One command, on each of its devices."""
        return await self.local.one(command)

    async def send(self, request: SendRequest, actor: str) -> SendReport:
        """Make a command in the hub's own name, and wait for its end."""
        return await self.local.send(request, actor)

    async def outbox(self) -> OutboxReport:
        """How much waits for the cloud."""
        depths = await self.look.store.read(outbox.depths)
        return OutboxReport(
            streams={
                stream: StreamReport(
                    next=depth.next,
                    events=depth.events,
                    bytes=depth.bytes,
                    oldest=None if depth.oldest is None else EPOCH + timedelta(microseconds=depth.oldest),
                    refused=depth.refused,
                )
                for stream, depth in depths.items()
            }
        )

    def _clock_report(self) -> ClockReport:
        wall = self.clock.wall()
        error = None if wall.error is None else wall.error.total_seconds()
        return ClockReport(source=wall.source, best=wall.best, error=error, floor=self.clock.floor)

    def _link(self, session: Session, now: timedelta) -> LinkReport:
        state = self.look.bus.state(session)
        return LinkReport(
            connected=state.connected,
            since=max(0.0, (now - state.since).total_seconds()),
            attempts=state.attempts,
            why=state.why,
        )

    def _cloud(self, now: timedelta) -> CloudReport:
        if self.look.uplink is None:
            return CloudReport(configured=False)
        state = self.look.uplink.state
        return CloudReport(
            configured=True,
            last_success=_ago(state.last_success, now),
            failing_for=_ago(state.failing_since, now),
            why=state.why,
        )

    def _policy(self) -> PolicyReport:
        policy, problem = self.look.trust.policy, self.look.trust.policy_problem
        if policy is None:
            return PolicyReport(problem=problem)
        return PolicyReport(version=policy.version, expires_at=self.look.trust.until, problem=problem)

    def _set_gauges(self, report: StatusReport) -> None:
        metrics = self.look.around.metrics
        metrics.commits.set(self.look.store.commits)
        set_outbox(metrics, report.outbox, report.clock.best)
        set_clock(metrics, self.clock.wall())
        set_written(metrics)

    async def _set_lane_gauges(self) -> None:
        """Say what each lane has before it."""
        metrics, now = self.look.around.metrics, self.look.around.event_time().at
        pending = await self.look.store.read(lines.pending)
        for lane in Tier:
            found = {state: pending.get((lane, state), (0, now)) for state in OPEN}
            for state, (number, _) in found.items():
                metrics.lane_pending.labels(lane, state).set(number)
            oldest = min(moment for _, moment in found.values())
            metrics.lane_age.labels(lane).set(max(0, now - oldest) / 1_000_000)

    def _count_what_ended_badly(self, db: Snapshot) -> None:
        metrics = self.look.around.metrics
        metrics.breakers.set(len(breakers.standing(db)))
        waiting = dead_letters.waiting(db)
        for blame in Blame:
            metrics.dead_letters.labels(blame).set(waiting.get(blame, 0))


def _ago(moment: timedelta | None, now: timedelta) -> float | None:
    return None if moment is None else max(0.0, (now - moment).total_seconds())


def _device(device: Device, now: timedelta) -> DeviceReport:
    shadow, spec = device.shadow, device.compiled.spec
    readings: dict[str, ReadingReport] = {
        name: ReadingReport(
            value=held.value,
            unit=spec(name).unit,
            version=held.version,
            at=EPOCH + timedelta(microseconds=held.at),
            live=held.live_at is not None,
        )
        for name, held in sorted(shadow.state.items())
    }
    readings |= {
        name: ReadingReport(value=held.told, unit=spec(name).unit)
        for name, held in sorted(shadow.telemetry.items())
    }
    heard = None if device.heard is None else timedelta(microseconds=device.heard // 1000)
    return DeviceReport(
        device=device.id,
        label=device.admitted.label,
        profile=device.admitted.profile,
        online=device.online,
        version=shadow.version,
        etag=shadow.etag,
        readings=readings,
        actions=sorted(device.compiled.actions),
        updates=_updates(device.compiled.profile.firmware),
        parameters=device.admitted.parameters,
        heard=_ago(heard, now),
        unsafe_messages=device.unsafe,
    )


def _updates(recipe: FirmwareRecipe | None) -> UpdatesReport | None:
    if recipe is None:
        return None
    return UpdatesReport(
        running=recipe.running,
        fetches=recipe.fetches,
        longest_url=recipe.longest_url,
        reversible=recipe.reversible,
        cancellable=recipe.cancel is not None,
        occupies=recipe.occupies,
    )


def _proposal(proposal: Proposal) -> ProposalReport:
    return ProposalReport(
        device=proposal.device,
        profile=proposal.profile,
        label=proposal.label,
        model=proposal.model,
        firmware=proposal.firmware,
        parameters=dict(proposal.parameters),
    )
