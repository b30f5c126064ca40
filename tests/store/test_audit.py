"""The audit trail on disk: only appended, and whatever is done to it shows."""

from functools import partial

import pytest

from edgeagent.core.audit_chain import GENESIS, AuditKind
from edgeagent.errors import BrokenInvariantError, RejectedError
from edgeagent.store import audit
from edgeagent.store.audit import Act, Head, Stamp
from edgeagent.store.database import Database, Transaction

pytestmark = pytest.mark.requirement("A1", "A3")

STAMP = Stamp("2027-03-01T12:00:00Z", "kernel")


def act(number: int = 0) -> Act:
    """Something that is put on record."""
    return Act(
        kind=AuditKind.COMMAND_REFUSED, subject="lamp", actor="agent", detail={"reason": "stale", "n": number}
    )


async def recorded(store: Database, count: int) -> Head:
    """Put so many acts on record, and give back the head."""
    return await store.write(partial(audit.append, acts=[act(n) for n in range(count)], stamp=STAMP))


async def test_an_empty_trail_has_a_head_and_holds(store: Database) -> None:
    assert await store.read(audit.head) == Head(0, GENESIS)
    assert await store.read(audit.verify) is None


async def test_acts_are_numbered_without_a_hole_and_come_back_as_they_were(store: Database) -> None:
    first = await recorded(store, 2)
    second = await recorded(store, 1)

    rows = await store.read(partial(audit.rows, after=0, most=10))
    assert [row.number for row, _ in rows] == [1, 2, 3]
    row, stored = rows[-1]
    assert (row.at, row.clock, row.kind, row.subject, row.actor, row.detail) == (
        STAMP.at,
        STAMP.clock,
        AuditKind.COMMAND_REFUSED,
        "lamp",
        "agent",
        '{"n":0,"reason":"stale"}',
    )
    assert (first.number, second) == (2, Head(3, stored))
    assert await store.read(audit.head) == second


async def test_nothing_put_on_record_changes_nothing(store: Database) -> None:
    before = await recorded(store, 1)

    assert await recorded(store, 0) == before


async def test_a_commit_that_fails_leaves_neither_row_nor_hole(store: Database) -> None:
    await recorded(store, 1)

    def fail(tx: Transaction) -> None:
        audit.append(tx, [act()], STAMP)
        raise RejectedError("not this time")

    with pytest.raises(RejectedError):
        await store.write(fail)

    assert (await recorded(store, 1)).number == 2
    assert await store.read(audit.verify) is None


async def test_a_trail_of_several_thousand_rows_is_followed_to_its_end(store: Database) -> None:
    await recorded(store, 2500)
    assert await store.read(audit.verify) is None

    await store.write(lambda tx: tx.execute("UPDATE audit SET actor = 'nobody' WHERE number = 2345"))

    found = await store.read(audit.verify)
    assert found is not None
    assert found.number == 2345


@pytest.mark.parametrize(
    ("edit", "number"),
    [
        pytest.param("UPDATE audit SET detail = '{}' WHERE number = 3", 3, id="an edited detail"),
        pytest.param("UPDATE audit SET kind = 'started' WHERE number = 3", 3, id="another kind"),
        pytest.param("UPDATE audit SET kind = 'nothing' WHERE number = 3", 3, id="a kind that there is not"),
        pytest.param("UPDATE audit SET at = 'yesterday' WHERE number = 3", 3, id="another time"),
        pytest.param("UPDATE audit SET hash = zeroblob(32) WHERE number = 3", 3, id="another hash"),
        pytest.param("DELETE FROM audit WHERE number = 3", 3, id="a removed row"),
        pytest.param("DELETE FROM audit WHERE number = 1", 1, id="the first row removed"),
        pytest.param("UPDATE audit SET number = 99 WHERE number = 3", 3, id="a row moved to the end"),
        pytest.param(
            "INSERT INTO audit SELECT number + 1, at, clock, kind, subject, actor, detail, hash"
            " FROM audit WHERE number = 5",
            6,
            id="a row told twice",
        ),
    ],
)
async def test_an_edit_behind_our_back_is_found(store: Database, edit: str, number: int) -> None:
    await recorded(store, 5)

    assert await store.write(lambda tx: tx.execute(edit)) == 1

    found = await store.read(audit.verify)
    assert found is not None
    assert found.number == number


async def test_a_trail_whose_end_was_cut_holds_but_has_another_head(store: Database) -> None:
    """The head rides in what the cloud has seen; the chain alone cannot know."""
    head = await recorded(store, 5)

    await store.write(lambda tx: tx.execute("DELETE FROM audit WHERE number > 3"))

    assert await store.read(audit.verify) is None
    assert await store.read(audit.head) != head


async def test_a_row_without_a_whole_hash_cannot_be_stored(store: Database) -> None:
    with pytest.raises(BrokenInvariantError):
        await store.write(
            lambda tx: tx.execute("INSERT INTO audit VALUES (1, '', '', '', '', '', '', x'00')")
        )
