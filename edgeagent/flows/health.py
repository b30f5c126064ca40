"""How the hub stands: each check says what was seen and what to do next (SPEC O5)."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from edgeagent.clock import ClockSource
from edgeagent.contracts.event import Stream
from edgeagent.contracts.mqtt import Session
from edgeagent.contracts.reports.health import Check, HealthReport, Level
from edgeagent.errors import StorageError
from edgeagent.flows.brokerwatch import BrokerWatch
from edgeagent.flows.devices import Devices
from edgeagent.flows.drills.standing import drill_checks, drill_standings
from edgeagent.flows.epochs import EpochWatch
from edgeagent.flows.holdtimes import HoldTimes
from edgeagent.flows.ingest import Ingest
from edgeagent.flows.policy_health import policy_check
from edgeagent.flows.standing_checks import standing_checks
from edgeagent.flows.store_health import in_words, store_check
from edgeagent.flows.storekeeping import StoreKeeping
from edgeagent.flows.surroundings import Surroundings
from edgeagent.flows.timefloor import TimeFloor
from edgeagent.flows.trust import Trust
from edgeagent.flows.uplink import Uplink
from edgeagent.flows.wary import Presence
from edgeagent.flows.watching.lookout import Lookout
from edgeagent.flows.watching.poison import poison_check
from edgeagent.flows.worker_health import worker_check
from edgeagent.ports.broker import DeviceBus
from edgeagent.ports.links import Trouble
from edgeagent.store import outbox
from edgeagent.store.database import Database
from edgeagent.store.outbox import Depth

_PATIENCE: Final = timedelta(minutes=1)
_LONG_OUTAGE: Final = timedelta(hours=1)
_MEBIBYTE: Final = 1024 * 1024
_LOW_DISK: Final = 256 * _MEBIBYTE
_VERY_LOW_DISK: Final = 64 * _MEBIBYTE
_MOST_NAMES: Final = 5

_CLOUD_ADVICE: Final = {
    Trouble.UNREACHABLE: "check the network, the address in [cloud] url, and the proxy",
    Trouble.TLS: "check the hub's clock and [cloud] ca_file",
    Trouble.LOGIN: "check the token in [cloud] token_file",
    Trouble.CAPTIVE_PORTAL: "something between hub and cloud answers in its place: log in there",
    Trouble.BUSY: "the cloud asked to wait; nothing to do",
    Trouble.BROKEN_ANSWER: "what answers at [cloud] url is not the queue, or is cut off on the way",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Looks at everything; owns nothing."""

    store: Database
    bus: DeviceBus
    devices: Devices
    holds: HoldTimes
    ingest: Ingest
    keeping: StoreKeeping
    uplink: Uplink | None
    trust: Trust
    watch: BrokerWatch
    floor: TimeFloor
    epochs: EpochWatch
    around: Surroundings
    lookout: Lookout
    state_dir: Path
    started: timedelta
    workers: Presence | None = None

    async def report(self) -> HealthReport:
        """All checks, worst first."""
        wall, policy, drills = self.around.clock.wall(), self.trust.policy, await drill_standings(self.store)
        checks = [
            *(self._broker(session) for session in Session),
            *await self._store_checks(),
            self._cloud(),
            self._clock(),
            policy_check(self.trust, wall),
            *drill_checks(drills, None if policy is None else policy.drill_every, wall.best),
            self._disk(),
            self.holds.check(),
            self._broker_limits(),
            self._broker_drops(),
            poison_check({session: self.bus.state(session) for session in Session}, self.around.clock.boot()),
            self._retained_commands(),
            self._refused_topics(),
            self._unsafe_reporters(),
            self._proposals(),
        ]
        order = [Level.CRITICAL, Level.WARNING, Level.UNKNOWN, Level.OK]
        checks.sort(key=lambda check: order.index(check.level))
        return HealthReport(at=wall.best, checks=checks, drills=drills or [])

    def _broker(self, session: Session) -> Check:
        link = self.bus.state(session)
        name = f"broker-{session}"
        if link.connected:
            return Check(name=name, level=Level.OK, summary="connected")
        lasted = self.around.clock.boot() - link.since
        tries = f"{in_words(lasted)}, {link.attempts} tries"
        return Check(
            name=name,
            level=Level.CRITICAL if lasted > _PATIENCE else Level.WARNING,
            summary=f"not connected for {tries}: {link.why or 'connecting'}",
            advice="check that mosquitto runs (systemctl status mosquitto) and [broker] in the configuration",
        )

    def _broker_limits(self) -> Check:
        concerns = self.watch.concerns
        if concerns is None:
            return Check(
                name="broker-limits",
                level=Level.OK,
                summary="not checkable: the broker's configuration cannot be read",
                advice="name it as [broker] config_file, and let the agent's user read it",
            )
        if not concerns:
            return Check(name="broker-limits", level=Level.OK, summary="the broker keeps what it promises")
        return Check(
            name="broker-limits",
            level=Level.WARNING,
            summary="; ".join(concerns),
            advice="change these lines of mosquitto's configuration and restart it",
        )

    def _broker_drops(self) -> Check:
        dropped = self.watch.dropped
        if not dropped:
            word = "not checkable: the broker does not say" if dropped is None else "the broker drops nothing"
            return Check(name="broker-drops", level=Level.OK, summary=word)
        return Check(
            name="broker-drops",
            level=Level.WARNING,
            summary=f"the broker has dropped {dropped} messages since its start, for all its clients",
            advice="max_queued_messages 0 in mosquitto's configuration, if they were the agent's",
        )

    def _retained_commands(self) -> Check:
        found = self.watch.found
        if not found:
            return Check(name="retained", level=Level.OK, summary="no retained command lies at the broker")
        names = _named(sorted({device.admitted.label for device in found.values()}))
        return Check(
            name="retained",
            level=Level.WARNING,
            summary=f"retained commands act at each reconnect of: {names}",
            advice="clear them while the device is off: mosquitto_pub -r -n -t TOPIC; the log has the topics",
        )

    def _refused_topics(self) -> Check:
        refused = {topic: code for session in Session for topic, code in self.bus.refused(session).items()}
        if not refused:
            return Check(name="topics", level=Level.OK, summary="the broker lets us hear all that we want")
        return Check(
            name="topics",
            level=Level.WARNING,
            summary=f"the broker refuses or weakens {len(refused)} topics: {_named(sorted(refused))}",
            advice="let the agent's login read them, with QoS 1",
        )

    async def _store_checks(self) -> list[Check]:
        try:
            depths = await self.store.read(outbox.depths)
            epoch = await self.epochs.check()
        except StorageError as why:
            return [store_check(self.keeping, str(why))]
        return [
            store_check(self.keeping, self.ingest.store_trouble),
            self._outbox(depths),
            epoch,
            *await self.store.read(standing_checks),
            *await worker_check(self.store, self.workers, self.around.clock.boot(), self.started),
            *await self.lookout.checks(),
        ]

    def _outbox(self, depths: dict[Stream, Depth]) -> Check:
        waiting = sum(depth.events for depth in depths.values())
        refused = sum(depth.refused for depth in depths.values())
        summary = f"{waiting} events wait, {sum(depth.bytes for depth in depths.values()) // 1024} KiB"
        if refused:
            return Check(
                name="outbox",
                level=Level.WARNING,
                summary=f"{summary}; the cloud refused {refused} for good",
                advice="edgeagent outbox stats shows their streams; the log says why",
            )
        oldest = min((depth.oldest for depth in depths.values() if depth.oldest is not None), default=None)
        age = timedelta(0)
        if oldest is not None:
            age = timedelta(microseconds=max(0, self.around.event_time().at - oldest))
        if self.uplink is not None and age > _LONG_OUTAGE:
            return Check(
                name="outbox",
                level=Level.WARNING,
                summary=f"{summary}, the oldest for {in_words(age)}",
                advice="see the check cloud",
            )
        return Check(name="outbox", level=Level.OK, summary=summary)

    def _cloud(self) -> Check:
        if self.uplink is None:
            return Check(name="cloud", level=Level.OK, summary="not configured: the hub works alone")
        state = self.uplink.state
        if state.failing_since is None or state.trouble is None:
            return Check(name="cloud", level=Level.OK, summary="events go up")
        lasted = self.around.clock.boot() - state.failing_since
        return Check(
            name="cloud",
            level=Level.CRITICAL if lasted > _LONG_OUTAGE else Level.WARNING,
            summary=f"failing for {in_words(lasted)}: {state.why}",
            advice=_CLOUD_ADVICE[state.trouble],
        )

    def _clock(self) -> Check:
        wall = self.around.clock.wall()
        behind, floor = self.floor.kernel_behind, self.floor.clock.floor
        if behind is not None:
            return Check(
                name="clock",
                level=Level.WARNING,
                summary=f"the kernel's synchronised clock says {behind:%Y-%m-%d %H:%M} UTC, "
                f"but {floor:%Y-%m-%d %H:%M} UTC is past, by {self.floor.source}",
                advice="correct the clock, or, if it is right, edgeagent clock reset-floor",
            )
        if wall.source is ClockSource.NONE or wall.error is None:
            return Check(
                name="clock",
                level=Level.WARNING,
                summary="the time is not proven: commands of tiers medium and high wait",
                advice="start a time service (systemd-timesyncd, chrony), let the policy name a time key, "
                "or say what time it is: edgeagent clock confirm",
            )
        return Check(
            name="clock",
            level=Level.OK,
            summary=f"known from {wall.source} within {wall.error.total_seconds():.3f} s",
        )

    def _disk(self) -> Check:
        try:
            free = shutil.disk_usage(self.state_dir).free
        except OSError as why:
            return Check(name="disk", level=Level.UNKNOWN, summary=f"cannot be read: {why.strerror}")
        level = Level.OK
        if free < _LOW_DISK:
            level = Level.CRITICAL if free < _VERY_LOW_DISK else Level.WARNING
        return Check(
            name="disk",
            level=level,
            summary=f"{free // _MEBIBYTE} MiB free in {self.state_dir}",
            advice="" if level is Level.OK else "free some space; readings are refused when it is full",
        )

    def _unsafe_reporters(self) -> Check:
        names = [f"{device.admitted.label} ({device.id})" for device in self.devices.all() if device.unsafe]
        if not names:
            return Check(name="qos0", level=Level.OK, summary="no device reports without acknowledgement")
        return Check(
            name="qos0",
            level=Level.OK,
            summary=f"report with QoS 0, so that nothing is promised: {_named(names)}",
            advice="set them to QoS 1 where their firmware can",
        )

    def _proposals(self) -> Check:
        count = len(self.devices.proposals)
        if not count:
            return Check(name="discovery", level=Level.OK, summary="no device waits for admission")
        return Check(
            name="discovery",
            level=Level.OK,
            summary=f"{count} devices wait for admission",
            advice="edgeagent devices list; edgeagent devices admit ID",
        )


def _named(names: Sequence[str]) -> str:
    """The first few of some names."""
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{', '.join(names[:_MOST_NAMES])}{more}"
