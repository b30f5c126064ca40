"""What goes over the wire, packet by packet, against a broker that follows a script."""

import asyncio
from datetime import timedelta

import pytest

from edgeagent.contracts.mqtt import LinkUp, Session, Subscription
from edgeagent.ids import topic_filter
from tests.support.ear import Ear, make_bus, running
from tests.support.scripted_broker import (
    CONNECT,
    DISCONNECT,
    PUBACK,
    SUBSCRIBE,
    Peer,
    ScriptedBroker,
    filters_of,
    publish,
    suback,
)
from tests.support.waiting import eventually

WANTED = (
    Subscription(topic_filter("stat/#"), Session.CONTROL),
    Subscription(topic_filter("tele/#"), Session.TELEMETRY),
)


async def sends_three(peer: Peer) -> None:
    """Send three messages over telemetry and keep an eye on what comes back."""
    await peer.greets()
    await peer.grants(await peer.answers(until=SUBSCRIBE))
    if peer.client_id.endswith("telemetry"):
        await peer.sends(*(publish("tele/1", b"%d" % n, n) for n in (1, 2, 3)))
    await peer.answers()


@pytest.mark.requirement("Q1")
async def test_acknowledgements_leave_when_given_and_in_receive_order() -> None:
    async with ScriptedBroker(sends_three) as broker:
        bus = make_bus(broker.port)
        await bus.subscribe(WANTED)
        async with running(bus):
            one, two, three = await Ear(bus).hears(b"1", b"2", b"3")
            [peer] = [peer for peer in broker.peers if peer.client_id.endswith("telemetry")]
            await bus.subscribe([*WANTED, Subscription(topic_filter("x"), Session.TELEMETRY)])
            before = peer.seen_of(PUBACK)

            bus.acknowledge([three])
            bus.acknowledge([two, one])
            bus.acknowledge([one, two, three])
            await bus.subscribe([*WANTED, Subscription(topic_filter("y"), Session.TELEMETRY)])

            assert before == []
            assert [sent.packet_id for sent in peer.seen_of(PUBACK)] == [1, 2, 3]


@pytest.mark.requirement("Q1")
async def test_an_acknowledgement_never_meets_a_message_of_a_later_life_with_the_same_id() -> None:
    async def falls(peer: Peer) -> None:
        await peer.greets()
        await peer.grants(await peer.answers(until=SUBSCRIBE))
        if peer.client_id.endswith("telemetry"):
            await peer.sends(publish("tele/1", b"old", 1))
            await peer.answers(until=PUBACK)  # never comes
        await peer.answers()

    async def goes_on(peer: Peer) -> None:
        await peer.greets()
        await peer.grants(await peer.answers(until=SUBSCRIBE))
        await peer.sends(publish("tele/1", b"new", 1))
        await peer.answers()

    async with ScriptedBroker(falls, falls, goes_on) as broker:
        bus = make_bus(broker.port)
        await bus.subscribe(WANTED)
        async with running(bus):
            ear = Ear(bus)
            [old] = await ear.hears(b"old")
            next(peer for peer in broker.peers if peer.client_id.endswith("telemetry")).resets()
            [new] = await ear.hears(b"new")
            assert new.packet_id == old.packet_id

            bus.acknowledge([old])
            await bus.subscribe([*WANTED, Subscription(topic_filter("x"), Session.TELEMETRY)])
            after_old = broker.peers[2].seen_of(PUBACK)
            bus.acknowledge([new])
            await eventually(lambda: broker.peers[2].seen_of(PUBACK))

            assert after_old == []


async def test_connect_says_what_a_session_may_be_sent() -> None:
    async with ScriptedBroker(sends_three) as broker:
        bus = make_bus(broker.port, control_window=100, telemetry_window=500, largest_packet=65_536)
        async with running(bus):
            await Ear(bus).sees_links(LinkUp)

    for peer in broker.peers:
        connect = peer.seen[0]
        assert connect.kind == CONNECT
        assert connect.body[7] & 0x02 == 0  # Clean Start
        window = 500 if peer.client_id.endswith("telemetry") else 100
        assert b"\x21" + window.to_bytes(2) in connect.body
        assert b"\x27\x00\x01\x00\x00" in connect.body
        assert b"\x11" + (7 * 86_400).to_bytes(4) in connect.body  # Session Expiry Interval


async def test_subscriptions_are_of_qos_1_without_our_own_and_bounded_in_size() -> None:
    async def serves(peer: Peer) -> None:
        await peer.greets()
        await peer.answers()

    wanted = [Subscription(topic_filter(f"tele/{n}"), Session.TELEMETRY) for n in range(150)]
    async with ScriptedBroker(serves) as broker:
        bus = make_bus(broker.port)
        await bus.subscribe(wanted)
        async with running(bus):
            await Ear(bus).sees_links(LinkUp)
            [peer] = [peer for peer in broker.peers if peer.client_id.endswith("telemetry")]

            sent = [filters_of(one) for one in peer.seen_of(SUBSCRIBE)]

    assert [len(part) for part in sent] == [64, 64, 22]
    assert {options for part in sent for _, options in part} == {0b01_0_1_01}  # when new, noLocal, QoS 1


@pytest.mark.requirement("Q1")
async def test_a_filter_that_is_refused_is_named_and_the_others_work() -> None:
    async def refuses_one(peer: Peer) -> None:
        await peer.greets()
        sent = await peer.answers(until=SUBSCRIBE)
        codes = [0x87 if name == "tele/#" else 1 for name, _ in filters_of(sent)]
        await peer.sends(suback(sent.packet_id, codes))
        await peer.answers()

    async with ScriptedBroker(refuses_one) as broker:
        bus = make_bus(broker.port)
        await bus.subscribe(WANTED)
        async with running(bus):
            await Ear(bus).sees_links(LinkUp)

            assert bus.refused(Session.TELEMETRY) == {"tele/#": 0x87}
            assert bus.refused(Session.CONTROL) == {}


async def test_a_filter_that_is_granted_without_acknowledgement_is_named_too() -> None:
    async def grants_less(peer: Peer) -> None:
        await peer.greets()
        await peer.grants(await peer.answers(until=SUBSCRIBE), 0)
        await peer.answers()

    async with ScriptedBroker(grants_less) as broker:
        bus = make_bus(broker.port)
        await bus.subscribe(WANTED)
        async with running(bus):
            await Ear(bus).sees_links(LinkUp)

            assert bus.refused(Session.TELEMETRY) == {"tele/#": 0}


async def test_what_is_wanted_while_the_broker_has_not_answered_yet_is_subscribed_before_link_up() -> None:
    asked = asyncio.Event()
    go_on = asyncio.Event()

    async def takes_its_time(peer: Peer) -> None:
        await peer.greets()
        subscribe = await peer.answers(until=SUBSCRIBE)
        asked.set()
        await go_on.wait()
        await peer.grants(subscribe)
        await peer.answers()

    async with ScriptedBroker(takes_its_time) as broker:
        bus = make_bus(broker.port)
        await bus.subscribe(WANTED[1:])
        async with running(bus):
            await asked.wait()
            await bus.subscribe([*WANTED[1:], Subscription(topic_filter("late"), Session.TELEMETRY)])
            go_on.set()
            await Ear(bus).sees_links(LinkUp)

            [peer] = [peer for peer in broker.peers if peer.client_id.endswith("telemetry")]
            sent = [name for one in peer.seen_of(SUBSCRIBE) for name, _ in filters_of(one)]

    assert sent == ["tele/#", "late"]


async def test_a_suback_of_another_length_is_no_answer() -> None:
    async def miscounts(peer: Peer) -> None:
        await peer.greets()
        sent = await peer.answers(until=SUBSCRIBE)
        await peer.sends(suback(sent.packet_id, [1, 1, 1]))
        await peer.answers()

    async with ScriptedBroker(miscounts) as broker:
        bus = make_bus(broker.port)
        await bus.subscribe(WANTED)
        async with running(bus):
            await eventually(lambda: bus.state(Session.CONTROL).attempts)

            assert "SUBACK" in bus.state(Session.CONTROL).why


@pytest.mark.requirement("M6")
async def test_a_topic_that_is_no_utf8_is_acknowledged_like_any_other_and_wedges_nothing() -> None:
    async def sends_it(peer: Peer) -> None:
        await peer.greets()
        await peer.grants(await peer.answers(until=SUBSCRIBE))
        if peer.client_id.endswith("telemetry"):
            await peer.sends(publish(b"tele/\xff/data", b"odd", 1), publish("tele/1/data", b"plain", 2))
        await peer.answers()

    async with ScriptedBroker(sends_it) as broker:
        bus = make_bus(broker.port)
        await bus.subscribe(WANTED)
        async with running(bus):
            ear = Ear(bus)
            messages = await ear.hears(b"odd", b"plain")
            bus.acknowledge(messages)
            await eventually(lambda: any(len(peer.seen_of(PUBACK)) == 2 for peer in broker.peers))

            assert len(broker.peers) == 2


@pytest.mark.requirement("M6")
async def test_a_message_that_does_not_hold_together_costs_one_connection_and_a_pause() -> None:
    async def sends_it(peer: Peer) -> None:
        await peer.greets()
        await peer.sends(b"\x32\x03\x00\xff\x00")
        await peer.answers()

    async def serves(peer: Peer) -> None:
        await peer.greets()
        await peer.answers()

    async with ScriptedBroker(sends_it, sends_it, serves) as broker:
        bus = make_bus(broker.port)
        async with running(bus):
            ear = Ear(bus)
            await eventually(lambda: len(broker.peers) == 4)
            await eventually(lambda: all(bus.state(session).connected for session in Session))

            assert bus.state(Session.CONTROL).attempts == 1
            assert await ear.bus.receive(within=timedelta(seconds=1))


async def test_held_while_it_connects_it_lets_go_and_tries_again_when_told() -> None:
    async def greets_late(peer: Peer) -> None:
        await peer.reads()
        await peer.answers()

    async def serves(peer: Peer) -> None:
        await peer.greets()
        await peer.answers()

    async with ScriptedBroker(greets_late, greets_late, serves) as broker:
        bus = make_bus(broker.port)
        async with running(bus):
            await eventually(lambda: len(broker.peers) == 2 and all(peer.seen for peer in broker.peers))

            bus.hold(held=True)
            await eventually(lambda: all(peer.seen_of(DISCONNECT) for peer in broker.peers))
            bus.hold(held=False)

            await Ear(bus).sees_links(LinkUp)
            assert bus.state(Session.CONTROL).attempts == 0
