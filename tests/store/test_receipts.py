"""Receipts: each under the number of the event that told it, and told again under the same one."""

from pathlib import Path

import pytest

from edgeagent.contracts.event import EventTime, EventType, Stream
from edgeagent.core.lifecycle import State
from edgeagent.errors import BrokenInvariantError
from edgeagent.ids import CommandId
from edgeagent.store import outbox, receipts
from edgeagent.store.database import Database, Snapshot, Transaction
from edgeagent.store.outbox import NewEvent
from tests.store.commands import LAMP, inserted, new
from tests.support.stores import query

pytestmark = pytest.mark.requirement("T4", "S3")

COMMAND = CommandId("c-1")
RECEIPT = b'{"type":"receipt","outcome":"succeeded"}'


def settled(tx: Transaction, name: str = "c-1", *, sequence: int = 1, data: bytes = RECEIPT) -> int:
    """A command that has ended, its receipt in the outbox; the receipt's number."""
    row = inserted(tx, new(name, sequence=sequence), State.SUCCEEDED)
    event = NewEvent(Stream.RECORD, EventType.RECEIPT, LAMP, EventTime(17, 4, 60_000), data)
    [number] = outbox.append(tx, [event], incarnation=3)
    receipts.save(tx, row.run, number, event, incarnation=3, audit=1)
    return number


def acknowledged(tx: Transaction, *numbers: int) -> None:
    """The cloud has them."""
    outbox.acknowledge(tx, Stream.RECORD, numbers)


def numbers_waiting(db: Snapshot) -> list[int]:
    """The numbers of the records in the outbox."""
    return [event.number for event in outbox.batch(db, Stream.RECORD, most=100, most_bytes=10**6)]


async def test_a_receipt_is_found_by_its_command(store: Database) -> None:
    await store.write(settled)
    await store.write(lambda tx: inserted(tx, new("open", sequence=2)))

    assert await store.read(lambda db: receipts.load(db, COMMAND, LAMP)) == RECEIPT
    assert await store.read(lambda db: receipts.load(db, CommandId("open"), LAMP)) is None
    assert await store.read(lambda db: receipts.load(db, CommandId("nobody"), LAMP)) is None


async def test_one_that_the_cloud_has_is_told_again_as_the_same_event(
    store: Database, tmp_path: Path
) -> None:
    number = await store.write(settled)
    everything = "SELECT * FROM outbox"
    told = query(tmp_path / "hub.db", everything)
    await store.write(lambda tx: settled(tx, "c-2", sequence=2))
    await store.write(lambda tx: acknowledged(tx, number, number + 1))

    assert await store.write(lambda tx: receipts.tell_again(tx, COMMAND, LAMP))

    assert query(tmp_path / "hub.db", everything) == told
    assert await store.read(lambda db: outbox.upcoming(db, Stream.RECORD)) == number + 2


async def test_one_that_still_waits_for_the_cloud_is_left_alone(store: Database, tmp_path: Path) -> None:
    await store.write(settled)
    told = query(tmp_path / "hub.db", "SELECT * FROM outbox")

    for _ in range(3):
        assert not await store.write(lambda tx: receipts.tell_again(tx, COMMAND, LAMP))

    assert query(tmp_path / "hub.db", "SELECT * FROM outbox") == told


@pytest.mark.parametrize("name", ["open", "nobody"])
async def test_a_command_without_a_result_has_nothing_to_tell(
    store: Database, tmp_path: Path, name: str
) -> None:
    await store.write(lambda tx: inserted(tx, new("open")))

    assert not await store.write(lambda tx: receipts.tell_again(tx, CommandId(name), LAMP))

    assert query(tmp_path / "hub.db", "SELECT * FROM outbox") == []


async def test_a_run_has_one_receipt(store: Database, tmp_path: Path) -> None:
    number = await store.write(settled)
    event = NewEvent(Stream.RECORD, EventType.RECEIPT, LAMP, EventTime(18, None, 1), b"{}")

    with pytest.raises(BrokenInvariantError):
        await store.write(lambda tx: receipts.save(tx, 1, number + 1, event, incarnation=3, audit=1))
    with pytest.raises(BrokenInvariantError):
        await store.write(lambda tx: receipts.save(tx, 99, number + 1, event, incarnation=3, audit=1))

    assert query(tmp_path / "hub.db", "SELECT run, number FROM receipts") == [(1, number)]


@pytest.mark.requirement("T8")
async def test_in_a_new_epoch_one_that_waits_goes_up_under_its_new_number(store: Database) -> None:
    def begin(tx: Transaction) -> None:
        settled(tx)
        settled(tx, "c-2", sequence=2)
        acknowledged(tx, 1)
        receipts.begin_anew(tx, outbox.begin_anew(tx))

    await store.write(begin)

    assert not await store.write(lambda tx: receipts.tell_again(tx, CommandId("c-2"), LAMP))
    assert await store.read(numbers_waiting) == [1]


@pytest.mark.requirement("T8")
async def test_in_a_new_epoch_one_that_the_cloud_has_is_told_again_under_a_number_of_that_epoch(
    store: Database,
) -> None:
    """Its old number may be another event's there."""

    def begin(tx: Transaction) -> None:
        settled(tx)
        settled(tx, "c-2", sequence=2)
        acknowledged(tx, 1, 2)
        receipts.begin_anew(tx, outbox.begin_anew(tx))

    await store.write(begin)

    assert await store.write(lambda tx: receipts.tell_again(tx, CommandId("c-2"), LAMP))
    assert await store.read(numbers_waiting) == [1]
    await store.write(lambda tx: acknowledged(tx, 1))
    assert await store.write(lambda tx: receipts.tell_again(tx, CommandId("c-2"), LAMP))
    assert await store.write(lambda tx: receipts.tell_again(tx, COMMAND, LAMP))
    assert await store.read(numbers_waiting) == [1, 2]
