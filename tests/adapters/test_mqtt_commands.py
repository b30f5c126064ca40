"""Commands to devices: sent once, now or never, and what the broker says to them."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from edgeagent.contracts.mqtt import LinkUp, Outgoing, PublishResult, Session
from edgeagent.ids import topic
from edgeagent.ports.links import LinkError, Trouble
from tests.support.ear import Ear, make_bus, running
from tests.support.scripted_broker import PUBLISH, Peer, Script, ScriptedBroker, puback
from tests.support.waiting import eventually

TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
INSTANT = timedelta(milliseconds=500)


def command(payload: bytes = b"ON") -> Outgoing:
    return Outgoing(topic=topic("cmnd/1"), payload=payload, expires_in=30)


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
            await peer.sends(puback((await peer.answers(until=PUBLISH)).packet_id, code))

    async with ScriptedBroker(answers) as broker:
        bus = make_bus(broker.port)
        async with running(bus):
            await Ear(bus).sees_links(LinkUp)

            assert [await bus.publish(command()) for _ in range(3)] == [result] * 3
            assert len(broker.peers) == 2


@pytest.mark.requirement("O2")
async def test_a_command_takes_its_place_in_a_trace_along_as_a_user_property() -> None:
    heard = []

    async def answers(peer: Peer) -> None:
        await peer.greets()
        while True:
            packet = await peer.answers(until=PUBLISH)
            heard.append(packet.body)
            await peer.sends(puback(packet.packet_id))

    async with ScriptedBroker(answers) as broker:
        bus = make_bus(broker.port)
        async with running(bus):
            await Ear(bus).sees_links(LinkUp)

            await bus.publish(replace(command(), traceparent=TRACEPARENT))
            await bus.publish(command())

            # A user property: 0x26, and two texts with their lengths (MQTT 5 section 2.2.2.2).
            wanted = b"\x26\x00\x0btraceparent\x00\x37" + TRACEPARENT.encode()
            assert [wanted in body for body in heard] == [True, False]


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
            await peer.sends(puback((await peer.answers(until=PUBLISH)).packet_id))

    async with ScriptedBroker(script, script, answers) as broker:
        bus = make_bus(broker.port, answer_timeout=INSTANT)
        async with running(bus):
            ear = Ear(bus)
            await ear.sees_links(LinkUp)

            first = await bus.publish(command(b"TOGGLE"))
            await ear.until(lambda: len(ear.ups(Session.CONTROL)) >= 2)
            second = await bus.publish(command(b"STATE"))

    assert (first, second) == (PublishResult.NO_ANSWER, PublishResult.TAKEN)
    assert [sent.payload for peer in broker.peers for sent in peer.seen_of(PUBLISH)] == [
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
    assert sum(len(peer.seen_of(PUBLISH)) for peer in broker.peers) < 500


@pytest.mark.parametrize("told", [b"", b"\x21\x00\x02"], ids=["by our own bound", "by the broker's"])
async def test_only_so_many_commands_are_on_their_way(told: bytes) -> None:
    async def is_slow(peer: Peer) -> None:
        await peer.greets(properties=told)
        await peer.answers(until=PUBLISH)
        await peer.answers(until=PUBLISH)
        third = asyncio.create_task(peer.answers(until=PUBLISH))
        await more.wait()
        for sent in peer.seen_of(PUBLISH):
            await peer.sends(puback(sent.packet_id))
        await peer.sends(puback((await third).packet_id))

    more = asyncio.Event()
    async with ScriptedBroker(is_slow) as broker:
        bus = make_bus(broker.port, publish_window=20 if told else 2)
        async with running(bus), asyncio.TaskGroup() as group:
            await Ear(bus).sees_links(LinkUp)
            sent = [group.create_task(bus.publish(command(b"%d" % n))) for n in range(2)]
            await eventually(lambda: any(len(peer.seen_of(PUBLISH)) == 2 for peer in broker.peers))

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
