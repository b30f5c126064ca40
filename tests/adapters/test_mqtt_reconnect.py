"""Reconnect discipline: bounded, jittered, and never in need of a restart (SPEC E4, R8)."""

import asyncio
import random
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.adapters.mqtt.addresses import Address, resolve
from edgeagent.contracts.mqtt import LinkDown, LinkUp, Session, Subscription
from edgeagent.core.retry import BackoffRule
from edgeagent.ids import topic_filter
from tests.support.brokers import Mosquitto, free_port
from tests.support.clocks import ManualClock
from tests.support.ear import Ear, make_bus, running
from tests.support.proxy import Mode, Proxy
from tests.support.scripted_broker import (
    DISCONNECT,
    PINGREQ,
    Peer,
    Script,
    ScriptedBroker,
    connack,
    disconnect,
    packet,
)
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("E4", "R8")

RULE = BackoffRule(
    first=timedelta(seconds=1), longest=timedelta(seconds=60), stable_after=timedelta(seconds=60)
)
INSTANT = timedelta(milliseconds=100)


@dataclass
class Patience:
    """Lets the waits between attempts pass at once, and keeps their lengths.

    After ``most`` of them it waits for good.
    """

    clock: ManualClock
    most: int
    waits: list[timedelta] = field(default_factory=list)

    async def wait(self, length: timedelta) -> None:
        if len(self.waits) == self.most:
            await asyncio.Event().wait()
        self.waits.append(length)
        self.clock.passes(length)

    @property
    def spent(self) -> bool:
        return len(self.waits) == self.most


async def kicks(peer: Peer) -> None:
    """Welcome the agent and hang up at once."""
    await peer.greets()


async def serves(peer: Peer) -> None:
    """Be a broker."""
    await peer.greets()
    await peer.answers()


async def test_a_broker_that_kicks_after_each_connect_is_tried_with_growing_pauses() -> None:
    """Connecting works, so a client that counts only failed connects would try without end."""
    clock = ManualClock()
    patience = Patience(clock, most=24)
    chance = random.Random(7).random  # noqa: S311 - jitter, not a secret
    async with ScriptedBroker(kicks) as broker:
        bus = make_bus(broker.port, clock=clock, wait=patience.wait, chance=chance, backoff=RULE)
        async with running(bus):
            await eventually(lambda: patience.spent)

    # Both sessions wait, each 12 times: in the first minute of each there are few attempts.
    assert len(broker.peers) <= patience.most + 2
    assert sum(patience.waits, timedelta(0)) > 2 * timedelta(minutes=1)
    assert max(patience.waits) <= RULE.longest
    assert len(set(patience.waits)) == patience.most
    assert max(patience.waits[:4]) <= timedelta(seconds=2)
    assert bus.state(Session.CONTROL).attempts >= 11


async def test_failures_are_forgotten_once_a_connection_has_stood_for_a_while() -> None:
    clock = ManualClock()
    patience = Patience(clock, most=1000)

    def almost_one() -> float:
        return 0.999

    async with ScriptedBroker(*[kicks] * 12, serves) as broker:
        bus = make_bus(broker.port, clock=clock, wait=patience.wait, chance=almost_one, backoff=RULE)
        async with running(bus):
            await eventually(lambda: len(broker.peers) == 14)
            await eventually(lambda: all(bus.state(session).connected for session in Session))
            longest = max(patience.waits)
            before = len(patience.waits)

            clock.passes(RULE.stable_after)
            assert bus.state(Session.CONTROL).attempts == 0
            for peer in broker.peers[-2:]:
                peer.resets()
            await eventually(lambda: len(patience.waits) == before + 2)

    assert longest > timedelta(seconds=8)
    assert max(patience.waits[-2:]) < timedelta(seconds=1)


@pytest.mark.parametrize(
    ("code", "least"),
    [
        pytest.param(0x89, timedelta(seconds=10), id="busy"),
        pytest.param(0x9D, timedelta(seconds=60), id="moved"),
    ],
)
async def test_a_broker_that_asks_to_be_left_alone_is(code: int, least: timedelta) -> None:
    async def refuses(peer: Peer) -> None:
        await peer.reads()
        await peer.sends(connack(code))

    patience = Patience(ManualClock(), most=2)
    async with ScriptedBroker(refuses) as broker:
        bus = make_bus(broker.port, clock=patience.clock, wait=patience.wait, backoff=RULE)
        async with running(bus):
            await eventually(lambda: patience.spent)

    assert min(patience.waits) >= least


async def says_nothing(peer: Peer) -> None:
    """Take the CONNECT and be silent."""
    await peer.answers()


async def says_half(peer: Peer) -> None:
    """Send half a CONNACK and be silent."""
    await peer.reads()
    await peer.sends(connack()[:3])
    await peer.answers()


async def speaks_http(peer: Peer) -> None:
    """Be something else."""
    await peer.sends(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")


async def sends_noise(peer: Peer) -> None:
    """Send bytes that are no packets."""
    await peer.reads()
    await peer.sends(random.Random(1).randbytes(5000))  # noqa: S311 - noise


async def talks_too_early(peer: Peer) -> None:
    """Send a message in place of the welcome."""
    await peer.reads()
    await peer.sends(packet(3, b"\0\1a\0\1\0hello", flags=2))
    await peer.answers()


async def is_an_old_broker(peer: Peer) -> None:
    """Refuse MQTT 5 as a broker does that knows 3.1.1 only."""
    await peer.reads()
    await peer.sends(packet(2, b"\0\1"))


async def has_no_qos_1(peer: Peer) -> None:
    """Welcome the agent with Maximum QoS 0."""
    await peer.greets(properties=b"\x24\x00")
    await peer.answers()


async def does_not_answer_subscribe(peer: Peer) -> None:
    """Welcome the agent and be silent."""
    await peer.greets()
    while True:
        await peer.reads()


@pytest.mark.requirement("M6")
@pytest.mark.parametrize(
    ("script", "why"),
    [
        pytest.param(says_nothing, "no answer to CONNECT", id="silence"),
        pytest.param(says_half, "no answer to CONNECT", id="half a packet"),
        pytest.param(speaks_http, "", id="HTTP"),
        pytest.param(sends_noise, "", id="noise"),
        pytest.param(talks_too_early, "a message before CONNACK", id="out of order"),
        pytest.param(is_an_old_broker, "unsupported protocol version", id="MQTT 3.1.1"),
        pytest.param(has_no_qos_1, "no QoS 1", id="no QoS 1"),
        pytest.param(does_not_answer_subscribe, "no answer to SUBSCRIBE", id="no SUBACK"),
    ],
)
async def test_a_peer_that_is_no_fit_broker_is_told_and_tried_again(script: Script, why: str) -> None:
    async with ScriptedBroker(script, script, script, script, serves) as broker:
        bus = make_bus(broker.port, answer_timeout=INSTANT)
        await bus.subscribe([Subscription(topic_filter(session), session) for session in Session])
        async with running(bus):
            ear = Ear(bus)
            listening = asyncio.create_task(ear.sees_links(LinkUp))
            await eventually(lambda: bus.state(Session.CONTROL).attempts)
            told = bus.state(Session.CONTROL).why

            await listening

    assert why in told
    assert ear.downs(Session.CONTROL) == []  # what never was up does not go down


async def test_a_word_of_the_broker_at_the_end_is_what_is_told() -> None:
    async def takes_over(peer: Peer) -> None:
        await peer.greets()
        await peer.sends(disconnect(0x8E))

    async with ScriptedBroker(takes_over) as broker:
        bus = make_bus(broker.port)
        async with running(bus):
            await eventually(lambda: bus.state(Session.CONTROL).attempts)
            why = bus.state(Session.CONTROL).why

    assert "edgeagent-hub-1-control: are there two agents with one identity?" in why


class Addresses:
    """A resolver that a test can break."""

    def __init__(self, *hosts: tuple[str, int]) -> None:
        self.hosts = hosts
        self.asked = 0
        self.failures = 0
        self.hangs = threading.Event()
        self.hangs.set()

    def resolve(self, host: str, port: int) -> Sequence[Address]:
        self.asked += 1
        assert (host, port) == ("broker.test", 1883)
        assert self.hangs.wait(60)
        if self.asked <= self.failures:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return [address for name, number in self.hosts for address in resolve(name, number)]


async def test_a_name_that_nobody_knows_yet_is_asked_for_again() -> None:
    async with ScriptedBroker(serves) as broker:
        names = Addresses((broker.host, broker.port))
        names.failures = 6
        bus = make_bus(1883, host="broker.test", resolver=names.resolve)
        async with running(bus):
            await eventually(lambda: "Temporary failure" in bus.state(Session.CONTROL).why)
            await Ear(bus).sees_links(LinkUp)


async def test_a_name_server_that_does_not_answer_holds_up_nothing() -> None:
    async with ScriptedBroker(serves) as broker:
        names = Addresses((broker.host, broker.port))
        names.hangs.clear()
        bus = make_bus(1883, host="broker.test", resolver=names.resolve, connect_timeout=INSTANT)
        async with running(bus):
            await eventually(lambda: "no answer about the name" in bus.state(Session.CONTROL).why)
            names.hangs.set()
            await Ear(bus).sees_links(LinkUp)


async def test_held_while_it_dials_it_says_nothing_to_who_answers() -> None:
    async with ScriptedBroker(serves) as broker:
        names = Addresses((broker.host, broker.port))
        names.hangs.clear()
        bus = make_bus(1883, host="broker.test", resolver=names.resolve)
        async with running(bus):
            await eventually(lambda: names.asked == 2)

            bus.hold(held=True)
            names.hangs.set()
            await eventually(lambda: broker.ended == 2)
            bus.hold(held=False)
            await Ear(bus).sees_links(LinkUp)

            assert [peer.seen for peer in broker.peers[:2]] == [[], []]
            assert bus.state(Session.CONTROL).attempts == 0


async def test_an_address_that_refuses_is_passed_over() -> None:
    async with ScriptedBroker(serves) as broker:
        names = Addresses(("::1", free_port()), ("127.0.0.2", free_port()), (broker.host, broker.port))
        bus = make_bus(1883, host="broker.test", resolver=names.resolve)
        async with running(bus):
            await Ear(bus).sees_links(LinkUp)

            assert bus.state(Session.CONTROL).attempts == 0


async def test_an_address_that_never_answers_costs_its_time_out_only() -> None:
    """A listener whose backlog is full drops what would connect, as a dead route does."""
    with socket.socket() as dead, socket.socket() as filler:
        dead.bind(("127.0.0.1", 0))
        dead.listen(0)
        filler.connect(dead.getsockname())
        async with ScriptedBroker(serves) as broker:
            names = Addresses(dead.getsockname(), (broker.host, broker.port))
            bus = make_bus(1883, host="broker.test", resolver=names.resolve, connect_timeout=INSTANT)
            async with running(bus):
                await Ear(bus).sees_links(LinkUp)


async def test_when_all_addresses_fail_it_is_told_what_each_said() -> None:
    port = free_port()
    names = Addresses(("127.0.0.2", port), ("127.0.0.3", port))
    bus = make_bus(1883, host="broker.test", resolver=names.resolve)
    async with running(bus):
        await eventually(lambda: bus.state(Session.CONTROL).attempts)
        why = bus.state(Session.CONTROL).why

    assert why == f"127.0.0.2:{port}: Connection refused; 127.0.0.3:{port}: Connection refused"


async def test_a_broker_that_is_not_there_at_first_is_found_when_it_comes(tmp_path: Path) -> None:
    broker = Mosquitto(tmp_path)
    bus = make_bus(broker.port)
    async with running(bus):
        await eventually(lambda: bus.state(Session.CONTROL).attempts > 2)
        assert "Connection refused" in bus.state(Session.CONTROL).why
        try:
            await asyncio.to_thread(broker.start)
            await Ear(bus).sees_links(LinkUp)
        finally:
            await asyncio.to_thread(broker.stop)


@pytest.mark.slow
async def test_a_link_that_died_in_silence_is_noticed_within_two_keepalives(tmp_path: Path) -> None:
    with Mosquitto(tmp_path) as broker:
        async with Proxy(broker.host, broker.port) as proxy:
            bus = make_bus(proxy.port, keepalive=timedelta(seconds=1), answer_timeout=INSTANT)
            async with running(bus):
                ear = Ear(bus)
                await ear.sees_links(LinkUp)

                proxy.mode = Mode.BLACKHOLE
                await ear.sees_links(LinkDown)
                assert ear.downs(Session.CONTROL)[0].why == "no answer to a ping"

                proxy.mode = Mode.PASS
                await ear.sees_links(LinkUp, count=4)


@pytest.mark.slow
async def test_a_quiet_link_stands_by_its_pings() -> None:
    async with ScriptedBroker(serves) as broker:
        bus = make_bus(broker.port, keepalive=timedelta(seconds=1))
        async with running(bus):
            await Ear(bus).sees_links(LinkUp)

            await eventually(lambda: all(len(peer.seen_of(PINGREQ)) >= 3 for peer in broker.peers))

            assert len(broker.peers) == 2


async def test_a_link_that_passes_byte_after_byte_works(tmp_path: Path) -> None:
    with Mosquitto(tmp_path) as broker:
        async with Proxy(broker.host, broker.port) as proxy:
            proxy.mode = Mode.SLOW
            bus = make_bus(proxy.port)
            async with running(bus):
                await Ear(bus).sees_links(LinkUp)


async def test_stopping_the_agent_says_goodbye_and_leaves_nothing_running() -> None:
    async with ScriptedBroker(serves) as broker:
        bus = make_bus(broker.port)
        ear = Ear(bus)
        async with running(bus):
            await ear.sees_links(LinkUp)

        await eventually(lambda: all(peer.seen[-1].kind == DISCONNECT for peer in broker.peers))
        await ear.sees_links(LinkDown)
        assert ear.downs(Session.CONTROL)[0].why == "the agent stops"
