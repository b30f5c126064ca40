"""Looking at a broker as this hub would use it: where it is, as whom, and for which topics."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

from edgeagent import config as configurations
from edgeagent import settings
from edgeagent.adapters.cloud.settings import is_loopback
from edgeagent.adapters.mqtt.broker_config import DEFAULT_PATH
from edgeagent.adapters.mqtt.settings import MqttSettings, TlsSettings
from edgeagent.clock import ProvenClock, SystemTime
from edgeagent.config import Config
from edgeagent.contracts.reports.broker import BrokerReport
from edgeagent.core.profile.load import load as load_profile
from edgeagent.core.profile.match import Matcher
from edgeagent.errors import ConfigurationError, MalformedError, StorageError
from edgeagent.profiles.shipped import shipped_profiles
from edgeagent.setup.broker.checking import Wanted, check_broker
from edgeagent.setup.broker.venue import venue

_PORTS = {"mqtt": 1883, "mqtts": 8883}
_PATIENCE = timedelta(seconds=5)


def look_at_broker(config_path: Path, url: str | None = None, *, listening: timedelta) -> BrokerReport:
    """Look at the broker of the configuration, or at another; nothing of it changes.

    Args:
        config_path: the hub's configuration; without one, the broker on this machine is meant.
        url: another broker, like ``mqtt://192.168.1.10:1883``: as nobody, unless the configuration's is
        meant.
        listening: for how long to listen for what others command.

    Raises:
        ConfigurationError: the configuration is wrong.
        MalformedError: that is no address of a broker.
    """
    config = _configuration(config_path, is_other=url is not None)
    if config is None:
        of_config = MqttSettings(broker_config=DEFAULT_PATH)
    else:
        of_config = settings.mqtt_settings(config, config_path)
    reach = of_config if url is None else _of_url(url, of_config)
    reach = replace(reach, connect_timeout=_PATIENCE, answer_timeout=_PATIENCE)
    heard, commanded = (_announced(), []) if config is None else _topics(config, config_path)
    wanted = Wanted(
        readings=heard, commands=commanded, listening=listening, configuration=reach.broker_config
    )
    return check_broker(reach, wanted, ProvenClock(SystemTime()))


def _configuration(path: Path, *, is_other: bool) -> Config | None:
    """The hub's; None where there is none, or where we may not read it and another broker is meant."""
    try:
        return configurations.load(path)
    except ConfigurationError as why:
        if isinstance(why.__cause__, FileNotFoundError):
            return None
        if is_other and isinstance(why.__cause__, PermissionError):
            return None
        raise


def _topics(config: Config, path: Path) -> tuple[list[str], list[str]]:
    """What the agent hears and where it commands; without its devices where they may not be read."""
    try:
        devices = venue(config, path)
    except (ConfigurationError, StorageError):
        return _announced(), []
    return devices.heard, devices.commanded


def _announced() -> list[str]:
    """Where devices of the shipped families announce themselves."""
    known = list(map(load_profile, shipped_profiles()))
    return [wanted.filter for wanted in Matcher(known).subscriptions]


def _of_url(url: str, configured: MqttSettings) -> MqttSettings:
    """The broker at an address; if it is the configured one, as the agent comes to it."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        parts, port = urlsplit(""), 0
    if not port or not parts.hostname or parts.path.strip("/") or parts.username or parts.query:
        raise MalformedError(f"no address like mqtt://192.168.1.10:1883: {url[:80]!r}")
    if (parts.hostname, port) == (configured.host, configured.port):
        return configured
    ours = DEFAULT_PATH if is_loopback(parts.hostname) and port == _PORTS["mqtt"] else None
    tls = TlsSettings() if parts.scheme == "mqtts" else None
    return MqttSettings(host=parts.hostname, port=port, tls=tls, broker_config=ours)
