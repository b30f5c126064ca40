"""Whether a database goes on with its life: what it says of itself against what is remembered beside it."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.contracts.floormark import EpochReason, FloorMark
from edgeagent.core.epochs import Found, ahead_of, why_new
from edgeagent.ids import Epoch, HubId, digest, new_epoch
from tests.support.clocks import NOON

pytestmark = pytest.mark.requirement("T8", "R3")

FIRST, SECOND, THIRD = (new_epoch(number, number) for number in (1, 2, 3))
HASH = bytes(range(32))


def found(
    epoch: Epoch | None = SECOND,
    *,
    previous: Epoch | None = FIRST,
    incarnation: int = 5,
    number: int = 100,
    hash_at_mark: bytes | None = HASH,
) -> Found:
    return Found(
        epoch=epoch,
        previous=previous,
        incarnation=incarnation,
        audit_number=number,
        hash_at_mark=hash_at_mark,
    )


def mark(epoch: Epoch = SECOND, *, incarnation: int = 5, number: int = 100) -> FloorMark:
    return FloorMark(
        hub=HubId("venue-7"),
        sequence=8,
        epoch=epoch,
        incarnation=incarnation,
        audit_number=number,
        audit_hash=digest(HASH.hex()),
    )


EMPTY = found(None, previous=None, incarnation=0, number=0, hash_at_mark=None)


@pytest.mark.parametrize(
    ("database", "beside", "is_damaged", "reason"),
    [
        pytest.param(EMPTY, None, False, EpochReason.FIRST, id="nothing was there"),
        pytest.param(EMPTY, mark(), False, EpochReason.LOST, id="only the mark is left"),
        pytest.param(EMPTY, None, True, EpochReason.DAMAGED, id="damaged"),
        pytest.param(EMPTY, mark(), True, EpochReason.DAMAGED, id="damaged, with a mark"),
        pytest.param(found(incarnation=4), mark(), False, EpochReason.RESTORED, id="fewer starts"),
        pytest.param(
            found(number=99, hash_at_mark=None), mark(), False, EpochReason.RESTORED, id="fewer audit rows"
        ),
        pytest.param(
            found(number=500, hash_at_mark=bytes(32)),
            mark(),
            False,
            EpochReason.RESTORED,
            id="an earlier copy that went on elsewhere",
        ),
        pytest.param(found(FIRST, previous=None), mark(), False, EpochReason.RESTORED, id="an epoch before"),
        pytest.param(found(), mark(THIRD), False, EpochReason.RESTORED, id="an epoch that it never knew"),
    ],
)
def test_a_new_epoch_begins(
    database: Found, beside: FloorMark | None, *, is_damaged: bool, reason: EpochReason
) -> None:
    assert why_new(database, beside, is_damaged=is_damaged) is reason


@pytest.mark.parametrize(
    ("database", "beside"),
    [
        pytest.param(found(), None, id="the mark alone is lost"),
        pytest.param(found(), mark(), id="just written"),
        pytest.param(found(incarnation=9, number=900), mark(), id="ahead: the power went before a mark"),
        pytest.param(found(number=900, hash_at_mark=None), mark(), id="the marked row was given away"),
        pytest.param(found(), mark(FIRST), id="a new epoch that was not marked before the power went"),
        pytest.param(found(), mark(FIRST, incarnation=70, number=900), id="the same, and far ahead before"),
    ],
)
def test_the_epoch_goes_on(database: Found, beside: FloorMark | None) -> None:
    assert why_new(database, beside, is_damaged=False) is None


marks = st.builds(
    mark,
    st.sampled_from([FIRST, SECOND, THIRD]),
    incarnation=st.integers(1, 9),
    number=st.integers(0, 200),
)


@given(copy=marks, previous=st.sampled_from([None, FIRST, SECOND, THIRD]), known=st.lists(marks, max_size=3))
def test_whatever_is_put_back_beside_whatever_marks_begins_a_new_epoch(
    copy: FloorMark, previous: Epoch | None, known: list[FloorMark]
) -> None:
    previous = None if previous == copy.epoch else previous

    ahead = ahead_of(copy, previous, known)

    restored = found(
        copy.epoch,
        previous=previous,
        incarnation=copy.incarnation,
        number=copy.audit_number,
        hash_at_mark=None,
    )
    assert why_new(restored, ahead, is_damaged=False) is EpochReason.RESTORED
    assert all(ahead.sequence > each.sequence for each in [copy, *known])
    assert all(ahead.incarnation > each.incarnation for each in [copy, *known])


def test_what_is_put_back_takes_along_the_floors_and_stops_of_the_present_state() -> None:
    copy = mark(FIRST).model_copy(update={"policy_version": 3, "time_floor": NOON, "stops": ["all"]})
    present = mark(SECOND, incarnation=9).model_copy(
        update={"policy_version": 7, "time_floor": NOON + timedelta(days=1), "stops": ["tier:high"]}
    )
    reset = mark(SECOND, incarnation=8).model_copy(update={"floor_resets": 1, "time_floor": NOON})

    ahead = ahead_of(copy, None, [present, reset])

    assert (ahead.policy_version, ahead.stops) == (7, ["tier:high"])
    assert (ahead.time_floor, ahead.floor_resets) == (NOON, 1)
    assert ahead.epoch == SECOND
