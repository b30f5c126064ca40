"""The configuration: one TOML file, every key with a type, a default and a sentence.

All mistakes are found at once, each with its line and what would be right. Secrets are never in the
file, only the names of files that hold them: a relative name is looked up where systemd puts
credentials (``$CREDENTIALS_DIRECTORY``), or else beside the configuration.
"""

import os
import re
import stat
import tomllib
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from edgeagent.adapters.cloud.settings import is_loopback
from edgeagent.contracts.door import Contract
from edgeagent.contracts.scalars import Duration, HubIdField, PublicKeyHex
from edgeagent.errors import ConfigurationError

DEFAULT_PATH: Final = Path("/etc/edgeagent/config.toml")
_CONFIG_BYTES: Final = 256 * 1024
_HIGHEST_PORT: Final = 65535


def _as_path(value: object) -> object:
    return Path(value) if isinstance(value, str) else value


def _web_address(url: str) -> str:
    if re.fullmatch(r"https?://[A-Za-z0-9.\-\[\]:]+(/[A-Za-z0-9._~/-]*)?", url) is None:
        raise ValueError("not an address like https://queue.example.org")
    return url.rstrip("/")


def _collector(url: str) -> str:
    """An address that what is told cannot be read on the way to."""
    address = _web_address(url)
    if not address.startswith("https://") and not is_loopback(urlsplit(address).hostname or ""):
        raise ValueError("http goes to this machine only; use https")
    return address


def _place(text: str) -> str:
    """An address that cannot be listened to on the way, or an absolute path."""
    if text.startswith("/") and "\x00" not in text:
        return text
    try:
        url = urlsplit(text)
        is_ours = url.scheme == "https" or (url.scheme == "http" and is_loopback(url.hostname or ""))
        _ = url.port  # raises when it is none
    except ValueError:
        is_ours, url = False, urlsplit("")
    if not is_ours or re.fullmatch(r"https?://[A-Za-z0-9.\-\[\]:]+(/[A-Za-z0-9._~/-]*)?", text) is None:
        raise ValueError(
            "neither an address like https://example.org/policy (http only to this machine) "
            "nor a path like /media/policy"
        )
    return text.rstrip("/")


FilePath = Annotated[Path, BeforeValidator(_as_path)]
Port = Annotated[int, Field(ge=1, le=65535)]
Listen = Annotated[str, Field(pattern=r"^(127\.\d+\.\d+\.\d+|\[::1\]):\d{1,5}$")]
LanListen = Annotated[str, Field(pattern=r"^(\d{1,3}(\.\d{1,3}){3}|\[[0-9A-Fa-f:.]+\]):\d{1,5}$")]
UnixName = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_-]{0,31}$")]
HostName = Annotated[
    str, Field(pattern=r"^([A-Za-z0-9]([A-Za-z0-9.-]{0,38}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,38}\])$")
]
Url = Annotated[str, AfterValidator(_web_address)]
Collector = Annotated[str, AfterValidator(_collector)]
Place = Annotated[str, AfterValidator(_place)]


class HubSection(Contract):
    """Who this hub is and where it keeps its things."""

    id: HubIdField = Field(description="The hub's id: 1 to 64 of A-Z a-z 0-9 _ -.")
    state_dir: FilePath = Field(
        default=Path("/var/lib/edgeagent"), description="Folder of the database; survives restarts."
    )
    run_dir: FilePath = Field(
        default=Path("/run/edgeagent"), description="Folder of the admin socket and the last health report."
    )
    view_group: UnixName | None = Field(
        default=None, description="Unix group whose members may look: health, devices, commands, policy."
    )
    operate_group: UnixName | None = Field(
        default=None, description="Unix group whose members may look, and have things done."
    )


class TlsSection(Contract):
    """How the broker is recognised, and how we show ourselves to it."""

    ca_file: FilePath | None = Field(
        default=None, description="Certificates to trust; the system's if absent."
    )
    cert_file: FilePath | None = Field(default=None, description="Our certificate.")
    key_file: FilePath | None = Field(default=None, description="The key of our certificate.")
    server_name: str | None = Field(default=None, description="The name in its certificate, if not the host.")


class BrokerSection(Contract):
    """The hub's MQTT broker."""

    host: str = Field(default="127.0.0.1", min_length=1, max_length=253, description="Name or address.")
    port: Port = Field(default=1883, description="TCP port.")
    username: str | None = Field(default=None, max_length=64, description="To log in as.")
    password_file: FilePath | None = Field(default=None, description="File with the password.")
    tls: TlsSection | None = Field(default=None, description="Present: use TLS.")
    keepalive: Duration = Field(default=timedelta(seconds=30), description="MQTT keepalive.")
    session_expiry: Duration = Field(
        default=timedelta(days=7), description="How long the broker keeps our sessions while we are away."
    )
    config_file: FilePath | None = Field(
        default=None, description="Its configuration, read for its limits; mosquitto's own on port 1883."
    )


class CloudSection(Contract):
    """The cloud queue. Without this section the hub works alone."""

    url: Url = Field(description="Address of the queue, like https://queue.example.org.")
    token_file: FilePath = Field(description="File with the hub's bearer token.")
    ca_file: FilePath | None = Field(
        default=None, description="Certificates to trust; the system's if absent."
    )
    proxy: Url | None = Field(default=None, description="HTTP proxy to go through.")


class PolicySection(Contract):
    """The policy: a signed file, or a repository. Without one the hub takes readings and no commands."""

    file: FilePath | None = Field(default=None, description="The signed policy; goes with `signer`.")
    signer: PublicKeyHex | None = Field(
        default=None, description="The public key that signs it: 64 hexadecimal digits."
    )
    source: Place | None = Field(
        default=None,
        description="Where it is published: an `https` address or the path of a folder; goes with `root`.",
    )
    root: FilePath | None = Field(default=None, description="The first root of what is published there.")
    refresh: Duration = Field(default=timedelta(hours=1), description="How often that is looked for.")
    ca_file: FilePath | None = Field(
        default=None, description="Certificates to trust there; the system's if absent."
    )

    @model_validator(mode="after")
    def _is_one_of_two(self) -> "PolicySection":
        signed = {"file": self.file, "signer": self.signer}
        published = {"source": self.source, "root": self.root}
        wrong = [
            f"{' and '.join(pair)} go together"
            for pair in (signed, published)
            if any(pair.values()) and not all(pair.values())
        ]
        if any(signed.values()) and any(published.values()):
            wrong.append("a signed file (file, signer) or a repository (source, root), not both")
        if not any(signed.values()) and not any(published.values()):
            wrong.append("file and signer, or source and root, are missing")
        if not timedelta(seconds=1) <= self.refresh <= timedelta(days=7):
            wrong.append("refresh is from 1s to 7d")
        if wrong:
            raise ValueError("; ".join(wrong))
        return self


class ArtifactsSection(Contract):
    """Files for devices, such as firmware."""

    source: Place | None = Field(
        default=None,
        description="Where they are fetched from, an address or a folder; that of the policy if absent.",
    )
    ca_file: FilePath | None = Field(
        default=None, description="Certificates to trust there; those of the policy's source if absent."
    )
    budget: Annotated[int, Field(ge=1, le=1024 * 1024)] = Field(
        default=1024, description="MiB of disk that fetched files may take together."
    )
    keep: Duration = Field(
        default=timedelta(days=30), description="How long a fetched file stays that nobody uses."
    )


class FirmwareSection(Contract):
    """Where devices fetch their firmware from this hub. Without this section they cannot."""

    listen: LanListen = Field(
        description="Address on the devices' network and port, like 192.168.1.10:0; port 0 is any free one."
    )
    public: HostName | None = Field(
        default=None,
        description="What devices are to call the hub: a name or address; that of `listen` if absent.",
    )

    @model_validator(mode="after")
    def _can_be_called(self) -> "FirmwareSection":
        host, _, port = self.listen.rpartition(":")
        try:
            address = ip_address(host.strip("[]"))
        except ValueError:
            raise ValueError("listen: not an address like 192.168.1.10:0") from None
        if int(port) > _HIGHEST_PORT:
            raise ValueError("listen: a port is 0 to 65535")
        if address.is_unspecified and self.public is None:
            raise ValueError("listen is on every address: public has to say what devices call the hub")
        return self


class IngestSection(Contract):
    """How readings are stored."""

    commit_linger: Duration = Field(
        default=timedelta(milliseconds=100),
        description="How long a reading waits for others to share its commit.",
    )


class UplinkSection(Contract):
    """How readings go up."""

    linger: Duration = Field(
        default=timedelta(seconds=1), description="How long a reading waits for others to share its upload."
    )
    most_events: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=500, description="Events in one upload."
    )
    longest_backoff: Duration = Field(
        default=timedelta(seconds=60), description="The longest wait between tries when the cloud is away."
    )


class AuditSection(Contract):
    """The audit trail."""

    keep: Duration = Field(timedelta(365), ge=timedelta(90), description="How long rows stay; 90d or more.")


class WebSection(Contract):
    """Metrics and health for programs on this machine."""

    listen: Listen = Field(default="127.0.0.1:9464", description="Loopback address and port.")


class WorkerSection(Contract):
    """Who works the commands of the high tier."""

    high: Literal["inside", "outside"] = Field(
        default="inside", description="Who works the high tier: the agent, or `edgeagent worker` beside it."
    )
    user: UnixName | None = Field(
        default=None, description="Unix user of that worker, if it is not the agent's own."
    )


class ProfilesSection(Contract):
    """Device profiles of your own."""

    directory: FilePath | None = Field(default=None, description="Folder of further profiles, *.toml.")


class TraceSection(Contract):
    """Traces for whoever collects them. Without this section they stay at the hub."""

    otlp_endpoint: Collector = Field(
        description="Collector for OTLP over HTTP, like https://traces.example.org; needs the extra otel."
    )


class LogSection(Contract):
    """What is logged."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The least important lines that are written."
    )


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
