"""What the watchdog is fed by: work that gets on, not a loop that turns (SPEC R6)."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.agent.watchdog import STORE, Watchdog
from edgeagent.core.pulses import LONGEST
from edgeagent.errors import StorageError
from edgeagent.flows.surroundings import Surroundings
from edgeagent.store.database import Database
from tests.flows.building import surroundings
from tests.flows.operating import HandClock
from tests.support.notified import Notified, notified
from tests.support.stores import full_disk
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("R6")

MOMENT = timedelta(seconds=1)


@pytest.fixture
def clock() -> HandClock:
    """Time that stands still unless it is moved."""
    return HandClock()


@pytest.fixture
def around(clock: HandClock) -> Surroundings:
    """What flows share."""
    return surroundings(clock)


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Notified]:
    """A service manager that wants to hear of us."""
    with notified(tmp_path) as listening:
        yield listening


@asynccontextmanager
async def running(watchdog: Watchdog) -> AsyncIterator[None]:
    task = asyncio.create_task(watchdog.run())
    try:
        yield
        assert not task.done()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_it_is_fed_while_everything_gets_on(
    store: Database, around: Surroundings, systemd: Notified
) -> None:
    async with running(Watchdog(systemd.manager, store, around)):
        for _ in range(3):
            await eventually(lambda: "WATCHDOG=1" in systemd.heard())


async def test_a_flow_that_does_not_come_back_ends_the_feeding_and_is_named(
    store: Database,
    around: Surroundings,
    clock: HandClock,
    systemd: Notified,
    caplog: pytest.LogCaptureFixture,
) -> None:
    watchdog = Watchdog(systemd.manager, store, around)

    with around.at_work("ingest"):
        clock.passes(LONGEST)
        assert watchdog.feed()
        clock.passes(MOMENT)
        assert not watchdog.feed()
        assert not watchdog.feed()

    assert systemd.heard() == ["WATCHDOG=1", "STATUS=stuck: ingest; the watchdog is no longer fed"]
    assert [(each.message, vars(each)["flow"]) for each in caplog.records] == [("stuck", "ingest")]

    # One that has come back after all is forgiven.
    assert watchdog.feed()


async def test_a_writer_that_hangs_ends_the_feeding_and_one_that_is_slow_does_not(
    store: Database, around: Surroundings, clock: HandClock, systemd: Notified
) -> None:
    go = threading.Event()
    watchdog = Watchdog(systemd.manager, store, around)
    held = asyncio.create_task(store.write(lambda _: go.wait()))
    try:
        async with running(watchdog):
            await eventually(lambda: "WATCHDOG=1" in systemd.heard())
            clock.passes(STORE)
            assert watchdog.feed()
            clock.passes(MOMENT)
            await eventually(lambda: not watchdog.feed())

            # When it comes back, it is fed again
            go.set()
            await eventually(watchdog.feed)
    finally:
        go.set()
        await held


@pytest.mark.threat("T22")
async def test_a_disk_that_takes_nothing_is_no_reason_to_be_restarted(
    store: Database, around: Surroundings, clock: HandClock, systemd: Notified
) -> None:
    watchdog = Watchdog(systemd.manager, store, around)
    await store.write(lambda tx: tx.execute("CREATE TABLE filler (data BLOB) STRICT"))
    with full_disk(store.path):
        async with running(watchdog):
            with pytest.raises(StorageError, match="cannot write"):
                await store.write(lambda tx: tx.execute("INSERT INTO filler VALUES (zeroblob(1000000))"))
            assert store.trouble is not None
            for _ in range(3):
                clock.passes(2 * STORE)
                systemd.heard()
                await eventually(lambda: "WATCHDOG=1" in systemd.heard())


async def test_where_nobody_watches_nothing_is_told(
    store: Database, around: Surroundings, tmp_path: Path
) -> None:
    with notified(tmp_path, watchdog=None) as listening:
        await Watchdog(listening.manager, store, around).run()

        assert listening.heard() == []
