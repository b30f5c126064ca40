"""Reading the configuration again while the agent runs: on SIGHUP, or when somebody at the hub asks.

    file in order ──> what can change is changed, at once; the rest is named as "needs a restart"
    file broken   ──> nothing is changed; log, health and the trail say so

Which keys can change is the word of ``sections``. Secrets, such as a token, are read again whether or not
their key has changed. One that is meant for another than the agent speaks to until its restart waits for that
restart too: at once it would be shown to whom it is not meant for. All new settings are made before the first
is handed over, so that a secret that cannot be read changes nothing either.
"""

import asyncio
import logging
import signal
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from pydantic import JsonValue, ValidationError
from typing_extensions import override

from edgeagent import config as configuration
from edgeagent import settings
from edgeagent.adapters.admin.configuration_routes import configuration_routes
from edgeagent.adapters.admin.route import Route
from edgeagent.adapters.cloud.https import HttpsQueue
from edgeagent.adapters.cloud.settings import CloudSettings
from edgeagent.adapters.mqtt.bus import MqttBus
from edgeagent.adapters.systemd import ServiceManager
from edgeagent.agent.running import Flow
from edgeagent.config import Config
from edgeagent.config_keys import Key, all_keys, value_at, value_of, with_values
from edgeagent.contracts.reports.configuration import ConfigurationReport
from edgeagent.contracts.reports.health import Check, Level
from edgeagent.core.audit_chain import AuditKind
from edgeagent.errors import BrokenInvariantError, ConfigurationError, StorageError
from edgeagent.flows.bells import Bell
from edgeagent.flows.surroundings import Surroundings
from edgeagent.logs import set_level
from edgeagent.ports.configuration_desk import ConfigurationDesk
from edgeagent.store import audit
from edgeagent.store.audit import Act
from edgeagent.store.database import Database

log = logging.getLogger(__name__)

T = TypeVar("T")
_MOST: Final = 4000
_OF_BROKER: Final = "broker.password_file"
_OF_QUEUE: Final = "cloud.token_file"
_MEANT_FOR: Final[Mapping[str, Sequence[str]]] = {
    _OF_BROKER: ("broker.host", "broker.port", "broker.username", "broker.tls"),
    _OF_QUEUE: ("hub.id", "cloud.url", "cloud.ca_file"),
}
"""The key of each secret, and what says who shows it to whom."""


class Reloading(ConfigurationDesk):
    """Reads the configuration again.

    Args:
        config: what the agent has started with.
        path: where it stands.
        store: for what goes on record.
        around: time, and whose hub it is.
    """

    def __init__(self, config: Config, path: Path, store: Database, around: Surroundings) -> None:
        self._started = self._present = config
        self._path = path
        self._store = store
        self._around = around
        self._manager = ServiceManager.from_environment()
        self._makers: list[tuple[str | None, Callable[[Config], Callable[[], None]]]] = []
        self._bell = Bell()
        self._turn = asyncio.Lock()
        self._standing = ConfigurationReport()

    @property
    def flows(self) -> dict[str, Flow]:
        """What of it runs, by name."""
        return {"reload": self.run}

    @property
    def routes(self) -> Sequence[Route]:
        """What of it may be asked at the operator's door."""
        return configuration_routes(self)

    def adopts(
        self, make: Callable[[Config], T], adopt: Callable[[T], None], *, secret: str | None = None
    ) -> None:
        """Have settings made anew at each reload, and handed over.

        Args:
            make: makes them of a configuration; may block, and refuse with a ``ConfigurationError``.
            adopt: takes them.
            secret: the key of the secret that is read for them; they are left alone while that has to wait.
        """

        def prepare(config: Config) -> Callable[[], None]:
            made = make(config)
            return lambda: adopt(made)

        self._makers.append((secret, prepare))

    async def run(self) -> None:
        """Read it again whenever SIGHUP comes; ends only by cancellation."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self._bell.ring)
        try:
            while True:
                await self._bell.wait(None)
                await self.reload("signal")
        finally:
            loop.remove_signal_handler(signal.SIGHUP)
            # One that comes while the agent stops must not end it on the spot.
            signal.signal(signal.SIGHUP, signal.SIG_IGN)

    @property
    @override
    def standing(self) -> ConfigurationReport:
        return self._standing

    @override
    async def reload(self, actor: str) -> ConfigurationReport:
        async with self._turn:
            self._manager.reloading()
            try:
                self._standing = await self._read_again()
            except ConfigurationError as why:
                told = str(why)[:_MOST]
                log.error("configuration not taken", extra={"why": told})  # noqa: TRY400 - no bug
                kept = self._standing.needs_restart
                self._standing = ConfigurationReport(needs_restart=kept, trouble=told)
            finally:
                self._manager.ready()
            await self._record(actor)
            return self._standing

    async def _read_again(self) -> ConfigurationReport:
        new = await asyncio.to_thread(configuration.load, self._path)
        waiting = self._waiting_secrets(new)
        taken, restart = self._differences(new, waiting)
        try:
            present = with_values(self._present, new, taken)
        except ValidationError:
            # What could be taken does not fit to what has to wait for a restart: all of it waits.
            present, taken, restart = self._present, [], [*taken, *restart]
        makers = [prepare for secret, prepare in self._makers if secret not in waiting]
        ready = await asyncio.to_thread(lambda: [prepare(present) for prepare in makers])
        for adopt in ready:
            adopt()
        self._present = present
        report = ConfigurationReport(
            taken=[key.name for key in taken], needs_restart=[key.name for key in restart]
        )
        log.info("configuration read again", extra=report.model_dump(exclude={"trouble"}))
        return report

    def _waiting_secrets(self, new: Config) -> Collection[str]:
        """The keys of secrets that now have another owner or reader than those the agent was started with."""
        return [
            secret
            for secret, names in _MEANT_FOR.items()
            if any(value_at(self._started, name) != value_at(new, name) for name in names)
        ]

    def _differences(self, new: Config, waiting: Collection[str]) -> tuple[list[Key], list[Key]]:
        """The keys whose new values can be taken, and those that have to wait for a restart."""
        taken: list[Key] = []
        restart: list[Key] = []
        for key in all_keys(Config):
            is_live = key.is_live and key.name not in waiting
            is_live = is_live and _is_there(self._started, key) and _is_there(new, key)
            before = self._present if is_live else self._started
            if value_of(before, key) != value_of(new, key):
                (taken if is_live else restart).append(key)
        return taken, restart

    async def _record(self, actor: str) -> None:
        standing = self._standing
        kind = AuditKind.CONFIGURATION_REFUSED if standing.trouble else AuditKind.CONFIGURATION_TAKEN
        detail: dict[str, JsonValue] = {"needs_restart": [*standing.needs_restart]}
        if standing.trouble:
            detail = {"mistakes": standing.trouble.count("\n") + 1}
        elif standing.taken:
            detail["taken"] = [*standing.taken]
        act = Act(kind=kind, subject=self._around.origin.hub, actor=actor, detail=detail)
        stamp = self._around.stamp()
        try:
            await self._store.write(lambda tx: audit.append(tx, [act], stamp))
        except StorageError as why:
            log.warning("a reload is not on record", extra={"why": str(why)})

    def check(self) -> Check:
        """How the file stands to what is in force, for health."""
        standing = self._standing
        if standing.trouble:
            first, *more = standing.trouble.split("\n")
            others = f", and {len(more)} more" if more else ""
            return Check(
                name="configuration",
                level=Level.WARNING,
                summary=f"the file is not taken, what was in force stays: {first}{others}",
                advice="edgeagent config check, then systemctl reload edgeagent",
            )
        if standing.needs_restart:
            return Check(
                name="configuration",
                level=Level.WARNING,
                summary=f"needs a restart to be in force: {', '.join(standing.needs_restart)}",
                advice="systemctl restart edgeagent",
            )
        return Check(name="configuration", level=Level.OK, summary="in force as it was read last")


def _is_there(config: Config, key: Key) -> bool:
    """Whether the section of a key is there: one that comes or goes changes what is built."""
    return value_at(config, key.name.partition(".")[0]) is not None


def reloading(
    config: Config,
    path: Path,
    store: Database,
    around: Surroundings,
    bus: MqttBus,
    queue: HttpsQueue | None,
) -> Reloading:
    """Build it, with what every agent has to tell: what is logged, and how it logs in outside."""
    again = Reloading(config, path, store, around)
    again.adopts(lambda other: other.log.level, set_level)
    again.adopts(lambda other: settings.mqtt_settings(other, path), bus.adopt, secret=_OF_BROKER)
    if queue is not None:
        again.adopts(lambda other: _cloud(other, path), queue.adopt, secret=_OF_QUEUE)
    return again


def _cloud(config: Config, path: Path) -> CloudSettings:
    found = settings.cloud_settings(config, path)
    if found is None:
        raise BrokenInvariantError("the section of the cloud has gone while the agent runs")
    return found
