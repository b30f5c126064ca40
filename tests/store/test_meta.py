"""Single values that outlive a restart: epoch, incarnation, floor of time, policy."""

from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.clock import FloorSource
from edgeagent.contracts.floormark import EpochReason
from edgeagent.errors import LostRaceError
from edgeagent.ids import new_epoch
from edgeagent.store import meta, policy
from edgeagent.store.database import Database
from edgeagent.store.meta import Life, StoredFloor
from tests.support.clocks import NOON
from tests.support.stores import HUB_MIGRATIONS, scratch, use

FIRST, SECOND = new_epoch(1, 1), new_epoch(2, 2)


LIFE = Life(epoch=FIRST, reason=EpochReason.FIRST)


@pytest.mark.requirement("T8")
async def test_a_new_database_has_no_life_yet(store: Database) -> None:
    assert await store.read(meta.life) is None


@pytest.mark.requirement("T8")
@pytest.mark.parametrize(
    "new", [LIFE, Life(epoch=SECOND, reason=EpochReason.RESTORED, previous=FIRST, first_run=17)], ids=str
)
def test_a_life_comes_back_as_it_was_begun(tmp_path: Path, new: Life) -> None:
    path = tmp_path / "hub.db"
    use(path, HUB_MIGRATIONS, partial(meta.begin_life, new=Life(epoch=SECOND, reason=EpochReason.LOST)))

    use(path, HUB_MIGRATIONS, partial(meta.begin_life, new=new))

    assert use(path, HUB_MIGRATIONS, meta.life) == new


@pytest.mark.requirement("L3")
def test_each_start_is_a_new_incarnation(tmp_path: Path) -> None:
    starts = [use(tmp_path / "hub.db", HUB_MIGRATIONS, meta.next_incarnation) for _ in range(3)]

    assert starts == [1, 2, 3]


@pytest.mark.requirement("L3")
def test_a_number_that_was_used_in_a_lost_database_is_not_given_again(tmp_path: Path) -> None:
    use(tmp_path / "hub.db", HUB_MIGRATIONS, meta.next_incarnation)

    assert use(tmp_path / "hub.db", HUB_MIGRATIONS, partial(meta.next_incarnation, after=9)) == 10
    assert use(tmp_path / "hub.db", HUB_MIGRATIONS, partial(meta.next_incarnation, after=4)) == 11


@pytest.mark.requirement("T6")
async def test_a_new_database_has_no_floor_of_time(store: Database) -> None:
    assert await store.read(meta.time_floor) is None


@pytest.mark.requirement("T6", "R4")
@given(steps=st.lists(st.timedeltas(timedelta(days=-400), timedelta(days=400)), min_size=1, max_size=8))
def test_the_stored_floor_is_the_latest_moment_ever_stored(steps: list[timedelta]) -> None:
    with scratch() as tx:
        highest: datetime | None = None
        for step in steps:
            moment = NOON + step

            rose = meta.raise_time_floor(tx, moment, FloorSource.KERNEL)

            assert rose == (highest is None or moment > highest)
            highest = moment if highest is None else max(highest, moment)
            assert meta.time_floor(tx) == StoredFloor(highest, FloorSource.KERNEL, 0)


@pytest.mark.requirement("T6")
def test_the_floor_survives_a_restart(tmp_path: Path) -> None:
    use(
        tmp_path / "hub.db",
        HUB_MIGRATIONS,
        partial(meta.raise_time_floor, moment=NOON, source=FloorSource.STATEMENT),
    )

    assert use(tmp_path / "hub.db", HUB_MIGRATIONS, meta.time_floor) == StoredFloor(
        NOON, FloorSource.STATEMENT, 0
    )


@pytest.mark.requirement("T2")
async def test_there_is_no_policy_until_one_is_stored(store: Database) -> None:
    assert await store.read(policy.load) is None


@pytest.mark.requirement("T2")
async def test_a_policy_comes_back_to_the_byte_and_a_later_one_takes_its_place(store: Database) -> None:
    await store.write(partial(policy.save, version=1, envelope=b"first \xff"))
    first = await store.read(policy.load)
    await store.write(partial(policy.save, version=7, envelope=b"seventh"))

    assert first == b"first \xff"
    assert await store.read(policy.load) == b"seventh"


@pytest.mark.requirement("T2")
async def test_an_earlier_policy_never_comes_back(store: Database) -> None:
    await store.write(partial(policy.save, version=7, envelope=b"seventh"))

    with pytest.raises(LostRaceError):
        await store.write(partial(policy.save, version=6, envelope=b"sixth"))

    assert await store.read(policy.load) == b"seventh"
