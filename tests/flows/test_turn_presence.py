"""Devices that come and go, and what the broker still holds of them: presence, silence, retained messages."""

from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.contracts.event import Stream
from edgeagent.flows.ingest import IngestSettings
from edgeagent.ids import DeviceId, ReadingName, device_id
from tests.flows.building import MINUTE, WELL_AFTER, Hub, new_hub

DEV = device_id("dev-1")
POWER = ReadingName("power")
LINGER = timedelta(hours=1)

BEACON = """
format = 1
id = "beacon"
version = "1.0.0"
title = "Tells in one retained message that it is there and how it is"
transport = "hub"

[availability]
from = [{ topic = "{device}/all", pick = "$.there" }]

[reading.power]
kind = "boolean"
state = true
from = [{ topic = "{device}/all", pick = "$.power" }]
"""


async def says(hub: Hub, topic: str, payload: bytes, *, retain: bool = False) -> None:
    """A device speaks, and is heard."""
    hub.bus.delivers(topic, payload, retain=retain)
    await hub.settles()


def is_live(hub: Hub) -> bool:
    """Whether the device's power was heard since it came online."""
    device = hub.devices.get(DEV)
    assert device is not None
    return device.shadow.state[POWER].live_at is not None


@pytest.mark.requirement("C1", "M2")
class TestComingAndGoing:
    """The last will, and traffic."""

    async def test_the_last_will_is_told_as_a_state(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path, "dev-1") as hub:
            await says(hub, "dev-1/lwt", b"Offline")
            await hub.passes(WELL_AFTER)
            await says(hub, "dev-1/lwt", b"Online")

            assert await hub.values("availability") == ["online", "offline", "online"]

    async def test_traffic_overrides_a_will_that_comes_late(self, tmp_path: Path) -> None:
        """The will of an earlier connection, sent when the broker noticed its end."""
        async with new_hub(tmp_path, "dev-1") as hub:
            await says(hub, "dev-1/lwt", b"Offline")
            await hub.passes(WELL_AFTER)
            await says(hub, "dev-1/state", b'{"power": true}')

            assert await hub.values("availability") == ["online", "offline", "online"]

    async def test_a_device_that_was_away_is_known_by_nothing_it_said_before(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path, "dev-1") as hub:
            await says(hub, "dev-1/state", b'{"power": true}')
            assert is_live(hub)

            await says(hub, "dev-1/lwt", b"Offline")
            assert not is_live(hub)
            await says(hub, "dev-1/lwt", b"Online")

            assert not is_live(hub)

    async def test_nor_is_one_that_we_could_not_hear_for_a_while(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path, "dev-1") as hub:
            await says(hub, "dev-1/state", b'{"power": true}')
            hub.bus.goes_down()
            await hub.takes_in()
            assert not is_live(hub)

            hub.bus.comes_up()
            await hub.settles()

            assert not is_live(hub)

    async def test_whoever_waits_for_a_device_is_told_that_it_is_there_again(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path, "dev-1") as hub:
            there: list[DeviceId] = []
            hub.confirmations.when_online(there.append)

            await says(hub, "dev-1/lwt", b"Online")
            assert there == []
            await says(hub, "dev-1/lwt", b"Offline")
            await says(hub, "dev-1/lwt", b"Online")

            assert there == [DEV]


@pytest.mark.requirement("C1")
class TestSilence:
    """A device that has said nothing for longer than its family ever is silent."""

    async def test_it_is_taken_for_gone_once(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path, "dev-1", "dev-2") as hub:
            await hub.passes(19 * MINUTE)
            await says(hub, "dev-2/state", b'{"power": true}')
            await hub.passes(2 * MINUTE)
            await hub.reaches(Stream.STATE, 4)
            await hub.passes(10 * MINUTE)
            await hub.breathes()

            assert await hub.values("availability", "dev-1") == ["online", "offline"]
            assert await hub.values("availability", "dev-2") == ["online"]

    async def test_it_is_back_with_its_next_word(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path, "dev-1") as hub:
            await hub.passes(21 * MINUTE)
            await hub.reaches(Stream.STATE, 2)
            await hub.passes(WELL_AFTER)

            await says(hub, "dev-1/state", b'{"power": true}')

            assert await hub.values("availability") == ["online", "offline", "online"]

    async def test_one_that_went_silent_while_the_agent_was_away_is_noticed(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path, "dev-1") as hub:
            await hub.dies()
            await hub.starts()

            await hub.passes(21 * MINUTE)
            await hub.reaches(Stream.STATE, 2)

            assert await hub.values("availability") == ["online", "offline"]

    async def test_nobody_is_silent_while_the_broker_is_away(self, tmp_path: Path) -> None:
        """They may talk all the time: it is we who do not hear."""
        async with new_hub(tmp_path, "dev-1") as hub:
            hub.bus.goes_down()
            await hub.takes_in()
            await hub.passes(timedelta(hours=3))
            await hub.breathes()
            hub.bus.comes_up()
            await hub.settles()
            await hub.passes(19 * MINUTE)
            await hub.breathes()
            assert await hub.values("availability") == ["online"]

            await hub.passes(2 * MINUTE)
            await hub.reaches(Stream.STATE, 2)

            assert await hub.values("availability") == ["online", "offline"]

    async def test_of_one_that_was_never_heard_nothing_is_said(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path) as hub:
            await hub.admits("dev-1")

            await hub.passes(timedelta(hours=3))
            await hub.breathes()

            assert await hub.told(Stream.STATE) == []
            assert hub.devices.all()[0].online is None


@pytest.mark.requirement("M2")
class TestRetained:
    """What the broker has stored is of the past."""

    async def test_a_state_from_a_retained_message_is_told_as_one_and_is_not_live(
        self, tmp_path: Path
    ) -> None:
        async with new_hub(tmp_path) as hub:
            hub.bus.delivers("dev-1/state", b'{"power": true}', retain=True)
            await hub.admits("dev-1")
            await hub.settles()

            [told] = await hub.told(Stream.STATE)

            assert told.data["readings"] == {"power": {"value": True, "version": 1, "retained": True}}
            assert not is_live(hub)
            assert hub.devices.all()[0].heard is None

    async def test_a_telemetry_reading_from_a_retained_message_is_told_as_one(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path) as hub:
            hub.bus.delivers("dev-1/sensor", b'{"temperature": 21.5}', retain=True)
            await hub.admits("dev-1")
            await hub.settles()
            await says(hub, "dev-1/sensor", b'{"temperature": 23.5}')

            old, live = await hub.told(Stream.TELEMETRY)

            assert old.data == {"readings": {"temperature": 21.5}, "retained": True}
            assert live.data == {"readings": {"temperature": 23.5}}

    async def test_one_that_would_wait_for_its_interval_is_told_at_once_as_what_it_is(
        self, tmp_path: Path
    ) -> None:
        async with new_hub(tmp_path) as hub:
            await hub.admits("dev-1")
            await says(hub, "dev-1/sensor", b'{"signal": 40}')
            hub.bus.goes_down()
            hub.bus.delivers("dev-1/sensor", b'{"signal": 50}', retain=True)
            hub.bus.comes_up(session_present=False)
            await hub.settles()

            live, old = await hub.told(Stream.TELEMETRY)

            assert live.data == {"readings": {"signal": 40}}
            assert old.data == {"readings": {"signal": 50}, "retained": True}

    async def test_a_live_word_makes_it_live_without_a_new_version(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path) as hub:
            hub.bus.delivers("dev-1/state", b'{"power": true}', retain=True)
            await hub.admits("dev-1")
            await hub.settles()

            await says(hub, "dev-1/state", b'{"power": true}')

            assert is_live(hub)
            assert await hub.values("power") == [True]

    async def test_it_never_overrides_what_was_heard_live(self, tmp_path: Path) -> None:
        """While we were away the device spoke; the broker hands that over first, and its copy after."""
        async with new_hub(tmp_path, profiles=[BEACON]) as hub:
            await hub.admits("dev-1", "beacon")
            await says(hub, "dev-1/all", b'{"there": true, "power": false}', retain=True)
            hub.bus.goes_down()
            hub.bus.delivers("dev-1/all", b'{"there": true, "power": true}')

            hub.bus.comes_up()
            await hub.settles()

            assert await hub.values("power") == [False, True]
            assert is_live(hub)

    async def test_a_happening_that_was_retained_is_none(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path) as hub:
            hub.bus.delivers("dev-1/presses", b'{"presses": [{"button": "single"}]}', retain=True)
            await hub.admits("dev-1")
            await hub.settles()

            assert await hub.values("button") == []


@pytest.mark.requirement("Q1")
class TestADeviceThatIsForgotten:
    """While a message of it waits for its commit."""

    async def test_its_message_is_acknowledged_and_its_shadow_stays_gone(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path, "dev-1", settings=IngestSettings(commit_linger=LINGER)) as hub:
            hub.bus.delivers("dev-1/state", b'{"power": true}')
            await hub.takes_in()
            await hub.devices.forget(DEV, actor="uid:0 root")

            await hub.passes(LINGER)
            await hub.settles()

            assert hub.rows("SELECT device FROM shadows") == []
            assert hub.rows("SELECT reading FROM shadow_readings") == []

    async def test_nor_does_it_when_it_was_admitted_anew_meanwhile(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path, "dev-1", settings=IngestSettings(commit_linger=LINGER)) as hub:
            hub.bus.delivers("dev-1/state", b'{"power": true}')
            await hub.takes_in()
            await hub.devices.forget(DEV, actor="uid:0 root")
            await hub.admits("dev-1")

            await hub.passes(LINGER)
            await hub.settles()

            assert hub.rows("SELECT device, version FROM shadows") == [("dev-1", 0)]
            assert hub.rows("SELECT reading FROM shadow_readings") == []
            assert hub.devices.all()[0].online is None

    async def test_what_it_says_afterwards_is_nobodys(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path, "dev-1") as hub:
            before = await hub.told(Stream.STATE)
            await hub.devices.forget(DEV, actor="uid:0 root")

            await says(hub, "dev-1/state", b'{"power": true}')

            assert await hub.told(Stream.STATE) == before
