"""Who is next in a lane: issuers and devices take turns, and finding out costs the same at any size."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import pytest

from edgeagent.contracts.policy import Tier
from edgeagent.core.lease import Parent, Terms
from edgeagent.core.lifecycle import State
from edgeagent.errors import LostRaceError
from edgeagent.ids import DeviceId, KeyId
from edgeagent.store import inbox, lines, locks
from edgeagent.store.database import Database, Transaction
from edgeagent.store.inbox_row import Moved, NewCommand, Now, Row
from tests.store.commands import NOW, SECOND, inserted, later, new
from tests.support.clocks import SECOND_BOOT

NIGHT: Final = KeyId("e" * 64)
FLOOD: Final = DeviceId("flooded")
QUIET: Final = DeviceId("quiet")


def shared(most: int, name: str = "bridge/attic") -> Terms:
    """Terms of what occupies a bridge."""
    return Terms(30 * SECOND, Parent(name, most))


async def queued(store: Database, *commands: NewCommand) -> None:
    """Queue commands in this order."""

    def fill(tx: Transaction) -> None:
        for command in commands:
            inserted(tx, command)

    await store.write(fill)


def claimed(tx: Transaction, *, frees: bool = True) -> Row | None:
    """Claim who is next; its device is free again at once."""
    row = lines.first(tx, Tier.LOW, NOW)
    if row is not None:
        inbox.move(tx, row, Moved(State.RUNNING))
        key = locks.Key(row.device, f"of {row.run}")
        locks.take(tx, key, run=row.run, holder="w", until=40_000, now=NOW, parent=row.parent)
        if frees:
            locks.release(tx, key)
    return row


async def served(store: Database, number: int, *, frees: bool = True) -> list[str]:
    """Who is served, one after the other."""
    found = [await store.write(lambda tx: claimed(tx, frees=frees)) for _ in range(number)]
    return [row.command for row in found if row is not None]


@pytest.mark.requirement("Q8")
async def test_a_flood_for_one_device_delays_another_by_one_turn(store: Database) -> None:
    flood = [new(f"flood-{n}", sequence=n, device=FLOOD, slot=f"s{n}") for n in range(1, 6)]
    await queued(store, *flood, new("quiet", sequence=9, device=QUIET))

    assert await served(store, 4) == ["flood-1", "quiet", "flood-2", "flood-3"]


@pytest.mark.requirement("Q8", "L4")
async def test_a_flood_for_a_device_that_is_busy_keeps_nobody_waiting(store: Database) -> None:
    flood = [new(f"flood-{n}", sequence=n, device=FLOOD, slot=f"s{n}") for n in range(1, 6)]
    await queued(store, *flood, new("quiet", sequence=9, device=QUIET))

    assert await served(store, 6, frees=False) == ["flood-1", "quiet"]


@pytest.mark.requirement("Q8")
async def test_a_flood_of_one_issuer_delays_another_by_one_turn(store: Database) -> None:
    flood = [new(f"flood-{n}", sequence=n, device=DeviceId(f"device-{n}")) for n in range(1, 6)]
    await queued(store, *flood, *(new(f"night-{n}", sequence=n, device=QUIET, issuer=NIGHT) for n in (1, 2)))

    assert await served(store, 5) == ["flood-1", "night-1", "flood-2", "night-2", "flood-3"]


@pytest.mark.requirement("Q8")
async def test_among_those_of_the_same_turn_the_oldest_is_first(store: Database) -> None:
    await queued(store, *(new(f"c-{n}", sequence=n, device=DeviceId(f"d-{9 - n}")) for n in range(1, 6)))

    assert await served(store, 5) == ["c-1", "c-2", "c-3", "c-4", "c-5"]


@pytest.mark.requirement("Q8", "T4")
async def test_of_one_slot_the_order_of_arrival_holds_across_issuers(store: Database) -> None:
    """Whoever came later has the last word, whosever turn it is."""
    first = new("other", sequence=1, device=QUIET)
    on = new("on", sequence=2, device=FLOOD)
    off = new("off", sequence=1, device=FLOOD, issuer=NIGHT)
    await queued(store, first, on, off)

    assert await served(store, 3) == ["other", "on", "off"]


@pytest.mark.requirement("Q8", "Q6")
async def test_who_has_nothing_queued_stands_in_no_line(store: Database) -> None:
    await queued(store, new("a", sequence=1, slot="a"), new("b", sequence=2, slot="b"))

    def end(tx: Transaction) -> None:
        for run in (1, 2):
            row = inbox.by_run(tx, run)
            assert row is not None
            inbox.move(tx, row, Moved(State.EXPIRED))

    assert await store.read(lambda db: len(db.rows("SELECT 1 FROM lines"))) == 1
    await store.write(end)

    assert await store.read(lambda db: db.rows("SELECT 1 FROM lines")) == []
    assert await store.read(lambda db: lines.first(db, Tier.LOW, NOW)) is None


@pytest.mark.requirement("Q8")
async def test_one_that_is_queued_again_stands_in_its_line_again(store: Database) -> None:
    await queued(store, new("a"))
    await store.write(claimed)

    def back(tx: Transaction) -> None:
        row = inbox.by_run(tx, 1)
        assert row is not None
        inbox.move(tx, row, Moved(State.QUEUED))

    assert await served(store, 1) == []
    await store.write(back)
    assert await served(store, 1) == ["a"]


# What devices share.


@pytest.mark.requirement("L6")
async def test_a_parent_is_occupied_by_as_many_as_it_can_bear(store: Database) -> None:
    await queued(
        store,
        *(new(f"c-{n}", sequence=n, device=DeviceId(f"d-{n}"), terms=shared(2)) for n in range(1, 5)),
        new("elsewhere", sequence=8, device=DeviceId("d-8"), terms=shared(2, "bridge/cellar")),
        new("alone", sequence=9, device=DeviceId("d-9")),
    )

    assert await served(store, 9, frees=False) == ["c-1", "c-2", "elsewhere", "alone"]

    await store.write(lambda tx: locks.release(tx, locks.Key(DeviceId("d-1"), "of 1")))
    assert await served(store, 2, frees=False) == ["c-3"]


@pytest.mark.requirement("L6")
@pytest.mark.parametrize(("first", "second"), [(1, 4), (4, 1)])
async def test_who_wants_a_parent_for_itself_has_it_for_itself(
    store: Database, first: int, second: int
) -> None:
    await queued(
        store,
        new("first", sequence=1, terms=shared(first)),
        new("second", sequence=2, device=QUIET, terms=shared(second)),
    )

    assert await served(store, 2, frees=False) == ["first"]


@pytest.mark.requirement("L6", "L3", "L5")
@pytest.mark.parametrize(
    "now",
    [later(30_000), later(0, boot=SECOND_BOOT), later(0, incarnation=2)],
    ids=["lapsed", "boot", "start"],
)
async def test_a_parent_is_free_when_the_lock_that_occupies_it_is_void(store: Database, now: Now) -> None:
    await queued(
        store, new("a", sequence=1, terms=shared(1)), new("b", sequence=2, device=QUIET, terms=shared(1))
    )
    await store.write(lambda tx: claimed(tx, frees=False))

    assert await store.read(lambda db: lines.first(db, Tier.LOW, NOW)) is None
    row = await store.read(lambda db: lines.first(db, Tier.LOW, now))
    assert row is not None
    assert row.command == "b"


@pytest.mark.requirement("L6", "L1")
async def test_a_device_is_not_locked_without_its_parent(store: Database) -> None:
    """The lock itself judges again, whatever whoever takes it has seen."""
    await queued(
        store, new("a", sequence=1, terms=shared(1)), new("b", sequence=2, device=QUIET, terms=shared(1))
    )
    await store.write(lambda tx: claimed(tx, frees=False))

    with pytest.raises(LostRaceError):
        await store.write(
            lambda tx: locks.take(
                tx,
                locks.Key(QUIET, "theirs"),
                run=2,
                holder="w",
                until=40_000,
                now=NOW,
                parent=Parent("bridge/attic", 1),
            )
        )

    assert [held.device for held in await store.read(lambda db: locks.held(db, NOW))] == ["lamp-1"]


# What it costs.


@pytest.mark.requirement("Q9", "Q8")
async def test_no_question_of_a_claim_looks_at_what_is_over(store: Database) -> None:
    """None of its questions walks the inbox but by an index that has only open commands."""
    asked: list[str] = []

    def look(tx: Transaction) -> list[str]:
        connection = tx._connection
        connection.set_trace_callback(asked.append)
        lines.first(tx, Tier.LOW, NOW)
        lines.due_again(tx, Tier.LOW, NOW)
        lines.outlook(tx, Tier.LOW, NOW)
        lines.running(tx, Tier.LOW)
        lines.pending(tx)
        inbox.abandoned(tx, NOW)
        connection.set_trace_callback(None)
        return [str(step["detail"]) for sql in asked for step in tx.rows(f"EXPLAIN QUERY PLAN {sql}")]

    await queued(store, new("a"))
    steps = await store.write(look)

    assert _full_walks(steps) == []
    assert any("inbox_queued" in step for step in steps)
    # The first that fits is the answer: all that wait are not put in order for it.
    assert not any("RIGHT PART OF ORDER BY" in step for step in steps)


def _full_walks(steps: Sequence[str]) -> list[str]:
    """Steps that walk the inbox without a partial index."""
    partial = ("inbox_queued", "inbox_running", "inbox_waiting", "inbox_open", "inbox_queued_slot")
    of_inbox = [step for step in steps if " inbox" in step or step.split()[1] == "i"]
    return [
        step
        for step in of_inbox
        if not any(name in step for name in partial) and "INTEGER PRIMARY KEY" not in step
    ]


@pytest.mark.requirement("L7")
async def test_the_terms_of_a_lock_are_kept_with_the_command(store: Database) -> None:
    terms = Terms(timedelta(seconds=75), Parent("radio/868", 3))
    await queued(store, new("a", terms=terms))

    row = await store.read(lambda db: inbox.by_run(db, 1))

    assert row is not None
    assert row.terms == terms
