"""Delivery marks on disk: saved with the messages that they stand for, or not at all."""

from functools import partial

import pytest

from edgeagent.contracts.event import EventTime, EventType, Stream
from edgeagent.contracts.mqtt import Session
from edgeagent.core.redelivery import MARK_BYTES, REACH, Redeliveries, digest
from edgeagent.errors import BrokenInvariantError, RejectedError
from edgeagent.store import marks, outbox
from edgeagent.store.database import Database, Snapshot, Transaction
from edgeagent.store.outbox import NewEvent

pytestmark = pytest.mark.requirement("Q2")

ON = (1, digest("stat/plug/POWER", b"ON"))
OFF = (2, digest("stat/plug/POWER", b"OFF"))


async def test_marks_come_back_oldest_commit_first_and_each_session_for_itself(store: Database) -> None:
    knowledge = Redeliveries(10)
    raw = knowledge.to_store([ON])
    for batch in (10, 9, 11):
        await store.write(partial(marks.add, session=Session.CONTROL, batch=batch, marks=raw))
    await store.write(partial(marks.add, session=Session.TELEMETRY, batch=1, marks=b""))

    assert await store.read(partial(marks.load, session=Session.CONTROL)) == [(9, raw), (10, raw), (11, raw)]
    assert await store.read(partial(marks.load, session=Session.TELEMETRY)) == [(1, b"")]


async def test_what_was_stored_is_known_after_a_restart(store: Database) -> None:
    knowledge = Redeliveries(10)
    await store.write(
        partial(
            marks.add,
            session=Session.CONTROL,
            batch=knowledge.next_batch,
            marks=knowledge.to_store([ON, OFF]),
        )
    )

    again = Redeliveries(10, await store.read(partial(marks.load, session=Session.CONTROL)))

    assert again.is_repeat(ON, dup=True)
    assert again.is_repeat(OFF, dup=True)
    assert again.next_batch == 2


async def test_a_commit_that_fails_leaves_no_mark(store: Database) -> None:
    def fail(tx: Transaction) -> None:
        marks.add(tx, Session.CONTROL, 1, Redeliveries(10).to_store([ON]))
        raise RejectedError("not this time")

    with pytest.raises(RejectedError):
        await store.write(fail)

    assert await store.read(partial(marks.load, session=Session.CONTROL)) == []


async def test_marks_whose_window_has_passed_are_forgotten_in_their_session_only(store: Database) -> None:
    for session in Session:
        for batch in (1, 2, 3):
            await store.write(partial(marks.add, session=session, batch=batch, marks=b""))

    await store.write(partial(marks.forget, session=Session.CONTROL, before=3))

    assert await store.read(partial(marks.load, session=Session.CONTROL)) == [(3, b"")]
    assert len(await store.read(partial(marks.load, session=Session.TELEMETRY))) == 3


@pytest.mark.parametrize(
    ("batch", "raw"),
    [pytest.param(1, b"", id="the same commit again"), pytest.param(2, b"x" * 17, id="half a mark")],
)
async def test_marks_that_cannot_be_are_refused(store: Database, batch: int, raw: bytes) -> None:
    await store.write(partial(marks.add, session=Session.CONTROL, batch=1, marks=b""))

    with pytest.raises(BrokenInvariantError):
        await store.write(partial(marks.add, session=Session.CONTROL, batch=batch, marks=raw))

    assert await store.read(partial(marks.load, session=Session.CONTROL)) == [(1, b"")]


TIME = EventTime(at=17, error=None, boot=1)
TELEMETRY = NewEvent(Stream.TELEMETRY, EventType.TELEMETRY, None, TIME, b"{}")
STATE = NewEvent(Stream.STATE, EventType.STATE, None, TIME, b"{}")
RECORD = NewEvent(Stream.RECORD, EventType.GAP, None, TIME, b"{}")


def raw(number: int, count: int = 1) -> bytes:
    """Some marks that are not those of another number."""
    return number.to_bytes(MARK_BYTES, "big") * count


def comes(tx: Transaction, batch: int, *events: NewEvent, count: int = 1) -> list[int]:
    """A commit of readings whose marks lie with its telemetry."""
    marks_laid = {Stream.TELEMETRY: (batch, raw(batch, count))}
    return outbox.append(tx, events or [TELEMETRY], incarnation=1, marks=marks_laid)


def comes_twice(tx: Transaction, batch: int) -> None:
    """One of two events."""
    comes(tx, batch, TELEMETRY, TELEMETRY)


def of_telemetry(db: Snapshot, reach: int = REACH) -> list[int]:
    """The commits whose marks are known."""
    return [batch for batch, _ in marks.load(db, Session.TELEMETRY, reach=reach)]


def own_rows(db: Snapshot) -> list[int]:
    """The commits whose marks have a row of their own."""
    return [int(row[0]) for row in db.rows("SELECT batch FROM delivery_marks ORDER BY batch")]


async def test_those_that_lie_with_an_event_come_back_among_the_others(store: Database) -> None:
    await store.write(partial(comes, batch=1))
    await store.write(partial(marks.add, session=Session.TELEMETRY, batch=2, marks=raw(2)))
    await store.write(lambda tx: comes(tx, 3, STATE, TELEMETRY, TELEMETRY, STATE))

    assert await store.read(partial(marks.load, session=Session.TELEMETRY)) == [
        (n, raw(n)) for n in (1, 2, 3)
    ]
    assert await store.read(partial(marks.load, session=Session.CONTROL)) == []
    assert await store.read(own_rows) == [2]


async def test_each_session_has_them_with_the_events_of_its_own_stream(store: Database) -> None:
    laid = {Stream.STATE: (1, raw(1)), Stream.TELEMETRY: (7, raw(7))}
    await store.write(partial(outbox.append, events=[TELEMETRY, STATE, RECORD], incarnation=1, marks=laid))
    known = {Session.CONTROL: [(1, raw(1))], Session.TELEMETRY: [(7, raw(7))]}

    for stream in Stream:
        assert {each: await store.read(partial(marks.load, session=each)) for each in Session} == known
        await store.write(partial(outbox.acknowledge, stream=stream, numbers=[1]))

    assert await store.read(lambda db: db.rows("SELECT 1 FROM outbox")) == []
    assert {each: await store.read(partial(marks.load, session=each)) for each in Session} == known


async def test_they_stay_when_their_event_goes_taken_or_refused_in_any_order(store: Database) -> None:
    for batch in range(1, 7):
        await store.write(partial(comes_twice, batch=batch))
    before = await store.read(partial(marks.load, session=Session.TELEMETRY))

    for numbers in ([9, 10], [4, 2], [1, 3, 11, 500]):
        await store.write(partial(outbox.acknowledge, stream=Stream.TELEMETRY, numbers=numbers))
    await store.write(partial(outbox.set_aside, stream=Stream.TELEMETRY, refused={8: "no"}))

    assert await store.read(own_rows) == [1, 2, 4, 5]
    assert await store.read(partial(marks.load, session=Session.TELEMETRY)) == before


async def test_when_the_acknowledgement_fails_they_lie_where_they_lay(store: Database) -> None:
    await store.write(partial(comes, batch=1))

    def fail(tx: Transaction) -> None:
        outbox.acknowledge(tx, Stream.TELEMETRY, [1])
        raise RejectedError("not this time")

    with pytest.raises(RejectedError):
        await store.write(fail)

    assert await store.read(own_rows) == []
    assert await store.read(of_telemetry) == [1]


async def test_those_of_a_lost_session_count_no_more_wherever_they_lie(store: Database) -> None:
    for batch in (1, 2, 3):
        await store.write(partial(comes, batch=batch))
    await store.write(partial(outbox.acknowledge, stream=Stream.TELEMETRY, numbers=[1]))

    def begin(tx: Transaction) -> None:
        marks.begin_session(tx, Session.TELEMETRY, batch=4)
        marks.add(tx, Session.TELEMETRY, 4, raw(4))

    await store.write(begin)
    await store.write(partial(comes, batch=5))
    assert await store.read(of_telemetry) == [4, 5]

    await store.write(partial(outbox.acknowledge, stream=Stream.TELEMETRY, numbers=[2, 3, 4]))

    assert await store.read(own_rows) == [4, 5]
    assert await store.read(of_telemetry) == [4, 5]


async def test_however_many_events_wait_the_last_marks_are_read_and_few_beyond(store: Database) -> None:
    await store.write(lambda tx: [comes(tx, batch) for batch in range(1, 3501)] and None)

    found = await store.read(partial(of_telemetry, reach=1500))

    assert found == list(range(1501, 3501))
    assert await store.read(of_telemetry) == list(range(1, 3501))


@pytest.mark.requirement("R7")
async def test_a_backlog_that_drains_leaves_no_more_than_a_redelivery_can_reach(store: Database) -> None:
    """Nothing comes in meanwhile that would have them forgotten."""
    many = REACH // 4
    await store.write(lambda tx: [comes(tx, batch, count=many) for batch in range(1, 21)] and None)

    for number in range(1, 21):
        await store.write(partial(outbox.acknowledge, stream=Stream.TELEMETRY, numbers=[number]))

        kept = await store.read(own_rows)
        assert kept[-1] == number
        assert kept == list(range(kept[0], number + 1))
        assert min(number, 4) <= len(kept) <= 9


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        pytest.param("id = (2 << 56) + 1", "marks = X'00'", id="half a mark"),
        pytest.param("id = (2 << 56) + 1", "marks_batch = NULL", id="of no commit"),
        pytest.param("stream = 'record'", "marks = X'', marks_batch = 1", id="with a record"),
    ],
)
async def test_marks_that_cannot_lie_there_are_refused(store: Database, place: str, wrong: str) -> None:
    await store.write(lambda tx: comes(tx, 1, TELEMETRY, RECORD))
    before = await store.read(lambda db: [tuple(row) for row in db.rows("SELECT * FROM outbox")])

    with pytest.raises(BrokenInvariantError):
        await store.write(
            lambda tx: tx.execute(f"UPDATE outbox SET {wrong} WHERE {place}")  # noqa: S608 - our own words
        )

    assert await store.read(lambda db: [tuple(row) for row in db.rows("SELECT * FROM outbox")]) == before
