"""A queue server for each module, and a hub of its own for each test."""

from collections.abc import AsyncIterator, Iterator

import pytest

from edgeagent.adapters.cloud.https import HttpsQueue
from edgeagent.issuer.client import IssuerClient
from tests.issuer.building import batch, hello, real_clock
from tests.support.queue_server import KnownHub, QueueServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueueServer]:
    """A running queue server."""
    with QueueServer(tmp_path_factory.mktemp("queue")) as running:
        yield running


@pytest.fixture
def hub(server: QueueServer) -> KnownHub:
    """A hub that nobody else uses."""
    return server.new_hub()


@pytest.fixture
async def queue(server: QueueServer, hub: KnownHub) -> AsyncIterator[HttpsQueue]:
    """The hub's end of the queue."""
    end = HttpsQueue(server.settings(hub.token), hub.id, real_clock())
    yield end
    await end.close()


@pytest.fixture
async def cloud(server: QueueServer) -> AsyncIterator[IssuerClient]:
    """The issuer's end of the queue."""
    async with IssuerClient(server.settings(server.issuer_token), real_clock()) as end:
        yield end


@pytest.fixture
async def greeted(queue: HttpsQueue, hub: KnownHub) -> HttpsQueue:
    """The hub's end, after the hub has said hello as record 1."""
    await queue.upload(batch(hub.id, [hello()]))
    return queue
