"""``edgeagent setup check``: what is missing to a hub that is set up, each with what to do.

It changes nothing, and looks from outside: at files and their rights, at the queue with the hub's own
certificate, at the units. How the running agent fares is told by ``edgeagent health``.
"""

import asyncio
import stat
from collections.abc import Iterator
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Final

from edgeagent import config as configurations
from edgeagent import settings
from edgeagent.adapters.cloud.enrolling import QueueRegistry
from edgeagent.clock import Clock
from edgeagent.config import Config
from edgeagent.contracts.reports.health import Check, Level
from edgeagent.core.certificates import read_chain
from edgeagent.errors import AgentError, ConfigurationError, StorageError
from edgeagent.ports.links import LinkError, Trouble
from edgeagent.secret_files import secret_path
from edgeagent.setup.broker.looking import look_at_broker
from edgeagent.setup.services import FETCHER, WORKER, Services
from edgeagent.store.identity import IdentitySlots, UnusableSlotError
from edgeagent.values import dataclass

_CLAIM: Final = "sudo edgeagent setup --claim CODE"
_LISTENS: Final = timedelta(milliseconds=200)
ADVICE: Final = {
    Trouble.UNREACHABLE: "look at the network and [cloud] url, and [cloud] proxy if one is needed",
    Trouble.TLS: "look at this machine's clock (timedatectl) and at what stands before the queue",
    Trouble.TLS_EXPIRED: "the queue has to renew its certificate, or this clock is ahead: timedatectl",
    Trouble.CLOCK: "this machine's clock is behind: timedatectl, or start a time service",
    Trouble.LOGIN: f"have the issuer make a new claim code: {_CLAIM}",
    Trouble.CAPTIVE_PORTAL: "log in where something answers in the queue's place",
    Trouble.BUSY: "try again in a minute",
    Trouble.BROKEN_ANSWER: "look whether [cloud] url is the queue's address",
}
"""What to do when the queue cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupCheck:
    """Looks at a hub.

    Attributes:
        config: where its configuration is to be.
        clock: the present.
        services: its units; None where none run.
    """

    config: Path
    clock: Clock
    services: Services | None

    def checks(self) -> list[Check]:
        """All that can be told, from the configuration on."""
        try:
            config = configurations.load(self.config)
        except ConfigurationError as why:
            if isinstance(why.__cause__, FileNotFoundError):
                return [_bad("configuration", f"there is no {self.config}", _CLAIM)]
            if isinstance(why.__cause__, PermissionError):
                return [_check("configuration", Level.UNKNOWN, str(why), "sudo edgeagent setup check")]
            return [_bad("configuration", str(why), "edgeagent config check")]
        return [
            _ok("configuration", f"{self.config} is in order"),
            *self._rights(config),
            *self._identity(config),
            *self._policy(config),
            self._broker(config),
            *self._units(config),
        ]

    def _rights(self, config: Config) -> Iterator[Check]:
        wrong = []
        for path, others in (
            (self.config, stat.S_IWGRP | stat.S_IRWXO),
            (self.config.parent / "credentials", stat.S_IRWXG | stat.S_IRWXO),
            (config.hub.state_dir, stat.S_IRWXO),
            (config.hub.state_dir / "identity", stat.S_IRWXG | stat.S_IRWXO),
        ):
            try:
                mode = path.stat().st_mode
            except OSError:
                continue
            if mode & others:
                wrong.append(f"chmod {stat.S_IMODE(mode & ~others):04o} {path}")
        if wrong:
            yield _check("rights", Level.WARNING, "others may use what is the agent's", "; ".join(wrong))
        else:
            yield _ok("rights", "files are used by those whose they are")

    def _broker(self, config: Config) -> Check:
        """Whether a broker of the hub's own has what it is to have, and whether the agent can work there."""
        if config.broker.managed is None:
            return self._reachable_broker()
        from edgeagent.setup.broker.planning import plan_broker

        try:
            plan = plan_broker(self.config)
        except AgentError as why:
            return _check("broker", Level.UNKNOWN, str(why), "sudo edgeagent setup check")
        if plan is not None and plan.obstacles:
            return _check("broker", Level.WARNING, "; ".join(plan.obstacles), "sudo edgeagent broker plan")
        if plan is not None and plan.changed:
            told = "mosquitto's files are not as the devices and the configuration have it"
            return _check("broker", Level.WARNING, told, "sudo edgeagent broker apply --restart")
        return self._reachable_broker()

    def _identity(self, config: Config) -> Iterator[Check]:
        slots = IdentitySlots(settings.identity_folder(config).folder)
        if config.cloud is None:
            yield _ok("cloud", "not configured: the hub works alone")
            return
        if config.cloud.token_file is not None and not slots.is_enrolled:
            yield _ok("identity", "the hub logs in with a token")
            return
        try:
            identity = slots.load()
            root = read_chain(slots.authority.read_bytes())[0]
        except (UnusableSlotError, AgentError, OSError) as why:
            yield _bad("identity", str(why), f"have the issuer make a claim code: {_CLAIM}")
            return
        begins, ends = identity.certificate.not_valid_before_utc, identity.certificate.not_valid_after_utc
        now = self.clock.wall().best
        if identity.hub != config.hub.id:
            words = f"the certificate is of {identity.hub}, and [hub] id is {config.hub.id}"
            yield _bad("identity", words, f'write id = "{identity.hub}", or enrol the hub anew: {_CLAIM}')
        elif now < max(begins, root.not_valid_before_utc):
            yield _check("identity", Level.WARNING, f"it begins at {begins:%Y-%m-%d %H:%M} UTC", _clock(now))
        elif now >= ends:
            yield _check("identity", Level.WARNING, f"it ended at {ends:%Y-%m-%d %H:%M} UTC", _clock(now))
        else:
            yield _ok("identity", f"{identity.hub}, until {ends:%Y-%m-%d}")
        yield self._cloud(config, slots)

    def _cloud(self, config: Config, slots: IdentitySlots) -> Check:
        try:
            cloud = settings.cloud_settings(config, self.config)
            if cloud is None or cloud.certificate is None:
                return _ok("cloud", "not asked: no certificate is shown there")
            told = asyncio.run(QueueRegistry(cloud, self.clock).shown(slots.current))
        except LinkError as why:
            return _bad("cloud", str(why), ADVICE[why.trouble])
        except ConfigurationError as why:
            return _bad("cloud", str(why), "edgeagent config check")
        if told.counts:
            return _ok("cloud", f"{config.cloud.url if config.cloud else ''} lets this hub in")
        if told.why == "over":
            words, advice = (
                "its certificate has ended, by the queue's clock",
                "the agent renews it: edgeagent health",
            )
        else:
            words, advice = f"its certificate is {told.why}", f"have the issuer make a claim code: {_CLAIM}"
        return _bad("cloud", f"{words}; the queue does not let this hub in", advice)

    def _policy(self, config: Config) -> Iterator[Check]:
        if config.policy is None:
            yield _check("policy", Level.WARNING, "none is configured: no command is taken", _CLAIM)
            return
        try:
            settings.pinned_root(config, self.config)
        except ConfigurationError as why:
            yield _bad("policy", str(why), _CLAIM)
            return
        if config.policy.root is None:
            yield _ok("policy", "a signed file")
            return
        file = secret_path(self.config, config.policy.root)
        yield _ok("policy", f"its first root is {sha256(file.read_bytes()).hexdigest()}")

    def _reachable_broker(self) -> Check:
        """Whether the agent can work there; what else a guest should know is told by ``broker check``."""
        try:
            report = look_at_broker(self.config, listening=_LISTENS)
        except (ConfigurationError, StorageError) as why:
            return _check("broker", Level.WARNING, str(why), "edgeagent broker check")
        lacking = [check for check in report.checks if check.level is Level.CRITICAL]
        if lacking:
            # Not critical: the cloud is spoken to, and the broker may come later.
            words = "; ".join(check.summary for check in lacking)
            return _check("broker", Level.WARNING, words, lacking[0].advice or "edgeagent broker check")
        return _ok("broker", f"{report.broker} takes the agent; edgeagent broker check tells more of it")

    def _units(self, config: Config) -> Iterator[Check]:
        if self.services is None:
            yield _ok("services", "not looked at: no systemd runs here, or the package is not installed")
            return
        spared = {WORKER} if config.worker.high == "inside" else set()
        spared |= {FETCHER} if config.fetch.by == "inside" else set()
        idle = [unit for unit in self.services.idle() if unit not in spared]
        if idle:
            yield _bad(
                "services", f"do not run: {', '.join(idle)}", f"sudo systemctl enable --now {' '.join(idle)}"
            )
        else:
            yield _ok(
                "services", f"run: {', '.join(unit for unit in self.services.units if unit not in spared)}"
            )


def _clock(now: datetime) -> str:
    return f"the clock says {now:%Y-%m-%d %H:%M} UTC: correct it (timedatectl) if it is wrong; else {_CLAIM}"


def _ok(name: str, words: str) -> Check:
    return Check(name=name, level=Level.OK, summary=words)


def _bad(name: str, words: str, advice: str) -> Check:
    return _check(name, Level.CRITICAL, words, advice)


def _check(name: str, level: Level, words: str, advice: str) -> Check:
    return Check(name=name, level=level, summary=words, advice=advice)
