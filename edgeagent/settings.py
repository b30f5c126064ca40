"""From the configuration to what each room wants to know.

Reads the files that the configuration names: secrets, the policy, profiles. Whatever is wrong with one
is told with its name before anything starts.
"""

import grp
import pwd
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import SecretBytes

from edgeagent.adapters.admin.access import Access
from edgeagent.adapters.cloud.settings import CloudSettings, Token, is_loopback
from edgeagent.adapters.lan_files.settings import LanFilesSettings
from edgeagent.adapters.mqtt.broker_config import DEFAULT_PATH, read_limits
from edgeagent.adapters.mqtt.settings import MqttSettings, TlsSettings
from edgeagent.config import Config
from edgeagent.contracts.policy import POLICY_BYTES
from edgeagent.contracts.profile import PROFILE_BYTES, DeviceProfile
from edgeagent.core.profile.load import load as load_profile
from edgeagent.core.retry import BackoffRule
from edgeagent.errors import ConfigurationError, MalformedError
from edgeagent.flows.checkpoints import AuditSettings
from edgeagent.flows.ingest import IngestSettings
from edgeagent.flows.refreshing import RefreshSettings
from edgeagent.flows.trust import TrustSettings
from edgeagent.flows.uplink import UplinkSettings
from edgeagent.flows.watching.certificates import CertificateFiles
from edgeagent.profiles.shipped import shipped_profiles
from edgeagent.secret_files import check_private, check_unchanged, read_secret, secret_path

if TYPE_CHECKING:
    from edgeagent.adapters.metadata.source import TufSource

_MOST_PROFILES: Final = 256
_LARGEST_PUBLISH: Final = 256 * 1024
_MQTT_PORT: Final = 1883
_ROOT_BYTES: Final = 128 * 1024
_FIRST_RETRY: Final = timedelta(seconds=10)


def mqtt_settings(config: Config, path: Path) -> MqttSettings:
    """How the broker is reached.

    Raises:
        ConfigurationError: a secret cannot be read.
    """
    broker, ingest = config.broker, ingest_settings(config)
    described = _broker_config(config)
    limits = None if described is None else read_limits(described)
    password = None if broker.password_file is None else read_secret(path, broker.password_file)
    tls = None
    if broker.tls is not None:
        if broker.tls.key_file is not None:
            check_private(secret_path(path, broker.tls.key_file))
        tls = TlsSettings(
            ca=_near(path, broker.tls.ca_file),
            certificate=_near(path, broker.tls.cert_file),
            key=_near(path, broker.tls.key_file),
            server_name=broker.tls.server_name,
        )
    return MqttSettings(
        host=broker.host,
        port=broker.port,
        username=broker.username,
        password=None if password is None else SecretBytes(password.encode()),
        tls=tls,
        keepalive=broker.keepalive,
        session_expiry=broker.session_expiry,
        control_window=ingest.control_window,
        telemetry_window=ingest.telemetry_window,
        largest_publish=min(_LARGEST_PUBLISH, (limits and limits.largest) or _LARGEST_PUBLISH),
        broker_config=described,
    )


def _broker_config(config: Config) -> Path | None:
    """The file that describes the broker; mosquitto's own only where that is the broker meant."""
    broker = config.broker
    if broker.config_file is not None:
        return broker.config_file
    return DEFAULT_PATH if broker.port == _MQTT_PORT and is_loopback(broker.host) else None


def cloud_settings(config: Config, path: Path) -> CloudSettings | None:
    """How the queue is reached; None when there is none.

    Raises:
        ConfigurationError: a secret cannot be read, or the address is none.
    """
    cloud = config.cloud
    if cloud is None:
        return None
    return CloudSettings(
        url=cloud.url,
        token=Token(read_secret(path, cloud.token_file)),
        ca_file=_near(path, cloud.ca_file),
        proxy=cloud.proxy,
    )


def access(config: Config) -> Access:
    """Who may come in at the operator's door.

    Raises:
        ConfigurationError: there is no such group on this machine.
    """
    return Access(
        view=_group("view_group", config.hub.view_group),
        operate=_group("operate_group", config.hub.operate_group),
    )


def _group(key: str, name: str | None) -> int | None:
    if name is None:
        return None
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError as why:
        raise ConfigurationError(f"[hub] {key}: there is no group {name} on this machine") from why


def worker_user(config: Config) -> int | None:
    """The number of the isolated worker's user; None where it is the agent's own.

    Raises:
        ConfigurationError: there is no such user on this machine.
    """
    name = config.worker.user
    try:
        return None if name is None else pwd.getpwnam(name).pw_uid
    except KeyError as why:
        raise ConfigurationError(f"[worker] user: there is no user {name} on this machine") from why


def lan_files_settings(config: Config) -> LanFilesSettings | None:
    """Where devices fetch files from the hub; None where they cannot."""
    firmware = config.firmware
    if firmware is None:
        return None
    host, _, port = firmware.listen.rpartition(":")
    return LanFilesSettings(host=host.strip("[]"), port=int(port), public=firmware.public or host)


def ingest_settings(config: Config) -> IngestSettings:
    """How readings are stored."""
    return IngestSettings(commit_linger=config.ingest.commit_linger)


def uplink_settings(config: Config) -> UplinkSettings:
    """How readings go up."""
    uplink = config.uplink
    return UplinkSettings(
        linger=uplink.linger,
        most_events=uplink.most_events,
        backoff=BackoffRule(longest=uplink.longest_backoff),
    )


def audit_settings(config: Config) -> AuditSettings:
    """How long the audit trail reaches back."""
    return AuditSettings(keep=config.audit.keep)


def trust_settings(config: Config) -> TrustSettings:
    """Whose policy is trusted."""
    if config.policy is None:
        return TrustSettings()
    signer = config.policy.signer
    return TrustSettings(
        signer=None if signer is None else bytes.fromhex(signer),
        is_published=config.policy.source is not None,
    )


def refresh_settings(config: Config) -> RefreshSettings:
    """How often a published policy is looked for."""
    every = RefreshSettings().every if config.policy is None else config.policy.refresh
    longest = min(every, RefreshSettings().backoff.longest)
    return RefreshSettings(every=every, backoff=BackoffRule(first=min(every, _FIRST_RETRY), longest=longest))


def policy_source(config: Config, path: Path) -> "TufSource | None":
    """Where the policy is published; None where it is not.

    A root that cannot be read is no reason not to start: what is stored goes on.

    Raises:
        ConfigurationError: anybody may change the root.
    """
    if config.policy is None or config.policy.source is None or config.policy.root is None:
        return None
    check_unchanged(secret_path(path, config.policy.root))
    # With tuf and its parts, 3 MiB; the other way to a policy has no need of them.
    from edgeagent.adapters.metadata.source import SourceSettings, TufSource

    return TufSource(
        SourceSettings(
            place=config.policy.source,
            root=_bytes_of(secret_path(path, config.policy.root), _ROOT_BYTES),
            work=config.hub.state_dir / "policy-fetch",
            ca_file=_near(path, config.policy.ca_file),
            proxy=None if config.cloud is None else config.cloud.proxy,
        )
    )


def pinned_root(config: Config, path: Path) -> None:
    """Look whether the first root of a published policy can be used.

    Raises:
        ConfigurationError: it cannot be read, is no root, or anybody may change it.
    """
    if config.policy is None or config.policy.root is None:
        return
    from edgeagent.adapters.metadata.verifying import check_root

    file = secret_path(path, config.policy.root)
    root = _bytes_of(file, _ROOT_BYTES)
    if root is None:
        raise ConfigurationError(f"cannot read {file}, the first root of the policy")
    check_unchanged(file)
    try:
        check_root(root, limit=_ROOT_BYTES)
    except MalformedError as why:
        raise ConfigurationError(f"{file}: {why}") from why


def offered_policy(config: Config, path: Path) -> bytes | None:
    """The envelope in the configured file; None when there is none.

    A file that cannot be read is no reason not to start: the stored policy stays in force.
    """
    if config.policy is None or config.policy.file is None:
        return None
    return _bytes_of(secret_path(path, config.policy.file), POLICY_BYTES)


def _bytes_of(path: Path, limit: int) -> bytes | None:
    """A file's content, or of a longer one just too much; None where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(limit + 1)
    except OSError:
        return None


def profiles(config: Config, path: Path) -> Mapping[str, DeviceProfile]:
    """The shipped profiles and those of the operator, by id.

    Raises:
        ConfigurationError: one of the operator's is wrong, or has the id of another.
    """
    known = {profile.id: profile for profile in map(load_profile, shipped_profiles())}
    directory = _near(path, config.profiles.directory)
    if directory is None:
        return known
    own = sorted(directory.glob("*.toml"))[: _MOST_PROFILES + 1]
    if not directory.is_dir() or len(own) > _MOST_PROFILES:
        raise ConfigurationError(f"{directory} is no folder of at most {_MOST_PROFILES} profiles")
    for file in own:
        profile = _own_profile(file)
        if profile.id in known:
            raise ConfigurationError(f"{file}: there is a profile {profile.id!r} already")
        known[profile.id] = profile
    return known


def _own_profile(file: Path) -> DeviceProfile:
    try:
        with file.open("rb") as text:
            return load_profile(text.read(PROFILE_BYTES + 1))
    except OSError as why:
        raise ConfigurationError(f"cannot read {file}: {why.strerror}") from why
    except MalformedError as why:
        raise ConfigurationError(f"{file}: {why}") from why


def certificate_files(config: Config, path: Path) -> CertificateFiles:
    """The certificates whose end is watched, by their keys."""
    tls, cloud, policy = config.broker.tls, config.cloud, config.policy
    shown = {"broker.tls.cert_file": None if tls is None else tls.cert_file}
    trusted = {
        "broker.tls.ca_file": None if tls is None else tls.ca_file,
        "cloud.ca_file": None if cloud is None else cloud.ca_file,
        "policy.ca_file": None if policy is None else policy.ca_file,
    }
    return CertificateFiles(
        shown={key: secret_path(path, name) for key, name in shown.items() if name is not None},
        trusted={key: secret_path(path, name) for key, name in trusted.items() if name is not None},
    )


def _near(path: Path, name: Path | None) -> Path | None:
    """A relative name lies among systemd's credentials or beside the configuration."""
    return None if name is None else secret_path(path, name)
