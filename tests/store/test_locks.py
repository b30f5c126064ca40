"""Locks: one lease and one fence for each device."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeagent.core.lifecycle import State
from edgeagent.errors import BrokenInvariantError, LostRaceError
from edgeagent.ids import DeviceId
from edgeagent.store import locks
from edgeagent.store.database import Database, Transaction
from edgeagent.store.inbox_row import Now
from tests.store.commands import LAMP, NOW, inserted, later, new
from tests.support.clocks import SECOND_BOOT
from tests.support.stores import HUB_MIGRATIONS, query, use

OURS, THEIRS = locks.Key(LAMP, "ours"), locks.Key(LAMP, "theirs")
UNTIL = NOW.milliseconds + 30_000

each_void = pytest.mark.parametrize(
    "now",
    [
        pytest.param(later(30_000), id="lapsed"),
        pytest.param(later(-9_000, boot=SECOND_BOOT), id="another boot"),
        pytest.param(later(0, incarnation=2), id="another start"),
    ],
)


def taken(tx: Transaction, key: locks.Key = OURS, now: Now = NOW) -> int:
    """Take a lock for thirty seconds; its fence."""
    return locks.take(tx, key, run=1, holder="worker-1", until=now.milliseconds + 30_000, now=now)


@pytest.fixture
async def store(store: Database) -> Database:
    """A database with two commands to lock for."""

    def fill(tx: Transaction) -> None:
        inserted(tx, new("c-1", sequence=1), State.RUNNING)
        inserted(tx, new("c-2", sequence=2), State.RUNNING)

    await store.write(fill)
    return store


async def rows(store: Database) -> list[tuple[object, ...]]:
    """All that the table holds."""
    return [tuple(row) for row in await store.read(lambda db: db.rows("SELECT * FROM locks"))]


@pytest.mark.requirement("L1", "L2")
async def test_a_lock_that_is_held_is_taken_by_nobody_else(store: Database) -> None:
    assert await store.write(taken) == 1
    before = await rows(store)

    for now in (NOW, later(29_999)):
        with pytest.raises(LostRaceError):
            await store.write(lambda tx, now=now: taken(tx, THEIRS, now))  # type: ignore[misc]

    assert await rows(store) == before


@pytest.mark.requirement("L1", "L2", "L3", "L5")
@each_void
async def test_a_lock_that_is_void_is_taken_with_the_next_fence(store: Database, now: Now) -> None:
    await store.write(taken)

    assert await store.write(lambda tx: taken(tx, THEIRS, now)) == 2

    with pytest.raises(LostRaceError):
        await store.read(lambda db: locks.check(db, OURS, now))
    await store.read(lambda db: locks.check(db, THEIRS, now))


@pytest.mark.requirement("L1", "L3", "L5")
@each_void
async def test_a_holder_whose_lock_is_void_neither_holds_nor_renews_it(store: Database, now: Now) -> None:
    """Not even while nobody else has taken it: it was gone for too long."""
    await store.write(taken)
    before = await rows(store)

    with pytest.raises(LostRaceError):
        await store.read(lambda db: locks.check(db, OURS, now))
    with pytest.raises(LostRaceError):
        await store.write(lambda tx: locks.renew(tx, OURS, until=UNTIL * 2, now=now))

    assert await rows(store) == before


@pytest.mark.requirement("L1")
async def test_renewing_lengthens_the_lease_of_its_holder_only(store: Database) -> None:
    await store.write(taken)

    with pytest.raises(LostRaceError):
        await store.write(lambda tx: locks.renew(tx, THEIRS, until=UNTIL * 2, now=NOW))
    assert query_until(await rows(store)) == UNTIL
    await store.write(lambda tx: locks.renew(tx, OURS, until=UNTIL * 2, now=later(29_999)))

    assert query_until(await rows(store)) == UNTIL * 2
    await store.read(lambda db: locks.check(db, OURS, later(59_000)))


def query_until(found: list[tuple[object, ...]]) -> object:
    """When the one lease ends."""
    [row] = found
    return row[5]


@pytest.mark.requirement("L1")
async def test_a_lock_is_released_by_its_holder_only_and_keeps_its_fence(store: Database) -> None:
    """Compared and cleared in one statement: nobody frees what another has taken meanwhile."""
    await store.write(taken)
    before = await rows(store)
    with pytest.raises(LostRaceError):
        await store.write(lambda tx: locks.release(tx, THEIRS))
    assert await rows(store) == before

    await store.write(lambda tx: locks.release(tx, OURS))

    assert await rows(store) == [(LAMP, 1, *[None] * 9)]
    with pytest.raises(LostRaceError):
        await store.write(lambda tx: locks.release(tx, OURS))
    assert await store.write(taken) == 2


@pytest.mark.requirement("L1", "L2")
async def test_a_late_holder_does_not_free_what_was_taken_over(store: Database) -> None:
    await store.write(taken)
    await store.write(lambda tx: taken(tx, THEIRS, later(30_000)))
    before = await rows(store)

    with pytest.raises(LostRaceError):
        await store.write(lambda tx: locks.release(tx, OURS))

    assert await rows(store) == before


@pytest.mark.requirement("L1", "L3")
@each_void
async def test_what_a_holder_that_is_gone_has_left_can_be_cleared(store: Database, now: Now) -> None:
    await store.write(taken)
    before = await rows(store)
    await store.write(lambda tx: locks.clear(tx, 1, NOW))
    await store.write(lambda tx: locks.clear(tx, 2, now))
    assert await rows(store) == before

    await store.write(lambda tx: locks.clear(tx, 1, now))

    assert await rows(store) == [(LAMP, 1, *[None] * 9)]


@pytest.mark.requirement("L6")
async def test_each_device_has_a_lock_of_its_own(store: Database) -> None:
    other = locks.Key(DeviceId("lamp-2"), "ours")
    await store.write(taken)

    assert await store.write(lambda tx: taken(tx, other)) == 1

    held = await store.read(lambda db: locks.held(db, NOW))
    assert [(each.device, each.fence, each.run, each.holder, each.until) for each in held] == [
        (LAMP, 1, 1, "worker-1", UNTIL),
        (other.device, 1, 1, "worker-1", UNTIL),
    ]
    assert await store.read(lambda db: locks.held(db, later(30_000))) == []


@pytest.mark.requirement("L2")
def test_the_fence_grows_across_reopenings(tmp_path: Path) -> None:
    path = tmp_path / "hub.db"
    use(path, HUB_MIGRATIONS, lambda tx: inserted(tx, new("c-1"), State.RUNNING))

    fences = [
        use(path, HUB_MIGRATIONS, lambda tx, n=n: taken(tx, OURS, later(0, incarnation=n)))  # type: ignore[misc]
        for n in range(1, 5)
    ]

    assert fences == [1, 2, 3, 4]
    assert query(path, "SELECT fence, incarnation FROM locks") == [(4, 4)]
    assert use(path, HUB_MIGRATIONS, lambda tx: locks.fence(tx, LAMP)) == 4
    assert use(path, HUB_MIGRATIONS, lambda tx: locks.fence(tx, DeviceId("never"))) == 0


@pytest.mark.requirement("L1")
@pytest.mark.parametrize("column", ["run", "holder", "lease_until", "boot", "incarnation", "token"])
async def test_the_database_holds_no_half_lock(store: Database, column: str) -> None:
    await store.write(taken)
    statements = {
        "run": "UPDATE locks SET run = NULL",
        "holder": "UPDATE locks SET holder = NULL",
        "lease_until": "UPDATE locks SET lease_until = NULL",
        "boot": "UPDATE locks SET boot = NULL",
        "incarnation": "UPDATE locks SET incarnation = NULL",
        "token": "UPDATE locks SET token = NULL",
    }

    with pytest.raises(BrokenInvariantError):
        await store.write(lambda tx: tx.execute(statements[column]))


moves = st.lists(
    st.tuples(
        st.sampled_from(["take", "renew", "release", "pass", "start"]),
        st.sampled_from(["a", "b"]),
        st.integers(1, 40_000),
    ),
    max_size=30,
)


@pytest.mark.requirement("L1", "L2")
@settings(max_examples=25)
@given(moves)
def test_of_two_holders_never_both_hold_and_the_fence_never_falls(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, int]]
) -> None:
    path = tmp_path_factory.mktemp("locks") / "hub.db"

    def play(tx: Transaction) -> None:
        inserted(tx, new("c-1"), State.RUNNING)
        now, fence = NOW, 0
        for verb, who, number in steps:
            key = locks.Key(LAMP, who)
            if verb == "pass":
                now = Now(now.boot, now.milliseconds + number, now.incarnation)
            elif verb == "start":
                now = Now(now.boot, now.milliseconds, now.incarnation + 1)
            else:
                others = locks.Key(LAMP, "b" if who == "a" else "a")
                was_held = _holds(tx, others, now)
                try:
                    if verb == "take":
                        taken(tx, key, now)
                        assert not was_held
                    elif verb == "renew":
                        locks.renew(tx, key, until=now.milliseconds + 30_000, now=now)
                    else:
                        locks.release(tx, key)
                except LostRaceError:
                    assert _holds(tx, others, now) is was_held
            assert not (_holds(tx, locks.Key(LAMP, "a"), now) and _holds(tx, locks.Key(LAMP, "b"), now))
            assert locks.fence(tx, LAMP) >= fence
            fence = locks.fence(tx, LAMP)

    use(path, HUB_MIGRATIONS, play)


def _holds(tx: Transaction, key: locks.Key, now: Now) -> bool:
    try:
        locks.check(tx, key, now)
    except LostRaceError:
        return False
    return True
