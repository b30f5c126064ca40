"""A broker that keeps fewer messages in flight than we asked for does not cap the hub."""

from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.contracts.mqtt import Session
from edgeagent.flows.ingest import IngestSettings
from tests.flows.building import Hub, new_hub

pytestmark = pytest.mark.requirement("Q1")

LINGER = timedelta(hours=1)
SETTINGS = IngestSettings(commit_linger=LINGER)
WINDOW = 20


class Sensor:
    """Sends readings, each another than the one before."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._sent = 0

    def sends(self, count: int) -> None:
        """Send so many."""
        for _ in range(count):
            self._sent += 1
            self._hub.bus.delivers("dev-1/sensor", b'{"temperature": %d}' % (self._sent % 100))


async def stops_after_a_window(hub: Hub, sensor: Sensor) -> None:
    """The broker sends what it may, and waits; so does the hub, until the linger is over."""
    sensor.sends(WINDOW)
    await hub.takes_in()
    await hub.breathes()
    assert hub.bus.unacknowledged == WINDOW
    await hub.passes(LINGER)
    await hub.settles()


async def test_a_window_that_is_known_is_committed_at_once(tmp_path: Path) -> None:
    async with new_hub(tmp_path, "dev-1", settings=SETTINGS) as hub:
        sensor = Sensor(hub)
        await stops_after_a_window(hub, sensor)
        await stops_after_a_window(hub, sensor)
        before = hub.clock.boot()

        for _ in range(3):
            sensor.sends(WINDOW)
            await hub.settles()

        assert hub.clock.boot() == before


async def test_a_new_connection_may_be_to_a_broker_with_another_window(tmp_path: Path) -> None:
    async with new_hub(tmp_path, "dev-1", settings=SETTINGS) as hub:
        sensor = Sensor(hub)
        await stops_after_a_window(hub, sensor)
        await stops_after_a_window(hub, sensor)

        hub.bus.goes_down()
        hub.bus.comes_up()
        await hub.takes_in()
        await hub.passes(LINGER)
        await hub.settles()

        await stops_after_a_window(hub, sensor)


async def test_the_windows_of_the_two_sessions_are_told_apart(tmp_path: Path) -> None:
    async with new_hub(tmp_path, "dev-1", settings=SETTINGS) as hub:
        sensor = Sensor(hub)
        await stops_after_a_window(hub, sensor)
        await stops_after_a_window(hub, sensor)

        for number in range(WINDOW):
            hub.bus.delivers("dev-1/state", b'{"power": %s}' % (b"true" if number % 2 else b"false"))
        await hub.takes_in()
        await hub.breathes()

        assert {message.session for message in hub.bus.acknowledged[-WINDOW:]} == {Session.TELEMETRY}
        assert hub.bus.unacknowledged == WINDOW
