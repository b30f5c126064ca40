"""What no broker may send: got past, counted, and never met for ever (SPEC M6, R8)."""

import asyncio
from datetime import timedelta
from typing import Final

import pytest

from edgeagent.adapters.mqtt.poison import ENOUGH, Poison
from edgeagent.contracts.mqtt import LinkDown, LinkUp, Session, Subscription
from edgeagent.core.retry import BackoffRule
from edgeagent.ids import topic_filter
from tests.support.clocks import ManualClock
from tests.support.ear import Ear, make_bus, running
from tests.support.scripted_broker import PUBACK, Peer, ScriptedBroker, disconnect, packet, publish
from tests.support.waiting import eventually

pytestmark = [pytest.mark.requirement("M6", "R8")]

NAME: Final = "edgeagent-hub-1-telemetry"
_CLEAN: Final = 2
UNFIT: Final = (b"a/\xff/b", b"a/\xed\xa0\x80", b"a/+/b", b"a/#", b"#", b"a\0b", b"")
UNREADABLE: Final = {
    "quality of service 2": publish("a", b"{}", 7, qos=2),
    "quality of service 3": publish("a", b"{}", 7, qos=3),
    "a topic longer than its packet": packet(3, b"\xff\xffabc", flags=2),
    "no number": publish("a", b"{}", 0),
    "properties longer than the packet": packet(3, b"\0\1a\0\7\x7f", flags=2),
    "half a topic length": packet(3, b"\0", flags=2),
    "a length of five bytes": b"\x32\xff\xff\xff\xff\x01",
    "more than was asked for": b"\x32\xff\xff\xff\x7f",
    "a packet of no type": packet(0, b"\0\0"),
}


class Keeper:
    """A broker that has kept something for one session, and forgets it at a clean start.

    Attributes:
        cleared: how often that session was begun with a clean start.
        met: over how many connections of it the kept came.
    """

    def __init__(self, kept: bytes) -> None:
        self.kept = kept
        self.cleared = self.met = 0

    async def serves(self, peer: Peer) -> None:
        """Be the broker of one connection."""
        hello = await peer.reads()
        is_clean = bool(hello.body[7] & _CLEAN)
        ours = peer.client_id == NAME
        if ours and is_clean:
            self.kept, self.cleared = b"", self.cleared + 1
        await peer.sends(b"\x20\x03" + bytes([not is_clean, 0, 0]))
        if ours:
            self.met += bool(self.kept)
            await peer.sends(self.kept, publish("a/b", b"after", 9))
        await peer.answers()


async def subscribed(port: int) -> Ear:
    bus = make_bus(port)
    await bus.subscribe([Subscription(topic_filter(session), session) for session in Session])
    return Ear(bus)


async def test_a_topic_that_no_message_may_have_is_acknowledged_and_counted() -> None:
    keeper = Keeper(b"".join(publish(topic, b"{}", 100 + place) for place, topic in enumerate(UNFIT)))
    async with ScriptedBroker(keeper.serves) as broker:
        ear = await subscribed(broker.port)
        async with running(ear.bus):
            await ear.hears(b"after")
            ear.bus.acknowledge(ear.messages)
            [peer] = [each for each in broker.peers if each.client_id == NAME]
            await eventually(lambda: len(peer.seen_of(PUBACK)) == len(UNFIT) + 1)
            state = ear.bus.state(Session.TELEMETRY)

    assert (state.connected, state.unfit, state.cleared) == (True, len(UNFIT), 0)
    assert state.poisoned is not None
    assert len(broker.peers) == len(Session)


async def test_messages_as_they_should_be_are_no_poison() -> None:
    keeper = Keeper(publish("stat/\u00e4 \U0001f4a1/$x", b"{}", 8))
    async with ScriptedBroker(keeper.serves) as broker:
        ear = await subscribed(broker.port)
        async with running(ear.bus):
            await ear.hears(b"after")
            state = ear.bus.state(Session.TELEMETRY)

    assert (state.poisoned, state.unfit, state.cleared) == (None, 0, 0)


@pytest.mark.parametrize("kept", UNREADABLE.values(), ids=UNREADABLE)
async def test_what_cannot_be_read_is_left_behind_by_beginning_the_session_afresh(kept: bytes) -> None:
    keeper = Keeper(kept)
    async with ScriptedBroker(keeper.serves) as broker:
        ear = await subscribed(broker.port)
        async with running(ear.bus):
            await ear.hears(b"after")
            states = {session: ear.bus.state(session) for session in Session}

    assert (keeper.met, keeper.cleared) == (ENOUGH, 1)
    assert states[Session.TELEMETRY].cleared == 1
    assert states[Session.CONTROL].cleared == 0
    # It is the same session from then on: kept by the broker, and no longer clean.
    [up] = [item for item in ear.ups(Session.TELEMETRY) if not item.session_present]
    assert up is ear.ups(Session.TELEMETRY)[-1]


async def test_a_broker_that_sends_nothing_else_is_met_with_growing_pauses_and_never_in_a_hot_loop() -> None:
    clock, waits = ManualClock(), list[timedelta]()
    rule = BackoffRule()

    async def wait(length: timedelta) -> None:
        if len(waits) == 24:
            await asyncio.Event().wait()
        waits.append(length)
        clock.passes(length)

    async def poisons(peer: Peer) -> None:
        await peer.greets()
        await peer.sends(UNREADABLE["quality of service 2"])
        await peer.answers()

    async with ScriptedBroker(poisons) as broker:
        bus = make_bus(broker.port, clock=clock, wait=wait, backoff=rule, chance=lambda: 0.9)
        async with running(bus):
            await eventually(lambda: len(waits) == 24)
            cleared = bus.state(Session.TELEMETRY).cleared

    assert len(broker.peers) <= 24 + len(Session)
    assert max(waits) > rule.longest / 2
    assert 1 <= cleared <= 24 // ENOUGH


@pytest.mark.parametrize("code", [0x80, 0x81, 0x82, 0x83, 0x8D, 0x93, 0x95])
async def test_a_broker_that_hangs_up_again_and_again_keeps_what_it_holds_for_us(code: int) -> None:
    """Whatever its reason: it has sent nothing that cannot be read."""

    async def hangs_up(peer: Peer) -> None:
        await peer.greets()
        await peer.sends(disconnect(code))
        await peer.answers()

    async with ScriptedBroker(hangs_up) as broker:
        bus = make_bus(broker.port)
        async with running(bus):
            await eventually(lambda: len(broker.peers) > len(Session) * (ENOUGH + 1))
            state = bus.state(Session.TELEMETRY)

    assert (state.poisoned, state.cleared) == (None, 0)


def test_only_connections_in_a_row_that_cannot_be_read_are_enough() -> None:
    met = Poison()
    for _ in range(ENOUGH):
        for _ in range(ENOUGH - 1):
            met.ended(timedelta(0))
        met.stood_long()
    assert not met.is_enough

    for _ in range(ENOUGH):
        met.ended(timedelta(0))

    assert met.is_enough


async def test_now_and_then_a_broken_message_clears_nothing() -> None:
    """Each ends a connection that had stood for long: a line that garbles, not a message that is kept."""
    clock = ManualClock()
    go_on = asyncio.Event()

    async def breaks_late(peer: Peer) -> None:
        await peer.greets()
        answering = asyncio.create_task(peer.answers())
        await go_on.wait()
        await peer.sends(UNREADABLE["quality of service 2"])
        await asyncio.wait([answering])

    async with ScriptedBroker(breaks_late) as broker:
        ear = Ear(make_bus(broker.port, clock=clock))
        async with running(ear.bus):
            for turn in range(1, ENOUGH + 3):
                await ear.sees_links(LinkUp, turn * len(Session))
                clock.passes(timedelta(minutes=2))
                go_on.set()
                await ear.sees_links(LinkDown, turn * len(Session))
                go_on.clear()
            cleared = ear.bus.state(Session.TELEMETRY).cleared

    assert cleared == 0
