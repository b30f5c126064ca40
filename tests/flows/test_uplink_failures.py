"""The uplink when the cloud will not have it, or cannot: poison, backoff, patience."""

from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.contracts.event import Stream
from edgeagent.ports.links import Trouble
from tests.flows.building import event, new_hub
from tests.flows.uploading import HOUR, WatchedCloud, events, is_empty, tried, uplink_of
from tests.support.waiting import eventually


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
                await eventually(lambda: uplink.state.failing_since is not None)
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
