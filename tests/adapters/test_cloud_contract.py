"""The promises of ``EventSink``, ``CommandSource`` and ``TimeSource``.

Held by the real adapter against the real server, and by the fake that tests of flows use instead.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

import pytest

from edgeagent.adapters.cloud.https import HttpsQueue
from edgeagent.contracts.door import decode
from edgeagent.contracts.event import Stream
from edgeagent.contracts.timestatement import TIME_BYTES, TIME_TYPE, TimeStatement
from edgeagent.core.envelope import verify
from edgeagent.errors import RejectedError
from edgeagent.ids import HubId, hub_id, new_epoch
from edgeagent.issuer.client import IssuerClient
from edgeagent.issuer.keys import PrivateKey
from edgeagent.ports.cloud import Acknowledged, CommandSource, EventSink, TimeSource
from edgeagent.ports.links import LinkError
from tests.issuer.building import ManualClock, batch, hello, order, real_clock, records, stored
from tests.support.fake_cloud import FakeCloud
from tests.support.queue_server import QueueServer

SECOND = timedelta(seconds=1)
NOW = timedelta(0)
LONG = timedelta(minutes=10)
SHORT = timedelta(milliseconds=200)


class Cloud(EventSink, CommandSource, TimeSource, Protocol):
    """What is held to its promises."""


@dataclass(frozen=True, slots=True)
class Case:
    """A cloud under test, and what a test needs to do on its far side.

    Attributes:
        cloud: what is held to its promises.
        hub: whose it is.
        time_key: signs the time.
        offer: puts a command of this hub in the queue, and returns its envelope.
        lapse: lets so much time pass.
    """

    cloud: Cloud
    hub: HubId
    time_key: PrivateKey
    offer: Callable[[], Awaitable[bytes]]
    lapse: Callable[[timedelta], Awaitable[None]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueueServer]:
    with QueueServer(tmp_path_factory.mktemp("queue")) as running:
        yield running


@pytest.fixture(params=["fake", "real"])
async def case(request: pytest.FixtureRequest) -> AsyncIterator[Case]:
    if request.param == "fake":
        yield _fake()
        return
    async for made in _real(request.getfixturevalue("server")):
        yield made


def _fake() -> Case:
    hub, clock, key = hub_id("venue-7"), ManualClock(), PrivateKey.new()
    cloud = FakeCloud(hub, clock, time_key=key)

    async def offer() -> bytes:
        envelope = order(hub).envelope
        cloud.offers(envelope)
        return envelope

    async def lapse(length: timedelta) -> None:
        clock.passes(length)

    return Case(cloud, hub, key, offer, lapse)


async def _real(server: QueueServer) -> AsyncIterator[Case]:
    known = server.new_hub()
    queue = HttpsQueue(server.settings(known.token), known.id, real_clock())
    await queue.upload(batch(known.id, [hello(1_000_000)]))
    timer = server.new_hub()
    timing = HttpsQueue(server.settings(timer.token), timer.id, real_clock())
    await timing.upload(batch(timer.id, [hello()]))
    async with IssuerClient(server.settings(server.issuer_token), real_clock()) as issuer:

        async def offer() -> bytes:
            signed = order(known.id)
            await issuer.send(signed)
            return signed.envelope

        async def lapse(length: timedelta) -> None:
            # By the server's own clock: a loan of another hub, begun now, has ended.
            await issuer.send(order(timer.id))
            await timing.lease(most=1, wait=NOW, hold=length)
            [ended] = await timing.lease(most=1, wait=60 * SECOND, hold=LONG)
            await timing.acknowledge([ended.handle])

        yield Case(queue, known.id, server.time_key, offer, lapse)
    await queue.close()
    await timing.close()


@pytest.mark.requirement("U1", "U4")
async def test_what_is_taken_is_what_was_sent_and_a_repeat_is_taken_again(case: Case) -> None:
    first = await case.cloud.upload(records(case.hub, 1, 2, 3))
    second = await case.cloud.upload(records(case.hub, 3, 4))

    assert first == Acknowledged(frozenset({1, 2, 3}), {})
    assert second == Acknowledged(frozenset({3, 4}), {})


@pytest.mark.requirement("U1")
async def test_streams_and_epochs_are_numbered_apart(case: Case) -> None:
    newer = new_epoch(1_900_000_000_000, 1)
    await case.cloud.upload(records(case.hub, 1))

    other_stream = await case.cloud.upload(batch(case.hub, [stored(1)], stream=Stream.STATE))
    other_epoch = await case.cloud.upload(records(case.hub, 1, epoch=newer))

    assert other_stream.taken == other_epoch.taken == {1}


@pytest.mark.requirement("U1", "H9")
async def test_another_event_under_a_known_number_is_refused_with_a_reason(case: Case) -> None:
    await case.cloud.upload(records(case.hub, 1))

    answer = await case.cloud.upload(batch(case.hub, [stored(1, data={"reason": "other"}), stored(2)]))

    assert answer.taken == {2}
    assert answer.refused.keys() == {1}
    assert answer.refused[1]


@pytest.mark.requirement("Q3")
async def test_an_empty_queue_lends_nothing(case: Case) -> None:
    assert await case.cloud.lease(most=5, wait=NOW, hold=LONG) == []
    assert await case.cloud.lease(most=5, wait=SHORT, hold=LONG) == []


@pytest.mark.requirement("Q3")
async def test_commands_are_lent_oldest_first_and_byte_for_byte(case: Case) -> None:
    offered = [await case.offer() for _ in range(3)]

    first = await case.cloud.lease(most=2, wait=NOW, hold=LONG)
    second = await case.cloud.lease(most=2, wait=NOW, hold=LONG)

    assert [delivery.envelope for delivery in first + second] == offered
    assert len({delivery.handle for delivery in first + second}) == 3


@pytest.mark.requirement("Q3", "Q9")
async def test_a_waiting_lease_is_given_a_new_command(case: Case) -> None:
    waiting = asyncio.create_task(case.cloud.lease(most=5, wait=30 * SECOND, hold=LONG))

    offered = await case.offer()

    [delivery] = await asyncio.wait_for(waiting, 60)
    assert delivery.envelope == offered


@pytest.mark.requirement("Q3")
async def test_what_is_acknowledged_never_comes_again(case: Case) -> None:
    await case.offer()
    [delivery] = await case.cloud.lease(most=5, wait=NOW, hold=SHORT)

    await case.cloud.acknowledge([delivery.handle])
    await case.lapse(2 * SHORT)

    assert await case.cloud.lease(most=5, wait=NOW, hold=LONG) == []


@pytest.mark.requirement("Q3")
async def test_what_is_not_acknowledged_in_time_comes_again_under_another_handle(case: Case) -> None:
    offered = await case.offer()
    [first] = await case.cloud.lease(most=5, wait=NOW, hold=SHORT)
    await case.lapse(2 * SHORT)

    [second] = await case.cloud.lease(most=5, wait=NOW, hold=LONG)

    assert second.envelope == offered
    assert second.handle != first.handle
    await case.cloud.acknowledge([first.handle])  # too late: it says nothing of the new loan
    await case.cloud.extend([first.handle], hold=NOW + SHORT)
    await case.cloud.hand_back([first.handle])
    assert await case.cloud.lease(most=5, wait=NOW, hold=LONG) == []


@pytest.mark.requirement("Q3")
async def test_a_loan_that_is_extended_goes_on(case: Case) -> None:
    await case.offer()
    [delivery] = await case.cloud.lease(most=5, wait=NOW, hold=SHORT)

    await case.cloud.extend([delivery.handle], hold=LONG)
    await case.lapse(2 * SHORT)

    assert await case.cloud.lease(most=5, wait=NOW, hold=LONG) == []


@pytest.mark.requirement("Q3")
async def test_what_is_handed_back_is_lent_again_at_once(case: Case) -> None:
    offered = await case.offer()
    [delivery] = await case.cloud.lease(most=5, wait=NOW, hold=LONG)

    await case.cloud.hand_back([delivery.handle])

    [again] = await case.cloud.lease(most=5, wait=NOW, hold=LONG)
    assert again.envelope == offered


@pytest.mark.requirement("T5")
async def test_the_time_is_signed_over_our_nonce(case: Case) -> None:
    nonce = "5c" * 16

    raw = await case.cloud.statement(nonce)

    keys = {case.time_key.id: case.time_key.public}
    verified = verify(raw, keys, TIME_TYPE, limit=TIME_BYTES)
    statement = decode(TimeStatement, verified.payload, limit=TIME_BYTES)
    assert (statement.hub, statement.nonce) == (case.hub, nonce)
    assert verified.signers == (case.time_key.id,)


async def test_a_fake_cloud_breaks_on_request() -> None:
    cloud = FakeCloud(hub_id("venue-7"), ManualClock(), time_key=PrivateKey.new())

    cloud.goes_down(retry_after=SECOND)
    with pytest.raises(LinkError) as down:
        await cloud.upload(records(hub_id("venue-7"), 1))
    cloud.comes_back()
    cloud.loses_answers()
    with pytest.raises(LinkError):
        await cloud.upload(records(hub_id("venue-7"), 1))
    cloud.refuses(Stream.RECORD, 3)
    answer = await cloud.upload(records(hub_id("venue-7"), 1, 2, 3))
    cloud.takes_at_most(1)
    with pytest.raises(RejectedError):
        await cloud.upload(records(hub_id("venue-7"), 4, 5))

    assert down.value.retry_after == SECOND
    assert answer.taken == {1, 2}
    assert answer.refused.keys() == {3}
    assert cloud.numbers(Stream.RECORD) == [1, 2]


async def test_a_fake_cloud_that_goes_down_lets_nobody_wait() -> None:
    cloud = FakeCloud(hub_id("venue-7"), ManualClock())
    waiting = asyncio.create_task(cloud.lease(most=1, wait=30 * SECOND, hold=SECOND))
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    cloud.goes_down()

    with pytest.raises(LinkError):
        await asyncio.wait_for(waiting, 60)
