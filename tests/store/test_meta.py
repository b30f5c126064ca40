"""Single values that outlive a restart: epoch, incarnation, floor of time, policy."""

from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.errors import LostRaceError
from edgeagent.ids import new_epoch
from edgeagent.store import meta, policy
from edgeagent.store.database import Database
from tests.support.clocks import NOON
from tests.support.stores import HUB_MIGRATIONS, scratch, use

FIRST, SECOND = new_epoch(1, 1), new_epoch(2, 2)


@pytest.mark.requirement("T8")
def test_a_database_keeps_the_epoch_of_its_making(tmp_path: Path) -> None:
    path = tmp_path / "hub.db"

    made = use(path, HUB_MIGRATIONS, partial(meta.ensure_epoch, new=FIRST))
    again = use(path, HUB_MIGRATIONS, partial(meta.ensure_epoch, new=SECOND))

    assert made == (FIRST, True)
    assert again == (FIRST, False)


@pytest.mark.requirement("T8")
def test_another_database_has_another_epoch(tmp_path: Path) -> None:
    one = use(tmp_path / "one.db", HUB_MIGRATIONS, partial(meta.ensure_epoch, new=FIRST))
    other = use(tmp_path / "other.db", HUB_MIGRATIONS, partial(meta.ensure_epoch, new=SECOND))

    assert one[0] != other[0]


@pytest.mark.requirement("L3")
def test_each_start_is_a_new_incarnation(tmp_path: Path) -> None:
    starts = [use(tmp_path / "hub.db", HUB_MIGRATIONS, meta.next_incarnation) for _ in range(3)]

    assert starts == [1, 2, 3]


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

            rose = meta.raise_time_floor(tx, moment)

            assert rose == (highest is None or moment > highest)
            highest = moment if highest is None else max(highest, moment)
            assert meta.time_floor(tx) == highest


@pytest.mark.requirement("T6")
def test_the_floor_survives_a_restart(tmp_path: Path) -> None:
    use(tmp_path / "hub.db", HUB_MIGRATIONS, partial(meta.raise_time_floor, moment=NOON))

    assert use(tmp_path / "hub.db", HUB_MIGRATIONS, meta.time_floor) == NOON


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
