"""A new epoch in a database that is put back: its streams begin at 1, and nothing that waits is lost."""

import tracemalloc
from functools import partial
from typing import Final

import pytest

from edgeagent.contracts.event import EventTime, EventType, Stream
from edgeagent.store import outbox
from edgeagent.store.database import Database, Transaction
from edgeagent.store.event_ids import event_id
from edgeagent.store.outbox import NewEvent

MANY: Final = 100_000
# A hub's unit has 256 MiB for all of the agent (systemd/edgeagent.service).
SOME_MEMORY: Final = 8 * 1024 * 1024
FILL: Final = """
WITH RECURSIVE waits(number) AS (SELECT 7000001 UNION ALL SELECT number + 1 FROM waits LIMIT :many)
INSERT INTO outbox (id, type, at, boot, incarnation, data)
SELECT :before + number, 'alert', 1, 1, 1, X'7B7D' FROM waits
"""

pytestmark = pytest.mark.requirement("T8", "U1")


def event(number: int, stream: Stream) -> NewEvent:
    return NewEvent(
        stream, EventType.ALERT, None, EventTime(at=number, error=None, boot=1), b'{"n":%d}' % number
    )


def waiting(tx: Transaction, stream: Stream) -> dict[int, bytes]:
    return {each.number: each.data for each in outbox.batch(tx, stream, most=100, most_bytes=10**6)}


async def test_what_waits_is_numbered_from_1_in_its_order(store: Database) -> None:
    def fill(tx: Transaction) -> None:
        for stream in Stream:
            outbox.append(tx, [event(number, stream) for number in range(1, 11)], incarnation=1)
            outbox.acknowledge(tx, stream, [1, 2, 3, 5, 10])

    await store.write(fill)

    moved = await store.write(outbox.begin_anew)

    assert moved == {4: 1, 6: 2, 7: 3, 8: 4, 9: 5}
    for stream in Stream:
        assert await store.read(partial(waiting, stream=stream)) == {
            new: b'{"n":%d}' % old for old, new in moved.items()
        }
        [next_one] = await store.write(partial(outbox.append, events=[event(11, stream)], incarnation=2))
        assert next_one == 6


async def test_an_empty_outbox_begins_at_1(store: Database) -> None:
    await store.write(partial(outbox.append, events=[event(1, Stream.STATE)], incarnation=1))
    await store.write(partial(outbox.acknowledge, stream=Stream.STATE, numbers=[1]))

    assert await store.write(outbox.begin_anew) == {}

    assert await store.write(partial(outbox.append, events=[event(2, Stream.STATE)], incarnation=1)) == [1]


async def test_what_was_refused_for_good_stays_and_is_in_nobodys_way(store: Database) -> None:
    for _ in range(3):
        numbers = await store.write(
            partial(outbox.append, events=[event(each, Stream.STATE) for each in (1, 2, 3)], incarnation=1)
        )
        await store.write(
            partial(outbox.set_aside, stream=Stream.STATE, refused=dict.fromkeys(numbers, "no"))
        )
        await store.write(outbox.begin_anew)

    refused = await store.read(lambda db: db.rows("SELECT number FROM outbox_refused ORDER BY number"))
    numbers = [int(row["number"]) for row in refused]
    assert len(numbers) == 9
    assert numbers[-1] < 0


async def test_weeks_of_readings_are_numbered_anew_within_the_memory_of_a_unit(store: Database) -> None:
    before = event_id(Stream.TELEMETRY, 0)
    await store.write(lambda tx: tx.execute(FILL, {"before": before, "many": MANY}))

    tracemalloc.start()
    try:
        assert await store.write(outbox.begin_anew) == {}
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert most < SOME_MEMORY
    told = await store.read(lambda db: db.row("SELECT count(*), min(id), max(id) FROM outbox"))
    assert told is not None
    assert tuple(told) == (MANY, before + 1, before + MANY)
    assert (await store.read(outbox.depths))[Stream.TELEMETRY].next == MANY + 1
