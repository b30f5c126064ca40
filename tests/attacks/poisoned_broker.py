"""A broker that holds a message which no broker may send, in the way of a real one.

    with PoisonedBroker(venue.broker, port) as broker:
        broker.poison("telemetry", packet)   # held for that session, sent over each connection of it

It passes everything on between the agent and mosquitto. A session's poison comes right behind CONNACK, where
a broker sends what it has kept, and is forgotten when a connection begins with a clean start, as mosquitto
forgets what it has kept (MQTT 5 section 3.1.2.4).
"""

import contextlib
import socket
import threading
from types import TracebackType
from typing import Final, Self

from tests.support.brokers import Mosquitto

_CHUNK: Final = 64 * 1024
_CLEAN_START: Final = 2
_DEADLINE: Final = 60.0


class PoisonedBroker:
    """See the module's docstring. It listens while it is entered.

    Args:
        broker: the real one.
        port: where to listen.

    Attributes:
        poisoned: over how many connections poison was sent.
    """

    def __init__(self, broker: Mosquitto, port: int) -> None:
        self._broker = broker
        self._listener = socket.create_server(("127.0.0.1", port))
        self._lock = threading.Lock()
        self._held: dict[str, bytes] = {}
        self._open: dict[str, socket.socket] = {}
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self.poisoned = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, why: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Closing alone does not wake a thread that waits in accept (shutdown does, on Linux).
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(_DEADLINE)

    def poison(self, session: str, packet: bytes) -> None:
        """Hold a packet for a session, and cut its connection, so that it is resumed."""
        with self._lock:
            [name] = [name for name in self._open if name.endswith(session)]
            self._held[name] = packet
            self._open[name].shutdown(socket.SHUT_RDWR)

    def holds(self, session: str) -> bool:
        """Whether a session still has poison."""
        with self._lock:
            return any(name.endswith(session) for name in self._held)

    def _accept(self) -> None:
        while True:
            try:
                agent, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(agent,), daemon=True).start()

    def _serve(self, agent: socket.socket) -> None:
        with (
            contextlib.suppress(OSError),
            agent,
            socket.create_connection((self._broker.host, self._broker.port)) as broker,
        ):
            hello = _packet(agent)
            broker.sendall(hello)
            agent.sendall(_packet(broker) + self._poison_of(hello, agent))
            back = threading.Thread(target=_pass, args=(broker, agent), daemon=True)
            back.start()
            _pass(agent, broker)
            back.join(_DEADLINE)

    def _poison_of(self, hello: bytes, agent: socket.socket) -> bytes:
        """What a broker would have kept for whoever says this hello (MQTT 5 section 3.1)."""
        at = hello.index(b"MQTT") + len(b"MQTT") + 1
        flags = hello[at]
        name_at = at + 3 + 1 + hello[at + 3]  # keepalive, then properties of less than 128 bytes
        length = int.from_bytes(hello[name_at : name_at + 2])
        name = hello[name_at + 2 : name_at + 2 + length].decode()
        with self._lock:
            self._open[name] = agent
            if flags & _CLEAN_START:
                self._held.pop(name, None)
            poison = self._held.get(name, b"")
            self.poisoned += bool(poison)
        return poison


def _packet(sender: socket.socket) -> bytes:
    """One whole control packet."""
    head = bytearray(_exactly(sender, 2))
    while head[-1] & 0x80:
        head += _exactly(sender, 1)
    length = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(head[1:]))
    return bytes(head) + _exactly(sender, length)


def _exactly(sender: socket.socket, length: int) -> bytes:
    found = b""
    while len(found) < length:
        piece = sender.recv(length - len(found))
        if not piece:
            raise ConnectionResetError
        found += piece
    return found


def _pass(sender: socket.socket, receiver: socket.socket) -> None:
    """Pass everything on; the end of one direction ends both."""
    with contextlib.suppress(OSError):
        while data := sender.recv(_CHUNK):
            receiver.sendall(data)
    for end in (sender, receiver):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
