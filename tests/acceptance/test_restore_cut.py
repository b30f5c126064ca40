"""The power goes while a backup is put back: whatever is found afterwards, nothing is done again."""

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Final

import pytest

from edgeagent.contracts.floormark import EpochReason
from edgeagent.core.epochs import Found, why_new
from edgeagent.ids import hub_id
from edgeagent.store import audit, meta
from edgeagent.store.database import Database, Snapshot
from edgeagent.store.floorfile import FloorFile
from tests.support.agents import ROOT
from tests.support.recording import Kind, Recording, compiled
from tests.support.replaying import Disk, Survival, write
from tests.support.stores import HUB_MIGRATIONS
from tests.vectors.databases.kept import HUB, KEPT, unpack

pytestmark = [pytest.mark.slow, pytest.mark.requirement("R1", "T8", "H1"), pytest.mark.threat("T4")]

IMAGES: Final = 40


def typed(config: Path, *words: str, **environment: str) -> None:
    """Type it at a hub whose agent is stopped."""
    subprocess.run(
        [sys.executable, "-m", "edgeagent", "--config", str(config), "backup", *words],
        cwd=ROOT,
        env={**os.environ, **environment},
        check=True,
        capture_output=True,
    )


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    """What is done to the disk of a new card."""
    state, config = tmp_path / "state", tmp_path / "config.toml"
    config.write_text(f'[hub]\nid = "{HUB}"\nstate_dir = "{state}"\nrun_dir = "{tmp_path}"\n', "utf-8")
    unpack(KEPT[-1], state)
    typed(config, "create", "--without-keys")
    [backup] = (state / "backups").iterdir()
    moved = shutil.move(backup, tmp_path / "backup")
    shutil.rmtree(state)
    state.mkdir(mode=0o700)
    recorder, log = compiled(tmp_path), tmp_path / "log"
    typed(config, "restore", str(moved), "--yes", **recorder.environment(state, log))
    return Recording.load(log, state)


def _why_new(folder: Path, db: Snapshot) -> EpochReason | None:
    life, mark = meta.life(db), FloorFile(folder, hub_id(HUB)).read()
    found = Found(
        epoch=None if life is None else life.epoch,
        previous=None if life is None else life.previous,
        incarnation=meta.incarnation(db),
        audit_number=audit.head(db).number,
        hash_at_mark=None if mark is None else audit.hash_of(db, mark.audit_number),
    )
    return why_new(found, mark, is_damaged=False)


async def _judged(folder: Path) -> EpochReason | None:
    database = await Database.open(folder / "hub.db", HUB_MIGRATIONS)
    try:
        return await database.read(lambda db: _why_new(folder, db))
    finally:
        await database.close()


def test_what_is_found_is_nothing_or_the_backup_and_that_begins_a_new_epoch(
    recording: Recording, tmp_path: Path
) -> None:
    disk, chance = Disk(recording), Random(8)  # noqa: S311 - no secret
    places = [place for place, each in enumerate(recording.records) if each.kind in {*Kind} - {Kind.WRITTEN}]
    cuts = [*places[-IMAGES // 2 :], len(recording.records)]
    cuts += chance.choices(range(len(recording.records)), k=IMAGES // 4)
    found = []
    for number, cut in enumerate(cuts):
        for survival in Survival:
            folder = tmp_path / f"{number}-{survival}"
            write(disk.image(cut, survival, chance), folder)
            had = (folder / "hub.db").exists()
            reason = asyncio.run(_judged(folder))
            # Whole, whatever was cut: it is renamed when all of it is on the disk.
            assert reason is EpochReason.RESTORED if had else reason in {EpochReason.FIRST, EpochReason.LOST}
            found.append(had)
            shutil.rmtree(folder)

    assert {True, False} == set(found)
    # When it is over, all of it is on the disk.
    assert "hub.db" in disk.image(len(recording.records), Survival.SYNCED, chance)
