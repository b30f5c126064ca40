"""What upkeep asks of the inbox: few rows at once, by an index for each question."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from edgeagent.clock import BootId
from edgeagent.contracts.reasons import Reason
from edgeagent.core.freshness import BootDeadline
from edgeagent.core.lifecycle import State
from edgeagent.ids import DeviceId, KeyId
from edgeagent.store import inbox_due
from edgeagent.store.database import Database, Transaction
from edgeagent.store.inbox_due import Due, Unsure, View
from tests.store.commands import DESK, NOW, SECOND, inserted, new
from tests.support.clocks import FIRST_BOOT
from tests.support.stores import HUB_MIGRATIONS

OTHER: Final = KeyId("e" * 64)
VIEW: Final = View(
    earliest=1_000, latest=2_000, boot=FIRST_BOOT, now=NOW.milliseconds, linked=True, after=None, most=3
)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Database]:
    """A hub's database."""
    database = await Database.open(tmp_path / "hub.db", HUB_MIGRATIONS)
    yield database
    await database.close()


def stands(
    tx: Transaction,
    name: str,
    state: State,
    reason: Reason | None = None,
    *,
    sent: bool = False,
    **how: object,
) -> int:
    """Have a command stand somewhere; its run."""
    number = len(tx.rows("SELECT 1 FROM inbox")) + 1
    row = inserted(tx, new(name, sequence=number, **how), state)
    tx.execute(
        "UPDATE inbox SET reason = :reason, sent = :sent WHERE run = :run",
        {"reason": reason, "sent": int(sent), "run": row.run},
    )
    return row.run


async def look(store: Database, view: View = VIEW) -> Due:
    """What is due."""
    return await store.read(lambda db: inbox_due.due(db, view))


@pytest.mark.requirement("T5", "Q9")
async def test_what_is_over_comes_earliest_first_and_at_most_so_many_at_once(store: Database) -> None:
    def fill(tx: Transaction) -> None:
        for number, until in enumerate([1_000, 900, 800, 700, 1_001]):
            stands(tx, f"c-{number}", State.QUEUED, expires_at=until)
        stands(tx, "done", State.EXPIRED, expires_at=1)
        stands(tx, "works", State.RUNNING, expires_at=1)

    await store.write(fill)
    found = await look(store)

    assert found.over == [4, 3, 2]
    assert found.next_over == 1_001


@pytest.mark.requirement("V6", "L5")
async def test_what_was_typed_is_over_by_boot_time_alone(store: Database) -> None:
    here = BootDeadline(FIRST_BOOT, 20 * SECOND)
    before = BootDeadline(BootId("0" * 32), 20 * SECOND)

    def fill(tx: Transaction) -> None:
        stands(tx, "good", State.WAITING, expires_at=1, local=here)
        stands(tx, "over", State.QUEUED, local=replace(here, until=10 * SECOND))
        stands(tx, "another boot", State.HELD, local=before)

    await store.write(fill)
    found = await look(store)

    assert sorted(found.over) == [2, 3]
    assert (found.next_over, found.next_over_here) == (None, 20_000)


@pytest.mark.requirement("M2", "I3")
async def test_what_was_sent_is_left_to_whoever_claims_it(store: Database) -> None:
    def fill(tx: Transaction) -> None:
        stands(tx, "stands", State.QUEUED, expires_at=1, sent=True)
        stands(tx, "waits", State.WAITING, Reason.DEVICE_OFFLINE, expires_at=1, sent=True)
        stands(tx, "no broker", State.WAITING, Reason.BROKER_AWAY, expires_at=1, sent=True)

    await store.write(fill)

    assert (await look(store)).over == [2, 3]
    alone = await look(store, replace(VIEW, linked=False))
    assert (alone.over, alone.for_broker, alone.next_over) == ([2], [], None)


@pytest.mark.requirement("T5")
async def test_what_is_of_the_future_is_due_when_it_begins(store: Database) -> None:
    def fill(tx: Transaction) -> None:
        stands(tx, "begun", State.HELD, Reason.NOT_YET_VALID, begins_at=2_000)
        stands(tx, "not yet", State.WAITING, Reason.NOT_YET_VALID, begins_at=2_001)
        stands(tx, "unsure", State.HELD, Reason.CLOCK_UNSURE, begins_at=1)

    await store.write(fill)
    found, blind = await look(store), await look(store, replace(VIEW, latest=None))

    assert (found.begun, found.next_begun) == ([Unsure(1, held=True)], 2_001)
    assert (blind.begun, blind.next_begun) == ([], None)


@pytest.mark.requirement("T5", "T7")
async def test_what_is_unsure_is_looked_through_from_where_it_was_left(store: Database) -> None:
    def fill(tx: Transaction) -> None:
        for number in range(5):
            stands(tx, f"c-{number}", State.HELD, Reason.NEEDS_APPROVAL)
        stands(tx, "waits", State.WAITING, Reason.OUTCOME_UNKNOWN)
        stands(tx, "offline", State.WAITING, Reason.DEVICE_OFFLINE)

    await store.write(fill)
    first, second = [await look(store, replace(VIEW, after=after)) for after in (0, 3)]

    assert first.unsure == [Unsure(run, held=True) for run in (1, 2, 3)]
    assert second.unsure == [Unsure(4, held=True), Unsure(5, held=True), Unsure(6, held=False)]
    assert (await look(store)).unsure == []


@pytest.mark.requirement("E2")
async def test_each_device_that_is_waited_for_is_named_once_and_its_own_are_found(store: Database) -> None:
    def fill(tx: Transaction) -> None:
        for number, device in enumerate(["b", "a", "b", "c", "b", "b"]):
            stands(tx, f"c-{number}", State.WAITING, Reason.DEVICE_OFFLINE, device=DeviceId(device))
        stands(tx, "for another", State.WAITING, Reason.RETRYING, device=DeviceId("d"))

    await store.write(fill)
    found = await look(store)

    assert found.awaited == ["a", "b", "c"]
    devices = [DeviceId("a"), DeviceId("b")]
    assert await store.read(lambda db: inbox_due.for_devices(db, devices, 4)) == [2, 1, 3, 5]


@pytest.mark.requirement("T9")
async def test_what_is_held_is_counted_for_each_issuer_up_to_the_bound(store: Database) -> None:
    def fill(tx: Transaction) -> None:
        for number in range(4):
            stands(tx, f"c-{number}", State.HELD, Reason.CLOCK_UNSURE)
        stands(tx, "goes on", State.QUEUED)
        stands(tx, "another's", State.HELD, Reason.CLOCK_UNSURE, issuer=OTHER)

    await store.write(fill)

    counted = await store.read(lambda db: [inbox_due.held_of(db, each, 3) for each in (DESK, OTHER)])
    assert counted == [3, 1]


@pytest.mark.requirement("Q9")
async def test_no_question_walks_what_does_not_belong_to_it(store: Database) -> None:
    def ask(tx: Transaction) -> list[str]:
        asked: list[str] = []
        connection = tx._connection
        connection.set_trace_callback(asked.append)
        inbox_due.due(tx, replace(VIEW, after=0))
        inbox_due.for_devices(tx, [DeviceId("a")], 3)
        inbox_due.held_of(tx, DESK, 3)
        connection.set_trace_callback(None)
        return [str(step["detail"]) for sql in asked for step in tx.rows(f"EXPLAIN QUERY PLAN {sql}")]

    steps = [step for step in await store.write(ask) if " inbox" in step]

    assert len(steps) == 12
    assert all("USING" in step and "INDEX inbox_" in step for step in steps)
    # Those typed here are few: they are good for a minute.
    walked = [step for step in steps if step.startswith("SCAN") and "inbox_here" not in step]
    assert walked == []
    assert not any("ORDER BY" in step for step in steps)
