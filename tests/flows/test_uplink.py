"""From the outbox to the cloud: nothing leaves before the far side has proven that it holds it."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from typing_extensions import override

from edgeagent.contracts.event import EventType, Stream
from edgeagent.core.retry import BackoffRule
from edgeagent.flows.uplink import Uplink, UplinkSettings
from edgeagent.ports import Acknowledged, Batch, CrashPoint, Trouble
from edgeagent.store.outbox import NewEvent
from tests.flows.building import EPOCH, HUB, Hub, KilledError, event, new_hub
from tests.support.fake_cloud import FakeCloud
from tests.support.stores import full_disk
from tests.support.waiting import eventually

HOUR = timedelta(hours=1)
PROMPT = UplinkSettings(linger=timedelta(0), backoff=BackoffRule(first=HOUR, longest=8 * HOUR))
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
    return hub.rows("SELECT stream, number FROM outbox ORDER BY stream, number")


def events(hub: Hub, stream: Stream, count: int, *, size: int = 0) -> list[NewEvent]:
    """So many events of a stream."""
    return [event(hub.around, stream, size=size) for _ in range(count)]


async def is_empty(hub: Hub) -> None:
    """Wait until nothing waits for the cloud."""
    await eventually(lambda: not waiting(hub))


@pytest.mark.requirement("U1")
class TestWhatGoesUp:
    """Order, batches, identity."""

    async def test_each_event_goes_up_once_under_its_number(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path) as hub:
            cloud = WatchedCloud(hub)
            async with uplink_of(hub, cloud):
                await hub.stores(*events(hub, Stream.STATE, 3), *events(hub, Stream.RECORD, 2))
                await is_empty(hub)

            assert cloud.numbers(Stream.STATE) == [1, 2, 3]
            assert cloud.numbers(Stream.RECORD) == [1, 2]
            stored = json.loads(cloud.stored[EPOCH, Stream.STATE, 2])
            assert stored["id"] == f"{HUB}/{EPOCH}/state/2"
            assert stored["incarnation"] == 1
            assert Counter(number for batch in cloud.brought for number, _ in batch.events) == {
                1: 2,
                2: 2,
                3: 1,
            }

    async def test_what_an_earlier_start_has_left_goes_up_at_once(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path) as hub:
            await hub.stores(*events(hub, Stream.STATE, 3))
            await hub.dies()
            await hub.starts()

            async with uplink_of(hub, cloud := WatchedCloud(hub)):
                await is_empty(hub)

            assert cloud.numbers(Stream.STATE) == [1, 2, 3]
            assert json.loads(cloud.stored[EPOCH, Stream.STATE, 1])["incarnation"] == 1

    async def test_a_batch_holds_one_stream_and_no_more_than_the_settings_allow(self, tmp_path: Path) -> None:
        settings = replace(PROMPT, most_events=10, most_bytes=1000)
        async with new_hub(tmp_path) as hub:
            await hub.stores(*events(hub, Stream.STATE, 25), *events(hub, Stream.TELEMETRY, 4, size=400))

            async with uplink_of(hub, cloud := WatchedCloud(hub), settings):
                await is_empty(hub)

            assert sizes(cloud, Stream.STATE) == [10, 10, 5]
            assert sizes(cloud, Stream.TELEMETRY) == [2, 2]

    async def test_an_event_larger_than_a_batch_goes_alone(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path) as hub:
            await hub.stores(*events(hub, Stream.STATE, 1, size=5000), *events(hub, Stream.STATE, 2))

            async with uplink_of(hub, cloud := WatchedCloud(hub), replace(PROMPT, most_bytes=1000)):
                await is_empty(hub)

            assert sizes(cloud, Stream.STATE) == [1, 2]

    @pytest.mark.requirement("U3")
    async def test_records_go_first_and_a_backlog_starves_no_other_stream(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path) as hub:
            await hub.stores(
                *events(hub, Stream.TELEMETRY, 30),
                *events(hub, Stream.STATE, 20),
                *events(hub, Stream.RECORD, 10),
            )

            async with uplink_of(hub, cloud := WatchedCloud(hub), replace(PROMPT, most_events=10)):
                await is_empty(hub)

            assert [batch.stream for batch in cloud.brought] == [
                *(Stream.RECORD, Stream.STATE, Stream.TELEMETRY),
                *(Stream.STATE, Stream.TELEMETRY),
                Stream.TELEMETRY,
            ]

    async def test_what_comes_while_a_batch_is_on_its_way_is_not_forgotten(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path) as hub:
            async with uplink_of(hub, cloud := WatchedCloud(hub)):
                for _ in range(40):
                    await hub.stores(*events(hub, Stream.STATE, 1), *events(hub, Stream.TELEMETRY, 1))
                await is_empty(hub)

            assert cloud.numbers(Stream.STATE) == list(range(1, 41))


class TestWhenItGoesUp:
    """A trickle is not one request for each reading; a record waits for nobody."""

    async def test_state_and_telemetry_wait_for_more_of_their_kind(self, tmp_path: Path) -> None:
        async with (
            new_hub(tmp_path) as hub,
            uplink_of(hub, cloud := WatchedCloud(hub), replace(PROMPT, linger=HOUR)),
        ):
            for stream in (Stream.STATE, Stream.TELEMETRY, Stream.STATE):
                await hub.stores(event(hub.around, stream))
            await hub.breathes()
            assert cloud.brought == []

            await hub.passes(HOUR)
            await is_empty(hub)

            assert sizes(cloud, Stream.STATE) == [2]

    async def test_a_record_goes_at_once_and_takes_the_others_along(self, tmp_path: Path) -> None:
        async with (
            new_hub(tmp_path) as hub,
            uplink_of(hub, cloud := WatchedCloud(hub), replace(PROMPT, linger=HOUR)),
        ):
            await hub.stores(event(hub.around, Stream.STATE))
            await hub.stores(event(hub.around, Stream.RECORD, EventType.ALERT))
            await is_empty(hub)

            assert [batch.stream for batch in cloud.brought] == [Stream.RECORD, Stream.STATE]

    async def test_a_full_batch_goes_at_once(self, tmp_path: Path) -> None:
        settings = replace(PROMPT, linger=HOUR, most_events=10)
        async with new_hub(tmp_path) as hub, uplink_of(hub, cloud := WatchedCloud(hub), settings):
            await hub.stores(*events(hub, Stream.STATE, 9))
            await hub.breathes()
            assert cloud.brought == []

            await hub.stores(event(hub.around, Stream.STATE))
            await is_empty(hub)

            assert sizes(cloud, Stream.STATE) == [10]


@pytest.mark.requirement("U4")
class TestOnlyWhatIsProvenLeaves:
    """And what was not asked about never does."""

    @pytest.mark.parametrize(
        "trouble", [Trouble.CAPTIVE_PORTAL, Trouble.BROKEN_ANSWER, Trouble.LOGIN, Trouble.TLS]
    )
    async def test_what_is_no_answer_of_the_cloud_leaves_all(self, tmp_path: Path, trouble: Trouble) -> None:
        async with new_hub(tmp_path) as hub:
            cloud = WatchedCloud(hub)
            cloud.goes_down(trouble)
            async with uplink_of(hub, cloud) as uplink:
                await hub.stores(*events(hub, Stream.STATE, 3))
                await eventually(lambda: uplink.state.trouble is trouble)
                assert waiting(hub) == [("state", 1), ("state", 2), ("state", 3)]

                cloud.comes_back()
                await hub.passes(HOUR)
                await is_empty(hub)

            assert cloud.numbers(Stream.STATE) == [1, 2, 3]

    async def test_a_lost_answer_has_the_same_events_sent_again(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path) as hub:
            cloud = WatchedCloud(hub)
            cloud.loses_answers(1)
            async with uplink_of(hub, cloud) as uplink:
                await hub.stores(*events(hub, Stream.STATE, 2))
                await eventually(lambda: uplink.state.trouble)
                assert waiting(hub) == [("state", 1), ("state", 2)]

                await hub.passes(HOUR)
                await is_empty(hub)

            first, second = cloud.brought
            assert first.events == second.events
            assert cloud.numbers(Stream.STATE) == [1, 2]

    async def test_an_answer_that_acknowledges_nothing_is_a_failure(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path) as hub:
            cloud = WatchedCloud(hub)
            cloud.nonsense = Acknowledged(frozenset())
            async with uplink_of(hub, cloud) as uplink:
                await hub.stores(*events(hub, Stream.STATE, 2))
                await eventually(lambda: uplink.state.trouble is Trouble.BROKEN_ANSWER)

                assert waiting(hub) == [("state", 1), ("state", 2)]
                assert len(cloud.brought) == 1

    async def test_numbers_that_were_not_sent_are_not_deleted(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path) as hub:
            cloud = WatchedCloud(hub)
            cloud.nonsense = Acknowledged(frozenset({1, 3, 99}), {2: "not yours", 77: "nor this"})
            async with uplink_of(hub, cloud, replace(PROMPT, most_events=1)) as uplink:
                await hub.stores(*events(hub, Stream.STATE, 5))
                await eventually(lambda: uplink.state.trouble)

            # One by one: 1 acknowledged, 2 refused, 3 acknowledged, and 4 not spoken of.
            assert waiting(hub) == [("state", 4), ("state", 5)]
            assert hub.rows("SELECT number, reason FROM outbox_refused") == [(2, "not yours")]

    async def test_what_an_answer_leaves_out_is_sent_again(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path) as hub:
            cloud = WatchedCloud(hub)
            cloud.nonsense = Acknowledged(frozenset({2}))
            async with uplink_of(hub, cloud) as uplink:
                await hub.stores(*events(hub, Stream.STATE, 3))
                await eventually(lambda: uplink.state.trouble)
                assert waiting(hub) == [("state", 1), ("state", 3)]

                cloud.nonsense = None
                await hub.passes(HOUR)
                await is_empty(hub)

            assert [[number for number, _ in batch.events] for batch in cloud.brought] == [
                [1, 2, 3],
                [1, 3],
                [1, 3],
            ]

    @pytest.mark.requirement("R5")
    async def test_after_a_crash_the_same_events_go_up_under_the_same_ids(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path) as hub:
            cloud = WatchedCloud(hub)
            hub.dies_at(CrashPoint.EVENTS_UPLOADED)
            async with uplink_of(hub, cloud):
                await hub.stores(*events(hub, Stream.STATE, 2))
                await eventually(lambda: cloud.uploads == 1)
                await hub.breathes()
            await hub.dies()
            await hub.starts()
            assert waiting(hub) == [("state", 1), ("state", 2)]

            async with uplink_of(hub, cloud):
                await is_empty(hub)

            first, second = cloud.brought
            assert first == second
            assert cloud.numbers(Stream.STATE) == [1, 2]

    @pytest.mark.requirement("R2")
    async def test_what_the_disk_cannot_forget_is_sent_again_when_it_can(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path) as hub:
            cloud = WatchedCloud(hub)
            await hub.stores(*events(hub, Stream.STATE, 2))
            with full_disk(hub.path):
                async with uplink_of(hub, cloud):
                    await eventually(lambda: cloud.uploads == 1)
                    await hub.breathes()
            assert waiting(hub) == [("state", 1), ("state", 2)]

            async with uplink_of(hub, cloud):
                await is_empty(hub)

            assert cloud.numbers(Stream.STATE) == [1, 2]


@pytest.mark.requirement("U5")
class TestPoison:
    """One event that is never taken does not hold up the others."""

    async def test_a_refused_event_is_set_aside_with_its_reason(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path) as hub:
            cloud = WatchedCloud(hub)
            cloud.refuses(Stream.STATE, 2, "malformed: no such type")
            async with uplink_of(hub, cloud):
                await hub.stores(*events(hub, Stream.STATE, 3))
                await is_empty(hub)

            assert cloud.numbers(Stream.STATE) == [1, 3]
            assert hub.rows("SELECT stream, number, type, reason FROM outbox_refused") == [
                ("state", 2, "edgeagent.reading.state", "malformed: no such type")
            ]

    async def test_a_batch_that_is_too_large_as_a_whole_is_halved(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path) as hub:
            cloud = WatchedCloud(hub)
            cloud.takes_at_most(3)
            async with uplink_of(hub, cloud):
                await hub.stores(*events(hub, Stream.STATE, 20))
                await is_empty(hub)

            assert cloud.numbers(Stream.STATE) == list(range(1, 21))
            assert hub.rows("SELECT 1 FROM outbox_refused") == []

    async def test_one_that_is_too_large_alone_is_set_aside(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path) as hub:
            cloud = WatchedCloud(hub)
            cloud.takes_at_most(0)
            async with uplink_of(hub, cloud):
                await hub.stores(event(hub.around))
                await is_empty(hub)

            assert hub.rows("SELECT number, reason FROM outbox_refused") == [
                (1, "too_large: too many events")
            ]


@pytest.mark.requirement("E4", "U4")
class TestAfterAFailure:
    """Bounded, jittered, and patient where it is asked to be."""

    @pytest.mark.parametrize("chance", [0.25, 0.5, 0.999])
    async def test_it_waits_twice_as_long_each_time_up_to_a_bound(
        self, tmp_path: Path, chance: float
    ) -> None:
        async with new_hub(tmp_path) as hub:
            cloud = WatchedCloud(hub)
            cloud.goes_down()
            await hub.stores(event(hub.around))
            async with uplink_of(hub, cloud, chance=chance) as uplink:
                await tried(cloud, 1)
                since = uplink.state.failing_since
                for tries, hours in enumerate([1, 2, 4, 8, 8], start=1):
                    wait = hours * HOUR * chance
                    await hub.passes(wait - HOUR / 60)
                    await hub.breathes()
                    assert len(cloud.brought) == tries

                    await hub.passes(HOUR / 60)
                    await tried(cloud, tries + 1)
                    assert uplink.state.failing_since == since

    async def test_chance_may_have_it_come_at_once(self, tmp_path: Path) -> None:
        """Full jitter: hubs that lost the cloud together do not come back together."""
        async with new_hub(tmp_path) as hub:
            cloud = WatchedCloud(hub)
            cloud.goes_down()
            await hub.stores(event(hub.around))
            async with uplink_of(hub, cloud, chance=0.0):
                await tried(cloud, 3)

    @pytest.mark.parametrize(
        ("asked", "waited"), [(HOUR / 2, HOUR / 2), (24 * HOUR, HOUR)], ids=["as asked", "at most"]
    )
    async def test_it_comes_back_when_it_was_asked_to(
        self, tmp_path: Path, asked: timedelta, waited: timedelta
    ) -> None:
        async with new_hub(tmp_path) as hub:
            cloud = WatchedCloud(hub)
            cloud.goes_down(Trouble.BUSY, retry_after=asked)
            await hub.stores(event(hub.around))
            async with uplink_of(hub, cloud, chance=0.0):
                await tried(cloud, 1)
                await hub.passes(waited - HOUR / 60)
                await hub.breathes()
                assert len(cloud.brought) == 1

                await hub.passes(HOUR / 60)
                await tried(cloud, 2)

    async def test_a_link_that_fails_again_at_once_goes_on_where_it_was(self, tmp_path: Path) -> None:
        """Kicked out after each success: the backoff is forgotten after stable time only."""
        async with new_hub(tmp_path) as hub:
            cloud = WatchedCloud(hub)
            async with uplink_of(hub, cloud, chance=0.5) as uplink:
                for hours in (1, 2, 4):
                    cloud.goes_down()
                    await hub.stores(event(hub.around))
                    await eventually(lambda: uplink.state.trouble)
                    cloud.comes_back()
                    tries = len(cloud.brought)
                    await hub.passes(hours * HOUR / 2 - HOUR / 60)
                    await hub.breathes()
                    assert len(cloud.brought) == tries

                    await hub.passes(HOUR / 60)
                    await is_empty(hub)
                    await eventually(lambda: not uplink.state.trouble)

    async def test_its_state_tells_since_when_it_fails_and_when_it_last_worked(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path) as hub:
            cloud = WatchedCloud(hub)
            async with uplink_of(hub, cloud) as uplink:
                await hub.stores(event(hub.around))
                await eventually(lambda: uplink.state.last_success is not None)
                worked = hub.clock.boot()
                await hub.passes(HOUR)
                cloud.goes_down(Trouble.TLS)
                await hub.stores(event(hub.around))
                await eventually(lambda: uplink.state.trouble)

                assert uplink.state.last_success == worked
                assert uplink.state.failing_since == worked + HOUR
                assert uplink.state.trouble is Trouble.TLS
                assert hub.counted("edgeagent_uploads_total", {"result": "failed"}) == 1


async def tried(cloud: WatchedCloud, times: int) -> None:
    """Wait until the cloud was asked so often."""
    await eventually(lambda: len(cloud.brought) >= times)


def sizes(cloud: WatchedCloud, stream: Stream) -> Sequence[int]:
    """How many events each batch of a stream held."""
    return [len(batch.events) for batch in cloud.brought if batch.stream is stream]
