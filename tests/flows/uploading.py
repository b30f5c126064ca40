"""The running uplink of a hub, and a cloud that can be watched."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import Final

from typing_extensions import override

from edgeagent.contracts.event import Stream
from edgeagent.core.retry import BackoffRule
from edgeagent.flows.uplink import Uplink, UplinkSettings
from edgeagent.ports.cloud import Acknowledged, Batch
from edgeagent.store.outbox import NewEvent
from tests.flows.building import HUB, Hub, KilledError, event
from tests.support.fake_cloud import FakeCloud
from tests.support.waiting import eventually

HOUR: Final = timedelta(hours=1)
PROMPT: Final = UplinkSettings(linger=timedelta(0), backoff=BackoffRule(first=HOUR, longest=8 * HOUR))
"""Sends at once, and waits for hours after a failure: real time plays no part."""


class WatchedCloud(FakeCloud):
    """A cloud that keeps in mind what was brought, in order, and may be told to answer nonsense.

    Attributes:
        brought: every batch that was tried, whether it arrived or not.
        nonsense: what it answers in place of the truth.
    """

    def __init__(self, hub: Hub) -> None:
        super().__init__(HUB, hub.clock)
        self.brought: list[Batch] = []
        self.nonsense: Acknowledged | None = None

    @override
    async def upload(self, batch: Batch) -> Acknowledged:
        """Note the batch, then do as a cloud does."""
        self.brought.append(batch)
        answer = await super().upload(batch)
        return answer if self.nonsense is None else self.nonsense


@asynccontextmanager
async def uplink_of(
    hub: Hub, cloud: FakeCloud, settings: UplinkSettings = PROMPT, *, chance: float = 0.5
) -> AsyncIterator[Uplink]:
    """The running uplink of a hub."""
    uplink = Uplink(hub.store, cloud, replace(hub.around, chance=lambda: chance), settings)
    task = asyncio.create_task(uplink.run())
    try:
        yield uplink
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, KilledError):
            await task


def waiting(hub: Hub) -> list[tuple[object, ...]]:
    """Stream and number of the events that the outbox holds."""
    return hub.rows("SELECT stream, number FROM outbox ORDER BY id")


def events(hub: Hub, stream: Stream, count: int, *, size: int = 0) -> list[NewEvent]:
    """So many events of a stream."""
    return [event(hub.around, stream, size=size) for _ in range(count)]


async def is_empty(hub: Hub) -> None:
    """Wait until nothing waits for the cloud."""
    await eventually(lambda: not waiting(hub))


async def tried(cloud: WatchedCloud, times: int) -> None:
    """Wait until the cloud was asked so often."""
    await eventually(lambda: len(cloud.brought) >= times)


def sizes(cloud: WatchedCloud, stream: Stream) -> Sequence[int]:
    """How many events each batch of a stream held."""
    return [len(batch.events) for batch in cloud.brought if batch.stream is stream]
