"""Setting a hub up, step by step; each can be made again, and what was done before is kept.

    folders ──> identity ──> root ──> configuration ──> broker ──> services

A step that fails ends it; the same words again go on there. A dry run asks nobody and writes nothing.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Final

from edgeagent.config import of_text
from edgeagent.contracts.reports.setup import Came, SetupStep
from edgeagent.contracts.rollout import known_zone
from edgeagent.errors import ConfigurationError
from edgeagent.setup.claiming import Claiming
from edgeagent.setup.configuration import Choices, configuration_text, difference, missing_lines
from edgeagent.setup.places import Places
from edgeagent.setup.services import Services
from edgeagent.values import dataclass

_CONFIG_MODE: Final = 0o640

BrokerStep = Callable[[bool], SetupStep]
"""Sees to the broker; told whether it is a dry run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What is to be set up.

    Attributes:
        claiming: who the hub is to be.
        choices: what the code does not say.
        broker: what sees to the broker.
        services: what runs afterwards; None where nothing is to be started.
        is_replacing: whether a configuration that is there is put aside, and a new one written.
    """

    claiming: Claiming
    choices: Choices
    broker: BrokerStep
    services: Services | None
    is_replacing: bool = False

    @property
    def places(self) -> Places:
        """Where everything goes."""
        return self.claiming.places

    @property
    def _text(self) -> str:
        """The configuration, where it is written anew."""
        return configuration_text(self.claiming.claim.facts, self.places, self.choices)

    def run(self, *, is_dry: bool) -> Iterator[SetupStep]:
        """Make the steps, and tell each when it is made.

        Raises:
            ConfigurationError: a person has to act first.
            RejectedError: the queue does not take the code.
            SuspiciousError: somebody else answers.
            TransientError: the queue or the disk cannot be used now.
        """
        # Before anything is asked for: a code works once.
        self._check_configuration()
        made = []
        for make in (self._folders, self._identity, self._root, self._configuration):
            made.append(make(is_dry=is_dry))
            yield made[-1]
        made.append(self.broker(is_dry))
        yield made[-1]
        yield self._services(is_dry=is_dry, is_changed=any(step.came is Came.DONE for step in made))

    def _check_configuration(self) -> None:
        config = self.places.config
        if not config.exists() or self.is_replacing:
            if config.exists() and not config.is_file():
                raise ConfigurationError(f"{config} is no file; nothing was done: move it away")
            self._check_zone()
            self._check_choices()
            return
        try:
            wrong = missing_lines(self.claiming.claim.facts, self.places, self.claiming.proxy)
        except ConfigurationError as why:
            raise ConfigurationError(
                f"{why}\nnothing was done; mend it (edgeagent config check), or have it kept under another "
                "name: --replace-config"
            ) from why
        if wrong:
            raise ConfigurationError(
                f"{config} is there and is not of this claim, or not as the flags have it; nothing was done. "
                "Write in it:\n" + "\n".join(wrong) + "\nor have it kept under another name: --replace-config"
            )

    def _check_zone(self) -> None:
        try:
            known_zone(self.claiming.claim.facts.zone)
        except ValueError as why:
            raise ConfigurationError(
                f"the zone of the claim code: {why}\nnothing was done; have the issuer make another code"
            ) from why

    def _check_choices(self) -> None:
        try:
            of_text(self.places.config, self._text)
        except ConfigurationError as why:
            raise ConfigurationError(
                f"what is asked for makes no configuration; nothing was done:\n{why}"
            ) from why

    def _folders(self, *, is_dry: bool) -> SetupStep:
        words = f"{self.places.config.parent}, {self.places.state_dir}"
        if is_dry:
            missing = not (self.places.config.parent.is_dir() and self.places.state_dir.is_dir())
            return SetupStep(name="folders", came=Came.WOULD if missing else Came.KEPT, words=words)
        was_missing = self.places.make_folders()
        return SetupStep(name="folders", came=Came.DONE if was_missing else Came.KEPT, words=words)

    def _identity(self, *, is_dry: bool) -> SetupStep:
        facts = self.claiming.claim.facts
        if self.claiming.is_enrolled:
            ends = self.places.slots.load().certificate.not_valid_after_utc
            words = f"{facts.hub} by this code; certified until {ends:%Y-%m-%d}, renewed before"
            return SetupStep(name="identity", came=Came.KEPT, words=words)
        if is_dry:
            words = f"a key is made here, and certified for {facts.hub} by {facts.cloud}"
            return SetupStep(name="identity", came=Came.WOULD, words=words)
        self.claiming.enrol()
        ends = self.places.slots.load().certificate.not_valid_after_utc
        words = f"{facts.hub}, certified by {facts.cloud} until {ends:%Y-%m-%d}; renewed before"
        return SetupStep(name="identity", came=Came.DONE, words=words)

    def _root(self, *, is_dry: bool) -> SetupStep:
        came = Came.WOULD if is_dry else Came.DONE
        if self.claiming.has_root:
            came = Came.KEPT
        elif not is_dry:
            self.claiming.fetch_root()
        return SetupStep(
            name="root", came=came, words=f"{self.places.root}, from {self.claiming.claim.facts.policy}"
        )

    def _configuration(self, *, is_dry: bool) -> SetupStep:
        config = self.places.config
        text = self._text
        # As it is: what is put aside need not be text.
        before = config.read_bytes() if config.exists() else b""
        if before and (before == text.encode() or not self.is_replacing):
            return SetupStep(name="configuration", came=Came.KEPT, words=str(config))
        if is_dry:
            words = difference(before.decode("utf-8", "replace"), text, config)
            return SetupStep(name="configuration", came=Came.WOULD, words=words)
        words = str(config)
        if before:
            kept = config.with_name(f"{config.name}.before-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
            self.places.write(kept, before, mode=_CONFIG_MODE, is_read_by_agent=True)
            words = f"{config}; the earlier one is {kept}"
        self.places.write(config, text.encode(), mode=_CONFIG_MODE, is_read_by_agent=True)
        return SetupStep(name="configuration", came=Came.DONE, words=words)

    def _services(self, *, is_dry: bool, is_changed: bool) -> SetupStep:
        if self.services is None:
            return SetupStep(name="services", came=Came.LEFT, words="start the agent: edgeagent run")
        words = ", ".join(self.services.units)
        if is_dry:
            return SetupStep(name="services", came=Came.WOULD, words=words)
        was_idle = bool(self.services.idle())
        self.services.start(is_anew=is_changed)
        return SetupStep(
            name="services", came=Came.DONE if is_changed or was_idle else Came.KEPT, words=words
        )
