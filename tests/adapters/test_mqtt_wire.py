"""What we rely on in paho, and what we have taken over from it; ``pyproject.toml`` pins the version by this.

The broker is the other end of a socket pair, so that each system call can be counted.
"""

import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from typing_extensions import Buffer, override

from edgeagent.adapters.mqtt.framing import Packet, publish_of
from edgeagent.adapters.mqtt.wire import Wire
from edgeagent.ports.links import LinkError
from tests.support.scripted_broker import connack, disconnect, packet, puback, publish, suback


class CountingSocket(socket.socket):
    """A socket that counts what is read from it and sent over it."""

    reads = 0
    writes = 0

    @override
    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        self.reads += 1
        return super().recv(bufsize, flags)

    @override
    def send(self, data: Buffer, flags: int = 0, /) -> int:
        self.writes += 1
        return super().send(data, flags)


@dataclass
class Bench:
    """A wire, the broker's end, and what the wire has told."""

    broker: socket.socket
    agent: CountingSocket
    told: list[str] = field(default_factory=list)
    runs: list[Sequence[Packet]] = field(default_factory=list)
    wire: Wire = field(init=False)

    def __post_init__(self) -> None:
        self.wire = Wire("agent", 100_000, self._messages, self._answered)
        self.wire.on_connect = lambda *_: self.told.append("connect")
        self.wire.on_subscribe = lambda *_: self.told.append("suback")
        self.wire.on_disconnect = lambda *_: self.told.append("disconnect")
        self.wire.on_socket_register_write = lambda *_: None
        self.wire.hand_socket(self.agent)

    def connects(self) -> bytes:
        """Say CONNECT and be welcomed; the CONNECT as it was sent."""
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho has none
        properties.ReceiveMaximum = 500
        self.wire.connect("broker", 1883, 30, clean_start=False, properties=properties)
        self.wire.loop_write()
        sent = self.broker.recv(1000)
        self.broker.sendall(connack())
        self.wire.pump(10)
        return sent

    def _messages(self, run: Sequence[Packet]) -> None:
        self.runs.append(run)
        self.told += [publish_of(*one)[1].decode() for one in run]

    def _answered(self, packet_id: int, code: int) -> None:
        self.told.append(f"puback {packet_id} {code:#x}")


@pytest.fixture
def bench() -> Iterator[Bench]:
    ours, theirs = socket.socketpair()
    agent = CountingSocket(fileno=ours.detach())
    with agent, theirs:
        yield Bench(theirs, agent)


def test_connect_keeps_the_session_and_bounds_what_is_in_flight(bench: Bench) -> None:
    sent = bench.connects()

    assert sent[2:9] == b"\0\4MQTT\5"
    assert sent[9] & 0x02 == 0  # Clean Start
    assert b"\x21\x01\xf4" in sent  # Receive Maximum 500
    assert bench.told == ["connect"]


@pytest.mark.requirement("Q1")
def test_many_messages_are_read_with_one_system_call_and_handed_over_at_once(bench: Bench) -> None:
    bench.connects()
    before = bench.agent.reads
    bench.broker.sendall(b"".join(publish("tele/1/data", b"%d" % n, n) for n in range(1, 301)))

    more = bench.wire.pump(500)

    assert not more
    assert bench.agent.reads == before + 1
    assert [len(run) for run in bench.runs] == [300]


def test_no_more_packets_are_handled_than_the_loop_has_time_for(bench: Bench) -> None:
    bench.connects()
    bench.broker.sendall(b"".join(publish("t", b"%d" % n, n) for n in range(1, 11)))

    first = bench.wire.pump(4)
    reads = bench.agent.reads
    rest = [bench.wire.pump(4), bench.wire.pump(4)]

    assert first
    assert rest == [True, False]
    assert bench.agent.reads == reads
    assert [len(run) for run in bench.runs] == [4, 4, 2]


@pytest.mark.requirement("Q1")
def test_paho_acknowledges_nothing_by_itself(bench: Bench) -> None:
    bench.connects()
    before = bench.agent.writes
    bench.broker.sendall(publish("t", b"1", 1))

    bench.wire.pump(10)
    bench.wire.loop_write()

    assert bench.agent.writes == before


@pytest.mark.requirement("Q1")
def test_the_acknowledgements_of_a_batch_leave_in_order_in_one_system_call(bench: Bench) -> None:
    bench.connects()
    before = bench.agent.writes

    bench.wire.send_pubacks([3, 1, 65_535])
    bench.wire.loop_write()

    assert bench.agent.writes == before + 1
    assert bench.broker.recv(100) == b"\x40\x02\x00\x03\x40\x02\x00\x01\x40\x02\xff\xff"


def test_acknowledgements_that_the_socket_does_not_take_at_once_leave_later_whole(bench: Bench) -> None:
    bench.connects()
    bench.agent.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    for _ in range(20):
        bench.wire.send_pubacks(range(1, 1001))
    bench.wire.loop_write()
    assert bench.wire.want_write()

    received = b""
    while len(received) < 20 * 4000:
        received += bench.broker.recv(4096)
        bench.wire.loop_write()

    assert received == 20 * b"".join(b"\x40\x02" + n.to_bytes(2) for n in range(1, 1001))
    assert not bench.wire.want_write()


def test_the_order_of_packets_is_kept_between_those_that_we_read_and_those_of_paho(bench: Bench) -> None:
    bench.connects()
    _, packet_id = bench.wire.subscribe("t", 1)
    assert packet_id is not None
    bench.broker.sendall(publish("t", b"before", 1) + suback(packet_id, [1]) + publish("t", b"after", 2))

    bench.wire.pump(10)

    assert bench.told == ["connect", "before", "suback", "after"]


@pytest.mark.parametrize("code", [0x00, 0x10, 0x80, 0x87, 0x95, 0xFF])
def test_a_puback_is_told_with_its_code_even_one_that_the_standard_has_not(bench: Bench, code: int) -> None:
    """Beyond its size limit mosquitto answers 0x95, at which paho alone hangs up, for ever."""
    bench.connects()
    sent = bench.wire.publish("cmnd", b"x", 1)
    bench.broker.sendall(puback(sent.mid, code))

    bench.wire.pump(10)

    assert bench.told == ["connect", f"puback {sent.mid} {code:#x}"]
    assert bench.wire.is_connected()
    assert sent.is_published()  # so paho keeps nothing that it might send again


def test_the_end_of_the_connection_is_told_as_an_error(bench: Bench) -> None:
    bench.connects()
    bench.broker.sendall(publish("t", b"whole", 1) + publish("t", b"half", 2)[:-1])
    bench.wire.pump(10)
    bench.broker.close()

    with pytest.raises(LinkError, match="closed by the broker"):
        bench.wire.pump(10)

    assert bench.told == ["connect", "whole"]


def test_a_disconnect_of_the_broker_is_pahos_to_tell(bench: Bench) -> None:
    bench.connects()
    bench.broker.sendall(disconnect(0x8E) + publish("t", b"after the end", 1))

    assert not bench.wire.pump(10)

    assert bench.told == ["connect", "disconnect"]


@pytest.mark.requirement("M6")
@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(packet(0, b""), id="type 0"),
        pytest.param(packet(15, b"\x00"), id="AUTH, which nobody asked for"),
        pytest.param(packet(9, b"\x00"), id="half a SUBACK"),
        pytest.param(suback(1, [0x42]), id="a SUBACK with a code that does not exist"),
        pytest.param(packet(14, b"\x42"), id="a DISCONNECT with a code that does not exist"),
        pytest.param(packet(13, b"\x00"), id="a PINGRESP with a body"),
    ],
)
def test_packets_that_paho_cannot_read_end_the_connection_and_raise_nothing(
    bench: Bench, sent: bytes
) -> None:
    bench.connects()
    bench.broker.sendall(sent + publish("t", b"after", 1))

    assert not bench.wire.pump(10)

    assert bench.told == ["connect", "disconnect"]


def test_a_puback_without_packet_id_is_told_as_an_error(bench: Bench) -> None:
    bench.connects()
    bench.broker.sendall(packet(4, b"\x00"))

    with pytest.raises(LinkError):
        bench.wire.pump(10)
