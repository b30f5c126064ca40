"""One MQTT connection of an appliance, from plug in to plug out.

A ``Link`` lives once: after a lost connection the appliance makes a new one, with a new paho client, so
that nothing of the earlier connection is sent again. Both families connect with a clean session and keep
nothing for later.

paho runs on the event loop without a thread of its own: ``loop_read`` and ``loop_write`` when the socket is
ready, ``loop_misc`` once a second for the keepalive. Its ``connect`` blocks and runs in a thread. What
happens goes into the appliance's queue; paho's callbacks do nothing else, since paho handles a packet
again when a callback raises.

The plug is always pulled, never put down: the socket goes without a DISCONNECT packet, which makes the
broker publish the will (MQTT 3.1.1 section 3.1.2.5). That is how real appliances leave: they lose power,
or boot.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from paho.mqtt.client import (
    Client,
    ConnectFlags,
    DisconnectFlags,
    MQTTMessage,
    MQTTv5,
    MQTTv311,
)
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from firmware_sim.firmware import Heard, Said, Subscription, Will

if TYPE_CHECKING:
    from paho.mqtt.client import SocketLike  # paho has it for type checkers only

# How long TCP and then the broker's CONNACK may take.
_PATIENCE: Final = timedelta(seconds=5)
_MISC_EVERY: Final = timedelta(seconds=1)
# What is read after the plug is pulled, so that the last words arrive before the socket goes.
_LAST_READS: Final = 100


@dataclass(frozen=True, slots=True)
class Broker:
    """Where the broker listens."""

    host: str
    port: int

    def seen_from(self) -> str:
        """The address from which it is reached; a loopback one where it is not."""
        try:
            [family, kind, *_, there] = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_DGRAM)[0]
            with socket.socket(family, kind) as probe:
                # Nothing is sent: connecting chooses the way.
                probe.connect(there)
                return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """What an appliance puts into CONNECT.

    Attributes:
        client_id: as the family makes it.
        keepalive: as the family has it.
        will: the last will.
        username: None for none.
        password: None for none.
        mqtt5: MQTT 5 instead of 3.1.1. No appliance of these families speaks it; it is for runs that
            want to see the expiry of what they are sent.
    """

    client_id: str
    keepalive: timedelta
    will: Will
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    mqtt5: bool = False


@dataclass(frozen=True, slots=True)
class Connected:
    """The broker took the connection."""


@dataclass(frozen=True, slots=True)
class Granted:
    """The broker answered the subscriptions; ``refused`` are those that it did not grant."""

    refused: tuple[str, ...]


LinkEvent = Connected | Granted | Heard


class Link:
    """See the module's docstring.

    Args:
        broker: where to.
        login: as whom.
        tell: where events go; called on the event loop and never raises.
    """

    def __init__(self, broker: Broker, login: Login, tell: Callable[[LinkEvent], None]) -> None:
        self._broker = broker
        self._login = login
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._gone = asyncio.Event()
        self._connected = False
        self._pulled = False
        self._why = ""
        self._asked: dict[int, Sequence[Subscription]] = {}
        self._acknowledge: dict[int, Callable[[], None]] = {}
        self._client = self._made_client()

    @property
    def connected(self) -> bool:
        """Whether the broker has taken the connection and it still stands."""
        return self._connected and not self._gone.is_set()

    async def live(self) -> str:
        """Connect, and serve until the connection is gone.

        Returns:
            Why it is gone, or did not come to be.
        """
        try:
            why = await self._connect()
            if why:
                return why
            begun = self._loop.time()
            while not self._gone.is_set():
                try:
                    async with asyncio.timeout(_MISC_EVERY.total_seconds()):
                        await self._gone.wait()
                except TimeoutError:
                    self._client.loop_misc()
                    if not self._connected and self._loop.time() - begun > _PATIENCE.total_seconds():
                        self.pull_plug("no CONNACK")
            return self._why
        finally:
            self.pull_plug("unplugged")

    def say(self, message: Said, acknowledged: Callable[[], None] | None = None) -> bool:
        """Hand a message to the socket.

        Args:
            message: what.
            acknowledged: called when its PUBACK comes.

        Returns:
            Whether it was handed over; False when the connection does not stand.

        Raises:
            ValueError: no broker would take it (an empty topic, a wildcard).
        """
        if not self.connected:
            return False
        info = self._client.publish(message.topic, message.payload, message.qos, message.retain)
        if acknowledged is not None and message.qos > 0:
            self._acknowledge[info.mid] = acknowledged
        return info.rc == MQTTErrorCode.MQTT_ERR_SUCCESS

    def subscribe(self, wanted: Sequence[Subscription]) -> None:
        """Ask for messages; ``Granted`` tells the answer."""
        _, mid = self._client.subscribe([(entry.filter, entry.qos) for entry in wanted])
        if mid is not None:
            self._asked[mid] = wanted

    def pull_plug(self, why: str) -> None:
        """Close the socket without a word to the broker; what was said before still leaves."""
        plug = self._client.socket()
        if plug is None or self._pulled:
            return
        self._pulled, self._why = True, why
        self._client.loop_write()
        self._unwatch(plug)
        if isinstance(plug, socket.socket):
            with suppress(OSError):  # the other side was faster
                plug.shutdown(socket.SHUT_RDWR)
        for _ in range(_LAST_READS):
            if self._client.socket() is None:
                break
            self._client.loop_read()
        plug.close()
        self._gone.set()

    def _made_client(self) -> Client:
        login = self._login
        client = Client(
            CallbackAPIVersion.VERSION2,
            login.client_id,
            clean_session=None if login.mqtt5 else True,
            protocol=MQTTv5 if login.mqtt5 else MQTTv311,
        )
        client.connect_timeout = _PATIENCE.total_seconds()
        client.max_inflight_messages_set(0)  # no window of paho's own: a burst keeps its own
        client.will_set(login.will.topic, login.will.payload, login.will.qos, login.will.retain)
        if login.username is not None:
            client.username_pw_set(login.username, login.password)
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_subscribe = self._on_subscribe
        client.on_publish = self._on_publish
        client.on_message = self._on_message
        client.on_socket_close = self._on_close
        client.on_socket_register_write = self._on_write_wanted
        return client

    async def _connect(self) -> str:
        keepalive = int(self._login.keepalive.total_seconds())
        connecting = self._loop.run_in_executor(
            None, self._client.connect, self._broker.host, self._broker.port, keepalive
        )
        try:
            await asyncio.shield(connecting)
        except OSError as why:
            return why.strerror or str(why)
        except asyncio.CancelledError:
            # The thread cannot be stopped; its socket has to be closed when it comes.
            await asyncio.gather(connecting, return_exceptions=True)
            raise
        plug = self._client.socket()
        if plug is None:
            return "closed at once"
        if isinstance(plug, socket.socket):
            # Small messages would wait for the acknowledgement of the one before (Nagle).
            plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._loop.add_reader(plug.fileno(), self._client.loop_read)
        return ""

    def _on_close(self, _client: Client, _userdata: object, plug: "SocketLike") -> None:
        # Before the descriptor is closed, and its number given to somebody else.
        self._unwatch(plug)

    def _unwatch(self, plug: "SocketLike") -> None:
        self._loop.remove_reader(plug.fileno())
        self._loop.remove_writer(plug.fileno())

    def _on_write_wanted(self, _client: Client, _userdata: object, _plug: "SocketLike") -> None:
        # Called from the connecting thread too.
        self._loop.call_soon_threadsafe(self._watch_writable)

    def _watch_writable(self) -> None:
        plug = self._client.socket()
        if plug is not None and not self._pulled:
            self._loop.add_writer(plug.fileno(), self._write)

    def _write(self) -> None:
        plug = self._client.socket()
        self._client.loop_write()
        if plug is not None and plug.fileno() >= 0 and not self._client.want_write():
            self._loop.remove_writer(plug.fileno())

    def _on_connect(
        self,
        _client: Client,
        _userdata: object,
        _flags: ConnectFlags,
        reason: ReasonCode,
        _properties: Properties | None,
    ) -> None:
        if reason.is_failure:
            self._why = f"refused: {reason}"
            return
        self._connected = True
        self._tell(Connected())

    def _on_disconnect(
        self,
        _client: Client,
        _userdata: object,
        _flags: DisconnectFlags,
        reason: ReasonCode,
        _properties: Properties | None,
    ) -> None:
        self._why = self._why or str(reason)
        self._gone.set()

    def _on_subscribe(
        self,
        _client: Client,
        _userdata: object,
        mid: int,
        reasons: list[ReasonCode],
        _properties: Properties | None,
    ) -> None:
        asked = self._asked.pop(mid, ())
        refused = [entry.filter for entry, reason in zip(asked, reasons, strict=False) if reason.is_failure]
        self._tell(Granted(tuple(refused)))

    def _on_publish(
        self,
        _client: Client,
        _userdata: object,
        mid: int,
        _reason: ReasonCode,
        _properties: Properties | None,
    ) -> None:
        acknowledged = self._acknowledge.pop(mid, None)
        if acknowledged is not None:
            acknowledged()

    def _on_message(self, _client: Client, _userdata: object, message: MQTTMessage) -> None:
        if self._pulled:
            return
        properties = message.properties
        # Properties sets what it received as attributes; json() is the one way to ask without guessing.
        carried = {} if properties is None else properties.json()  # type: ignore[no-untyped-call]  # paho's
        self._tell(
            Heard(
                topic=message.topic,
                payload=bytes(message.payload),
                qos=message.qos,
                retain=message.retain,
                dup=message.dup,
                expiry=carried.get("MessageExpiryInterval"),
            )
        )
