"""The inbox: its moves, walked pair by pair, and what it refuses to hold."""

import sqlite3
from dataclasses import asdict
from functools import partial
from pathlib import Path

import pytest

from edgeagent.contracts.reasons import Reason
from edgeagent.core.freshness import BootDeadline
from edgeagent.core.lifecycle import NEXT, State
from edgeagent.errors import BrokenInvariantError, IllegalTransitionError
from edgeagent.ids import CommandId, DeviceId, KeyId
from edgeagent.store import inbox
from edgeagent.store.database import Database, Transaction
from edgeagent.store.inbox_row import Moved
from edgeagent.store.memory import recall
from tests.store.commands import DESK, SECOND, asked, inserted, new
from tests.support.clocks import FIRST_BOOT
from tests.support.stores import query

STORED = [state for state in State if state is not State.NEW]
UNDONE = {State.SUPERSEDED, State.CANCELLED, State.EXPIRED, State.REFUSED}


async def rows(store: Database) -> list[tuple[object, ...]]:
    """All that the table holds."""
    return [tuple(row) for row in await store.read(lambda db: db.rows("SELECT * FROM inbox ORDER BY run"))]


# Moves.


@pytest.mark.requirement("T4", "I2", "Q4")
@pytest.mark.parametrize("current", STORED)
async def test_the_store_moves_a_command_along_the_table_and_no_other_way(
    store: Database, current: State
) -> None:
    for number, target in enumerate(STORED, start=1):
        row = await store.write(partial(inserted, command=new(f"c-{number}", sequence=number), state=current))
        move = partial(inbox.move, row=row, to=Moved(target, Reason.RETRYING, error="why"))
        before = await rows(store)

        if target in NEXT[current]:
            await store.write(move)
            moved = await store.read(partial(inbox.by_run, run=row.run))
            assert moved is not None
            assert (moved.state, moved.reason, moved.last_error) == (target, Reason.RETRYING, "why")
        else:
            with pytest.raises(IllegalTransitionError):
                await store.write(move)
            assert await rows(store) == before


@pytest.mark.requirement("I2", "M2")
@pytest.mark.parametrize("current", [State.QUEUED, State.WAITING, State.RUNNING])
@pytest.mark.parametrize("target", sorted(UNDONE))
async def test_what_was_sent_is_moved_to_no_state_that_says_that_nothing_was_done(
    store: Database, current: State, target: State
) -> None:
    def sent(tx: Transaction) -> int:
        row = inserted(tx, new(), State.RUNNING)
        inbox.note_sent(tx, row.run)
        tx.execute("UPDATE inbox SET state = :state", {"state": current})
        return row.run

    run = await store.write(sent)
    before = await rows(store)

    def move(tx: Transaction) -> None:
        row = inbox.by_run(tx, run)
        assert row is not None
        inbox.move(tx, row, Moved(target))

    with pytest.raises(IllegalTransitionError):
        await store.write(move)

    assert await rows(store) == before


@pytest.mark.requirement("Q4", "L2")
@pytest.mark.parametrize("seen", [State.QUEUED, State.WAITING, State.RUNNING, State.HELD])
async def test_who_has_seen_another_state_moves_nothing(store: Database, seen: State) -> None:
    row = await store.write(lambda tx: inserted(tx, new(), seen))
    for stands in STORED:
        if stands is seen:
            continue
        put = partial(
            Transaction.execute, sql="UPDATE inbox SET state = :state", parameters={"state": stands}
        )
        await store.write(put)
        before = await rows(store)

        with pytest.raises(BrokenInvariantError):
            await store.write(partial(inbox.move, row=row, to=Moved(min(NEXT[seen]))))

        assert await rows(store) == before


@pytest.mark.requirement("Q6")
async def test_a_move_says_anew_why_and_until_when_and_keeps_the_last_error(store: Database) -> None:
    row = await store.write(lambda tx: inserted(tx, new(), State.RUNNING))
    waits = Moved(State.WAITING, Reason.RETRYING, (9_000, FIRST_BOOT), error="it shows False")

    def there_and_back(tx: Transaction) -> None:
        inbox.move(tx, row, waits)
        waiting = inbox.by_run(tx, row.run)
        assert waiting is not None
        assert (waiting.available, waiting.reason) == ((9_000, FIRST_BOOT), Reason.RETRYING)
        inbox.move(tx, waiting, Moved(State.QUEUED, force_refresh=True))

    await store.write(there_and_back)

    queued = await store.read(lambda db: inbox.by_run(db, row.run))
    assert queued is not None
    assert (queued.available, queued.reason, queued.force_refresh) == (None, None, True)
    assert queued.last_error == "it shows False"


# What comes in.


@pytest.mark.requirement("Q3", "T4")
@pytest.mark.parametrize("state", STORED)
async def test_a_command_comes_in_as_held_queued_or_refused(store: Database, state: State) -> None:
    if state in NEXT[State.NEW]:
        run = await store.write(lambda tx: inbox.insert(tx, new(), state, Reason.STALE))
        row = await store.read(lambda db: inbox.by_run(db, run))
        assert row is not None
        assert (row.state, row.reason, row.ordinal, row.attempts, row.sent) == (
            state,
            Reason.STALE,
            1,
            0,
            False,
        )
    else:
        with pytest.raises(IllegalTransitionError):
            await store.write(lambda tx: inbox.insert(tx, new(), state, None))
        assert await rows(store) == []


@pytest.mark.requirement("V6")
async def test_all_that_a_command_carries_is_given_back(store: Database) -> None:
    typed = new(local=BootDeadline(FIRST_BOOT, 70 * SECOND), actor="uid:1000", slot=None)

    run = await store.write(lambda tx: inbox.insert(tx, typed, State.QUEUED, None))

    [row] = await store.read(lambda db: inbox.by_command(db, CommandId("c-1")))
    carried = {name: value for name, value in asdict(row).items() if name in asdict(typed)}
    assert carried == asdict(typed)
    assert row.run == run


@pytest.mark.requirement("T4")
async def test_runs_are_numbered_in_the_order_of_coming_also_after_a_reopening(
    store: Database, tmp_path: Path
) -> None:
    for number in (1, 2, 3):
        await store.write(
            lambda tx, n=number: inbox.insert(tx, new(f"c-{n}", sequence=n), State.QUEUED, None)  # type: ignore[misc]
        )

    assert query(tmp_path / "hub.db", "SELECT run, command FROM inbox ORDER BY run") == [
        (1, "c-1"),
        (2, "c-2"),
        (3, "c-3"),
    ]


@pytest.mark.requirement("T4")
@pytest.mark.parametrize(
    "second",
    [
        pytest.param(new("c-1", sequence=2), id="an id twice"),
        pytest.param(new("c-2", sequence=1), id="a sequence twice"),
    ],
)
async def test_the_database_itself_holds_no_id_or_sequence_twice(store: Database, second: object) -> None:
    await store.write(lambda tx: inbox.insert(tx, new("c-1", sequence=1), State.QUEUED, None))
    before = await rows(store)

    with pytest.raises(BrokenInvariantError, match="the database forbids it"):
        await store.write(lambda tx: inbox.insert(tx, second, State.QUEUED, None))  # type: ignore[arg-type]

    assert await rows(store) == before


@pytest.mark.requirement("T4")
@pytest.mark.parametrize(
    "second",
    [
        pytest.param(new("c-2", device=DeviceId("lamp-2")), id="another device"),
        pytest.param(new("c-2", issuer=KeyId("e" * 64)), id="another issuer"),
    ],
)
async def test_a_sequence_belongs_to_one_issuer_and_device(store: Database, second: object) -> None:
    await store.write(lambda tx: inbox.insert(tx, new("c-1"), State.QUEUED, None))

    await store.write(lambda tx: inbox.insert(tx, second, State.QUEUED, None))  # type: ignore[arg-type]

    assert len(await rows(store)) == 2
    whose = [
        (await store.read(lambda db, number=number: recall(db, asked(new(sequence=number))))).sequence_of  # type: ignore[misc]
        for number in (1, 2)
    ]
    assert whose == ["c-1", None]


@pytest.mark.requirement("Q6", "T4")
@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE inbox SET state = 'done'",
        "UPDATE inbox SET state = 'new'",
        "UPDATE inbox SET available_at = 5, available_boot = 'b'",
        "UPDATE inbox SET state = 'waiting', available_at = 5, available_boot = NULL",
        "UPDATE inbox SET lane = 'highest'",
        "UPDATE inbox SET attempts = -1",
        "UPDATE inbox SET sent = 2",
        "UPDATE inbox SET ordinal = 0",
        "UPDATE inbox SET local_boot = 'b'",
        "UPDATE inbox SET envelope = 'text'",
    ],
)
async def test_the_database_agrees_with_the_code_on_what_a_row_may_hold(store: Database, sql: str) -> None:
    await store.write(lambda tx: inbox.insert(tx, new(), State.QUEUED, None))
    before = await rows(store)

    with pytest.raises(BrokenInvariantError) as caught:
        await store.write(lambda tx: tx.execute(sql))

    assert isinstance(caught.value.__cause__, sqlite3.IntegrityError)
    assert await rows(store) == before


# Signatures and tries.


@pytest.mark.requirement("T4")
@pytest.mark.parametrize("state", STORED)
async def test_signatures_are_added_to_a_held_command_only(store: Database, state: State) -> None:
    row = await store.write(lambda tx: inserted(tx, new(), state))
    before = await rows(store)
    other = KeyId("e" * 64)

    def add(tx: Transaction) -> None:
        inbox.add_signatures(tx, row.run, (b"both", (DESK, other)))

    if state is State.HELD:
        await store.write(add)
        held = await store.read(lambda db: inbox.by_run(db, row.run))
        assert held is not None
        assert (held.envelope, held.signers, held.state) == (b"both", (DESK, other), State.HELD)
    else:
        with pytest.raises(BrokenInvariantError):
            await store.write(add)
        assert await rows(store) == before


@pytest.mark.requirement("S1", "Q4")
@pytest.mark.parametrize("state", STORED)
async def test_that_it_is_sent_is_noted_of_a_running_command_only(store: Database, state: State) -> None:
    row = await store.write(lambda tx: inserted(tx, new(), state))
    before = await rows(store)

    if state is State.RUNNING:
        await store.write(lambda tx: inbox.note_sent(tx, row.run))
        noted = await store.read(lambda db: inbox.by_run(db, row.run))
        assert noted is not None
        assert (noted.sent, noted.attempts) == (True, 1)
        return
    for note in (inbox.note_sent, inbox.note_unsent):
        with pytest.raises(BrokenInvariantError):
            await store.write(lambda tx, note=note: note(tx, row.run))  # type: ignore[misc]
    assert await rows(store) == before


@pytest.mark.requirement("Q4", "E2")
async def test_a_try_that_did_not_leave_is_taken_back_and_earlier_ones_stay(store: Database) -> None:
    row = await store.write(lambda tx: inserted(tx, new(), State.RUNNING))
    told = []

    def tries(tx: Transaction) -> None:
        for note in (inbox.note_sent, inbox.note_unsent, inbox.note_sent, inbox.note_sent, inbox.note_unsent):
            note(tx, row.run)
            now = inbox.by_run(tx, row.run)
            assert now is not None
            told.append((now.attempts, now.sent))

    await store.write(tries)

    assert told == [(1, True), (0, False), (1, True), (2, True), (1, True)]
