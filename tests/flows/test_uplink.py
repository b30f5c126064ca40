"""From the outbox to the cloud: nothing leaves before the far side has proven that it holds it."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from edgeagent.contracts.event import EventType, Stream
from edgeagent.ports.cloud import Acknowledged
from edgeagent.ports.crash import CrashPoint
from edgeagent.ports.links import Trouble
from tests.flows.building import EPOCH, HUB, event, new_hub
from tests.flows.uploading import HOUR, PROMPT, WatchedCloud, events, is_empty, sizes, uplink_of, waiting
from tests.support.stores import full_disk
from tests.support.waiting import eventually


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
