"""What may be set about the way to the broker, and what the room is given of the world."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import field
from datetime import timedelta
from pathlib import Path
from typing import Final

from pydantic import SecretBytes

from edgeagent.adapters.mqtt.addresses import Resolver, resolve
from edgeagent.clock import Clock
from edgeagent.contracts.mqtt import Session
from edgeagent.core.retry import BackoffRule
from edgeagent.errors import ConfigurationError
from edgeagent.metrics import Metrics
from edgeagent.values import dataclass

_WORD: Final = 0xFFFF
_KIB: Final = 1024
_LARGEST: Final = 268_435_455  # what the length field can say, MQTT 5 section 1.5.5
_LONGEST_EXPIRY: Final = timedelta(seconds=0xFFFF_FFFE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """How the broker proves itself, and we to it. The files are read anew for each connection.

    Attributes:
        ca: certificates that may vouch for the broker; None for the system's.
        certificate: ours, with its chain; None for no client certificate.
        key: its private key; None when it stands in the same file.
        server_name: the name in the broker's certificate, where it is not the host that we connect to.
    """

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    server_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MqttSettings:
    """How to reach the broker, and how much may be on its way.

    Attributes:
        host: name or address.
        port: TCP port.
        username: None for none.
        password: None for none; never printed.
        tls: None for plain TCP, which is for a broker on the hub itself.
        keepalive: a connection silent for longer is dead; whole seconds.
        session_expiry: how long the broker keeps the session while we are away; whole seconds.
        control_window: Receive Maximum of the control session: messages sent before a PUBACK.
        telemetry_window: the same for the telemetry session.
        publish_window: commands on their way without a PUBACK.
        largest_packet: Maximum Packet Size that we take, in bytes.
        largest_publish: payload that the broker takes, in bytes, where it does not say so itself
            (mosquitto's ``message_size_limit``).
        queue_messages: messages of a session that wait for the store before its reader is paused.
        queue_bytes: bytes of their payload.
        connect_timeout: for the name, and again for each address with its TLS handshake.
        answer_timeout: for CONNACK, SUBACK and PUBACK.
        backoff: between attempts.
        broker_config: the configuration of that broker, where it is one on this machine.
    """

    host: str = "127.0.0.1"
    port: int = 1883
    username: str | None = None
    password: SecretBytes | None = None
    tls: TlsSettings | None = None
    keepalive: timedelta = timedelta(seconds=30)
    session_expiry: timedelta = timedelta(days=7)
    control_window: int = 100
    telemetry_window: int = 500
    publish_window: int = 20
    largest_packet: int = 1024 * 1024
    largest_publish: int = 256 * 1024
    queue_messages: int = 1000
    queue_bytes: int = 8 * 1024 * 1024
    connect_timeout: timedelta = timedelta(seconds=5)
    answer_timeout: timedelta = timedelta(seconds=10)
    backoff: BackoffRule = field(default_factory=BackoffRule)
    broker_config: Path | None = None

    def __post_init__(self) -> None:
        """Refuse what MQTT cannot express.

        Raises:
            ConfigurationError: with all that is wrong.
        """
        wrong = [
            f"{name} must be {allowed}"
            for name, allowed, fits in (
                ("host", "set", bool(self.host)),
                ("port", "1 to 65535", 0 < self.port <= _WORD),
                ("keepalive", "1 to 65535 seconds", 1 <= self.keepalive.total_seconds() <= _WORD),
                ("session_expiry", "up to 136 years", timedelta(0) < self.session_expiry <= _LONGEST_EXPIRY),
                ("control_window", "1 to 65535", 0 < self.control_window <= _WORD),
                ("telemetry_window", "1 to 65535", 0 < self.telemetry_window <= _WORD),
                ("publish_window", "1 to 65535", 0 < self.publish_window <= _WORD),
                ("largest_packet", "1 KiB to 256 MiB", _KIB <= self.largest_packet <= _LARGEST),
                ("password", "given with a username", self.password is None or self.username is not None),
            )
            if not fits
        ]
        if wrong:
            raise ConfigurationError(f"mqtt: {'; '.join(wrong)}")

    def window(self, session: Session) -> int:
        """The Receive Maximum of a session."""
        return self.control_window if session is Session.CONTROL else self.telemetry_window


async def _sleep(length: timedelta) -> None:
    await asyncio.sleep(length.total_seconds())


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What the room takes from outside.

    Attributes:
        clock: time.
        metrics: the instruments.
        chance: evenly from [0, 1).
        resolve: names to addresses; may block.
        wait: lets the time between two attempts pass.
    """

    clock: Clock
    metrics: Metrics
    chance: Callable[[], float] = random.random
    resolve: Resolver = resolve
    wait: Callable[[timedelta], Awaitable[None]] = _sleep
