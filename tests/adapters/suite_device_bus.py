"""What every ``DeviceBus`` keeps, whatever stands behind it: the fake of the flow tests, mosquitto, iotcore.

``test_mqtt_contract.py`` runs it on each. A world brings the bus, a device that speaks over the same
broker, and the power to cut the connection.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Protocol

import pytest

from edgeagent.contracts.mqtt import (
    Inbound,
    LinkDown,
    LinkUp,
    Outgoing,
    PublishResult,
    RetainHandling,
    Session,
    Subscription,
)
from edgeagent.errors import RejectedError
from edgeagent.ids import topic, topic_filter
from edgeagent.ports.broker import DeviceBus
from edgeagent.ports.links import LinkError
from tests.support.ear import SOON, Ear, running
from tests.support.waiting import eventually

TELEMETRY = Subscription(topic_filter("tele/+/data"), Session.TELEMETRY)
CONTROL = Subscription(topic_filter("stat/+/result"), Session.CONTROL)
PRESENCE = Subscription(topic_filter("tele/+/online"), Session.CONTROL, RetainHandling.ALWAYS)
WANTED = (TELEMETRY, CONTROL, PRESENCE)


class World(Protocol):
    """A bus and what is around it.

    Attributes:
        bus: under test; its connections are made once ``up`` was called.
        marks_repeats: whether a message that is sent again bears the DUP flag and its former id.
        knows_listeners: whether the broker says that nobody listens.
        lets_go: whether it ends a subscription that an earlier connection of the session has made.
        largest: bytes of payload that the broker takes.
    """

    bus: DeviceBus
    marks_repeats: bool
    knows_listeners: bool
    lets_go: bool
    largest: int

    async def up(self) -> None:
        """Let the bus reach its broker."""
        ...

    async def down(self) -> None:
        """Cut it off; the broker keeps its sessions."""
        ...

    async def device_says(self, name: str, payload: bytes, *, retain: bool = False) -> None:
        """A device publishes with QoS 1; returns once the broker has it."""
        ...

    async def device_listens(self, name: str) -> None:
        """A device subscribes."""
        ...

    async def device_hears(self) -> tuple[str, bytes, bool]:
        """The next message that the device gets: topic, payload, whether it is a stored one."""
        ...


class DeviceBusSuite:
    """The promises. Subclasses bring the fixture ``make_world``."""

    @pytest.fixture
    async def world(self, make_world: AbstractAsyncContextManager[World]) -> AsyncIterator[World]:
        async with make_world as world, running(world.bus):
            yield world

    @pytest.fixture
    async def ear(self, world: World) -> Ear:
        """A bus that is subscribed and up."""
        ear = Ear(world.bus)
        await world.bus.subscribe(WANTED)
        await world.up()
        await ear.sees_links(LinkUp)
        return ear

    async def test_a_message_comes_as_it_was_sent(self, world: World, ear: Ear) -> None:
        await world.device_says("tele/1/data", b'{"power": 7}')

        [message] = await ear.hears(b'{"power": 7}')

        assert (message.topic, message.session, message.qos) == ("tele/1/data", Session.TELEMETRY, 1)
        assert not message.retain
        assert not message.dup
        assert message.packet_id > 0

    async def test_the_first_word_of_a_life_is_that_it_began(self, world: World, ear: Ear) -> None:
        await world.device_says("tele/1/data", b"1")
        await ear.hears(b"1")
        await world.down()
        await ear.sees_links(LinkDown)
        await world.device_says("tele/1/data", b"2")

        await world.up()
        await ear.hears(b"2")

        for session in Session:
            kinds = [type(item) for item in ear.of(session) if not isinstance(item, Inbound)]
            assert kinds[:2] == [LinkUp, LinkDown]
            epoch = 0
            for item in ear.of(session):
                assert isinstance(item, LinkUp) or item.epoch == epoch
                epoch = item.epoch

    async def test_the_first_session_is_new_and_the_next_one_is_kept(self, world: World, ear: Ear) -> None:
        await world.down()
        await ear.sees_links(LinkDown)
        await world.up()
        await ear.sees_links(LinkUp, count=4)

        ups = [item for item in ear.of(Session.TELEMETRY) if isinstance(item, LinkUp)]

        assert [up.session_present for up in ups] == [False, True]

    @pytest.mark.requirement("Q1", "Q2")
    async def test_what_was_not_acknowledged_comes_again(self, world: World, ear: Ear) -> None:
        await world.device_says("tele/1/data", b"kept")
        await world.device_says("tele/1/data", b"lost")
        kept, lost = await ear.hears(b"kept", b"lost")
        world.bus.acknowledge([kept])
        # The answer to this SUBSCRIBE proves that the broker has read the PUBACK before it.
        await world.bus.subscribe([*WANTED, Subscription(topic_filter("x"), Session.TELEMETRY)])

        await world.down()
        await ear.sees_links(LinkDown)
        await world.up()
        await ear.until(lambda: len(ear.messages) > 2)

        [_, _, again] = ear.messages
        assert again.payload == b"lost"
        assert again.epoch > lost.epoch
        assert again.dup is world.marks_repeats
        assert again.packet_id == lost.packet_id or not world.marks_repeats

    @pytest.mark.requirement("Q1")
    async def test_an_acknowledgement_from_an_earlier_life_is_left_out(self, world: World, ear: Ear) -> None:
        await world.device_says("tele/1/data", b"1")
        [early] = await ear.hears(b"1")
        await world.down()
        await ear.sees_links(LinkDown)
        await world.up()
        await ear.sees_links(LinkUp, count=4)
        await ear.until(lambda: len(ear.messages) == 2)

        world.bus.acknowledge([early])
        await world.down()
        await ear.sees_links(LinkDown, count=4)
        await world.up()

        await ear.until(lambda: len(ear.messages) == 3)
        assert {message.payload for message in ear.messages} == {b"1"}

    async def test_messages_that_come_while_we_are_away_wait_for_us(self, world: World, ear: Ear) -> None:
        await world.down()
        await ear.sees_links(LinkDown)
        for number in range(20):
            await world.device_says("tele/1/data", b"%d" % number)

        await world.up()

        messages = await ear.hears(*(b"%d" % number for number in range(20)))
        assert [message.payload for message in messages] == [b"%d" % number for number in range(20)]

    async def test_control_comes_first(self, world: World, ear: Ear) -> None:
        await world.down()
        await ear.sees_links(LinkDown)
        await world.device_says("tele/1/data", b"reading")
        await world.device_says("stat/1/result", b"answer")
        await world.up()
        await eventually(lambda: all(world.bus.state(session).connected for session in Session))

        items = await world.bus.receive(within=SOON)

        sessions = [item.session for item in items]
        assert sessions == sorted(sessions, key=list(Session).index)

    async def test_nothing_comes_of_waiting_for_nothing(self, world: World, ear: Ear) -> None:
        assert ear.items

        assert await world.bus.receive(within=timedelta(milliseconds=10)) == []

    async def test_a_subscription_that_is_no_longer_wanted_ends(self, world: World, ear: Ear) -> None:
        await world.bus.subscribe([CONTROL])
        await world.device_says("tele/1/data", b"unwanted")
        await world.device_says("stat/1/result", b"wanted")

        await ear.hears(b"wanted")

        assert [message.payload for message in ear.messages] == [b"wanted"]

    async def test_a_subscription_made_while_connected_works_at_once(self, world: World, ear: Ear) -> None:
        more = Subscription(topic_filter("tele/+/energy"), Session.TELEMETRY)
        await world.bus.subscribe([*WANTED, more])

        await world.device_says("tele/1/energy", b"5")

        [message] = await ear.hears(b"5")
        assert message.session is Session.TELEMETRY

    async def test_subscriptions_set_while_away_are_made_at_the_next_connect(
        self, world: World, ear: Ear
    ) -> None:
        await world.down()
        await ear.sees_links(LinkDown)
        await world.bus.subscribe([CONTROL])
        await world.up()
        await ear.sees_links(LinkUp, count=4)

        await world.device_says("tele/1/data", b"unwanted")
        await world.device_says("tele/1/online", b"unwanted as well")
        await world.device_says("stat/1/result", b"wanted")

        await ear.hears(b"wanted")
        if world.lets_go:
            assert [message.payload for message in ear.messages] == [b"wanted"]

    async def test_a_stored_message_is_told_from_a_live_one(self, world: World, ear: Ear) -> None:
        await world.device_says("tele/1/online", b"true", retain=True)
        [live] = await ear.hears(b"true")
        assert not live.retain
        world.bus.acknowledge([live])

        await world.bus.subscribe([*WANTED, Subscription(topic_filter("tele/1/#"), Session.CONTROL)])
        await ear.until(lambda: len(ear.messages) > 1)

        assert ear.messages[1].retain
        assert ear.messages[1].payload == b"true"

    @pytest.mark.requirement("M3")
    async def test_a_command_reaches_who_listens_and_is_never_stored(self, world: World, ear: Ear) -> None:
        assert ear.items
        await world.device_listens("cmnd/1/POWER")

        result = await world.bus.publish(Outgoing(topic=topic("cmnd/1/POWER"), payload=b"ON", expires_in=30))

        assert result is PublishResult.TAKEN
        assert await world.device_hears() == ("cmnd/1/POWER", b"ON", False)
        assert await world.bus.retained(["cmnd/#"]) == []

    async def test_nobody_listening_is_told_where_the_broker_knows(self, world: World, ear: Ear) -> None:
        assert ear.items
        message = Outgoing(topic=topic("cmnd/none"), payload=b"ON", expires_in=30)

        result = await world.bus.publish(message)

        expected = PublishResult.NOBODY_LISTENS if world.knows_listeners else PublishResult.TAKEN
        assert result is expected

    async def test_a_command_larger_than_the_broker_takes_is_refused_before_it_is_sent(
        self, world: World, ear: Ear
    ) -> None:
        assert ear.items
        await world.device_listens("cmnd/#")
        large = Outgoing(topic=topic("cmnd/1"), payload=b"x" * (world.largest + 1), expires_in=30)

        with pytest.raises(RejectedError):
            await world.bus.publish(large)

        small = Outgoing(topic=topic("cmnd/1"), payload=b"next", expires_in=30)
        assert await world.bus.publish(small) is PublishResult.TAKEN
        assert await world.device_hears() == ("cmnd/1", b"next", False)
        assert world.bus.state(Session.CONTROL).connected

    async def test_without_connection_a_command_is_not_sent_later_either(
        self, world: World, ear: Ear
    ) -> None:
        await world.device_listens("cmnd/#")
        await world.down()
        await ear.sees_links(LinkDown)
        with pytest.raises(LinkError):
            await world.bus.publish(Outgoing(topic=topic("cmnd/1"), payload=b"late", expires_in=30))

        await world.up()
        await ear.sees_links(LinkUp, count=4)
        await world.bus.publish(Outgoing(topic=topic("cmnd/1"), payload=b"new", expires_in=30))

        assert await world.device_hears() == ("cmnd/1", b"new", False)

    async def test_held_it_forgets_what_came_and_gets_it_again(self, world: World, ear: Ear) -> None:
        await world.device_says("tele/1/data", b"1")
        [first] = await ear.hears(b"1")

        world.bus.hold(held=True)
        await ear.sees_links(LinkDown)
        assert not world.bus.state(Session.CONTROL).connected
        world.bus.acknowledge([first])
        world.bus.hold(held=False)

        await ear.until(lambda: len(ear.messages) == 2)
        assert ear.messages[1].payload == b"1"
        assert ear.messages[1].epoch > first.epoch

    @pytest.mark.requirement("M3")
    async def test_a_look_finds_what_is_stored_and_subscribes_to_nothing(
        self, world: World, ear: Ear
    ) -> None:
        await world.device_says("cmnd/1/POWER", b"ON", retain=True)
        await world.device_says("cmnd/2/POWER", b"OFF", retain=True)

        found = await world.bus.retained(["cmnd/+/POWER"])

        assert sorted((m.topic, m.payload, m.retain) for m in found) == [
            ("cmnd/1/POWER", b"ON", True),
            ("cmnd/2/POWER", b"OFF", True),
        ]
        await world.device_says("cmnd/1/POWER", b"TOGGLE")
        await world.device_says("tele/1/data", b"last")
        await ear.hears(b"last")
        assert [message.payload for message in ear.messages] == [b"last"]

    async def test_its_state_says_since_when_and_why(self, world: World, ear: Ear) -> None:
        before = world.bus.state(Session.TELEMETRY)
        await world.down()
        await ear.sees_links(LinkDown)

        after = world.bus.state(Session.TELEMETRY)

        assert before.connected
        assert before.why == ""
        assert not after.connected
        assert after.why
        assert after.since >= before.since
