"""Where an event lies: stream and number in one integer, so that what comes is written at the table's end."""

from functools import partial
from pathlib import Path

import pytest

from edgeagent.contracts.event import EventTime, EventType, Stream
from edgeagent.errors import BrokenInvariantError
from edgeagent.store import outbox
from edgeagent.store.database import Database, Snapshot, Transaction
from edgeagent.store.event_ids import event_id
from edgeagent.store.outbox import NewEvent
from tests.support.stores import HUB_MIGRATIONS, migrations_of, query, use

pytestmark = pytest.mark.requirement("U1")

_OLD = "INSERT INTO outbox VALUES ('{stream}', {number}, 'a.type', 'lamp', 17, 4, 1000, 3, X'7B7D', 'trace')"


def an_event(stream: Stream) -> NewEvent:
    """An event like any other."""
    return NewEvent(stream, EventType.STATE, None, EventTime(at=17, error=None, boot=1), b"{}")


def waiting(db: Snapshot) -> dict[Stream, list[int]]:
    """The numbers that wait."""
    return {
        stream: [each.number for each in outbox.batch(db, stream, most=100, most_bytes=10**6)]
        for stream in Stream
    }


async def test_stream_and_number_are_read_from_the_id(store: Database) -> None:
    await store.write(
        partial(outbox.append, events=[an_event(stream) for stream in (*Stream, *Stream)], incarnation=1)
    )

    rows = await store.read(lambda db: db.rows("SELECT id, stream, number FROM outbox ORDER BY id"))

    assert [(event_id(Stream(stream), number), stream, number) for _, stream, number in rows] == [
        tuple(row) for row in rows
    ]
    assert [row["stream"] for row in rows] == [str(stream) for stream in Stream for _ in range(2)]


@pytest.mark.parametrize(
    "place",
    [
        pytest.param(0, id="no number"),
        pytest.param((3 << 56) | 1, id="no stream"),
        pytest.param(-1, id="less"),
    ],
)
async def test_an_id_that_no_event_has_is_refused(store: Database, place: int) -> None:
    def put(tx: Transaction) -> None:
        tx.execute(
            "INSERT INTO outbox (id, type, at, boot, incarnation, data) VALUES (?, 'a', 1, 1, 1, X'')",
            (place,),
        )

    with pytest.raises(BrokenInvariantError):
        await store.write(put)

    assert await store.read(lambda db: db.rows("SELECT * FROM outbox")) == []


@pytest.mark.parametrize("number", [-(2**56) + 1, -(2**56), 2**56 + 1, 2**63 - 1, -(2**63)])
async def test_a_number_never_reaches_into_another_stream(store: Database, number: int) -> None:
    await store.write(partial(outbox.append, events=[an_event(stream) for stream in Stream], incarnation=1))
    before = await store.read(waiting)

    for stream in Stream:
        assert await store.write(partial(outbox.acknowledge, stream=stream, numbers=[number])) == 0
        assert await store.write(partial(outbox.set_aside, stream=stream, refused={number: "no"})) == 0

    assert await store.read(waiting) == before
    assert await store.read(lambda db: db.rows("SELECT * FROM outbox_refused")) == []


async def test_the_counter_is_written_when_the_last_event_goes_and_not_when_one_comes(
    store: Database, tmp_path: Path
) -> None:
    """A page less in each commit of readings."""
    counters = "SELECT next FROM streams WHERE stream = 'telemetry'"
    await store.write(partial(outbox.append, events=[an_event(Stream.TELEMETRY)] * 5, incarnation=1))
    assert query(tmp_path / "hub.db", counters) == [(1,)]

    await store.write(partial(outbox.acknowledge, stream=Stream.TELEMETRY, numbers=[1, 2, 3]))
    assert query(tmp_path / "hub.db", counters) == [(1,)]
    await store.write(partial(outbox.set_aside, stream=Stream.TELEMETRY, refused={5: "no"}))
    assert query(tmp_path / "hub.db", counters) == [(6,)]

    await store.write(partial(outbox.append, events=[an_event(Stream.TELEMETRY)], incarnation=1))
    assert await store.read(waiting) == {Stream.RECORD: [], Stream.STATE: [], Stream.TELEMETRY: [4, 6]}


@pytest.mark.requirement("H1")
def test_what_waits_in_a_database_of_before_keeps_its_place_and_its_content(tmp_path: Path) -> None:
    scripts = sorted(entry.name for entry in HUB_MIGRATIONS.iterdir() if entry.name.endswith(".sql"))
    texts = [HUB_MIGRATIONS.joinpath(name).read_text("utf-8") for name in scripts[:14]]
    before = migrations_of(tmp_path / "before", *texts)
    old = [(stream, number) for stream in Stream for number in (2, 9, 300)]

    def fill(tx: Transaction) -> None:
        for stream, number in old:
            tx.execute(_OLD.format(stream=stream, number=number))
        tx.execute("UPDATE streams SET next = 400")

    use(tmp_path / "hub.db", before, fill)
    told = query(tmp_path / "hub.db", "SELECT * FROM outbox ORDER BY stream, number")

    depths = use(tmp_path / "hub.db", HUB_MIGRATIONS, outbox.depths)

    columns = "stream, number, type, device, at, error, boot, incarnation, data, traceparent"
    now = query(tmp_path / "hub.db", f"SELECT {columns} FROM outbox ORDER BY id")  # noqa: S608 - ours
    assert now == told
    assert {(each.next, each.events) for each in depths.values()} == {(400, 3)}
