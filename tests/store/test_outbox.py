"""The outbox: no number is given twice or left out, and events stay until they are proven taken."""

import asyncio
from collections import defaultdict
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from typing_extensions import override

from edgeagent.contracts.event import EventTime, EventType, StoredEvent, Stream
from edgeagent.errors import BrokenInvariantError, RejectedError
from edgeagent.ids import DeviceId
from edgeagent.store import outbox
from edgeagent.store.database import Database, Transaction
from edgeagent.store.outbox import NewEvent
from tests.support.stores import HUB_MIGRATIONS, use

pytestmark = pytest.mark.requirement("U1")

TIME = EventTime(at=1_800_000_000_000_000, error=20, boot=1000)

streams = st.sampled_from(Stream)


def event(stream: Stream = Stream.STATE, data: bytes = b"{}") -> NewEvent:
    """An event like any other."""
    return NewEvent(stream, EventType.STATE, DeviceId("lamp"), TIME, data)


async def stored(store: Database, *events: NewEvent) -> list[int]:
    """Store events, and give back their numbers."""
    return await store.write(partial(outbox.append, events=events, incarnation=1))


async def waiting(store: Database, stream: Stream = Stream.STATE) -> list[int]:
    """The numbers that wait in a stream."""
    events = await store.read(partial(outbox.batch, stream=stream, most=10_000, most_bytes=10**9))
    return [each.number for each in events]


class Numbers(RuleBasedStateMachine):
    """Events stored, taken, refused and lost with their commit, over restarts, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.path = Path(self.folder.name) / "hub.db"
        self.given: dict[Stream, int] = defaultdict(int)
        self.waiting: dict[Stream, set[int]] = defaultdict(set)

    @override
    def teardown(self) -> None:
        self.folder.cleanup()

    @rule(which=st.lists(streams, max_size=6))
    def events_are_stored(self, which: list[Stream]) -> None:
        expected = []
        for stream in which:
            self.given[stream] += 1
            self.waiting[stream].add(self.given[stream])
            expected.append(self.given[stream])

        numbers = use(
            self.path,
            HUB_MIGRATIONS,
            partial(outbox.append, events=[event(stream) for stream in which], incarnation=1),
        )

        assert numbers == expected

    @rule(which=st.lists(streams, min_size=1, max_size=3))
    def a_commit_fails(self, which: list[Stream]) -> None:
        def fail(tx: Transaction) -> None:
            outbox.append(tx, [event(stream) for stream in which], incarnation=1)
            raise RejectedError("not this time")

        with pytest.raises(RejectedError):
            use(self.path, HUB_MIGRATIONS, fail)

    @rule(stream=streams, numbers=st.lists(st.integers(1, 12), max_size=6))
    def the_cloud_takes_some(self, stream: Stream, numbers: list[int]) -> None:
        here = self.waiting[stream] & set(numbers)
        self.waiting[stream] -= here

        gone = use(self.path, HUB_MIGRATIONS, partial(outbox.acknowledge, stream=stream, numbers=numbers))

        assert gone == len(here)

    @rule(stream=streams, number=st.integers(1, 12))
    def the_cloud_refuses_one(self, stream: Stream, number: int) -> None:
        here = self.waiting[stream] & {number}
        self.waiting[stream] -= here

        moved = use(
            self.path, HUB_MIGRATIONS, partial(outbox.set_aside, stream=stream, refused={number: "no"})
        )

        assert moved == len(here)

    @invariant()
    def what_waits_is_what_was_stored_and_not_proven_taken(self) -> None:
        depths = use(self.path, HUB_MIGRATIONS, outbox.depths)
        extents = use(self.path, HUB_MIGRATIONS, outbox.extents)
        for stream in Stream:
            upcoming = depths[stream].next
            assert upcoming == self.given[stream] + 1
            assert depths[stream].events == len(self.waiting[stream])
            assert extents[stream] == (
                min(self.waiting[stream], default=depths[stream].next),
                depths[stream].next,
            )


TestNumbers = Numbers.TestCase
# Each step opens the database anew: this is the restart.
TestNumbers.settings = settings(max_examples=12, stateful_step_count=12)


async def test_numbers_of_each_stream_count_for_themselves_in_the_order_given(store: Database) -> None:
    first = await stored(store, event(Stream.STATE), event(Stream.TELEMETRY), event(Stream.STATE))
    second = await stored(store, event(Stream.TELEMETRY), event(Stream.RECORD))

    assert first == [1, 1, 2]
    assert second == [2, 1]


async def test_a_drained_outbox_does_not_begin_anew(store: Database) -> None:
    """Rowids would: the cloud would take the next event for one that it knows."""
    await stored(store, event(), event())
    await store.write(partial(outbox.acknowledge, stream=Stream.STATE, numbers=[1, 2]))

    assert await waiting(store) == []
    assert await stored(store, event()) == [3]


async def test_writers_at_the_same_time_never_share_a_number(store: Database) -> None:
    numbers = await asyncio.gather(*(stored(store, event(), event()) for _ in range(50)))

    assert sorted(number for pair in numbers for number in pair) == list(range(1, 101))


async def test_an_event_comes_back_as_it_was_stored(store: Database) -> None:
    hello = NewEvent(Stream.RECORD, EventType.HUB_HELLO, None, EventTime(-5, None, 0), b'{"a":"\xc3\xa9"}')
    await store.write(partial(outbox.append, events=[hello], incarnation=7))

    (found,) = await store.read(partial(outbox.batch, stream=Stream.RECORD, most=10, most_bytes=1000))

    assert found == StoredEvent(
        number=1,
        type=EventType.HUB_HELLO,
        device=None,
        time=EventTime(-5, None, 0),
        incarnation=7,
        data=b'{"a":"\xc3\xa9"}',
    )


async def test_a_batch_is_the_oldest_events_within_its_bounds(store: Database) -> None:
    await stored(store, *(event(data=b"x" * 100) for _ in range(10)))

    by_count = await store.read(partial(outbox.batch, stream=Stream.STATE, most=3, most_bytes=10**6))
    by_size = await store.read(partial(outbox.batch, stream=Stream.STATE, most=10, most_bytes=450))

    assert [each.number for each in by_count] == [1, 2, 3]
    assert [each.number for each in by_size] == [1, 2, 3, 4]


@pytest.mark.requirement("U5")
async def test_an_event_larger_than_a_batch_is_sent_alone_and_blocks_nothing(store: Database) -> None:
    await stored(store, event(data=b"x" * 5000), event())

    found = await store.read(partial(outbox.batch, stream=Stream.STATE, most=10, most_bytes=1000))

    assert [each.number for each in found] == [1]


@pytest.mark.requirement("U4")
@pytest.mark.parametrize(
    ("numbers", "left"),
    [
        pytest.param([1, 2, 3], [4, 5], id="the first ones"),
        pytest.param([5, 3, 1], [2, 4], id="with holes, out of order"),
        pytest.param([2, 2, 2], [1, 3, 4, 5], id="one again and again"),
        pytest.param([], [1, 2, 3, 4, 5], id="none"),
        pytest.param([0, -1, 6, 2**63 - 1], [1, 2, 3, 4, 5], id="numbers that were never given"),
    ],
)
async def test_what_is_proven_taken_goes_and_nothing_else(
    store: Database, numbers: list[int], left: list[int]
) -> None:
    await stored(store, *(event() for _ in range(5)), event(Stream.TELEMETRY))

    gone = await store.write(partial(outbox.acknowledge, stream=Stream.STATE, numbers=numbers))

    assert await waiting(store) == left
    assert await waiting(store, Stream.TELEMETRY) == [1]
    assert gone == 5 - len(left)


@pytest.mark.requirement("U5")
async def test_a_poison_event_is_set_aside_with_its_reason_and_the_rest_flows(store: Database) -> None:
    await stored(store, event(data=b'"a"'), event(data=b'"b"'), event(data=b'"c"'))

    moved = await store.write(
        partial(outbox.set_aside, stream=Stream.STATE, refused={2: "too large", 9: "unknown"})
    )
    again = await store.write(partial(outbox.set_aside, stream=Stream.STATE, refused={2: "too large"}))

    assert (moved, again) == (1, 0)
    assert await waiting(store) == [1, 3]
    kept = await store.read(lambda db: db.rows("SELECT number, data, reason FROM outbox_refused"))
    assert [tuple(row) for row in kept] == [(2, b'"b"', "too large")]


async def test_the_depth_of_a_stream_is_what_waits_in_it(store: Database) -> None:
    await stored(store, event(data=b"12345"), event(data=b"123"))
    await store.write(partial(outbox.set_aside, stream=Stream.STATE, refused={1: "no"}))

    depths = await store.read(outbox.depths)

    assert depths[Stream.STATE] == outbox.Depth(next=3, events=1, bytes=3, oldest=TIME.at, refused=1)
    assert depths[Stream.RECORD] == outbox.Depth(next=1, events=0, bytes=0, oldest=None, refused=0)


async def test_a_stream_without_its_counter_is_our_own_mistake(store: Database) -> None:
    await store.write(lambda tx: tx.execute("DELETE FROM streams WHERE stream = 'state'"))

    with pytest.raises(BrokenInvariantError, match="no counter"):
        await stored(store, event())
