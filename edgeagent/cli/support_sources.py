"""What a support bundle asks: the agent, or, while it is down, the files of the hub."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue

from edgeagent import config as configuration
from edgeagent.cli.asking import Agent, at_the_usual_place, left_of
from edgeagent.cli.config import problems
from edgeagent.cli.failing import AgentDownError
from edgeagent.cli.health import report_at
from edgeagent.config import Config
from edgeagent.config_keys import all_keys, value_of
from edgeagent.contracts.reports.devices import DeviceReport, DevicesReport, ProposalReport
from edgeagent.contracts.reports.status import StatusReport
from edgeagent.contracts.reports.support import StoreReport, SupportReport
from edgeagent.errors import AgentError, ConfigurationError
from edgeagent.support import machine
from edgeagent.support.parts import Source
from edgeagent.values import dataclass

if TYPE_CHECKING:
    from edgeagent.store.devices import Admitted

_NAME: Final = "friendly_name"
"""The parameter that is a name too: people give it at a bridge."""


@dataclass(slots=True)
class HubSources:
    """What is asked, of the agent or, while it is down, of its files.

    Attributes:
        path: where the configuration stands.
        config: the configuration; None where it cannot be used.
        problem: why.
    """

    path: Path
    config: Config | None = None
    problem: str = ""
    _support: SupportReport | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        try:
            self.config = configuration.load(self.path)
        except ConfigurationError as why:
            self.problem = str(why)

    def sources(self, since: timedelta, *, with_labels: bool) -> list[Source]:
        """Where the parts come from, in their order."""
        return [
            Source("health.json", "how everything stands", self._health),
            Source("status.json", "the hub at a glance", self._status),
            Source("config.json", "the configuration, and which keys are set", self._configured),
            Source(
                "devices.json",
                "the devices, without their values",
                lambda: self._devices(with_labels=with_labels),
            ),
            Source("store.json", "the database by numbers", self._store),
            Source("audit.jsonl", "the last rows of the audit trail, without details", self._trail),
            Source("metrics.txt", "the metrics", lambda: self._asked_support().metrics),
            Source("versions.json", "edgeagent, Python and libraries", machine.versions),
            Source("machine.json", "the machine: memory, disks, heat", lambda: machine.machine(self.config)),
            Source("units.json", "the units of systemd", machine.unit_states),
            Source("state.json", "names and sizes of the state's files", self._files),
            Source("log.txt", "the log", lambda: machine.log_lines(since)),
        ]

    def labels(self) -> Mapping[str, str] | None:
        """What is told in the place of people's names for devices; None where they cannot be had."""
        try:
            found = list(self._names())
        except (AgentError, OSError):
            return None
        ids = {device for device, *_ in found}
        return {
            name: f"[label of {device}]"
            for device, label, parameters in found
            for name in (label, parameters.get(_NAME))
            if isinstance(name, str) and name and name not in ids
        }

    def _agent(self) -> Agent:
        """The agent; at the usual place where the configuration does not tell: it may run all the same."""
        return Agent((self.config or left_of(self.path) or at_the_usual_place()).admin_socket)

    def _config(self) -> Config:
        if self.config is None:
            raise ConfigurationError(self.problem)
        return self.config

    def _health(self) -> str:
        return report_at(self.path, utc=True).model_dump_json(indent=2)

    def _status(self) -> str:
        return self._agent().get("/v1/status", StatusReport).model_dump_json(indent=2)

    def _configured(self) -> str:
        """Each key with its value and where that comes from. Secrets are in files that it only names."""
        if self.config is None:
            return _json({"problem": self.problem})
        loaded = configuration.load_with_origins(self.path)
        told: dict[str, JsonValue] = {
            key.name: {"value": value_of(loaded.config, key), "origin": loaded.origin(key)}
            for key in all_keys(Config)
        }
        return _json({"keys": told, "problems": [*problems(loaded.config, self.path)]})

    def _names(self) -> Iterator[tuple[str, str, Mapping[str, JsonValue]]]:
        """Id, label and parameters of each device; where the agent tells, of those that wait too."""
        try:
            report = self._agent().get("/v1/devices", DevicesReport)
        except AgentDownError:
            for row in self._stored():
                yield row.device, row.label, row.parameters
        else:
            told: list[DeviceReport | ProposalReport] = [*report.devices, *report.proposals]
            for each in told:
                yield each.device, each.label, each.parameters

    def _stored(self) -> "Sequence[Admitted]":
        from edgeagent.store import devices
        from edgeagent.store.reading import read_only

        with read_only(self._config().database) as db:
            return devices.load(db)

    def _known_devices(self) -> list[tuple[str, str, str, Mapping[str, JsonValue]]]:
        """Id, label, profile and what else is known of each device."""
        try:
            report = self._agent().get("/v1/devices", DevicesReport)
        except AgentDownError:
            return [(each.device, each.label, each.profile, {}) for each in self._stored()]
        return [
            (
                each.device,
                each.label,
                each.profile,
                {
                    "online": each.online,
                    "heard": each.heard,
                    "version": each.version,
                    "readings": len(each.readings),
                    "actions": len(each.actions),
                    "unsafe_messages": each.unsafe_messages,
                },
            )
            for each in report.devices
        ]

    def _devices(self, *, with_labels: bool) -> str:
        found: list[JsonValue] = []
        for device, label, profile, rest in self._known_devices():
            named: dict[str, JsonValue] = {"label": label} if with_labels else {}
            found.append({"device": device, **named, "profile": profile, **rest})
        return _json({"devices": found})

    def _asked_support(self) -> SupportReport:
        if self._support is None:
            self._support = self._agent().get("/v1/support", SupportReport)
        return self._support

    def _store_report(self) -> StoreReport:
        try:
            return self._asked_support().store
        except AgentDownError:
            from edgeagent.flows.store_facts import store_report

            return store_report(self._config().database)

    def _store(self) -> str:
        return self._store_report().model_dump_json(indent=2, exclude={"rows"})

    def _trail(self) -> str:
        return "".join(f"{row.model_dump_json()}\n" for row in self._store_report().rows)

    def _files(self) -> str:
        return machine.state_files(self._config().hub.state_dir)


def _json(value: Mapping[str, JsonValue]) -> str:
    return json.dumps(value, indent=2)
