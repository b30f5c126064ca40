"""The sections of the configuration: each key with its type, its default and a sentence.

What a section says of itself is all that is said of it: the README's table is made of these.
"""

import re
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from edgeagent.adapters.cloud.settings import is_loopback
from edgeagent.contracts.door import Contract
from edgeagent.contracts.scalars import Duration, HubIdField, PublicKeyHex

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
