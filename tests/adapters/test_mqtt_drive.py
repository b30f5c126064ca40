"""How the loop reads one connection: a bounded piece at a time, and nothing is forgotten in memory.

The broker is the other end of a socket pair, so that what is in the socket and when is known.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

import pytest

from edgeagent.adapters.mqtt.drive import Drive
from edgeagent.adapters.mqtt.framing import Packet
from edgeagent.adapters.mqtt.wire import Wire
from edgeagent.ports.links import LinkError
from tests.support.scripted_broker import connack, publish
from tests.support.waiting import eventually

PER_TURN = 500


@dataclass
class Bench:
    """A wire on the loop, the broker's end, and what has come in each turn of the loop."""

    broker: socket.socket
    wire: Wire = field(init=False)
    drive: Drive = field(init=False)
    does: Callable[[], None] = lambda: None
    came: int = 0
    turns: list[int] = field(default_factory=list)
    failures: list[LinkError] = field(default_factory=list)

    def starts(self, agent: socket.socket) -> None:
        self.wire = Wire("agent", 100_000, self._messages, lambda *_: None)
        self.wire.hand_socket(agent)
        self.drive = Drive(self.wire, agent, self._failed)
        self.wire.connect("broker", 1883, 30, clean_start=False)
        self.drive.flush()

    async def watches(self) -> None:
        """Note, turn by turn, how many messages have come."""
        before = 0
        while True:
            self.turns.append(self.came - before)
            before = self.came
            await asyncio.sleep(0)

    def _messages(self, run: Sequence[Packet]) -> None:
        self.came += len(run)
        self.does()

    def _failed(self, why: LinkError) -> None:
        self.failures.append(why)
        self.drive.stop(abort=False)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1024 * 1024)
        bench = Bench(theirs)
        bench.starts(ours)
        assert theirs.recv(1000)
        theirs.sendall(connack())
        await eventually(bench.wire.is_connected)
        yield bench
        bench.drive.stop(abort=False)


def crumbs(count: int) -> bytes:
    """Messages so small that one read takes thousands."""
    return b"".join(publish("t", b"", n + 1) for n in range(count))


async def test_what_one_read_has_brought_is_handled_over_several_turns(bench: Bench) -> None:
    task = asyncio.create_task(bench.watches())
    bench.broker.sendall(crumbs(2100))
    await eventually(lambda: sum(bench.turns) == 2100)
    task.cancel()

    assert [count for count in bench.turns if count] == [PER_TURN] * 4 + [100]


async def test_what_comes_meanwhile_does_not_make_a_turn_longer(bench: Bench) -> None:
    task = asyncio.create_task(bench.watches())
    for _ in range(4):
        bench.broker.sendall(crumbs(2000))
        await asyncio.sleep(0)
    await eventually(lambda: bench.came == 8000)
    task.cancel()

    assert max(bench.turns) <= 2 * PER_TURN  # what was left, and one more read


async def test_what_is_in_memory_when_the_reader_pauses_is_handled_when_it_resumes(bench: Bench) -> None:
    """No readable event tells of it: the socket is empty by then."""
    bench.does = bench.drive.pause
    bench.broker.sendall(crumbs(1000))
    await eventually(lambda: bench.came == PER_TURN)
    for _ in range(10):
        await asyncio.sleep(0)
    assert bench.came == PER_TURN

    bench.drive.resume()

    await eventually(lambda: bench.came == 1000)


async def test_what_is_left_when_it_is_stopped_is_not_handled_any_more(bench: Bench) -> None:
    bench.broker.sendall(crumbs(1000))
    await eventually(lambda: bench.came)

    bench.drive.stop(abort=False)
    after = bench.came
    for _ in range(10):
        await asyncio.sleep(0)

    assert bench.came == after
    assert bench.failures == []


async def test_the_end_of_the_connection_is_told_once(bench: Bench) -> None:
    bench.broker.sendall(crumbs(3))
    bench.broker.close()
    await eventually(lambda: bench.failures)

    assert bench.came == 3
    assert [str(why) for why in bench.failures] == ["closed by the broker"]


async def test_whatever_goes_wrong_inside_ends_the_connection_and_not_the_loop(bench: Bench) -> None:
    """The loop would call a reader that raised again and again, since the bytes are still there."""

    def explodes() -> None:
        raise RuntimeError("boom")

    bench.does = explodes
    bench.broker.sendall(crumbs(1))
    await eventually(lambda: bench.failures)

    assert "boom" in str(bench.failures[0])
    assert len(bench.failures) == 1
