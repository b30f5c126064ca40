"""How much waits, remembered: what a chart is drawn from."""

from itertools import pairwise
from pathlib import Path

import pytest

from edgeagent.contracts.event import Stream
from edgeagent.contracts.policy import Tier
from edgeagent.errors import StorageError
from edgeagent.flows.history import EVERY, History, Ring
from tests.flows.commanding import new_hub
from tests.flows.operating import operated_hub
from tests.flows.signing import POWER
from tests.support.stores import broken_log

pytestmark = pytest.mark.requirement("H6")


def test_a_ring_keeps_the_last_rows_in_order() -> None:
    ring = Ring(columns=2, most=3)
    assert ring.columns() == [[], []]

    for number in range(5):
        ring.note((number, 10 * number))

    assert ring.columns() == [[2, 3, 4], [20, 30, 40]]


async def test_what_waits_is_sampled_by_stream_and_lane(tmp_path: Path) -> None:
    async with operated_hub(tmp_path, "dev-1") as desk:
        history = History(desk.hub.store, desk.hub.around)
        assert history.latest() is None
        await history.take()
        desk.hub.bus.delivers("dev-1/state", b'{"power": true}')
        await desk.hub.settles()
        desk.clock.passes(EVERY)
        await history.take()
        async with desk.uploads():
            await desk.hub.until(lambda: desk.hub.rows("SELECT count(*) FROM outbox") == [(0,)])
        desk.clock.passes(EVERY)
        await history.take()

        fine, coarse = history.report().spans
        assert fine.outbox[Stream.STATE] == [1, 2, 0]
        assert fine.stored == [fine.stored[0], fine.stored[0] + 1, fine.stored[0] + 1]
        assert [later - earlier for earlier, later in pairwise(fine.at)] == [5, 5]
        assert fine.lanes == {tier: [0, 0, 0] for tier in Tier}
        assert coarse.at == fine.at[:1]
        assert history.report().now == fine.at[-1]


async def test_an_open_command_is_counted_in_its_lane(tmp_path: Path) -> None:
    async with new_hub(tmp_path) as hub:
        await hub.television()
        history = History(hub.store, hub.now.around)
        await hub.admits(hub.command(POWER, on=True))
        await history.take()
        await hub.works()
        hub.passes(EVERY)
        await history.take()

        fine, _ = history.report().spans
        assert fine.lanes[Tier.LOW] == [1, 0]


@pytest.mark.requirement("Q9", "R2")
async def test_where_nothing_was_committed_or_can_be_read_all_is_as_it_was(tmp_path: Path) -> None:
    async with operated_hub(tmp_path, "dev-1") as desk:
        history = History(desk.hub.store, desk.hub.around)
        await history.take()
        await desk.hub.store.write(lambda tx: tx.execute("INSERT INTO meta VALUES ('x', 'y')"))
        with broken_log(desk.hub.path, Path("/dev/full")):
            with pytest.raises(StorageError):
                await desk.operator.status()
            desk.clock.passes(EVERY)
            await history.take()
        desk.clock.passes(EVERY)
        await history.take()

        fine, _ = history.report().spans
        assert fine.stored == [fine.stored[0]] * 3
        assert len(fine.at) == 3


async def test_two_minutes_apart_for_the_longer_span(tmp_path: Path) -> None:
    async with operated_hub(tmp_path) as desk:
        history = History(desk.hub.store, desk.hub.around)
        for _ in range(1 + 4 * 60 // 5):
            await history.take()
            desk.clock.passes(EVERY)

        fine, coarse = history.report().spans
        assert len(fine.at) == 49
        assert [later - earlier for earlier, later in pairwise(coarse.at)] == [120, 120]
