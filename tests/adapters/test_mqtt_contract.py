"""One suite for the fake bus of the flow tests and for the real adapter, over two brokers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from paho.mqtt.client import topic_matches_sub
from typing_extensions import override

from edgeagent.contracts.mqtt import PublishResult
from edgeagent.ports.broker import DeviceBus
from tests.adapters.suite_device_bus import DeviceBusSuite, World
from tests.support.brokers import Iotcore, Mosquitto
from tests.support.clocks import ManualClock
from tests.support.device import Device
from tests.support.ear import Ear, make_bus
from tests.support.fake_bus import FakeBus
from tests.support.proxy import Mode, Proxy


class FakeWorld:
    """The fake: the verbs do at once what a broker does in time."""

    marks_repeats = True
    knows_listeners = True
    lets_go = True

    def __init__(self) -> None:
        self._fake = FakeBus(ManualClock())
        self.bus: DeviceBus = self._fake
        self._filters: list[str] = []
        self.largest = self._fake.largest

    async def up(self) -> None:
        self._fake.comes_up()

    async def down(self) -> None:
        self._fake.goes_down()

    async def device_says(self, name: str, payload: bytes, *, retain: bool = False) -> None:
        self._fake.delivers(name, payload, retain=retain)

    async def device_listens(self, name: str) -> None:
        self._filters.append(name)

    async def device_hears(self) -> tuple[str, bytes, bool]:
        heard = self._fake.published.pop(0)
        assert any(topic_matches_sub(name, heard.topic) for name in self._filters)
        return heard.topic, heard.payload, False


class BrokerWorld:
    """The adapter over a real broker, with a proxy between that can cut it off."""

    def __init__(self, broker: Mosquitto | Iotcore, proxy: Proxy, device: Device) -> None:
        self._proxy = proxy
        self._device = device
        self._heard = 0
        self.largest = 10_000
        self.bus: DeviceBus = make_bus(proxy.port, largest_publish=self.largest)
        self.marks_repeats = self.knows_listeners = self.lets_go = isinstance(broker, Mosquitto)

    async def up(self) -> None:
        self._proxy.mode = Mode.PASS

    async def down(self) -> None:
        self._proxy.mode = Mode.RESET

    async def device_says(self, name: str, payload: bytes, *, retain: bool = False) -> None:
        await asyncio.to_thread(self._device.says, name, payload, retain=retain)

    async def device_listens(self, name: str) -> None:
        await asyncio.to_thread(self._device.listens, name)

    async def device_hears(self) -> tuple[str, bytes, bool]:
        self._heard += 1
        heard = (await asyncio.to_thread(self._device.hears, self._heard))[self._heard - 1]
        return heard.topic, heard.payload, heard.retain


@asynccontextmanager
async def fake_world() -> AsyncIterator[World]:
    yield FakeWorld()


@asynccontextmanager
async def broker_world(broker: Mosquitto | Iotcore) -> AsyncIterator[World]:
    with broker, Device(broker.port) as device:
        async with Proxy(broker.host, broker.port) as proxy:
            proxy.mode = Mode.RESET
            yield BrokerWorld(broker, proxy, device)


class TestFakeBus(DeviceBusSuite):
    """The fake."""

    @pytest.fixture
    def make_world(self) -> AbstractAsyncContextManager[World]:
        return fake_world()

    @override
    async def test_nobody_listening_is_told_where_the_broker_knows(self, world: World, ear: Ear) -> None:
        assert isinstance(world.bus, FakeBus)
        world.bus.answers_publish_with(PublishResult.NOBODY_LISTENS)

        await super().test_nobody_listening_is_told_where_the_broker_knows(world, ear)


class TestMosquitto(DeviceBusSuite):
    """The adapter over mosquitto, which is what runs on hubs."""

    @pytest.fixture
    def make_world(self, tmp_path: Path) -> AbstractAsyncContextManager[World]:
        return broker_world(Mosquitto(tmp_path))


class TestIotcore(DeviceBusSuite):
    """The adapter over iotcore, whose manners differ: no DUP flag, no word of missing listeners."""

    @pytest.fixture
    def make_world(self, tmp_path: Path) -> AbstractAsyncContextManager[World]:
        return broker_world(Iotcore(tmp_path))
