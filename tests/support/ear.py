"""A real bus for a test, and somebody who listens to it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Unpack

from prometheus_client import CollectorRegistry
from pydantic import SecretBytes
from typing_extensions import TypedDict

from edgeagent.adapters.mqtt.addresses import Resolver, resolve
from edgeagent.adapters.mqtt.bus import MqttBus
from edgeagent.adapters.mqtt.settings import Means, MqttSettings, TlsSettings
from edgeagent.clock import Clock, ProvenClock, SystemTime
from edgeagent.contracts.mqtt import Inbound, LinkDown, LinkUp, Session
from edgeagent.core.retry import BackoffRule
from edgeagent.ids import hub_id
from edgeagent.metrics import Metrics
from edgeagent.ports.broker import DeviceBus
from tests.support.waiting import DEADLINE

SOON: Final = timedelta(seconds=DEADLINE)

_QUICK: Final = BackoffRule(first=timedelta(milliseconds=10), longest=timedelta(milliseconds=50))


class Settings(TypedDict, total=False):
    """The settings that tests change."""

    host: str
    username: str
    password: SecretBytes
    tls: TlsSettings
    keepalive: timedelta
    control_window: int
    telemetry_window: int
    publish_window: int
    largest_packet: int
    largest_publish: int
    queue_messages: int
    queue_bytes: int
    connect_timeout: timedelta
    answer_timeout: timedelta
    backoff: BackoffRule


async def sleeps(length: timedelta) -> None:
    """Let the time between two attempts pass as it does in the product."""
    await asyncio.sleep(length.total_seconds())


def make_bus(
    port: int,
    *,
    hub: str = "hub-1",
    clock: Clock | None = None,
    metrics: Metrics | None = None,
    resolver: Resolver = resolve,
    wait: Callable[[timedelta], Awaitable[None]] = sleeps,
    chance: Callable[[], float] = lambda: 0.5,
    **settings: Unpack[Settings],
) -> MqttBus:
    """The real adapter, quick to try again."""
    settings.setdefault("backoff", _QUICK)
    means = Means(
        clock=clock or ProvenClock(SystemTime()),
        metrics=metrics or Metrics(CollectorRegistry()),
        chance=chance,
        resolve=resolver,
        wait=wait,
    )
    return MqttBus(hub_id(hub), MqttSettings(port=port, **settings), means)


@asynccontextmanager
async def running(bus: DeviceBus) -> AsyncIterator[None]:
    """Run a bus beside the test."""
    task = asyncio.create_task(bus.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@dataclass
class Ear:
    """Listens to a bus and keeps what came."""

    bus: DeviceBus
    items: list[Inbound | LinkUp | LinkDown] = field(default_factory=list)

    async def until(self, enough: Callable[[], bool]) -> None:
        """Listen until that is so.

        Raises:
            TimeoutError: it never was.
        """
        async with asyncio.timeout(DEADLINE):
            while not enough():
                self.items += await self.bus.receive(within=SOON)

    async def hears(self, *payloads: bytes) -> list[Inbound]:
        """Listen until these came, in whatever order; the messages, oldest first."""
        await self.until(lambda: set(payloads) <= {message.payload for message in self.messages})
        return [message for message in self.messages if message.payload in payloads]

    async def sees_links(self, kind: type[LinkUp] | type[LinkDown], count: int = 2) -> None:
        """Listen until links came or went so often, both sessions together."""
        await self.until(lambda: sum(isinstance(item, kind) for item in self.items) >= count)

    @property
    def messages(self) -> list[Inbound]:
        """The messages that came."""
        return [item for item in self.items if isinstance(item, Inbound)]

    def of(self, session: Session) -> Sequence[Inbound | LinkUp | LinkDown]:
        """All that came over a session, oldest first."""
        return [item for item in self.items if item.session is session]

    def ups(self, session: Session) -> list[LinkUp]:
        """The beginnings of a session's lives."""
        return [item for item in self.of(session) if isinstance(item, LinkUp)]

    def downs(self, session: Session) -> list[LinkDown]:
        """The ends of a session's lives."""
        return [item for item in self.of(session) if isinstance(item, LinkDown)]
