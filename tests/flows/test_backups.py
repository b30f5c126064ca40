"""Backups on request: refused where they do harm, on record where they are made."""

import asyncio
from pathlib import Path

import pytest

from edgeagent.contracts.reports.backup import BackupRequest
from edgeagent.errors import RejectedError, StorageError
from edgeagent.flows.backups import Backups
from edgeagent.flows.beside import Beside
from edgeagent.store.side import Side
from tests.flows.building import Hub, new_hub
from tests.support.stores import full_disk, query
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("R2")

ROWS = "SELECT subject, actor FROM audit WHERE kind = 'backed_up'"


def backups(hub: Hub, beside: Beside | None = None) -> Backups:
    return Backups(hub.store, beside or Beside(hub.store), hub.around, [hub.path.parent])


def files_in(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir()]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    folder.mkdir()
    return folder


@pytest.fixture
def copies(tmp_path: Path) -> Path:
    folder = tmp_path / "copies"
    folder.mkdir(mode=0o755)
    return folder


async def test_a_backup_is_made_and_on_record(state: Path, copies: Path) -> None:
    async with new_hub(state, "dev-1") as hub:
        report = await backups(hub).back_up(BackupRequest(file=str(copies / "hub.db")), "uid:0 root")

        assert report.bytes == (copies / "hub.db").stat().st_size
        assert query(copies / "hub.db", "SELECT device FROM devices") == [("dev-1",)]
        assert hub.rows(ROWS) == [("hub.db", "uid:0 root")]


@pytest.mark.parametrize(
    ("file", "why"),
    [
        ("hub-copy.db", "begins with /"),
        ("{state}/hub.db-journal", "beside the database"),
        ("{copies}/../state/hub.db-journal", "beside the database"),
        ("{copies}/missing/hub.db", "No such file"),
        ("{copies}/there.db", "is there already"),
        ("{copies}/link.db", "is there already"),
        ("{copies}/open/hub.db", "anybody may write"),
    ],
)
async def test_a_backup_that_does_harm_is_refused_and_nothing_is_made(
    state: Path, copies: Path, file: str, why: str
) -> None:
    (copies / "there.db").write_text("mine")
    (copies / "link.db").symlink_to(copies / "nowhere")
    (copies / "open").mkdir()
    (copies / "open").chmod(0o777)
    async with new_hub(state, "dev-1") as hub:
        before = files_in(state), files_in(copies)

        with pytest.raises(RejectedError, match=why):
            await backups(hub).back_up(
                BackupRequest(file=file.format(state=state, copies=copies)), "uid:0 root"
            )

        assert (files_in(state), files_in(copies)) == before
        assert (copies / "there.db").read_text() == "mine"
        assert hub.rows(ROWS) == []


async def test_a_backup_that_cannot_be_put_on_record_is_taken_away(state: Path, copies: Path) -> None:
    async with new_hub(state, "dev-1") as hub:
        with full_disk(hub.path), pytest.raises(StorageError):
            await backups(hub).back_up(BackupRequest(file=str(copies / "hub.db")), "uid:0 root")

        assert files_in(copies) == []


async def test_one_backup_at_a_time(state: Path, copies: Path) -> None:
    async with new_hub(state, "dev-1") as hub:
        beside = Beside(hub.store)

        def go_on(side: Side) -> None:
            while not side.why_to_end():
                pass

        first = asyncio.create_task(beside.run(go_on))
        await eventually(lambda: beside.is_busy)
        with pytest.raises(RejectedError, match="is going on"):
            await backups(hub, beside).back_up(BackupRequest(file=str(copies / "hub.db")), "uid:0 root")
        await hub.breathes()
        beside.stop()
        await first

        assert files_in(copies) == []
