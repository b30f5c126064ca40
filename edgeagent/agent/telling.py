"""What the agent tells of itself unasked: the last health report, and a line for ``systemctl status``."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Final

from edgeagent.adapters.last_health import LastHealth
from edgeagent.adapters.systemd import ServiceManager
from edgeagent.agent.running import Flow
from edgeagent.config import Config
from edgeagent.contracts.mqtt import Session
from edgeagent.contracts.reports.health import HealthReport, Level
from edgeagent.errors import StorageError
from edgeagent.flows.health import Health
from edgeagent.flows.operator import HubOperator
from edgeagent.flows.store_health import in_words
from edgeagent.store import outbox

_EVERY: Final = 5.0
# What costs no query is looked at each time, everything each minute, or at once when one of these changes.
_WHOLE: Final = timedelta(minutes=1)


class StatusLine:
    """Keeps the line for ``systemctl status`` true: devices, outbox, cloud, and what is wrong worst."""

    def __init__(self, look: Health, manager: ServiceManager) -> None:
        self._look = look
        self._manager = manager
        self._told = ""
        self._worst = ""
        self._signs: tuple[object, ...] = ()
        self._looked = timedelta(0)

    async def run(self) -> None:
        """Look every few seconds, and tell what has changed; ends only by cancellation."""
        while True:
            line = await self.line()
            if line != self._told:
                self._manager.status(line)
                self._told = line
            await asyncio.sleep(_EVERY)

    async def line(self) -> str:
        """How the hub stands, in a line."""
        now, signs = self._look.around.clock.boot(), self._seen()
        if signs != self._signs or now - self._looked >= _WHOLE:
            # A disk that fails in the middle of the look ends no agent; the next look tells of it.
            with suppress(StorageError):
                self._worst = worst(await self._look.report())
                self._signs, self._looked = signs, now
        count = len(self._look.devices.all())
        devices = "1 device" if count == 1 else f"{count} devices"
        return "; ".join([devices, await self._waiting(), self._cloud(now), self._worst])

    def _seen(self) -> tuple[object, ...]:
        """What is known without a query, and what is wrong may follow from."""
        look = self._look
        return (
            *(look.bus.state(session).connected for session in Session),
            None if look.uplink is None else look.uplink.state.trouble,
            look.keeping.ailing is None,
        )

    async def _waiting(self) -> str:
        try:
            depths = await self._look.store.read(outbox.depths)
        except StorageError:
            return "outbox unreadable"
        return f"{sum(depth.events for depth in depths.values())} events wait"

    def _cloud(self, now: timedelta) -> str:
        if self._look.uplink is None:
            return "no cloud"
        state = self._look.uplink.state
        if state.failing_since is None:
            return "cloud ok"
        return f"cloud fails for {in_words(now - state.failing_since)}"


def worst(report: HealthReport) -> str:
    """The worst of what is wrong, and how much else is."""
    wrong = [check for check in report.checks if check.level in {Level.CRITICAL, Level.WARNING}]
    if not wrong:
        return "all is well"
    first = next((check for check in wrong if check.level is Level.CRITICAL), wrong[0])
    more = f" (and {len(wrong) - 1} more: edgeagent health)" if len(wrong) > 1 else ""
    return f"{first.level.upper()} {first.name}: {first.summary}{more}"


def told(config: Config, operator: HubOperator) -> dict[str, Flow]:
    """What tells of the hub, by name; the line only where a service manager listens."""
    flows: dict[str, Flow] = {"last-health": LastHealth(config.last_health, operator).run}
    manager = ServiceManager.from_environment()
    if manager.listens:
        flows["status"] = StatusLine(operator.look, manager).run
    return flows
