"""Which numbers are stored, whatever comes in whatever order, twice or in halves."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeagent.adapters.cloud.wire import UploadQuery
from edgeagent.contracts.event import Stream, render
from edgeagent.errors import ConfigurationError
from edgeagent.ids import hub_id
from edgeagent.issuer.event_data import Upload, read_upload
from edgeagent.issuer.store import streams
from edgeagent.issuer.store.opening import open_queue
from edgeagent.issuer.wire import StreamStatus
from edgeagent.store.database import Database
from tests.issuer.building import EPOCH, stored

HUB = hub_id("venue-7")


def upload(*numbers: int, stream: Stream = Stream.RECORD) -> Upload:
    body = b"[" + b",".join(render(HUB, EPOCH, stream, stored(number)) for number in numbers) + b"]"
    query = UploadQuery(batch="0" * 32, epoch=EPOCH, stream=stream)
    return read_upload(body, HUB, query, limit=10**6, most_events=1000, most_event_bytes=1000)


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Database]:
    database = await open_queue(folder / "queue.db")
    try:
        yield database
    finally:
        await database.close()


async def status(database: Database, stream: Stream = Stream.RECORD) -> StreamStatus:
    return await database.read(lambda db: streams.status(db, HUB, EPOCH, stream))


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory() as path:
        yield Path(path)


batches = st.lists(st.sets(st.integers(1, 40), min_size=1, max_size=12), min_size=1, max_size=12)


@pytest.mark.slow
@pytest.mark.requirement("U1")
@given(batches)
@settings(max_examples=60, deadline=None)
async def test_the_ranges_are_exactly_the_numbers_that_came(sent: list[set[int]]) -> None:
    with TemporaryDirectory() as folder:
        async with opened(Path(folder)) as database:
            seen: set[int] = set()
            for numbers in sent:
                fresh, refused = await database.write(lambda tx, n=numbers: streams.store(tx, upload(*n)))  # type: ignore[misc]
                assert {event.number for event in fresh} == numbers - seen
                assert refused == {}
                seen |= numbers

            told = await status(database)

    held = [number for first, last in told.ranges for number in range(first, last + 1)]
    assert held == sorted(seen)
    assert all(after[0] > before[1] + 1 for before, after in zip(told.ranges, told.ranges[1:], strict=False))
    assert told.stored == len(seen)
    assert told.contiguous == (len(seen) == max(seen))


@pytest.mark.requirement("U1")
async def test_the_greatest_number_there_is_fits(folder: Path) -> None:
    async with opened(folder) as database:
        await database.write(lambda tx: streams.store(tx, upload(1, 2**63 - 2)))
        told = await status(database)

    assert told.ranges == [[1, 1], [2**63 - 2, 2**63 - 2]]
    assert not told.contiguous


async def test_only_the_newest_events_of_telemetry_keep_their_content(folder: Path) -> None:
    async with opened(folder) as database:
        for stream in (Stream.TELEMETRY, Stream.RECORD):
            arrived = upload(*range(1, 11), stream=stream)
            await database.write(lambda tx, a=arrived: streams.store(tx, a))  # type: ignore[misc]
            await database.write(lambda tx, a=arrived: streams.prune(tx, a, keep=3))  # type: ignore[misc]

        kept = {
            stream: await database.read(
                lambda db, s=stream: [n for n, _ in streams.page(db, HUB, EPOCH, s, after=0, most=99)]  # type: ignore[misc]
            )
            for stream in (Stream.TELEMETRY, Stream.RECORD)
        }
        fresh, refused = await database.write(
            lambda tx: streams.store(tx, upload(1, stream=Stream.TELEMETRY))
        )

    assert kept == {Stream.TELEMETRY: [8, 9, 10], Stream.RECORD: list(range(1, 11))}
    assert (fresh, refused) == ([], {}), "a repeat is known after its content is forgotten"


async def test_a_hubs_database_is_no_queue(folder: Path) -> None:
    hub = await Database.open(folder / "queue.db", files("edgeagent.store").joinpath("migrations"))
    await hub.close()

    with pytest.raises(ConfigurationError, match="not of a queue"):
        await open_queue(folder / "queue.db")
