"""The sections of the configuration: each key with its type, its default and a sentence.

What a section says of itself is all that is said of it: docs/configuration.md is made of these.
"""

from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from edgeagent.config_keys import LIVE, Form
from edgeagent.config_values import (
    AnyListen,
    Collector,
    FilePath,
    Folder,
    HostName,
    LanListen,
    Listen,
    Place,
    Port,
    Reachable,
    UnixName,
    Url,
)
from edgeagent.contracts.door import Contract
from edgeagent.contracts.rollout import ZoneName
from edgeagent.contracts.scalars import Duration, HubIdField, PublicKeyHex

_SOME_KEY: Final = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"


class HubSection(Contract):
    """Who this hub is and where it keeps its things."""

    id: HubIdField = Field(description="The hub's id: 1 to 64 of A-Z a-z 0-9 _ -.", examples=["venue-7"])
    zone: Annotated[ZoneName, Form("time zone", "Europe/Berlin", "a name of the IANA database")] = Field(
        default="UTC", description="Time zone of the venue."
    )
    state_dir: Folder = Field(
        default=Path("/var/lib/edgeagent"), description="Folder of the database; survives restarts."
    )
    run_dir: Folder = Field(
        default=Path("/run/edgeagent"), description="Folder of the admin socket and the last health report."
    )
    view_group: UnixName | None = Field(
        default=None, description="Unix group whose members may look: health, devices, commands, policy."
    )
    operate_group: UnixName | None = Field(
        default=None,
        description="Unix group whose members may look, and have things done.",
        examples=["edgeagent-operate"],
    )


class TlsSection(Contract):
    """How the broker is recognised, and how we show ourselves to it."""

    ca_file: FilePath | None = Field(
        default=None, description="Certificates to trust; the system's if absent."
    )
    cert_file: FilePath | None = Field(
        default=None, description="Our certificate.", examples=["broker-cert.pem"]
    )
    key_file: FilePath | None = Field(
        default=None, description="The key of our certificate.", examples=["broker-key.pem"]
    )
    server_name: Reachable | None = Field(
        default=None,
        description="The name in its certificate, if not the host.",
        examples=["broker.example.org"],
    )


class ManagedSection(Contract):
    """Present: this hub's mosquitto is configured by `edgeagent broker apply`, and for its devices only."""

    listen: AnyListen = Field(
        default="0.0.0.0:1883",
        description="Address and port for devices; not the port that the agent itself uses.",
    )
    cert_file: FilePath | None = Field(
        default=None,
        description="Its certificate: devices have to use TLS then; goes with `key_file`.",
        examples=["/etc/ssl/certs/hub.pem"],
    )
    key_file: FilePath | None = Field(
        default=None, description="The key of that certificate.", examples=["/etc/ssl/private/hub.key"]
    )
    folder: Folder = Field(
        default=Path("/etc/mosquitto"), description="Folder of mosquitto's own configuration."
    )

    @model_validator(mode="after")
    def _can_be_had(self) -> "ManagedSection":
        ip_address(self.listen.rpartition(":")[0].strip("[]"))
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("cert_file and key_file go together")
        return self


class BrokerSection(Contract):
    """The hub's MQTT broker."""

    host: Reachable = Field(default="127.0.0.1", min_length=1, max_length=253, description="Name or address.")
    port: Port = Field(default=1883, description="TCP port.")
    username: str | None = Field(
        default=None, max_length=64, description="To log in as.", examples=["edgeagent"]
    )
    password_file: Annotated[FilePath | None, LIVE] = Field(
        default=None, description="File with the password.", examples=["broker-password"]
    )
    tls: TlsSection | None = Field(default=None, description="Present: use TLS.")
    keepalive: Duration = Field(default=timedelta(seconds=30), description="MQTT keepalive.")
    session_expiry: Duration = Field(
        default=timedelta(days=7), description="How long the broker keeps our sessions while we are away."
    )
    config_file: FilePath | None = Field(
        default=None,
        description="Its configuration, read for its limits; mosquitto's own on port 1883.",
        examples=["/etc/mosquitto/mosquitto.conf"],
    )
    managed: ManagedSection | None = Field(default=None, description="Present: see there.")

    @model_validator(mode="after")
    def _is_ours_alone(self) -> "BrokerSection":
        if self.managed is None:
            return self
        wrong = []
        if self.host != "127.0.0.1" or self.tls is not None:
            wrong.append("managed: the agent comes by 127.0.0.1 and without TLS")
        if self.username is None or self.password_file is None:
            wrong.append("managed: the agent needs a username and a password_file")
        if int(self.managed.listen.rpartition(":")[2]) == self.port:
            wrong.append("managed.listen: not the port by which the agent comes, such as 1884")
        if wrong:
            raise ValueError("; ".join(wrong))
        return self


class CloudSection(Contract):
    """The cloud queue. Without this section the hub works alone."""

    url: Url = Field(description="Address of the queue, like https://queue.example.org.")
    token_file: Annotated[FilePath | None, LIVE] = Field(
        default=None,
        description="File with the hub's bearer token; an enrolled hub needs none.",
        examples=["hub.token"],
    )
    ca_file: FilePath | None = Field(
        default=None, description="Certificates to trust; the enrolment's, else the system's, if absent."
    )
    proxy: Url | None = Field(
        default=None, description="HTTP proxy to go through.", examples=["http://proxy.lan:3128"]
    )


class PolicySection(Contract):
    """The policy: a signed file, or a repository. Without one the hub takes readings and no commands."""

    file: FilePath | None = Field(
        default=None, description="The signed policy; goes with `signer`.", examples=["policy.json"]
    )
    signer: Annotated[PublicKeyHex, Form("public key", _SOME_KEY)] | None = Field(
        default=None, description="The public key that signs it: 64 hexadecimal digits."
    )
    source: Place | None = Field(
        default=None,
        description="Where it is published: an `https` address or the path of a folder; goes with `root`.",
    )
    root: FilePath | None = Field(
        default=None, description="The first root of what is published there.", examples=["root.json"]
    )
    refresh: Annotated[Duration, LIVE, Form("length of time", "1h", "1s to 7d")] = Field(
        default=timedelta(hours=1), description="How often that is looked for."
    )
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
    budget: Annotated[int, Field(ge=1, le=1024 * 1024), LIVE] = Field(
        default=1024, description="MiB of disk that fetched files may take together."
    )
    keep: Annotated[Duration, LIVE] = Field(
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
        try:
            address = ip_address(self.listen.rpartition(":")[0].strip("[]"))
        except ValueError:
            raise ValueError("listen: not an address like 192.168.1.10:0") from None
        if address.is_unspecified and self.public is None:
            raise ValueError("listen is on every address: public has to say what devices call the hub")
        return self


class IngestSection(Contract):
    """How readings are stored."""

    commit_linger: Annotated[Duration, LIVE] = Field(
        default=timedelta(milliseconds=100),
        le=timedelta(minutes=1),
        description="How long a reading waits for others to share its commit: longer writes less to a card.",
    )


class UplinkSection(Contract):
    """How readings go up."""

    linger: Annotated[Duration, LIVE] = Field(
        default=timedelta(seconds=1),
        le=timedelta(hours=1),
        description="How long a reading waits for others to share its upload.",
    )
    most_events: Annotated[int, Field(ge=1, le=1000), LIVE] = Field(
        default=500, description="Events in one upload."
    )
    longest_backoff: Annotated[Duration, LIVE] = Field(
        default=timedelta(seconds=60),
        ge=timedelta(seconds=1),
        le=timedelta(hours=1),
        description="The longest wait between tries when the cloud is away.",
    )


class AuditSection(Contract):
    """The audit trail."""

    keep: Annotated[Duration, LIVE] = Field(
        default=timedelta(days=365), ge=timedelta(days=90), description="How long rows stay; 90d or more."
    )


class BackupSection(Contract):
    """Backups in the state folder."""

    keep: Annotated[int, Field(ge=1, le=100), LIVE] = Field(
        default=3, description="How many made by hand are kept; the oldest goes when another is whole."
    )


class WebSection(Contract):
    """Metrics, health and the page, for whoever is on this machine."""

    listen: Listen = Field(default="127.0.0.1:9464", description="Loopback address and port.")
    page: Literal["viewers", "everyone", "nobody"] = Field(
        default="viewers",
        description="Who on this machine may look at the hub's page: whoever may at the admin socket "
        "(root, the agent's user, both groups), everyone, or nobody.",
    )


class WorkerSection(Contract):
    """Who works the commands of the high tier."""

    high: Literal["inside", "outside"] = Field(
        default="inside", description="Who works the high tier: the agent, or `edgeagent worker` beside it."
    )
    user: UnixName | None = Field(
        default=None,
        description="Unix user of that worker, if it is not the agent's own.",
        examples=["edgeagent-worker"],
    )


class FetchSection(Contract):
    """Who fetches the policy and files for devices."""

    by: Literal["inside", "outside"] = Field(
        default="inside", description="Who fetches: a child of the agent, or a unit of its own beside it."
    )
    socket: FilePath = Field(
        default=Path("/run/edgeagent-fetch.sock"), description="Where that unit listens."
    )


class ProfilesSection(Contract):
    """Device profiles of your own."""

    directory: Folder | None = Field(
        default=None, description="Folder of further profiles, *.toml.", examples=["profiles"]
    )


class TraceSection(Contract):
    """Traces for whoever collects them. Without this section they stay at the hub."""

    otlp_endpoint: Collector = Field(
        description="Collector for OTLP over HTTP, like https://traces.example.org; needs the extra otel."
    )


class LogSection(Contract):
    """What is logged."""

    level: Annotated[Literal["debug", "info", "warning", "error"], LIVE] = Field(
        default="info", description="The least important lines that are written."
    )
