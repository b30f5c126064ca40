"""What was acknowledged is there after a kill, and once; whatever was not can be said again."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.adapters.cloud.https import HttpsQueue
from edgeagent.contracts.event import Stream
from edgeagent.issuer.client import IssuerClient
from edgeagent.issuer.wire import CommandState, EventsAnswer
from edgeagent.ports.links import LinkError, Trouble
from tests.issuer.building import EPOCH, batch, hello, order, real_clock, receipt_event, records
from tests.support.queue_server import KnownHub, QueueServer

SECOND = timedelta(seconds=1)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[QueueServer]:
    with QueueServer(tmp_path) as running:
        yield running


@asynccontextmanager
async def ends(server: QueueServer, hub: KnownHub) -> AsyncIterator[tuple[HttpsQueue, IssuerClient]]:
    queue = HttpsQueue(server.settings(hub.token), hub.id, real_clock())
    async with IssuerClient(server.settings(server.issuer_token), real_clock()) as cloud:
        yield queue, cloud
    await queue.close()


async def everything(cloud: IssuerClient, hub: KnownHub) -> list[int]:
    numbers: list[int] = []
    page: EventsAnswer | None = None
    while page is None or page.events:
        after = 0 if page is None else page.last
        page = await cloud.events(hub.id, Stream.RECORD, epoch=EPOCH, after=after, most=2000)
        numbers += [int(event.id.rpartition("/")[2]) for event in page.events]
    return numbers


@pytest.mark.slow
@pytest.mark.requirement("U1", "U4", "R1")
async def test_no_acknowledged_event_is_lost_and_none_is_there_twice_when_the_queue_is_killed(
    server: QueueServer,
) -> None:
    """Eight senders upload without a pause; the server is killed in the middle, again and again."""
    hub = server.new_hub()
    acknowledged: set[int] = set()
    begun, up = asyncio.Event(), asyncio.Event()
    up.set()

    async def sends(queue: HttpsQueue, first: int) -> None:
        for start in range(first, 4001, 8 * 20):
            numbers = range(start, min(start + 20, 4001))
            while not acknowledged.issuperset(numbers):
                try:
                    answer = await queue.upload(records(hub.id, *numbers))
                except LinkError:
                    await up.wait()
                else:
                    acknowledged.update(answer.taken)
                    begun.set()

    async with ends(server, hub) as (queue, cloud):
        async with asyncio.timeout(100), asyncio.TaskGroup() as group:
            for place in range(8):
                group.create_task(sends(queue, 1 + place * 20))
            for _ in range(6):
                begun.clear()
                await begun.wait()
                up.clear()
                server.kill()
                kept_at_least = set(acknowledged)
                await asyncio.to_thread(server.start)
                up.set()
                assert kept_at_least <= set(await everything(cloud, hub))

        held = await everything(cloud, hub)
        [record, *_] = (await cloud.hub(hub.id, epoch=EPOCH)).streams

    assert held == list(range(1, 4001))
    assert (record.ranges, record.contiguous) == ([[1, 4000]], True)


@pytest.mark.requirement("Q3", "R1")
async def test_loans_outlive_the_server_and_commands_outlive_their_loans(server: QueueServer) -> None:
    hub = server.new_hub()
    lent, waits, done = order(hub.id), order(hub.id), order(hub.id)
    async with ends(server, hub) as (queue, cloud):
        await queue.upload(batch(hub.id, [hello()]))
        for one in (done, lent, waits):
            await cloud.send(one)
        first, second = await queue.lease(most=2, wait=0 * SECOND, hold=600 * SECOND)
        await queue.acknowledge([first.handle])
        server.kill()
        server.start()

        states = [(await cloud.status(hub.id, one.command.id)).state for one in (done, lent, waits)]
        free = await queue.lease(most=9, wait=0 * SECOND, hold=600 * SECOND)
        await queue.acknowledge([second.handle])

        assert states == [CommandState.TAKEN, CommandState.LEASED, CommandState.QUEUED]
        assert [delivery.envelope for delivery in free] == [waits.envelope]
        assert (await cloud.status(hub.id, lent.command.id)).state is CommandState.TAKEN


@pytest.mark.requirement("A4", "R1")
async def test_a_receipt_and_the_end_of_its_command_are_one_commit(server: QueueServer) -> None:
    hub = server.new_hub()
    sent = order(hub.id)
    async with ends(server, hub) as (queue, cloud):
        await queue.upload(batch(hub.id, [hello()]))
        await cloud.send(sent)
        await queue.upload(batch(hub.id, [receipt_event(2, sent)]))
        server.kill()
        server.start()

        assert (await cloud.status(hub.id, sent.command.id)).state is CommandState.FINAL
        assert await queue.lease(most=9, wait=0 * SECOND, hold=SECOND) == []


@pytest.mark.requirement("R2")
async def test_a_full_disk_takes_nothing_says_so_and_heals_by_itself(server: QueueServer) -> None:
    hub = server.new_hub()
    sent = order(hub.id)
    async with ends(server, hub) as (queue, cloud):
        await queue.upload(batch(hub.id, [hello()]))
        server.disk_is_full()

        with pytest.raises(LinkError) as refused:
            await queue.upload(records(hub.id, 2, 3))
        with pytest.raises(LinkError):
            await cloud.send(sent)
        held = await everything(cloud, hub)
        server.disk_has_room()
        again = await queue.upload(records(hub.id, 2, 3))

        assert refused.value.trouble is Trouble.BUSY
        assert refused.value.retry_after
        assert held == [1]
        assert again.taken == {2, 3}
        assert (await cloud.send(sent)).state is CommandState.QUEUED


@pytest.mark.requirement("H2")
async def test_a_stopped_server_ends_in_order_and_sends_waiting_hubs_home(server: QueueServer) -> None:
    hub = server.new_hub()
    async with ends(server, hub) as (queue, _):
        both = [asyncio.create_task(queue.lease(most=1, wait=60 * SECOND, hold=SECOND)) for _ in range(2)]
        # One of them has pushed the other out, and so is known to wait.
        pushed_out, waiting = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)

        status = await asyncio.to_thread(server.stop)

        assert isinstance(pushed_out.pop().exception(), LinkError)
        assert status == 0
        assert await waiting.pop() == []
