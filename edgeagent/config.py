"""The configuration: one TOML file, every key with a type, a default and a sentence.

All mistakes are found at once, each with its line and what would be right. A variable of the environment
goes before the file (``EDGEAGENT_LOG_LEVEL`` before ``[log] level``). Secrets are never in the
file, only the names of files that hold them: a relative name is looked up where systemd puts
credentials (``$CREDENTIALS_DIRECTORY``), or else beside the configuration.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from edgeagent.config_keys import Key, all_keys
from edgeagent.config_reading import Reading, read, read_text
from edgeagent.contracts.door import Contract
from edgeagent.errors import ConfigurationError
from edgeagent.sections import (
    ArtifactsSection,
    AuditSection,
    BackupSection,
    BrokerSection,
    CloudSection,
    FetchSection,
    FirmwareSection,
    HubSection,
    IngestSection,
    LogSection,
    PolicySection,
    ProfilesSection,
    TraceSection,
    UplinkSection,
    WebSection,
    WorkerSection,
)
from edgeagent.values import dataclass

DEFAULT_PATH: Final = Path("/etc/edgeagent/config.toml")


class Config(Contract):
    """The whole file."""

    hub: HubSection
    broker: BrokerSection = Field(default_factory=BrokerSection)
    cloud: CloudSection | None = None
    policy: PolicySection | None = None
    artifacts: ArtifactsSection = Field(default_factory=ArtifactsSection)
    firmware: FirmwareSection | None = None
    ingest: IngestSection = Field(default_factory=IngestSection)
    uplink: UplinkSection = Field(default_factory=UplinkSection)
    audit: AuditSection = Field(default_factory=AuditSection)
    backup: BackupSection = Field(default_factory=BackupSection)
    web: WebSection | None = Field(default_factory=WebSection)
    worker: WorkerSection = Field(default_factory=WorkerSection)
    fetch: FetchSection = Field(default_factory=FetchSection)
    profiles: ProfilesSection = Field(default_factory=ProfilesSection)
    trace: TraceSection | None = None
    log: LogSection = Field(default_factory=LogSection)

    @model_validator(mode="after")
    def _fits_together(self) -> "Config":
        tls = self.broker.tls
        if tls is not None and (tls.cert_file is None) != (tls.key_file is None):
            raise ValueError("broker.tls: cert_file and key_file go together")
        return self

    @property
    def database(self) -> Path:
        """The hub's database."""
        return self.hub.state_dir / "hub.db"

    @property
    def admin_socket(self) -> Path:
        """The socket of the agent's operator."""
        return self.hub.run_dir / "admin.sock"

    @property
    def work_socket(self) -> Path:
        """The socket of the isolated worker."""
        return self.hub.run_dir / "work.sock"

    @property
    def last_health(self) -> Path:
        """The last health report, for when the agent is down."""
        return self.hub.run_dir / "last-health.json"


@dataclass(frozen=True, slots=True)
class Loaded:
    """The configuration, and where it was read.

    Attributes:
        config: what is configured.
        reading: the file and the environment.
    """

    config: Config
    reading: Reading

    def origin(self, key: Key) -> str:
        """Where the value of a key comes from: a place in the file, a variable, or ``default``."""
        steps = tuple(key.name.split("."))
        is_given = steps in self.reading.variables or steps in self.reading.places.offsets
        return self.reading.where(steps) if is_given else "default"


def load(path: Path) -> Config:
    """Read the configuration.

    Raises:
        ConfigurationError: names every mistake, with its line.
    """
    return load_with_origins(path).config


def load_with_origins(path: Path) -> Loaded:
    """Read the configuration, and keep where it was read; raises as ``load`` does."""
    keys = all_keys(Config)
    return _judged(read(path, keys, os.environ), keys)


def of_text(path: Path, text: str) -> Config:
    """What a text would configure, were it in the file; raises as ``load`` does."""
    keys = all_keys(Config)
    return _judged(read_text(path, text, keys, os.environ), keys).config


def _judged(reading: Reading, keys: Sequence[Key]) -> Loaded:
    try:
        return Loaded(_made_of(reading.fields), reading)
    except ValidationError as why:
        # Only who has mistyped something pays for it.
        from edgeagent.config_mistakes import told

        raise ConfigurationError("\n".join(told(why, reading, keys))) from why


def _made_of(fields: Mapping[str, object]) -> Config:
    """Judge the fields; what pydantic builds for it, some 2 MiB, is needed once and goes at the end.

    A section that is absent is given as an empty one: as a default it would be built for good.
    """
    absent: dict[str, object] = {
        name: {} for name, field in Config.model_fields.items() if field.default_factory is not None
    }
    return TypeAdapter(Config).validate_python(absent | dict(fields))
