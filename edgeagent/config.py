"""The configuration: one TOML file, every key with a type, a default and a sentence.

All mistakes are found at once, each with its line and what would be right. Secrets are never in the
file, only the names of files that hold them: a relative name is looked up where systemd puts
credentials (``$CREDENTIALS_DIRECTORY``), or else beside the configuration.
"""

import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Final

from pydantic import ValidationError, model_validator
from pydantic_core import ErrorDetails

from edgeagent.contracts.door import Contract
from edgeagent.errors import ConfigurationError
from edgeagent.sections import (
    ArtifactsSection,
    AuditSection,
    BrokerSection,
    CloudSection,
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

DEFAULT_PATH: Final = Path("/etc/edgeagent/config.toml")
_CONFIG_BYTES: Final = 256 * 1024


class Config(Contract):
    """The whole file."""

    hub: HubSection
    broker: BrokerSection = BrokerSection()
    cloud: CloudSection | None = None
    policy: PolicySection | None = None
    artifacts: ArtifactsSection = ArtifactsSection()
    firmware: FirmwareSection | None = None
    ingest: IngestSection = IngestSection()
    uplink: UplinkSection = UplinkSection()
    audit: AuditSection = AuditSection()
    web: WebSection | None = WebSection()
    worker: WorkerSection = WorkerSection()
    profiles: ProfilesSection = ProfilesSection()
    trace: TraceSection | None = None
    log: LogSection = LogSection()

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


def load(path: Path) -> Config:
    """Read the configuration.

    Raises:
        ConfigurationError: names every mistake, with its line.
    """
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            raw = file.read(_CONFIG_BYTES + 1)
    except OSError as why:
        raise ConfigurationError(f"cannot read {path}: {why.strerror}") from why
    if stat.S_ISREG(mode) and mode & stat.S_IWOTH:
        # It says whose policy is trusted.
        raise ConfigurationError(f"anybody may change {path}: chmod o-w {path}")
    if len(raw) > _CONFIG_BYTES:
        raise ConfigurationError(f"{path} is larger than {_CONFIG_BYTES} bytes")
    try:
        text = raw.decode()
        fields = tomllib.loads(text)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as why:
        raise ConfigurationError(f"{path}: not TOML: {why}") from why
    try:
        return Config.model_validate(fields)
    except ValidationError as why:
        mistakes = [_mistake(text, error) for error in why.errors(include_url=False)]
        raise ConfigurationError("\n".join(f"{path}:{mistake}" for mistake in mistakes)) from why


def _mistake(text: str, error: ErrorDetails) -> str:
    place = [str(step) for step in error["loc"]]
    line = _line_of(text, place)
    name = ".".join(place) or "file"
    words = error["msg"].removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        words = "there is no such key"
    if error["type"] == "missing":
        words = "is missing"
    return f"{line}: {name}: {words}"


def _line_of(text: str, place: list[str]) -> int:
    """The line on which a key stands, as far as it can be found; else that of its section; else 1."""
    section: list[str] = []
    best = 1
    for number, line in enumerate(text.splitlines(), start=1):
        if (header := re.match(r"\s*\[\s*([A-Za-z0-9_.\s-]+?)\s*\]", line)) is not None:
            section = [part.strip() for part in header[1].split(".")]
            if section == place[: len(section)]:
                best = number
        elif (key := re.match(r"\s*([A-Za-z0-9_.-]+)\s*=", line)) is not None:
            named = [*section, *key[1].split(".")]
            if named == place[: len(named)]:
                return number
    return best
