"""What happens when more comes than can be stored: bounded, nothing promised is lost, commands go on."""

import asyncio
from datetime import timedelta
from itertools import pairwise

import pytest
from prometheus_client import CollectorRegistry

from edgeagent.contracts.mqtt import (
    Inbound,
    LinkUp,
    Outgoing,
    PublishResult,
    Session,
    Subscription,
)
from edgeagent.ids import topic, topic_filter
from edgeagent.metrics import Metrics
from tests.support.ear import Ear, make_bus, running
from tests.support.scripted_broker import (
    PINGREQ,
    PUBLISH,
    SUBSCRIBE,
    Peer,
    ScriptedBroker,
    connack,
    puback,
    publish,
)
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("R7")

WANTED = (
    Subscription(topic_filter("stat/#"), Session.CONTROL),
    Subscription(topic_filter("tele/#"), Session.TELEMETRY),
)
MANY = 5000


async def floods(peer: Peer) -> None:
    """Send the telemetry session far more than its window; answer commands on the control session."""
    await peer.greets()
    await peer.grants(await peer.answers(until=SUBSCRIBE))
    if peer.client_id.endswith("telemetry"):
        for start in range(1, MANY, 100):
            await peer.sends(
                *(publish("tele/1", b"%d" % n + b" " * 900, n) for n in range(start, start + 100))
            )
    while True:
        await peer.sends(puback((await peer.answers(until=PUBLISH)).packet_id))


def received(metrics: Metrics) -> float:
    value = metrics.registry.get_sample_value("edgeagent_messages_total", {"session": "telemetry"})
    assert value is not None
    return value


async def test_a_flood_is_left_in_the_socket_until_there_is_room_and_then_comes_whole() -> None:
    metrics = Metrics(CollectorRegistry())
    async with ScriptedBroker(floods) as broker:
        bus = make_bus(broker.port, metrics=metrics, queue_messages=50)
        await bus.subscribe(WANTED)
        async with running(bus):
            await eventually(lambda: received(metrics) >= 50 and bus.state(Session.CONTROL).connected)
            command = Outgoing(topic=topic("cmnd/1"), payload=b"ON", expires_in=5)
            answers = [await bus.publish(command) for _ in range(10)]

            # One read beyond the bound, at most: 64 KiB.
            assert received(metrics) < 50 + 100
            assert answers == [PublishResult.TAKEN] * 10

            ear = Ear(bus)
            await ear.until(lambda: len(ear.messages) == MANY)

    numbers = [int(message.payload) for message in ear.messages]
    assert numbers == list(range(1, MANY + 1))
    assert ear.downs(Session.TELEMETRY) == []


async def test_bytes_count_as_well_as_messages() -> None:
    metrics = Metrics(CollectorRegistry())
    async with ScriptedBroker(floods) as broker:
        bus = make_bus(broker.port, metrics=metrics, queue_bytes=100_000)
        await bus.subscribe(WANTED)
        async with running(bus):
            await eventually(lambda: received(metrics) >= 100 and bus.state(Session.CONTROL).connected)
            await bus.publish(Outgoing(topic=topic("cmnd/1"), payload=b"ON", expires_in=5))

            assert received(metrics) < 300


async def test_a_store_that_does_not_follow_for_half_a_keepalive_costs_the_connection_not_the_messages() -> (
    None
):
    async with ScriptedBroker(floods) as broker:
        bus = make_bus(broker.port, keepalive=timedelta(seconds=1), queue_messages=50)
        await bus.subscribe(WANTED)
        async with running(bus):
            await eventually(lambda: bus.state(Session.CONTROL).connected)
            await eventually(lambda: "backpressure" in bus.state(Session.TELEMETRY).why)
            control = bus.state(Session.CONTROL)
            peers = len(broker.peers)
            answer = await bus.publish(Outgoing(topic=topic("cmnd/1"), payload=b"ON", expires_in=5))

            assert answer is PublishResult.TAKEN
            assert control.connected
            assert peers == len(broker.peers) == 2  # not opened again before there is room

            ear = Ear(bus)
            await ear.until(lambda: len(ear.ups(Session.TELEMETRY)) == 2)
            await ear.until(lambda: ear.messages[-1].epoch == 2)

    [down] = ear.downs(Session.TELEMETRY)
    assert down.why == "backpressure: the store does not follow"
    assert bus.state(Session.TELEMETRY).attempts == 0


async def sends_crumbs(peer: Peer) -> None:
    """Send thousands of messages so small that one read takes them all, and then nothing."""
    await peer.greets()
    await peer.grants(await peer.answers(until=SUBSCRIBE))
    await peer.sends(b"".join(publish("t", b"%d" % n, n) for n in range(1, MANY + 1)))
    await peer.answers()


@pytest.mark.slow
async def test_once_there_was_room_again_in_time_the_connection_stays() -> None:
    async with ScriptedBroker(floods) as broker:
        bus = make_bus(broker.port, keepalive=timedelta(seconds=1), queue_messages=50)
        await bus.subscribe(WANTED)
        async with running(bus):
            ear = Ear(bus)
            await ear.until(lambda: len(ear.messages) == MANY)

            # A ping leaves after a whole keepalive without messages, when the half is long over.
            await eventually(lambda: all(peer.seen_of(PINGREQ) for peer in broker.peers))

            assert bus.state(Session.TELEMETRY).connected
            assert len(broker.peers) == 2


async def overruns_control(peer: Peer) -> None:
    """Send the control session, too, more than its window."""
    await peer.greets()
    await peer.grants(await peer.answers(until=SUBSCRIBE))
    if peer.client_id.endswith("control"):
        await peer.sends(*(publish("stat/1", b"%d" % n, n) for n in range(1, 1001)))
    await peer.answers()


async def test_a_broker_that_ignores_the_window_of_control_is_read_no_faster_than_it_is_followed() -> None:
    """Mosquitto sends a whole backlog at once when a session is resumed, whatever window we ask for."""
    async with ScriptedBroker(overruns_control) as broker:
        bus = make_bus(broker.port, queue_messages=200, control_window=100)
        await bus.subscribe(WANTED)
        async with running(bus):
            await eventually(lambda: bus.state(Session.CONTROL).connected)

            ear = Ear(bus)
            await ear.until(lambda: len(ear.messages) == 1000)

            assert bus.state(Session.CONTROL).connected

    assert [int(message.payload) for message in ear.messages] == list(range(1, 1001))
    assert ear.downs(Session.CONTROL) == []


async def test_a_flood_leaves_the_loop_to_others() -> None:
    """However many messages one read has brought, others get their turn after every few hundred."""
    metrics = Metrics(CollectorRegistry())
    counts = [0.0]

    async def other() -> None:
        while True:
            counts.append(received(metrics))
            await asyncio.sleep(0)

    async with ScriptedBroker(sends_crumbs) as broker:
        bus = make_bus(broker.port, metrics=metrics, queue_messages=100_000)
        await bus.subscribe(WANTED[1:])
        ear = Ear(bus)
        task = asyncio.create_task(other())
        async with running(bus):
            await ear.until(lambda: len(ear.messages) == MANY)
        task.cancel()

    assert max(after - before for before, after in pairwise(counts)) == 500


async def sends_while_subscribing(peer: Peer) -> None:
    """Be a broker that had kept the session: messages come in one piece with the welcome."""
    await peer.reads()
    await peer.sends(*[connack(present=True), *(publish("tele/1", b"%d" % n, n) for n in range(1, 101))])
    await peer.answers()


@pytest.mark.requirement("Q1")
async def test_messages_that_come_with_the_welcome_wait_for_the_subscriptions() -> None:
    async with ScriptedBroker(sends_while_subscribing) as broker:
        bus = make_bus(broker.port, queue_messages=50)
        await bus.subscribe(WANTED)
        async with running(bus):
            ear = Ear(bus)
            await ear.until(lambda: len(ear.messages) == 200)

    for session in Session:
        items = ear.of(session)
        assert items[0] == LinkUp(session, 1, session_present=True)
        assert [int(item.payload) for item in items if isinstance(item, Inbound)] == list(range(1, 101))
