"""What the broker sends again is stored once; what only looks alike is another message (SPEC Q2)."""

import asyncio
import threading
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from edgeagent.contracts.event import Stream
from edgeagent.flows.ingest import IngestSettings
from edgeagent.ports.crash import CrashPoint
from edgeagent.store import outbox
from edgeagent.store.database import Database
from tests.flows.building import QUICK, Hub, new_hub
from tests.support.stores import HUB_MIGRATIONS, full_disk
from tests.support.waiting import DEADLINE

pytestmark = pytest.mark.requirement("Q2")

PRESS = b'{"presses": [{"button": "single"}]}'
ON, OFF = b'{"power": true}', b'{"power": false}'


def repeats(hub: Hub) -> float:
    """How many messages were known for repeats since the start."""
    return hub.counted("edgeagent_redeliveries_total")


async def test_what_was_committed_before_the_crash_is_stored_once(tmp_path: Path) -> None:
    async with new_hub(tmp_path, "dev-1") as hub:
        hub.dies_at(CrashPoint.EVENTS_COMMITTED)
        hub.bus.delivers("dev-1/presses", PRESS)
        await hub.is_dead()

        await hub.starts()

        assert await hub.values("button") == ["single"]
        assert repeats(hub) == 1
        assert [message.payload for message in hub.bus.acknowledged if message.dup] == [PRESS]


async def test_what_was_not_committed_before_the_crash_is_stored_when_it_comes_again(tmp_path: Path) -> None:
    async with new_hub(tmp_path, "dev-1") as hub:
        await hub.dies()
        hub.bus.comes_up()
        hub.bus.delivers("dev-1/presses", PRESS)  # sent to a process that took nothing of it
        hub.bus.loses_client()

        await hub.starts()

        assert await hub.values("button") == ["single"]
        assert repeats(hub) == 0


async def test_a_second_crash_changes_nothing(tmp_path: Path) -> None:
    async with new_hub(tmp_path, "dev-1") as hub:
        for _ in range(3):
            hub.dies_at(CrashPoint.EVENTS_COMMITTED)
            hub.bus.delivers("dev-1/presses", PRESS)
            await hub.is_dead()
            await hub.starts()

        assert await hub.values("button") == ["single"] * 3


async def test_a_repeat_in_the_same_commit_is_stored_once(tmp_path: Path) -> None:
    linger = timedelta(hours=1)
    async with new_hub(tmp_path, "dev-1", settings=IngestSettings(commit_linger=linger)) as hub:
        hub.bus.delivers("dev-1/presses", PRESS)
        await hub.takes_in()
        hub.bus.goes_down()
        hub.bus.comes_up()
        await hub.takes_in()

        await hub.passes(linger)
        await hub.settles()

        assert await hub.values("button") == ["single"]
        assert repeats(hub) == 1


async def test_a_repeat_is_stored_once_when_the_connection_broke_while_the_disk_was_written(
    tmp_path: Path,
) -> None:
    """The commit was good, its PUBACK belonged to a connection that was gone."""
    written = threading.Event()
    async with new_hub(tmp_path, "dev-1") as hub:
        slow = asyncio.create_task(hub.store.write(lambda _: written.wait(DEADLINE)))
        hub.bus.delivers("dev-1/presses", PRESS)
        await hub.takes_in()
        hub.bus.goes_down()
        hub.bus.comes_up()

        written.set()
        await slow
        await hub.settles()

        assert await hub.values("button") == ["single"]
        assert repeats(hub) == 1
        assert [message.payload for message in hub.bus.acknowledged if message.dup] == [PRESS]


async def test_on_off_on_is_three_changes(tmp_path: Path) -> None:
    async with new_hub(tmp_path, "dev-1") as hub:
        for payload in (ON, OFF, ON):
            hub.bus.delivers("dev-1/state", payload)
        await hub.settles()

        assert await hub.values("power") == [True, False, True]
        assert repeats(hub) == 0


async def test_the_last_of_on_off_on_is_not_taken_for_the_first_after_a_crash(tmp_path: Path) -> None:
    async with new_hub(tmp_path, "dev-1") as hub:
        for payload in (ON, OFF):
            hub.bus.delivers("dev-1/state", payload)
        await hub.settles()
        await hub.dies()
        hub.bus.comes_up()
        hub.bus.delivers("dev-1/state", ON)  # lost with the process that received it
        hub.bus.loses_client()

        await hub.starts()

        assert await hub.values("power") == [True, False, True]


async def test_a_device_that_says_the_same_twice_has_said_it_twice(tmp_path: Path) -> None:
    """Two messages with two packet ids: content alone proves nothing."""
    async with new_hub(tmp_path, "dev-1") as hub:
        hub.bus.delivers_twice("dev-1/presses", PRESS)
        await hub.settles()

        assert await hub.values("button") == ["single", "single"]


async def test_the_two_sessions_count_their_packets_apart(tmp_path: Path) -> None:
    """Both number their messages from 1; the same number and bytes on the other session prove nothing."""
    payload = b'{"power": true, "temperature": 20}'
    async with new_hub(tmp_path, "dev-1") as hub:
        hub.dies_at(CrashPoint.EVENTS_COMMITTED)
        hub.bus.delivers("dev-1/state", payload)
        await hub.is_dead()
        hub.bus.comes_up()
        hub.bus.delivers("dev-1/sensor", payload)
        hub.bus.loses_client()

        await hub.starts()

        assert await hub.values("power") == [True]
        assert await hub.values("temperature") == [20]


async def marked_in_a_lost_session(hub: Hub) -> None:
    """A message is stored, and then the broker has lost the session that it came in."""
    hub.bus.delivers("dev-1/presses", PRESS)  # telemetry's first message: packet id 1
    await hub.settles()
    hub.bus.goes_down()
    hub.bus.comes_up(session_present=False)
    await hub.settles()


class TestWhenTheBrokerHasNotKeptTheSession:
    """Packet ids start anew, so that every earlier mark would be taken for something that it is not."""

    async def test_earlier_marks_are_forgotten(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path, "dev-1") as hub:
            await marked_in_a_lost_session(hub)
            await hub.dies()
            hub.bus.comes_up()
            hub.bus.delivers("dev-1/presses", PRESS)  # again packet id 1, lost with its process
            hub.bus.loses_client()

            await hub.starts()

            assert await hub.values("button") == ["single", "single"]

    async def test_they_stay_forgotten_when_the_next_commit_fails(self, tmp_path: Path) -> None:
        """What the disk still holds of the lost session is read again after the failure."""
        async with new_hub(tmp_path, "dev-1") as hub:
            hub.bus.delivers("dev-1/presses", PRESS)
            await hub.settles()
            hub.bus.goes_down()
            with full_disk(hub.path):
                hub.bus.comes_up(session_present=False)
                hub.bus.delivers("dev-1/presses", PRESS)
                await hub.until(lambda: hub.ingest.store_trouble)

            await hub.passes(QUICK.commit_linger * 2000)
            await hub.until(lambda: not hub.ingest.store_trouble)
            await hub.settles()

            assert await hub.values("button") == ["single", "single"]

    async def test_messages_of_the_lost_session_leave_no_mark_for_the_new_one(self, tmp_path: Path) -> None:
        """They share a commit with the loss."""
        async with new_hub(tmp_path, "dev-1") as hub:
            hub.bus.goes_down()
            hub.bus.comes_up(session_present=False)
            hub.bus.delivers("dev-1/presses", PRESS)
            hub.bus.goes_down()
            hub.bus.comes_up(session_present=False)
            await hub.settles()
            await hub.reaches(Stream.TELEMETRY, 1)
            await hub.dies()
            hub.bus.comes_up()
            hub.bus.delivers("dev-1/presses", PRESS)  # packet id 1 once more, lost with its process
            hub.bus.loses_client()

            await hub.starts()

            assert await hub.values("button") == ["single", "single"]


@pytest.mark.requirement("R7")
async def test_marks_are_kept_as_far_as_a_redelivery_can_reach_and_no_longer(tmp_path: Path) -> None:
    settings = replace(QUICK, telemetry_window=10, reach=40)
    async with new_hub(tmp_path, "dev-1", settings=settings) as hub:
        for number in range(200):
            hub.bus.delivers("dev-1/sensor", b'{"temperature": %d}' % number)
            if number % 10 == 9:
                await hub.settles()
                await goes_up(hub.store)

        [(kept,)] = hub.rows("SELECT sum(length(marks)) / 18 FROM delivery_marks WHERE session = 'telemetry'")
        assert isinstance(kept, int)
        assert 40 <= kept < 60


async def goes_up(store: Database) -> None:
    """The cloud takes all that waits."""
    for stream, (first, following) in (await store.read(outbox.extents)).items():
        numbers = range(first, following)
        await store.write(partial(outbox.acknowledge, stream=stream, numbers=numbers))


async def goes_up_meanwhile(hub: Hub) -> None:
    """The same, while nobody takes readings in."""
    store = await Database.open(hub.path, HUB_MIGRATIONS)
    await goes_up(store)
    await store.close()


class TestTheMarkThatLiesWithItsEvent:
    """The marks of a commit are stored with an event, in the same page, and stay when it goes."""

    @pytest.mark.parametrize(
        ("topic", "payload", "stream"),
        [
            pytest.param("dev-1/presses", PRESS, Stream.TELEMETRY, id="telemetry"),
            pytest.param("dev-1/state", ON, Stream.STATE, id="state"),
        ],
    )
    async def test_a_repeat_is_known_though_its_event_has_gone_up(
        self, tmp_path: Path, topic: str, payload: bytes, stream: Stream
    ) -> None:
        async with new_hub(tmp_path, "dev-1") as hub:
            hub.dies_at(CrashPoint.EVENTS_COMMITTED)
            hub.bus.delivers(topic, payload)
            await hub.is_dead()
            of_a_message = "SELECT 1 FROM delivery_marks WHERE marks <> X''"
            assert hub.rows(of_a_message) == []
            await goes_up_meanwhile(hub)
            assert hub.rows("SELECT 1 FROM outbox") == []
            assert (1,) in hub.rows(of_a_message)

            await hub.starts()

            assert await hub.told(stream) == []
            assert repeats(hub) == 1

    async def test_one_of_a_session_that_is_lost_does_not_come_back_when_its_event_goes_up(
        self, tmp_path: Path
    ) -> None:
        async with new_hub(tmp_path, "dev-1") as hub:
            await marked_in_a_lost_session(hub)
            await hub.dies()
            await goes_up_meanwhile(hub)
            hub.bus.comes_up()
            hub.bus.delivers("dev-1/presses", PRESS)  # again packet id 1, lost with its process
            hub.bus.loses_client()

            await hub.starts()

            assert await hub.values("button") == ["single"]
            assert repeats(hub) == 0
