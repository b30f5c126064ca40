"""The bytes of a connection, cut into MQTT control packets; and the one packet that we read ourselves.

    64 KiB from the socket ──feed──> Splitter ──cut──> whole packets ──> PUBLISH: ``publish_of``
                                                                          the rest: paho

paho reads a packet with three or more system calls and builds a table of all properties for each:
65 microseconds for a message, 15,000 a second. Read in large pieces and decoded here it is 2, and the
hub has to do more with a message than receive it (SPEC Q1, H7).

Pure: bytes in, values out. Whatever the bytes are, the answer is packets or a ``LinkError``.
"""

from typing import Final

from edgeagent.adapters.mqtt.poison import UnreadableError
from edgeagent.ports.links import LinkError

PUBLISH: Final = 3
"""Type of the packet, the upper half of its first byte (MQTT 5 section 2.1.2)."""
PUBACK: Final = 4

_QOS: Final = 0x06
_QOS_1: Final = 0x02
_MORE: Final = 0x80
_SHORTEST: Final = 2

Packet = tuple[bytes, int]
"""A whole control packet, and where in it the fixed header ends."""


class Splitter:
    """What has come over a connection and is not yet handled.

    Args:
        largest: bytes of the largest packet that we told the broker to send (Maximum Packet Size).
    """

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._data = b""
        self._at = 0
        # The beginning of a packet whose rest has not come. It grows in place, so that a large packet
        # in small pieces is not copied again for each of them.
        self._begun = bytearray()
        self._needed = 0

    @property
    def more(self) -> bool:
        """Whether ``cut`` has left something behind that may be a whole packet."""
        return self._at < len(self._data)

    def feed(self, data: bytes) -> None:
        """Take what came from the socket."""
        if self.more:
            data = self._data[self._at :] + data
        elif self._begun:
            self._begun += data
            if len(self._begun) < self._needed:
                return
            data = bytes(self._begun)
            self._begun.clear()
        self._data, self._at = data, 0

    def cut(self, most: int) -> list[Packet]:
        """Up to ``most`` whole packets, in order; what is behind them and broken is told the next time.

        Raises:
            LinkError: no packet begins like this, or it is larger than allowed.
        """
        packets: list[Packet] = []
        try:
            self._cut(most, packets)
        except LinkError:
            # Its place is kept. A welcome that came in the same piece still counts, and so do messages.
            if not packets:
                raise
        return packets

    def _cut(self, most: int, packets: list[Packet]) -> None:
        data, at, end = self._data, self._at, len(self._data)
        needed = _SHORTEST
        while len(packets) < most and end - at >= _SHORTEST:
            length, start = data[at + 1], at + 2
            if length & _MORE:
                length, start = _long_length(data, at + 1)
                if not start:
                    needed = end - at + 1
                    break
            stop = start + length
            if stop - at > self._largest:
                raise _broken(f"a packet of {stop - at} bytes, where at most {self._largest} are taken")
            if stop > end:
                needed = stop - at
                break
            packets.append((data[at:stop], start - at))
            self._at = at = stop
        if at < end and len(packets) < most:
            self._begun += data[at:]
            self._needed = needed
            at = end
        self._data, self._at = (data, at) if at < end else (b"", 0)


def publish_of(packet: bytes, start: int) -> tuple[str, bytes, int]:
    """Decode a PUBLISH (MQTT 5 section 3.3): topic, payload, and packet id (0 with QoS 0).

    A topic that is not UTF-8 comes with replacement characters, so that it matches nothing that is
    known and is acknowledged like any other: cutting the connection would bring the same message again
    and again. Properties are passed over; we ask for none, and topic aliases are off by default.

    Raises:
        LinkError: its parts do not fit together, or it is QoS 2, which we never subscribe to.
    """
    qos = packet[0] & _QOS
    if qos > _QOS_1:
        raise _broken("a message of QoS 2, which nobody asked for")
    packet_id = 0
    try:
        after_topic = at = start + 2 + (packet[start] << 8 | packet[start + 1])
        if qos:
            packet_id = packet[at] << 8 | packet[at + 1]
            at += 2
        properties = packet[at]
        at += 1
        if properties & _MORE:
            properties, at = _long_length(packet, at - 1)
    except IndexError:
        raise _broken("a message that ends within its header") from None
    at += properties
    if not 0 < at <= len(packet) or (qos and not packet_id):
        raise _broken("a message whose header does not hold together")
    return packet[start + 2 : after_topic].decode(errors="replace"), packet[at:], packet_id


def _long_length(data: bytes, at: int) -> tuple[int, int]:
    """Read a variable byte integer (MQTT 5 section 1.5.5).

    Returns:
        Its value and where it ends; (0, 0) when its end has not come.

    Raises:
        LinkError: it is longer than four bytes.
    """
    value = 0
    for place in range(4):
        if at + place >= len(data):
            return 0, 0
        byte = data[at + place]
        value |= (byte & 0x7F) << 7 * place
        if not byte & _MORE:
            return value, at + place + 1
    raise _broken("a length of more than four bytes")


def _broken(what: str) -> LinkError:
    return UnreadableError(f"the broker sent {what}")
