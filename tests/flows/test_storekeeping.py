"""Looking after the store: trouble is named, ends by itself, is on record; nothing is written meanwhile."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.agent.looking import probes
from edgeagent.config import Config
from edgeagent.contracts.alerts import Alert
from edgeagent.contracts.reports.health import Level
from edgeagent.errors import StorageError
from edgeagent.flows.alerts import LOOKS, Alerts
from edgeagent.flows.beside import LONG_LOG, Beside
from edgeagent.flows.storekeeping import CHECK_EVERY, LOOK, StoreKeeping
from edgeagent.sections import HubSection
from edgeagent.store.database import Transaction
from edgeagent.store.side import GaveUpError, Side
from edgeagent.store.trouble import Fault
from tests.flows.building import Hub, new_hub
from tests.flows.operating import check_of, operated_hub
from tests.flows.signing import HUB
from tests.support.stores import broken_log, full_disk, spoil_index
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("R2")

ALERTS = "SELECT detail FROM audit WHERE kind = 'alert'"
RECOVERIES = "SELECT detail FROM audit WHERE kind = 'store_recovered'"
NO_SPACE = Path("/dev/full")
FAILED_SYNC = Path("/dev/null")


@asynccontextmanager
async def keeping(hub: Hub) -> AsyncIterator[StoreKeeping]:
    """Let somebody look after a hub's store."""
    keeper = StoreKeeping(hub.store, Beside(hub.store), hub.around)
    task = asyncio.create_task(keeper.run())
    try:
        yield keeper
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def put(tx: Transaction) -> None:
    tx.execute("CREATE TABLE IF NOT EXISTS filler (data BLOB)")
    tx.execute("INSERT INTO filler VALUES (zeroblob(100000))")


def put_much(tx: Transaction) -> None:
    for _ in range(2 * LONG_LOG // 100_000):
        put(tx)


def put_names(tx: Transaction) -> None:
    tx.execute("CREATE TABLE names (name TEXT PRIMARY KEY)")
    tx.execute_many("INSERT INTO names VALUES (?)", [(str(number),) for number in range(100)])


async def test_a_full_disk_is_named_until_there_is_room_again_and_then_on_record(tmp_path: Path) -> None:
    async with new_hub(tmp_path, "dev-1") as hub, keeping(hub) as keeper:
        await hub.store.checkpoint()  # what lies in the log cannot be read while it is broken
        with broken_log(hub.path, NO_SPACE):
            with pytest.raises(StorageError):
                await hub.store.write(put)
            await hub.breathes()
            ailing = keeper.ailing
            await hub.passes(timedelta(seconds=1))
            await hub.breathes()
            assert hub.rows(RECOVERIES) == []

        await recovered(hub)

        assert ailing is not None
        assert ailing.fault is Fault.FULL
        assert keeper.ailing is None
        [(told,)] = hub.rows(RECOVERIES)
        detail = json.loads(str(told))
        assert detail["fault"] == "full"
        assert detail["failures"] >= 2


async def test_a_failed_sync_is_named_as_such(tmp_path: Path) -> None:
    async with new_hub(tmp_path, "dev-1") as hub, keeping(hub) as keeper:
        with broken_log(hub.path, FAILED_SYNC), pytest.raises(StorageError):
            await hub.store.write(put)
        ailing = keeper.ailing

        await recovered(hub)

        assert ailing is not None
        assert ailing.fault is Fault.FAILED_SYNC
        assert hub.store.generation >= 1
        assert len(hub.rows(RECOVERIES)) == 1


async def test_trouble_that_comes_again_and_again_fills_no_trail(tmp_path: Path) -> None:
    async with new_hub(tmp_path, "dev-1") as hub, keeping(hub):
        for _ in range(20):
            with full_disk(hub.path), pytest.raises(StorageError):
                await hub.store.write(put)
            await hub.store.write(put)
            await hub.passes(timedelta(seconds=1))

        assert len(hub.rows(RECOVERIES)) <= 5


@pytest.mark.requirement("Q9")
async def test_a_hub_at_rest_is_looked_after_without_a_write(tmp_path: Path) -> None:
    async with new_hub(tmp_path, "dev-1") as hub, keeping(hub):
        before = hub.store.commits, hub.store.log_bytes

        for _ in range(5):
            hub.loop_time.passes(LOOK)
            await asyncio.sleep(0)

        assert (hub.store.commits, hub.store.log_bytes) == before


async def test_a_log_that_has_become_long_is_cut_when_it_is_calm(tmp_path: Path) -> None:
    async with new_hub(tmp_path, "dev-1") as hub:
        keeper = StoreKeeping(hub.store, Beside(hub.store), hub.around)
        await keeper.look()
        await hub.store.write(put_much)
        assert hub.store.log_bytes > LONG_LOG

        await keeper.look()

        assert hub.store.log_bytes == 0


async def test_all_pages_are_looked_at_once_a_month_and_damage_is_critical(tmp_path: Path) -> None:
    async with operated_hub(tmp_path, "dev-1") as desk:
        keeper = desk.health.keeping
        await desk.hub.store.write(put_names)
        await desk.hub.store.checkpoint()
        spoil_index(desk.hub.path, "names", b"42")

        await keeper.look()
        assert (await desk.check("database")).level is Level.OK
        desk.clock.passes(CHECK_EVERY)
        await keeper.look()
        check = await desk.check("database")

        assert check.level is Level.CRITICAL
        assert "damaged" in check.summary
        assert check.advice


async def test_damage_that_was_found_is_still_critical_after_a_restart_until_it_is_gone(
    tmp_path: Path,
) -> None:
    async with operated_hub(tmp_path, "dev-1") as desk:
        keeper, hub = desk.health.keeping, desk.hub
        await hub.store.write(put_names)
        await hub.store.checkpoint()
        spoil_index(hub.path, "names", b"42")
        desk.clock.passes(CHECK_EVERY)
        await keeper.look()
        assert hub.store.is_checked, "what a start looks at is well"

        async with keeping(hub) as after:
            await eventually(lambda: after.damage)
            health = replace(desk.health, keeping=after)
            assert (await check_of(health, "database")).level is Level.CRITICAL
            await after.look()
            assert (await check_of(health, "database")).level is Level.CRITICAL

            await hub.store.write(lambda tx: tx.execute("REINDEX names"))
            desk.clock.passes(CHECK_EVERY)
            await after.look()
            assert (await check_of(health, "database")).level is Level.OK

        mended = StoreKeeping(hub.store, Beside(hub.store), hub.around)
        await mended.recall()
        assert mended.damage == ""


@pytest.mark.requirement("O4", "O5")
async def test_damage_that_only_the_look_at_all_pages_finds_calls_for_a_person(tmp_path: Path) -> None:
    async with operated_hub(tmp_path, "dev-1") as desk:
        keeper, hub = desk.health.keeping, desk.hub
        config = Config(hub=HubSection(id=HUB, state_dir=hub.path.parent))
        health = replace(desk.health, probes=probes(config, desk.clock, keeper))
        alerts = Alerts(hub.store, hub.around, health.report)
        await hub.store.write(put_names)
        await hub.store.checkpoint()
        spoil_index(hub.path, "names", b"42")

        await keeper.look()
        assert (await check_of(health, "pages")).level is Level.OK
        desk.clock.passes(CHECK_EVERY)
        await keeper.look()
        for _ in range(LOOKS):
            await alerts.compare((await health.report()).checks)

        assert (await check_of(health, "pages")).advice == (await check_of(health, "database")).advice
        raised = [json.loads(str(detail))["alert"] for (detail,) in hub.rows(ALERTS)]
        assert Alert.DATABASE_DAMAGED in raised


async def test_health_names_the_fault_and_since_when(tmp_path: Path) -> None:
    async with operated_hub(tmp_path, "dev-1") as desk:
        keeper = desk.health.keeping
        task = asyncio.create_task(keeper.run())
        await desk.hub.store.checkpoint()
        with broken_log(desk.hub.path, NO_SPACE):
            with pytest.raises(StorageError):
                await desk.hub.store.write(put)
            await desk.hub.breathes()
            desk.clock.passes(timedelta(minutes=5))
            check = await desk.check("database")
        task.cancel()

        assert check.level is Level.CRITICAL
        assert "the disk is full, for 5 min" in check.summary
        assert "no command is taken or run" in check.summary
        assert "free some space" in check.advice


async def test_work_beside_the_writer_ends_when_the_agent_stops(tmp_path: Path) -> None:
    async with new_hub(tmp_path, "dev-1") as hub:
        beside = Beside(hub.store)

        def wait_for_the_end(side: Side) -> None:
            while not (why := side.why_to_end()):
                pass
            raise GaveUpError(why)

        work = asyncio.create_task(beside.run(wait_for_the_end))
        await eventually(lambda: beside.is_busy)
        await hub.breathes()
        beside.stop()

        with pytest.raises(GaveUpError, match="stopping"):
            await work
        with pytest.raises(GaveUpError, match="stopping"):
            await beside.run(Side.damage)


async def recovered(hub: Hub) -> None:
    """Let time go on until the trail tells that the disk takes writes again."""
    for _ in range(10):
        await hub.passes(timedelta(seconds=31))
        await hub.breathes()
        if hub.rows(RECOVERIES):
            return
    raise AssertionError("it does not recover")
