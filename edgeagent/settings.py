"""From the configuration to what each room wants to know.

Reads the files that the configuration names: secrets, the policy, profiles. Whatever is wrong with one
is told with its name before anything starts.
"""

import grp
import pwd
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

from pydantic import SecretBytes

from edgeagent.adapters.admin.access import Access
from edgeagent.adapters.cloud.settings import CloudSettings, Token, is_loopback
from edgeagent.adapters.fetcher.inside import InsideFetcher
from edgeagent.adapters.fetcher.outside import OutsideFetcher
from edgeagent.adapters.lan_files.settings import LanFilesSettings
from edgeagent.adapters.metadata.source import SourceSettings, TufSource
from edgeagent.adapters.mqtt.broker_config import DEFAULT_PATH, read_door, read_limits
from edgeagent.adapters.mqtt.settings import MqttSettings, TlsSettings
from edgeagent.config import Config
from edgeagent.contracts.policy import POLICY_BYTES
from edgeagent.contracts.profile import PROFILE_BYTES, DeviceProfile
from edgeagent.core.profile.load import reading
from edgeagent.core.retry import BackoffRule
from edgeagent.errors import ConfigurationError, MalformedError
from edgeagent.flows.checkpoints import AuditSettings
from edgeagent.flows.ingest import IngestSettings
from edgeagent.flows.refreshing import RefreshSettings
from edgeagent.flows.trust import TrustSettings
from edgeagent.flows.uplink import UplinkSettings
from edgeagent.flows.watching.certificates import CertificateFiles
from edgeagent.ports.fetcher import Fetcher
from edgeagent.profiles.shipped import shipped_profiles
from edgeagent.secret_files import check_private, check_unchanged, read_secret, secret_path
from edgeagent.sections import BrokerSection
from edgeagent.store.identity_folder import IdentityFolder

BROKER_ACCESS: Final = "edgeagent/access"
"""Beside mosquitto's configuration; written by whoever may write there."""
_MOST_PROFILES: Final = 256
_LARGEST_PUBLISH: Final = 256 * 1024
_MQTT_PORT: Final = 1883
_ROOT_BYTES: Final = 128 * 1024
_FIRST_RETRY: Final = timedelta(seconds=10)


def _password(broker: BrokerSection, file: Path, path: Path) -> str:
    """What the agent logs in with; of a broker of the hub's own it is made with the rest."""
    try:
        return read_secret(path, file)
    except ConfigurationError as why:
        if broker.managed is None or not isinstance(why.__cause__, FileNotFoundError):
            raise
        made = "sudo edgeagent broker apply --restart makes it, and starts mosquitto anew"
        raise ConfigurationError(f"the agent has no password at the broker yet: {made}") from why


def mqtt_settings(config: Config, path: Path) -> MqttSettings:
    """How the broker is reached.

    Raises:
        ConfigurationError: a secret cannot be read.
    """
    broker, ingest = config.broker, ingest_settings(config)
    described = _broker_config(config)
    limits = None if described is None else read_limits(described)
    password = None if broker.password_file is None else _password(broker, broker.password_file, path)
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
    if broker.managed is not None:
        return broker.managed.folder / DEFAULT_PATH.name
    return DEFAULT_PATH if broker.port == _MQTT_PORT and is_loopback(broker.host) else None


def broker_access(config: Config) -> Path | None:
    """Where it is told whose rules are in force at a broker of the hub's own; None at others."""
    managed = config.broker.managed
    return None if managed is None else managed.folder / BROKER_ACCESS


def broker_is_open(config: Config) -> bool | None:
    """Whether the broker lets in from the network who has no name; None where that is not known."""
    described = _broker_config(config)
    door = None if described is None else read_door(described)
    return None if door is None else door.anonymous and not door.is_local


def cloud_settings(config: Config, path: Path) -> CloudSettings | None:
    """How the queue is reached; None when there is none.

    An enrolled hub shows its certificate, and no token.

    Raises:
        ConfigurationError: a secret cannot be read, there is nothing to log in with, or the address is none.
    """
    cloud, slots = config.cloud, identity_folder(config)
    if cloud is None:
        return None
    is_enrolled = slots.is_enrolled and cloud.url.startswith("https:")
    if cloud.token_file is None and not is_enrolled:
        raise ConfigurationError(
            f"[cloud] has no token_file, and this hub is not enrolled (nothing is in {slots.folder}): "
            "edgeagent setup --claim CODE"
        )
    return CloudSettings(
        url=cloud.url,
        token=None if is_enrolled or cloud.token_file is None else Token(read_secret(path, cloud.token_file)),
        ca_file=_near(path, cloud.ca_file) or (slots.authority if is_enrolled else None),
        certificate=slots.current if is_enrolled else None,
        proxy=cloud.proxy,
    )


def identity_folder(config: Config) -> IdentityFolder:
    """Where the hub's key and certificates are."""
    return IdentityFolder(config.hub.state_dir / "identity")


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


def fetching_folder(config: Config) -> Path:
    """Where a child that fetches works."""
    return config.hub.state_dir / "fetching"


def fetcher(config: Config) -> Fetcher:
    """Who goes and fetches."""
    is_outside = config.fetch.by == "outside"
    return OutsideFetcher(config.fetch.socket) if is_outside else InsideFetcher(fetching_folder(config))


def policy_source(config: Config, path: Path) -> TufSource | None:
    """Where the policy is published; None where it is not.

    A root that cannot be read is no reason not to start: what is stored goes on.

    Raises:
        ConfigurationError: anybody may change the root.
    """
    if config.policy is None or config.policy.source is None or config.policy.root is None:
        return None
    check_unchanged(secret_path(path, config.policy.root))
    return TufSource(
        SourceSettings(
            place=config.policy.source,
            root=_bytes_of(secret_path(path, config.policy.root), _ROOT_BYTES),
            work=config.hub.state_dir / "policy-fetch",
            ca_file=_near(path, config.policy.ca_file),
            proxy=None if config.cloud is None else config.cloud.proxy,
        ),
        fetcher(config),
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
    load = reading()
    known = {profile.id: profile for profile in map(load, shipped_profiles())}
    directory = _near(path, config.profiles.directory)
    if directory is None:
        return known
    for file in _own_profiles(directory):
        profile = _own_profile(file, load)
        if profile.id in known:
            raise ConfigurationError(f"{file}: there is a profile {profile.id!r} already")
        known[profile.id] = profile
    return known


def _own_profiles(directory: Path) -> Sequence[Path]:
    try:
        # Not ``glob``: that finds nothing where we may not look.
        own = sorted(file for file in directory.iterdir() if file.name.endswith(".toml"))
    except OSError as why:
        raise ConfigurationError(f"cannot read {directory}, the folder of profiles: {why.strerror}") from why
    if len(own) > _MOST_PROFILES:
        raise ConfigurationError(f"{directory} is no folder of at most {_MOST_PROFILES} profiles")
    return own


def _own_profile(file: Path, load: Callable[[bytes], DeviceProfile]) -> DeviceProfile:
    try:
        with file.open("rb") as text:
            return load(text.read(PROFILE_BYTES + 1))
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


def named_files(config: Config, path: Path) -> None:
    """Look whether the certificates and the policy that are named can be read at all.

    The agent starts without some of them, and says so in its health; whoever checks wants to know it before.

    Raises:
        ConfigurationError: names each that cannot.
    """
    tls, cloud, policy, artifacts = config.broker.tls, config.cloud, config.policy, config.artifacts
    named = {
        "broker.tls.ca_file": None if tls is None else tls.ca_file,
        "broker.tls.cert_file": None if tls is None else tls.cert_file,
        "cloud.ca_file": None if cloud is None else cloud.ca_file,
        "policy.file": None if policy is None else policy.file,
        "policy.ca_file": None if policy is None else policy.ca_file,
        "artifacts.ca_file": artifacts.ca_file,
    }
    wrong = []
    for key, name in named.items():
        file = _near(path, name)
        try:
            if file is not None:
                with file.open("rb"):
                    check_unchanged(file)
        except OSError as why:
            wrong.append(f"{key}: cannot read {file}: {why.strerror}")
        except ConfigurationError as why:
            wrong.append(f"{key}: {why}")
    if wrong:
        raise ConfigurationError("\n".join(wrong))


def _near(path: Path, name: Path | None) -> Path | None:
    """A relative name lies among systemd's credentials or beside the configuration."""
    return None if name is None else secret_path(path, name)
