"""Backups on request: refused where they do harm, on record where they are made."""

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from edgeagent.contracts.reports.backup import BackupRequest
from edgeagent.errors import RejectedError, StorageError
from edgeagent.flows.backups import BackupFlow
from edgeagent.flows.beside import Beside
from edgeagent.store.connection import connect_reader
from edgeagent.store.database import Transaction
from edgeagent.store.side import LONGEST_LOG, Side
from tests.flows.building import Hub, new_hub
from tests.support.stores import full_disk, query
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("R2")

ROWS = "SELECT subject, actor FROM audit WHERE kind = 'backed_up'"


def backups(hub: Hub, beside: Beside | None = None, *, keep: int = 3) -> BackupFlow:
    return BackupFlow(hub.store, beside or Beside(hub.store), hub.around, keep)


def names_in(state: Path) -> list[str]:
    folder = state / "backups"
    return sorted(file.name for file in folder.iterdir()) if folder.exists() else []


def put_much(tx: Transaction) -> None:
    """More than a log may have while a backup is made."""
    tx.execute("CREATE TABLE filler (data BLOB)")
    tx.execute_many(
        "INSERT INTO filler VALUES (zeroblob(?))", [(1_000_000,)] * (LONGEST_LOG // 1_000_000 + 1)
    )


@pytest.fixture
def state(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    folder.mkdir()
    return folder


async def test_a_backup_is_made_listed_and_on_record(state: Path) -> None:
    async with new_hub(state, "dev-1") as hub:
        flow = backups(hub)

        report = await flow.back_up(BackupRequest(), "uid:0 root")

        listed = await flow.backups()
        assert (listed.folder, listed.keep, listed.backups) == (str(state / "backups"), 3, [report])
        assert (report.problem, names_in(state)) == ("", [report.name])
        assert query(Path(report.path) / "hub.db", "SELECT device FROM devices") == [("dev-1",)]
        assert hub.rows(ROWS) == [(report.name, "uid:0 root")]


async def test_the_oldest_goes_when_another_is_whole(state: Path) -> None:
    async with new_hub(state, "dev-1") as hub:
        flow = backups(hub, keep=2)
        made = [(await flow.back_up(BackupRequest(keys=False), "uid:0 root")).name for _ in range(3)]

        assert names_in(state) == sorted(made[1:])
        flow.adopt(1)
        last = await flow.back_up(BackupRequest(), "uid:0 root")
        assert names_in(state) == [last.name]
        assert len(hub.rows(ROWS)) == 4


async def test_a_log_that_was_long_once_is_in_no_backups_way(state: Path) -> None:
    """SQLite begins it anew, and keeps its file as long as it ever was."""
    async with new_hub(state, "dev-1") as hub:
        with closing(connect_reader(hub.path)) as looks_for_long:
            looks_for_long.execute("BEGIN")
            looks_for_long.execute("SELECT count(*) FROM devices").fetchall()
            await hub.store.write(put_much)
            assert hub.store.log_bytes > LONGEST_LOG

        report = await backups(hub).back_up(BackupRequest(), "uid:0 root")

        assert names_in(state) == [report.name]


async def test_what_is_no_backup_is_listed_with_what_is_wrong_and_left_alone(state: Path) -> None:
    (state / "backups" / "mine").mkdir(parents=True)
    (state / "backups" / "note.txt").write_text("mine too")
    async with new_hub(state, "dev-1") as hub:
        flow = backups(hub, keep=1)
        await flow.back_up(BackupRequest(), "uid:0 root")
        await flow.back_up(BackupRequest(), "uid:0 root")

        listed = (await flow.backups()).backups

        assert [bool(each.problem) for each in listed] == [False, True, True]
        assert (state / "backups" / "note.txt").read_text() == "mine too"


async def test_a_backup_that_cannot_be_put_on_record_is_taken_away(state: Path) -> None:
    async with new_hub(state, "dev-1") as hub:
        with full_disk(hub.path), pytest.raises(StorageError):
            await backups(hub).back_up(BackupRequest(), "uid:0 root")

        assert names_in(state) == []


async def test_one_backup_at_a_time(state: Path) -> None:
    async with new_hub(state, "dev-1") as hub:
        beside = Beside(hub.store)

        def go_on(side: Side) -> None:
            while not side.why_to_end():
                pass

        first = asyncio.create_task(beside.run(go_on))
        await eventually(lambda: beside.is_busy)
        with pytest.raises(RejectedError, match="is going on"):
            await backups(hub, beside).back_up(BackupRequest(), "uid:0 root")
        await hub.breathes()
        beside.stop()
        await first

        assert names_in(state) == []
