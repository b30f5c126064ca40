"""The text of our part of mosquitto's configuration (mosquitto.conf(5), version 2)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from edgeagent.adapters.mqtt.broker_config import Option
from edgeagent.setup.broker.place import MARK, BrokerPlace
from edgeagent.setup.broker.wish import Wish

_LIMITS: Final = (
    # A bridge's list of devices has hundreds of KB. No message_size_limit: 2.0 answers what is over it with a
    # code that clients take for an error, and they begin anew for ever.
    "max_packet_size 1048576",
    "max_inflight_messages 20",
    # For who is away. Not without limit: 2.0 then hangs up on a client that publishes what it may not.
    "max_queued_messages 20000",
    "max_queued_bytes 16777216",
    "persistent_client_expiration 14d",
    # Between what a power cut loses and what a card wears.
    "autosave_interval 300",
)
_PERSISTENCE: Final = ("persistence true", "persistence_location /var/lib/mosquitto/")


def configuration(wish: Wish, others: Sequence[Option]) -> str:
    """Our part, as it is to stand beside what others have written."""
    theirs = {option.name for option in others if option.name != "persistence" or option.value == "true"}
    lasting = [line for line in _PERSISTENCE if line.split(" ")[0] not in theirs]
    lines = [
        MARK,
        "# The agent alone, from this machine.",
        f"listener {wish.agent_port} 127.0.0.1",
        "# The devices.",
        *device_listener(wish.port, wish.host, wish.certificate, wish.key),
        *admission(wish.place),
        *_LIMITS,
        *lasting,
        "",
    ]
    return "\n".join(lines)


def device_listener(port: int, host: str, certificate: Path | None, key: Path | None) -> list[str]:
    """Where devices come. None takes the name of another's connection: it has that of its login."""
    tls = [] if certificate is None else [f"certfile {certificate}", f"keyfile {key}", "tls_version tlsv1.2"]
    return [f"listener {port} {host}", "use_username_as_clientid true", *tls]


def admission(place: BrokerPlace) -> list[str]:
    """Who may come in, and what they may do."""
    return ["allow_anonymous false", f"password_file {place.passwords}", f"acl_file {place.rules}"]
