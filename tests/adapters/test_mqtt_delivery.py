"""What is promised of messages, against a real mosquitto: kept until acknowledged, and nothing twice."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from pydantic import SecretBytes

from edgeagent.contracts.mqtt import (
    LinkDown,
    LinkUp,
    Outgoing,
    PublishResult,
    RetainHandling,
    Session,
    Subscription,
)
from edgeagent.errors import BrokenInvariantError, RejectedError
from edgeagent.ids import topic, topic_filter
from edgeagent.metrics import Metrics
from edgeagent.ports.links import LinkError, Trouble
from tests.support.brokers import Mosquitto
from tests.support.device import Device
from tests.support.ear import Ear, make_bus, running
from tests.support.waiting import eventually

TELEMETRY = Subscription(topic_filter("tele/+/data"), Session.TELEMETRY)
CONTROL = Subscription(topic_filter("stat/+/result"), Session.CONTROL)
WANTED = (TELEMETRY, CONTROL)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    with Mosquitto(tmp_path) as mosquitto:
        yield mosquitto


@pytest.fixture
def device(broker: Mosquitto) -> Iterator[Device]:
    with Device(broker.port) as client:
        yield client


def command(payload: bytes, *, name: str = "cmnd/1/POWER", expires_in: int = 30) -> Outgoing:
    return Outgoing(topic=topic(name), payload=payload, expires_in=expires_in)


@pytest.mark.requirement("Q1", "R5")
async def test_what_the_agent_had_not_acknowledged_when_it_died_comes_to_its_successor(
    broker: Mosquitto, device: Device
) -> None:
    first, second = make_bus(broker.port), make_bus(broker.port)
    await first.subscribe(WANTED)
    async with running(first):
        ear = Ear(first)
        await ear.sees_links(LinkUp)
        await asyncio.to_thread(device.says, "tele/1/data", b"stored")
        await asyncio.to_thread(device.says, "tele/1/data", b"only received")
        stored, received = await ear.hears(b"stored", b"only received")
        first.acknowledge([stored])
    await asyncio.to_thread(broker.wait_for_log, "Client edgeagent-hub-1-telemetry disconnected")
    await asyncio.to_thread(device.says, "tele/1/data", b"sent while it was gone")

    await second.subscribe(WANTED)
    async with running(second):
        ear = Ear(second)
        again, missed = await ear.hears(b"only received", b"sent while it was gone")

    assert ear.ups(Session.TELEMETRY)[0].session_present
    assert (again.dup, again.packet_id) == (True, received.packet_id)
    assert not missed.dup
    assert b"stored" not in [message.payload for message in ear.messages]


@pytest.mark.requirement("R8")
async def test_a_broker_that_restarts_keeps_the_session_and_what_is_in_flight(
    broker: Mosquitto, device: Device
) -> None:
    bus = make_bus(broker.port)
    await bus.subscribe(WANTED)
    async with running(bus):
        ear = Ear(bus)
        await ear.sees_links(LinkUp)
        await asyncio.to_thread(device.says, "tele/1/data", b"1")
        [before] = await ear.hears(b"1")

        await asyncio.to_thread(broker.stop)
        await ear.sees_links(LinkDown)
        await asyncio.to_thread(broker.start)

        await ear.until(lambda: len(ear.messages) == 2)
        [_, after] = ear.messages
        assert (after.payload, after.dup, after.packet_id) == (b"1", True, before.packet_id)
        assert after.epoch > before.epoch
        assert ear.ups(Session.TELEMETRY)[-1].session_present


@pytest.mark.requirement("R8")
async def test_a_broker_that_lost_the_session_is_subscribed_to_anew(broker: Mosquitto) -> None:
    bus = make_bus(broker.port)
    await bus.subscribe(WANTED)
    async with running(bus):
        ear = Ear(bus)
        await ear.sees_links(LinkUp)

        await asyncio.to_thread(broker.kill)  # with nothing written down yet
        await ear.sees_links(LinkDown)
        await asyncio.to_thread(broker.start)
        await ear.sees_links(LinkUp, count=4)

        assert not ear.ups(Session.TELEMETRY)[-1].session_present
        with Device(broker.port) as device:
            await asyncio.to_thread(device.says, "tele/1/data", b"heard")
        await ear.hears(b"heard")


@pytest.mark.requirement("M2")
async def test_what_control_publishes_does_not_come_back_to_it(broker: Mosquitto, device: Device) -> None:
    bus = make_bus(broker.port)
    await bus.subscribe([Subscription(topic_filter("cmnd/#"), Session.CONTROL)])
    async with running(bus):
        ear = Ear(bus)
        await ear.sees_links(LinkUp)

        await bus.publish(command(b"ours"))
        await asyncio.to_thread(device.says, "cmnd/1/POWER", b"somebody else's")

        await ear.hears(b"somebody else's")
        assert [message.payload for message in ear.messages] == [b"somebody else's"]


async def test_stored_messages_are_read_again_only_where_that_is_asked_for(
    broker: Mosquitto, device: Device
) -> None:
    for name in ("always", "once", "never"):
        await asyncio.to_thread(device.says, name, name.encode(), retain=True)
    bus = make_bus(broker.port)
    await bus.subscribe(
        [
            Subscription(topic_filter("always"), Session.CONTROL, RetainHandling.ALWAYS),
            Subscription(topic_filter("once"), Session.CONTROL, RetainHandling.WHEN_NEW),
            Subscription(topic_filter("never"), Session.CONTROL, RetainHandling.NEVER),
        ]
    )
    async with running(bus):
        ear = Ear(bus)
        first = await ear.hears(b"always", b"once")
        bus.acknowledge(first)

        bus.hold(held=True)
        await ear.sees_links(LinkDown)
        bus.hold(held=False)
        await ear.until(lambda: len(ear.messages) == 3)

        await asyncio.to_thread(device.says, "never", b"last")
        await ear.hears(b"last")
        assert [m.payload for m in ear.messages][2:] == [b"always", b"last"]
        assert all(message.retain for message in ear.messages[:3])


@pytest.mark.requirement("M3")
async def test_a_command_bears_its_expiry_and_no_retain_flag(broker: Mosquitto, device: Device) -> None:
    await asyncio.to_thread(device.listens, "cmnd/#")
    bus = make_bus(broker.port)
    async with running(bus):
        await Ear(bus).sees_links(LinkUp)

        await bus.publish(command(b"ON", expires_in=42))

        [heard] = await asyncio.to_thread(device.hears)
    assert heard.expires_in is not None
    assert 40 <= heard.expires_in <= 42
    assert heard.qos == 1
    assert not heard.retain


async def test_a_command_that_has_no_whole_second_left_is_not_sent(broker: Mosquitto) -> None:
    bus = make_bus(broker.port)
    async with running(bus):
        await Ear(bus).sees_links(LinkUp)

        with pytest.raises(RejectedError):
            await bus.publish(command(b"ON", expires_in=0))


async def test_nobody_listens_is_not_hidden_by_our_own_sessions(broker: Mosquitto) -> None:
    bus = make_bus(broker.port)
    await bus.subscribe(WANTED)
    async with running(bus):
        await Ear(bus).sees_links(LinkUp)
        await bus.retained(["cmnd/#"])

        assert await bus.publish(command(b"ON")) is PublishResult.NOBODY_LISTENS


@pytest.mark.requirement("R7")
async def test_a_command_larger_than_the_brokers_packets_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    with Mosquitto(tmp_path, options=["max_packet_size 1000"]) as broker, Device(broker.port) as device:
        await asyncio.to_thread(device.listens, "cmnd/#")
        bus = make_bus(broker.port)
        async with running(bus):
            await Ear(bus).sees_links(LinkUp)

            with pytest.raises(RejectedError, match="1000"):
                await bus.publish(command(b"x" * 1000))

            assert await bus.publish(command(b"x" * 900)) is PublishResult.TAKEN
            assert bus.state(Session.CONTROL).attempts == 0


@pytest.mark.requirement("R7")
async def test_a_command_beyond_a_limit_that_the_broker_did_not_tell_of_is_refused_and_wedges_nothing(
    tmp_path: Path,
) -> None:
    """The answer of mosquitto is PUBACK 0x95, which the standard does not know and paho hangs up at."""
    with Mosquitto(tmp_path, options=["message_size_limit 100"]) as broker, Device(broker.port) as device:
        await asyncio.to_thread(device.listens, "cmnd/#")
        bus = make_bus(broker.port)
        async with running(bus):
            await Ear(bus).sees_links(LinkUp)

            results = [await bus.publish(command(b"x" * 101)), await bus.publish(command(b"small"))]

            assert results == [PublishResult.REFUSED, PublishResult.TAKEN]
            assert [heard.payload for heard in await asyncio.to_thread(device.hears)] == [b"small"]
            assert bus.state(Session.CONTROL).attempts == 0


async def test_a_filter_that_changed_sides_between_two_starts_brings_each_message_once(
    broker: Mosquitto, device: Device
) -> None:
    before, after = make_bus(broker.port), make_bus(broker.port)
    await before.subscribe([TELEMETRY])
    async with running(before):
        await Ear(before).sees_links(LinkUp)

    await after.subscribe([Subscription(TELEMETRY.filter, Session.CONTROL)])
    async with running(after):
        ear = Ear(after)
        await ear.sees_links(LinkUp)
        await asyncio.to_thread(device.says, "tele/1/data", b"once")
        await asyncio.to_thread(device.says, "tele/1/data", b"last")
        await ear.hears(b"last")

        assert [(m.session, m.payload) for m in ear.messages] == [
            (Session.CONTROL, b"once"),
            (Session.CONTROL, b"last"),
        ]


async def test_hundreds_of_filters_are_all_made(broker: Mosquitto, device: Device) -> None:
    wanted = [
        Subscription(topic_filter(f"tele/{'x' * 400}-{number}/data"), Session.TELEMETRY)
        for number in range(300)
    ]
    bus = make_bus(broker.port)
    await bus.subscribe(wanted)
    async with running(bus):
        ear = Ear(bus)
        await ear.sees_links(LinkUp)

        for number in (0, 63, 64, 299):
            await asyncio.to_thread(device.says, wanted[number].filter, b"%d" % number)

        await ear.hears(b"0", b"63", b"64", b"299")


async def test_a_filter_claimed_by_both_sessions_is_refused_and_changes_nothing(
    broker: Mosquitto, device: Device
) -> None:
    bus = make_bus(broker.port)
    await bus.subscribe(WANTED)
    async with running(bus):
        ear = Ear(bus)
        await ear.sees_links(LinkUp)

        with pytest.raises(BrokenInvariantError):
            await bus.subscribe([CONTROL, Subscription(CONTROL.filter, Session.TELEMETRY)])

        await asyncio.to_thread(device.says, "tele/1/data", b"still heard")
        await ear.hears(b"still heard")


@pytest.mark.slow
async def test_the_broker_tells_how_many_messages_it_has_dropped(tmp_path: Path) -> None:
    with Mosquitto(tmp_path, options=["max_queued_messages 5"]) as broker, Device(broker.port) as device:
        bus = make_bus(broker.port)
        await bus.subscribe(WANTED)
        async with running(bus):
            ear = Ear(bus)
            await ear.sees_links(LinkUp)
            assert await bus.dropped() == 0
            bus.hold(held=True)
            await ear.sees_links(LinkDown)

            await asyncio.to_thread(device.says_all, "tele/1/data", [b"%d" % n for n in range(20)])

            async with asyncio.timeout(60):
                while ((dropped := await bus.dropped()) or 0) < 15:
                    pass  # mosquitto writes it down once a second, and perhaps in the middle of them
            assert dropped == 15


@pytest.mark.requirement("H9")
async def test_two_agents_of_one_identity_are_noticed(broker: Mosquitto) -> None:
    """They throw each other out in turns; mosquitto 2.0 closes and gives no reason."""
    ours, theirs = make_bus(broker.port), make_bus(broker.port)
    ear, other = Ear(ours), Ear(theirs)
    async with running(ours), running(theirs), asyncio.TaskGroup() as group:
        listening = group.create_task(other.until(lambda: False))

        await ear.until(lambda: any("another agent" in down.why for down in ear.downs(Session.CONTROL)))

        listening.cancel()
    assert ear.downs(Session.CONTROL)[0].why == "closed by the broker"
    assert "another agent connected as edgeagent-hub-1-control" in ear.downs(Session.CONTROL)[-1].why


async def test_a_wrong_password_is_told_as_such_and_a_right_one_works(tmp_path: Path) -> None:
    passwords = tmp_path / "passwords"
    passwords.touch(mode=0o600)
    tool = await asyncio.create_subprocess_exec("mosquitto_passwd", "-b", str(passwords), "agent", "right")
    assert await tool.wait() == 0
    with Mosquitto(tmp_path, options=[f"password_file {passwords}"], anonymous=False) as broker:
        wrong = make_bus(broker.port, username="agent", password=SecretBytes(b"wrong"))
        async with running(wrong):
            await eventually(lambda: wrong.state(Session.CONTROL).attempts)
            with pytest.raises(LinkError) as caught:
                await wrong.publish(command(b"ON"))
            assert caught.value.trouble is Trouble.LOGIN
            assert "not authorized" in wrong.state(Session.CONTROL).why

        right = make_bus(broker.port, username="agent", password=SecretBytes(b"right"))
        async with running(right):
            await Ear(right).sees_links(LinkUp)
            assert right.state(Session.CONTROL).connected


@pytest.mark.requirement("R2")
async def test_what_was_received_and_not_fetched_when_it_was_held_is_forgotten_and_comes_again(
    broker: Mosquitto, device: Device
) -> None:
    metrics = Metrics(CollectorRegistry())
    bus = make_bus(broker.port, metrics=metrics)
    await bus.subscribe(WANTED)
    async with running(bus):
        ear = Ear(bus)
        await ear.sees_links(LinkUp)
        await asyncio.to_thread(device.says, "tele/1/data", b"1")
        received = {"session": "telemetry"}
        await eventually(lambda: metrics.registry.get_sample_value("edgeagent_messages_total", received))

        bus.hold(held=True)
        await ear.sees_links(LinkDown)
        held = ear.messages
        bus.hold(held=False)

        [message] = await ear.hears(b"1")
    assert held == []
    assert (message.epoch, message.dup) == (2, True)


@pytest.mark.requirement("O1")
async def test_messages_and_connections_are_counted(broker: Mosquitto, device: Device) -> None:
    metrics = Metrics(CollectorRegistry())
    bus = make_bus(broker.port, metrics=metrics)

    def read(name: str, session: Session) -> float | None:
        return metrics.registry.get_sample_value(name, {"session": session})

    await bus.subscribe(WANTED)
    async with running(bus):
        ear = Ear(bus)
        await ear.sees_links(LinkUp)
        await asyncio.to_thread(device.says, "tele/1/data", b"1")
        await ear.hears(b"1")

        assert read("edgeagent_messages_total", Session.TELEMETRY) == 1
        assert read("edgeagent_messages_total", Session.CONTROL) == 0
        assert read("edgeagent_broker_connected", Session.CONTROL) == 1
    assert read("edgeagent_broker_connected", Session.CONTROL) == 0
