"""What goes over the wire, packet by packet, against a broker that follows a script."""

import asyncio
from datetime import timedelta

import pytest

from edgeagent.contracts.mqtt import LinkUp, Outgoing, PublishResult, Session, Subscription
from edgeagent.ids import topic, topic_filter
from edgeagent.ports import LinkError, Trouble
from tests.support.ear import Ear, make_bus, running
from tests.support.scripted_broker import (
    CONNECT,
    DISCONNECT,
    PUBACK,
    PUBLISH,
    SUBSCRIBE,
    Packet,
    Peer,
    Script,
    ScriptedBroker,
    filters_of,
    puback,
    publish,
    suback,
)
from tests.support.waiting import eventually

WANTED = (
    Subscription(topic_filter("stat/#"), Session.CONTROL),
    Subscription(topic_filter("tele/#"), Session.TELEMETRY),
)
INSTANT = timedelta(milliseconds=100)


def command(payload: bytes = b"ON") -> Outgoing:
    return Outgoing(topic=topic("cmnd/1"), payload=payload, expires_in=30)


def payload_of(sent: Packet) -> bytes:
    """What a PUBLISH of the agent carries."""
    at = 2 + int.from_bytes(sent.body[:2]) + 2
    return sent.body[at + 1 + sent.body[at] :]


def id_of(sent: Packet) -> int:
    """The packet id of a PUBLISH of the agent."""
    at = 2 + int.from_bytes(sent.body[:2])
    return int.from_bytes(sent.body[at : at + 2])


def of_kind(peer: Peer, kind: int) -> list[Packet]:
    """What a peer has been sent of a kind."""
    return [sent for sent in peer.seen if sent.kind == kind]


def is_telemetry(peer: Peer) -> bool:
    """Whether it is the telemetry session's."""
    return b"telemetry" in peer.seen[0].body


async def sends_three(peer: Peer) -> None:
    """Send three messages over telemetry and keep an eye on what comes back."""
    await peer.greets()
    await peer.grants(await peer.answers(until=SUBSCRIBE))
    if is_telemetry(peer):
        await peer.sends(*(publish("tele/1", b"%d" % n, n) for n in (1, 2, 3)))
    await peer.answers()


@pytest.mark.requirement("Q1")
async def test_acknowledgements_leave_when_given_and_in_receive_order() -> None:
    async with ScriptedBroker(sends_three) as broker:
        bus = make_bus(broker.port)
        await bus.subscribe(WANTED)
        async with running(bus):
            one, two, three = await Ear(bus).hears(b"1", b"2", b"3")
            [peer] = [peer for peer in broker.peers if is_telemetry(peer)]
            await bus.subscribe([*WANTED, Subscription(topic_filter("x"), Session.TELEMETRY)])
            before = of_kind(peer, PUBACK)

            bus.acknowledge([three])
            bus.acknowledge([two, one])
            bus.acknowledge([one, two, three])
            await bus.subscribe([*WANTED, Subscription(topic_filter("y"), Session.TELEMETRY)])

            assert before == []
            assert [sent.packet_id for sent in of_kind(peer, PUBACK)] == [1, 2, 3]


@pytest.mark.requirement("Q1")
async def test_an_acknowledgement_never_meets_a_message_of_a_later_life_with_the_same_id() -> None:
    async def falls(peer: Peer) -> None:
        await peer.greets()
        await peer.grants(await peer.answers(until=SUBSCRIBE))
        if is_telemetry(peer):
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
            next(peer for peer in broker.peers if is_telemetry(peer)).resets()
            [new] = await ear.hears(b"new")
            assert new.packet_id == old.packet_id

            bus.acknowledge([old])
            await bus.subscribe([*WANTED, Subscription(topic_filter("x"), Session.TELEMETRY)])
            after_old = of_kind(broker.peers[2], PUBACK)
            bus.acknowledge([new])
            await eventually(lambda: of_kind(broker.peers[2], PUBACK))

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
        window = 500 if is_telemetry(peer) else 100
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
            [peer] = [peer for peer in broker.peers if is_telemetry(peer)]

            sent = [filters_of(one) for one in of_kind(peer, SUBSCRIBE)]

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

            [peer] = [peer for peer in broker.peers if is_telemetry(peer)]
            sent = [name for one in of_kind(peer, SUBSCRIBE) for name, _ in filters_of(one)]

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


@pytest.mark.parametrize(
    ("code", "result"),
    [
        (0x00, PublishResult.TAKEN),
        (0x10, PublishResult.NOBODY_LISTENS),
        (0x80, PublishResult.REFUSED),
        (0x87, PublishResult.REFUSED),
        (0x97, PublishResult.REFUSED),
        pytest.param(0x95, PublishResult.REFUSED, id="0x95, which the standard has not here"),
    ],
)
async def test_what_the_broker_answers_to_a_command_is_told(code: int, result: PublishResult) -> None:
    async def answers(peer: Peer) -> None:
        await peer.greets()
        while True:
            await peer.sends(puback(id_of(await peer.answers(until=PUBLISH)), code))

    async with ScriptedBroker(answers) as broker:
        bus = make_bus(broker.port)
        async with running(bus):
            await Ear(bus).sees_links(LinkUp)

            assert [await bus.publish(command()) for _ in range(3)] == [result] * 3
            assert len(broker.peers) == 2


async def is_cut(peer: Peer) -> None:
    """Take a command and reset the connection."""
    await peer.greets()
    await peer.answers(until=PUBLISH)
    peer.resets()


async def is_silent(peer: Peer) -> None:
    """Take a command and say nothing to it."""
    await peer.greets()
    await peer.answers()


@pytest.mark.requirement("I3", "M3")
@pytest.mark.parametrize("script", [is_cut, is_silent])
async def test_a_command_without_answer_is_told_as_such_and_never_sent_again(script: Script) -> None:
    """Left to itself paho sends it again after the reconnect: a toggle would happen twice, or hours late."""

    async def answers(peer: Peer) -> None:
        await peer.greets(present=True)
        while True:
            await peer.sends(puback(id_of(await peer.answers(until=PUBLISH))))

    async with ScriptedBroker(script, script, answers) as broker:
        bus = make_bus(broker.port, answer_timeout=INSTANT)
        async with running(bus):
            ear = Ear(bus)
            await ear.sees_links(LinkUp)

            first = await bus.publish(command(b"TOGGLE"))
            await ear.until(lambda: len(ear.ups(Session.CONTROL)) == 2)
            second = await bus.publish(command(b"STATE"))

    assert (first, second) == (PublishResult.NO_ANSWER, PublishResult.TAKEN)
    assert [payload_of(sent) for peer in broker.peers for sent in of_kind(peer, PUBLISH)] == [
        b"TOGGLE",
        b"STATE",
    ]


@pytest.mark.requirement("M3")
async def test_commands_that_are_stuck_in_the_socket_when_they_are_given_up_do_not_leave_later() -> None:
    """The peer reads nothing: what the kernel still holds is thrown away with the connection."""
    go_on = asyncio.Event()

    async def reads_late(peer: Peer) -> None:
        await peer.greets()
        await go_on.wait()
        await peer.answers()

    async with ScriptedBroker(reads_late, stingy=True) as broker:
        bus = make_bus(broker.port, answer_timeout=INSTANT, publish_window=1000)
        async with running(bus):
            await Ear(bus).sees_links(LinkUp)

            results = await asyncio.gather(*(bus.publish(command(b"x" * 100)) for _ in range(1000)))
            bus.hold(held=True)
            go_on.set()
            await eventually(lambda: broker.ended == 2)

    assert results == [PublishResult.NO_ANSWER] * 1000
    assert sum(len(of_kind(peer, PUBLISH)) for peer in broker.peers) < 500


@pytest.mark.parametrize("told", [b"", b"\x21\x00\x02"], ids=["by our own bound", "by the broker's"])
async def test_only_so_many_commands_are_on_their_way(told: bytes) -> None:
    async def is_slow(peer: Peer) -> None:
        await peer.greets(properties=told)
        await peer.answers(until=PUBLISH)
        await peer.answers(until=PUBLISH)
        third = asyncio.create_task(peer.answers(until=PUBLISH))
        await more.wait()
        for sent in of_kind(peer, PUBLISH):
            await peer.sends(puback(id_of(sent)))
        await peer.sends(puback(id_of(await third)))

    more = asyncio.Event()
    async with ScriptedBroker(is_slow) as broker:
        bus = make_bus(broker.port, publish_window=20 if told else 2)
        async with running(bus), asyncio.TaskGroup() as group:
            await Ear(bus).sees_links(LinkUp)
            sent = [group.create_task(bus.publish(command(b"%d" % n))) for n in range(2)]
            await eventually(lambda: any(len(of_kind(peer, PUBLISH)) == 2 for peer in broker.peers))

            with pytest.raises(LinkError) as caught:
                await bus.publish(command(b"too many"))
            more.set()
            results = [await one for one in sent]
            results.append(await bus.publish(command(b"2")))

    assert caught.value.trouble is Trouble.BUSY
    assert results == [PublishResult.TAKEN] * 3


@pytest.mark.requirement("W1")
async def test_a_command_is_on_its_way_before_the_caller_lets_go_of_the_loop() -> None:
    """What the caller checked in the same stretch (fence, kill switch) still holds when it is sent."""
    async with ScriptedBroker(is_silent) as broker:
        bus = make_bus(broker.port)
        async with running(bus):
            await Ear(bus).sees_links(LinkUp)

            publishing = bus.publish(command())
            waits_for = publishing.send(None)
            bus.hold(held=True)

            assert waits_for is not None
            with pytest.raises(StopIteration) as ended:
                publishing.send(None)
            assert ended.value.value is PublishResult.NO_ANSWER


@pytest.mark.requirement("M6")
async def test_a_topic_that_is_no_utf8_is_acknowledged_like_any_other_and_wedges_nothing() -> None:
    async def sends_it(peer: Peer) -> None:
        await peer.greets()
        await peer.grants(await peer.answers(until=SUBSCRIBE))
        if is_telemetry(peer):
            await peer.sends(publish(b"tele/\xff/data", b"odd", 1), publish("tele/1/data", b"plain", 2))
        await peer.answers()

    async with ScriptedBroker(sends_it) as broker:
        bus = make_bus(broker.port)
        await bus.subscribe(WANTED)
        async with running(bus):
            ear = Ear(bus)
            messages = await ear.hears(b"odd", b"plain")
            bus.acknowledge(messages)
            await eventually(lambda: any(len(of_kind(peer, PUBACK)) == 2 for peer in broker.peers))

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
            await eventually(lambda: all(of_kind(peer, DISCONNECT) for peer in broker.peers))
            bus.hold(held=False)

            await Ear(bus).sees_links(LinkUp)
            assert bus.state(Session.CONTROL).attempts == 0


@pytest.mark.requirement("R7")
async def test_a_look_at_more_than_it_takes_ends_with_what_it_has_seen() -> None:
    async def holds_much(peer: Peer) -> None:
        await peer.greets()
        await peer.grants(await peer.answers(until=SUBSCRIBE))
        await peer.sends(*(publish("cmnd/1", b"", n, retain=True) for n in range(1, 5001)))
        await peer.answers()

    async with ScriptedBroker(holds_much) as broker:
        bus = make_bus(broker.port)

        found = await bus.retained(["cmnd/#"])

    assert len(found) == 4096
    assert b"look" in broker.peers[0].seen[0].body
    assert broker.peers[0].seen[0].body[7] & 0x02  # Clean Start


async def test_a_look_that_the_broker_does_not_allow_is_told() -> None:
    async def refuses(peer: Peer) -> None:
        await peer.greets()
        await peer.grants(await peer.answers(until=SUBSCRIBE), 0x87)
        await peer.answers()

    async with ScriptedBroker(refuses) as broker:
        bus = make_bus(broker.port)

        with pytest.raises(LinkError) as caught:
            await bus.retained(["cmnd/#"])

        assert caught.value.trouble is Trouble.LOGIN
        assert await bus.dropped() is None


async def test_a_broker_that_hangs_up_on_a_look_costs_the_sessions_nothing() -> None:
    async def serves(peer: Peer) -> None:
        await peer.greets()
        await peer.answers()

    async def hangs_up(peer: Peer) -> None:
        await peer.greets()
        await peer.answers(until=SUBSCRIBE)

    async with ScriptedBroker(serves, serves, hangs_up) as broker:
        bus = make_bus(broker.port)
        async with running(bus):
            await Ear(bus).sees_links(LinkUp)

            assert await bus.dropped() is None
            assert all(bus.state(session).connected for session in Session)
