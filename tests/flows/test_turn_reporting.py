"""Report by exception: what of all that devices say is told (SPEC U7), and under which version (SPEC C1)."""

import asyncio
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.contracts.event import EventType, Stream
from edgeagent.core.shadow import etag
from edgeagent.ids import ReadingName
from tests.flows.building import MINUTE, Hub, new_hub
from tests.support.waiting import DEADLINE

SECOND = timedelta(seconds=1)


async def says(hub: Hub, topic: str, *payloads: bytes) -> None:
    """A device speaks, and is heard."""
    for payload in payloads:
        hub.bus.delivers(topic, payload)
    await hub.settles()


@pytest.mark.requirement("U7")
class TestWhatIsTold:
    """Deadband, least and greatest interval."""

    async def test_numbers_within_the_deadband_of_the_told_one_are_the_same(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path, "dev-1") as hub:
            for value in (b"20.0", b"20.4", b"19.6", b"20.5", b"20.6", b"20.4"):
                await says(hub, "dev-1/sensor", b'{"temperature": %s}' % value)

            assert await hub.values("temperature") == [20.0, 20.6]

    async def test_a_slow_drift_is_told_in_the_end(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path, "dev-1") as hub:
            for tenths in range(200, 221):
                await says(hub, "dev-1/sensor", b'{"temperature": %.1f}' % (tenths / 10))

            assert await hub.values("temperature") == [20.0, 20.6, 21.2, 21.8]

    async def test_truth_and_number_are_never_the_same(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path, "dev-1") as hub:
            await says(hub, "dev-1/state", b'{"power": true}', b'{"power": 1}')

            assert await hub.values("power") == [True]
            assert hub.counted("edgeagent_messages_unusable_total", {"reason": "unusable_value"}) == 1

    async def test_a_value_that_changes_too_fast_is_told_when_its_interval_is_over(
        self, tmp_path: Path
    ) -> None:
        async with new_hub(tmp_path, "dev-1") as hub:
            await says(hub, "dev-1/sensor", b'{"signal": -50}')
            await hub.passes(SECOND)
            await says(hub, "dev-1/sensor", b'{"signal": -60}', b'{"signal": -70}')
            assert await hub.values("signal") == [-50]

            await hub.passes(MINUTE - 2 * SECOND)
            await hub.breathes()
            assert await hub.values("signal") == [-50]
            await hub.passes(SECOND)
            await hub.reaches(Stream.TELEMETRY, 2)

            assert await hub.values("signal") == [-50, -70]

    async def test_a_value_that_came_back_within_its_interval_is_not_told_again(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path, "dev-1") as hub:
            await says(hub, "dev-1/sensor", *(b'{"signal": %d}' % level for level in (-50, -60, -50)))

            await hub.passes(2 * MINUTE)
            await hub.breathes()

            assert await hub.values("signal") == [-50]

    async def test_an_unchanged_value_is_told_again_after_the_greatest_interval(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path, "dev-1") as hub:
            await says(hub, "dev-1/state", b'{"power": true}')
            await says(hub, "dev-1/sensor", b'{"temperature": 20}')
            for _ in range(13):
                await hub.passes(5 * MINUTE)
                await says(hub, "dev-1/state", b'{"power": true}')
                await says(hub, "dev-1/sensor", b'{"temperature": 20}')

            assert await hub.values("power") == [True, True]
            assert await hub.values("temperature") == [20, 20]

    async def test_each_happening_is_told_however_alike_they_are(self, tmp_path: Path) -> None:
        """A button that is pressed twice was pressed twice, also within one message."""
        async with new_hub(tmp_path, "dev-1") as hub:
            press = b'{"presses": [{"button": "single"}]}'
            await says(hub, "dev-1/presses", press, press)
            await says(hub, "dev-1/presses", b'{"presses": [{"button": "double"}, {"button": "double"}]}')

            assert await hub.values("button") == ["single", "single", "double", "double"]


@pytest.mark.requirement("U7", "R7")
class TestAFlap:
    """A state that changes faster than it is told: bounded events, the last value wins, nothing hidden."""

    async def test_it_gives_few_events_and_the_last_value_wins(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path, "dev-1") as hub:
            for number in range(200):
                hub.bus.delivers("dev-1/state", b'{"position": %d}' % (90 if number % 2 else 10))
                if number % 20 == 19:
                    await hub.settles()
                    await hub.passes(SECOND)
            await hub.reaches(Stream.STATE, 3)

            assert await hub.values("position") == [10, 90]

    async def test_a_gap_says_how_many_changes_nobody_was_told(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path, "dev-1") as hub:
            await says(hub, "dev-1/state", *(b'{"position": %d}' % value for value in range(0, 60, 10)))
            await hub.passes(10 * SECOND)
            await hub.reaches(Stream.STATE, 3)

            assert await hub.values("position") == [0, 50]
            [gap] = await hub.told(Stream.RECORD, EventType.GAP)
            assert gap.device == "dev-1"
            assert gap.data == {"cause": "coalesced", "readings": ["position"], "changes": 4}

    async def test_a_single_change_leaves_no_gap(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path, "dev-1") as hub:
            await says(hub, "dev-1/state", b'{"position": 10}', b'{"position": 90}')
            await hub.passes(10 * SECOND)
            await hub.reaches(Stream.STATE, 3)

            assert await hub.values("position") == [10, 90]
            assert await hub.told(Stream.RECORD, EventType.GAP) == []

    async def test_the_shadow_follows_at_once(self, tmp_path: Path) -> None:
        """What is withheld is the telling: a command is judged by what the device is."""
        async with new_hub(tmp_path, "dev-1") as hub:
            await says(hub, "dev-1/state", b'{"position": 10}', b'{"position": 90}')

            held = hub.devices.all()[0].shadow.state[ReadingName("position")]

            assert (held.value, held.version, held.told) == (90, 3, False)
            assert hub.rows("SELECT value, told FROM shadow_readings WHERE reading = 'position'") == [
                ("90", 0)
            ]


@pytest.mark.requirement("C4", "U7")
class TestAPendingChange:
    """A change that is stored and not told yet."""

    async def test_is_told_after_a_restart_though_its_device_stays_silent(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path, "dev-1") as hub:
            await says(hub, "dev-1/state", b'{"position": 10}', b'{"position": 90}')
            await hub.dies()
            assert hub.rows("SELECT told FROM shadow_readings WHERE reading = 'position'") == [(0,)]

            await hub.starts()
            await hub.reaches(Stream.STATE, 3)

            assert await hub.values("position") == [10, 90]
            assert hub.rows("SELECT told FROM shadow_readings WHERE reading = 'position'") == [(1,)]

    async def test_is_told_once(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path, "dev-1") as hub:
            await says(hub, "dev-1/state", b'{"position": 10}', b'{"position": 90}')
            for _ in range(3):
                await hub.dies()
                await hub.starts()
                await hub.breathes()
            await hub.reaches(Stream.STATE, 3)

            assert await hub.values("position") == [10, 90]

    async def test_of_a_forgotten_device_is_dropped(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path, "dev-1") as hub:
            await says(hub, "dev-1/state", b'{"position": 10}', b'{"position": 90}')
            await hub.devices.forget(hub.devices.all()[0].id, actor="uid:0 root")

            await hub.passes(MINUTE)
            await hub.breathes()

            assert await hub.values("position") == [10]


@pytest.mark.requirement("C1", "C4")
class TestVersions:
    """They grow at each change, ride in the events, and are stored with them."""

    async def test_each_change_of_any_state_reading_is_a_version(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path, "dev-1") as hub:
            await says(hub, "dev-1/state", b'{"power": true}', b'{"power": false, "position": 5}')

            told = await hub.told(Stream.STATE)

            assert [each.data["version"] for each in told] == [1, 2, 4]
            assert told[2].data["readings"] == {
                "power": {"value": False, "version": 3},
                "position": {"value": 5, "version": 4},
            }

    async def test_the_etag_stands_for_the_state_as_a_whole(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path, "dev-1") as hub:
            for payload in (b'{"power": true}', b'{"power": false}', b'{"power": true}'):
                await says(hub, "dev-1/state", payload)

            first, off, on = [each.data["etag"] for each in (await hub.told(Stream.STATE))[1:]]

            assert first == on != off
            assert on == etag({ReadingName("availability"): "online", ReadingName("power"): True})
            assert hub.rows("SELECT version, etag FROM shadows") == [(4, on)]

    async def test_telemetry_is_no_part_of_it(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path, "dev-1") as hub:
            before = hub.rows("SELECT version, etag FROM shadows")

            await says(hub, "dev-1/sensor", b'{"temperature": 20, "signal": -50}')

            assert hub.rows("SELECT version, etag FROM shadows") == before
            assert (await hub.told(Stream.TELEMETRY))[0].data == {
                "readings": {"temperature": 20, "signal": -50}
            }

    async def test_they_go_on_after_a_restart(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path, "dev-1") as hub:
            await says(hub, "dev-1/state", b'{"power": true}')
            await hub.dies()
            await hub.starts()

            await says(hub, "dev-1/state", b'{"power": true}', b'{"power": false}')

            assert [each.data["version"] for each in await hub.told(Stream.STATE)] == [1, 2, 3]

    async def test_each_device_has_its_own(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path, "dev-1", "dev-2") as hub:
            await says(hub, "dev-1/state", b'{"power": true}', b'{"power": false}')
            await says(hub, "dev-2/state", b'{"power": true}')

            assert hub.rows("SELECT device, version FROM shadows ORDER BY device") == [
                ("dev-1", 3),
                ("dev-2", 2),
            ]


@pytest.mark.requirement("U1")
async def test_an_event_tells_when_its_message_was_heard_not_when_it_was_stored(tmp_path: Path) -> None:
    written = threading.Event()
    async with new_hub(tmp_path, "dev-1") as hub:
        hub.bus.delivers("dev-1/state", b'{"power": true}')
        slow = asyncio.create_task(hub.store.write(lambda _: written.wait(DEADLINE)))
        await hub.takes_in()
        hub.bus.delivers("dev-1/state", b'{"power": false}')
        heard = hub.around.event_time()

        hub.clock.passes(MINUTE)
        written.set()
        await slow
        await hub.settles()

        assert hub.rows("SELECT at, boot FROM outbox WHERE stream = 'state' AND number = 3") == [
            (heard.at, heard.boot)
        ]
