"""paho's client, with the reading of messages and the writing of acknowledgements taken over.

    socket ──one recv──> Splitter ─┬─ PUBLISH ──> ``messages``, as many at once as have come
                                   ├─ PUBACK ───> ``answered``, then paho
                                   └─ the rest ─> paho, through ``_sock_recv``

paho goes on to own the connection: it encodes, handles CONNACK, SUBACK, DISCONNECT and pings, and
writes. Four protected names of it are relied on: ``_create_socket``, ``_sock_recv``, ``_sock_send`` and
``_packet_queue``; ``pyproject.toml`` pins the version, ``tests/adapters/test_mqtt_wire.py`` holds the
behaviour.

A wire lives as long as its connection: paho sends unanswered messages again after a reconnect, and a
command must never be sent twice or late.
"""

import socket
import ssl
import struct
from collections.abc import Callable, Sequence
from typing import Final

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MessageType, MQTTProtocolVersion
from typing_extensions import override

from edgeagent.adapters.mqtt.framing import PUBACK, PUBLISH, Packet, Splitter
from edgeagent.adapters.mqtt.poison import UnreadableError
from edgeagent.adapters.mqtt.words import SUCCESS
from edgeagent.ports.links import LinkError, Trouble

_CHUNK: Final = 64 * 1024
# A PUBACK without reason code (MQTT 5 section 3.4.2.1) as one big-endian number, but for the packet id.
_BARE_PUBACK: Final = 0x4002_0000
_PACKET_ID: Final = 2


class Wire(Client):
    """One connection's client.

    Args:
        client_id: who we are to the broker.
        largest: bytes of the largest packet to take.
        messages: takes the PUBLISH packets of one read, in order.
        answered: takes packet id and reason code of each PUBACK.

    Attributes:
        last_words: what the other side had said when sending failed; None when it said nothing.
    """

    def __init__(
        self,
        client_id: str,
        largest: int,
        messages: Callable[[Sequence[Packet]], None],
        answered: Callable[[int, int], None],
    ) -> None:
        self._splitter = Splitter(largest)
        self._messages = messages
        self._answered = answered
        self._for_paho = b""
        self._dialled: socket.socket | None = None
        self.last_words: LinkError | None = None
        super().__init__(
            CallbackAPIVersion.VERSION2,
            client_id,
            protocol=MQTTProtocolVersion.MQTTv5,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        # Unlimited: how many may be on their way is counted by whoever publishes, and refused there.
        self.max_inflight_messages = 0

    def hand_socket(self, dialled: socket.socket) -> None:
        """Give the connected socket that ``connect`` is to use."""
        self._dialled = dialled

    def pump(self, most: int) -> bool:
        """Read once from the socket and handle at most ``most`` packets.

        Returns:
            Whether more waits where no readable event would tell of it.

        Raises:
            LinkError: the connection is over, or what came is no MQTT.
        """
        if not self._splitter.more:
            data = self._receive()
            if not data:
                return False
            self._splitter.feed(data)
        run: list[Packet] = []
        for packet, start in self._splitter.cut(most):
            kind = packet[0] >> 4
            if kind == PUBLISH:
                run.append((packet, start))
                continue
            if run:
                self._messages(run)
                run = []
            self._hand_over(packet, start, kind)
            if self.socket() is None:
                return False
        if run:
            self._messages(run)
        return self._splitter.more or self._tls_pending()

    def send_pubacks(self, packet_ids: Sequence[int]) -> None:
        """Queue the acknowledgements of many messages as one piece, to leave in one system call."""
        acks = struct.pack(f"!{len(packet_ids)}I", *(_BARE_PUBACK | packet_id for packet_id in packet_ids))
        self._packet_queue(MessageType.PUBACK, acks, 0, 1)

    def _receive(self) -> bytes:
        """What the socket has, empty when that is nothing."""
        try:
            data = super()._sock_recv(_CHUNK)
        except BlockingIOError:
            return b""
        except ssl.SSLError as why:  # with TLS 1.3 our certificate is judged after the handshake
            raise LinkError(Trouble.TLS, f"TLS failed: {why.reason or why}") from why
        except OSError as why:
            raise LinkError(Trouble.UNREACHABLE, f"connection lost: {why.strerror or why}") from why
        if not data:
            raise LinkError(Trouble.UNREACHABLE, "closed by the broker")
        return data

    def _hand_over(self, packet: bytes, start: int, kind: int) -> None:
        """Let paho handle a packet of its own."""
        if kind == PUBACK:
            body = packet[start:]
            if len(body) < _PACKET_ID:
                raise UnreadableError("the broker sent a PUBACK without packet id")
            self._answered(int.from_bytes(body[:_PACKET_ID]), body[2] if len(body) > _PACKET_ID else SUCCESS)
            # paho takes a code that it does not know for a protocol error; mosquitto answers what is
            # too large for it with 0x95, which the standard has not for PUBACK. A bare one will do.
            packet = struct.pack("!I", _BARE_PUBACK | int.from_bytes(body[:_PACKET_ID]))
        self._for_paho = packet
        self.loop_read()

    def _tls_pending(self) -> bool:
        """Whether TLS holds decrypted bytes, of which the socket knows nothing."""
        dialled = self._dialled
        return isinstance(dialled, ssl.SSLSocket) and dialled.fileno() >= 0 and dialled.pending() > 0

    @override
    def _sock_recv(self, bufsize: int) -> bytes:
        """Serve paho's reader from the one packet that is its own."""
        if not self._for_paho:
            raise BlockingIOError
        taken, self._for_paho = self._for_paho[:bufsize], self._for_paho[bufsize:]
        return taken

    @override
    def _sock_send(self, buf: bytes | bytearray) -> int:
        """Send; when that fails, listen first to why. paho itself only knows that the connection is lost."""
        try:
            return super()._sock_send(buf)
        except BlockingIOError:
            raise
        except OSError:
            try:
                self._receive()
            except LinkError as why:
                self.last_words = why
            raise

    @override
    def _create_socket(self) -> socket.socket:
        if self._dialled is None:
            raise ConnectionError("no socket was handed over")
        return self._dialled
