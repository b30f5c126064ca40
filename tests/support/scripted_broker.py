"""A peer that speaks MQTT 5 byte by byte, for what a real broker cannot be made to do.

    async def kicks(peer: Peer) -> None:
        await peer.greets()
        peer.closes()

    async with ScriptedBroker(kicks) as broker:
        ...  # the agent connects to broker.host, broker.port

The n-th connection gets the n-th script; the last script serves all further ones. Numbers are those of
MQTT 5: packet types in section 2.1.2, reason codes in 2.4.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

CONNECT: Final = 1
PUBLISH: Final = 3
PUBACK: Final = 4
SUBSCRIBE: Final = 8
UNSUBSCRIBE: Final = 10
PINGREQ: Final = 12
DISCONNECT: Final = 14

_STINGY: Final = 256
_GENEROUS: Final = 64 * 1024
_NO_LINGER: Final = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class Packet:
    """A control packet that the agent has sent.

    Attributes:
        kind: its type.
        flags: the lower half of its first byte.
        body: what follows the fixed header.
    """

    kind: int
    flags: int
    body: bytes

    @property
    def packet_id(self) -> int:
        """Where it has one: after the topic in a PUBLISH, first in the others."""
        at = 2 + int.from_bytes(self.body[:2]) if self.kind == PUBLISH else 0
        return int.from_bytes(self.body[at : at + 2])

    @property
    def payload(self) -> bytes:
        """Of a PUBLISH with QoS 1, after its properties of less than 128 bytes."""
        at = 2 + int.from_bytes(self.body[:2]) + 2
        return self.body[at + 1 + self.body[at] :]


def packet(kind: int, body: bytes, *, flags: int = 0) -> bytes:
    """A control packet with its fixed header."""
    length = bytearray()
    rest = len(body)
    while True:
        rest, byte = divmod(rest, 128)
        length.append(byte | (0x80 if rest else 0))
        if not rest:
            return bytes([kind << 4 | flags]) + bytes(length) + body


def connack(code: int = 0, *, present: bool = False, properties: bytes = b"") -> bytes:
    """An answer to CONNECT."""
    return packet(2, bytes([present, code, len(properties)]) + properties)


def publish(
    topic: str | bytes,
    payload: bytes,
    packet_id: int = 0,
    *,
    qos: int = 1,
    dup: bool = False,
    retain: bool = False,
    properties: bytes = b"",
) -> bytes:
    """A message."""
    name = topic.encode() if isinstance(topic, str) else topic
    number = packet_id.to_bytes(2) if qos else b""
    body = len(name).to_bytes(2) + name + number + bytes([len(properties)]) + properties + payload
    return packet(PUBLISH, body, flags=dup << 3 | qos << 1 | retain)


def puback(packet_id: int, code: int = 0) -> bytes:
    """An answer to a message."""
    return packet(PUBACK, packet_id.to_bytes(2) + bytes([code, 0]))


def suback(packet_id: int, codes: Sequence[int]) -> bytes:
    """An answer to SUBSCRIBE."""
    return packet(9, packet_id.to_bytes(2) + b"\0" + bytes(codes))


def unsuback(packet_id: int, codes: Sequence[int]) -> bytes:
    """An answer to UNSUBSCRIBE."""
    return packet(11, packet_id.to_bytes(2) + b"\0" + bytes(codes))


def disconnect(code: int) -> bytes:
    """The broker hangs up, with a reason."""
    return packet(DISCONNECT, bytes([code, 0]))


def filters_of(subscribe: Packet) -> list[tuple[str, int]]:
    """The topic filters of a SUBSCRIBE, each with its options byte."""
    found = []
    at = 3  # packet id, and no properties
    while at < len(subscribe.body):
        size = int.from_bytes(subscribe.body[at : at + 2])
        name = subscribe.body[at + 2 : at + 2 + size].decode()
        found.append((name, subscribe.body[at + 2 + size]))
        at += 3 + size
    return found


class Peer:
    """The agent's connection, seen from the broker.

    Attributes:
        seen: the packets that were read, oldest first.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.seen: list[Packet] = []

    @property
    def client_id(self) -> str:
        """Who has connected, as far as that has been read."""
        if not self.seen:
            return ""
        body = self.seen[0].body
        at = 10 + 1 + body[10]  # protocol, flags and keepalive; properties of less than 128 bytes
        return body[at + 2 : at + 2 + int.from_bytes(body[at : at + 2])].decode()

    def seen_of(self, kind: int) -> list[Packet]:
        """What of a kind has been read, oldest first."""
        return [packet for packet in self.seen if packet.kind == kind]

    async def reads(self) -> Packet:
        """The agent's next packet."""
        first = (await self._reader.readexactly(1))[0]
        length, shift = 0, 0
        while True:
            byte = (await self._reader.readexactly(1))[0]
            length |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                break
        found = Packet(first >> 4, first & 15, await self._reader.readexactly(length))
        self.seen.append(found)
        return found

    async def sends(self, *packets: bytes) -> None:
        """Send bytes as they are."""
        self._writer.write(b"".join(packets))
        await self._writer.drain()

    async def greets(self, *, present: bool = False, properties: bytes = b"") -> Packet:
        """Read CONNECT and welcome the agent; its CONNECT."""
        found = await self.reads()
        await self.sends(connack(present=present, properties=properties))
        return found

    async def answers(self, until: int | None = None) -> Packet:
        """Answer SUBSCRIBE, UNSUBSCRIBE and PINGREQ until a packet of kind ``until`` comes, or the end."""
        while True:
            found = await self.reads()
            if found.kind == until:
                return found
            if found.kind == SUBSCRIBE:
                await self.grants(found)
            elif found.kind == UNSUBSCRIBE:
                await self.sends(unsuback(found.packet_id, [0]))
            elif found.kind == PINGREQ:
                await self.sends(packet(13, b""))

    async def grants(self, subscribe: Packet, code: int = 1) -> None:
        """Answer a SUBSCRIBE, all filters alike; by default with QoS 1."""
        await self.sends(suback(subscribe.packet_id, [code] * len(filters_of(subscribe))))

    def closes(self) -> None:
        """Close the connection."""
        self._writer.close()

    def resets(self) -> None:
        """Reset the connection."""
        with contextlib.suppress(OSError):
            self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self._writer.transport.abort()


Script = Callable[[Peer], Awaitable[object]]
"""What the broker does with one connection, from its first byte; it is closed afterwards."""


class ScriptedBroker:
    """A listener that follows scripts.

    Args:
        scripts: what it does with the first connection, the second ...
        stingy: whether it takes next to nothing off the network before a script reads it.

    Attributes:
        peers: the connections so far.
        ended: how many of them are over.
    """

    host: Final = "127.0.0.1"

    def __init__(self, *scripts: Script, stingy: bool = False) -> None:
        self._scripts = scripts
        self._stingy = stingy
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.peers: list[Peer] = []
        self.ended = 0

    async def __aenter__(self) -> Self:
        listener = socket.create_server((self.host, 0))
        if self._stingy:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        limit = _STINGY if self._stingy else _GENEROUS
        self._server = await asyncio.start_server(self._serve, sock=listener, limit=limit)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, why: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        peer = Peer(reader, writer)
        script = self._scripts[min(len(self.peers), len(self._scripts) - 1)]
        self.peers.append(peer)
        try:
            await script(peer)
        except (OSError, asyncio.IncompleteReadError):
            pass  # the agent has hung up
        except asyncio.CancelledError:
            pass  # the test is over; asyncio.streams would log it as an error
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            self._tasks.discard(task)
            self.ended += 1
