"""A real file system that is full while a file is fetched: nothing half is kept (SPEC F2, R2)."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from edgeagent.adapters.artifacts.source import ArtifactSourceSettings, FetchedFiles
from edgeagent.adapters.fetcher.inside import InsideFetcher
from edgeagent.contracts.fetching import Bounds, FetchTrouble
from edgeagent.ports.artifacts import FetchError
from edgeagent.store.artifact_files import ArtifactFiles
from tests.acceptance.ext4 import Ext4
from tests.support.clocks import NOON
from tests.support.fetching import lays_out, signed_file, some_bytes

pytestmark = [pytest.mark.slow, pytest.mark.requirement("F2", "R2"), pytest.mark.threat("T35")]

CONTENT: Final = some_bytes(1_500_000)
FILE: Final = signed_file(CONTENT)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Ext4]:
    with Ext4(tmp_path / "ext4", size=4 * 1024 * 1024) as mounted:
        yield mounted


def source(folder: Path, *, reserve: int) -> FetchedFiles:
    lays_out(folder, FILE, CONTENT)
    settings = ArtifactSourceSettings(place=str(folder), bounds=Bounds(reserve=reserve))
    return FetchedFiles(settings, InsideFetcher(folder.parent / "fetching"))


async def test_without_room_for_it_and_the_reserve_nothing_is_written(disk: Ext4, tmp_path: Path) -> None:
    files = ArtifactFiles(disk.root / "artifacts")

    with pytest.raises(FetchError) as why:
        await source(tmp_path / "stick", reserve=2_500_000).bring(
            FILE, files.part(FILE.sha256), list[int]().append
        )

    assert why.value.trouble is FetchTrouble.NO_SPACE
    assert files.part_size(FILE.sha256) == 0


async def test_a_full_disk_keeps_nothing_half_and_with_room_it_comes(disk: Ext4, tmp_path: Path) -> None:
    files = ArtifactFiles(disk.root / "artifacts")
    part = files.part(FILE.sha256)
    ballast = disk.fill()

    with pytest.raises(FetchError) as why:
        await source(tmp_path / "stick", reserve=0).bring(FILE, part, list[int]().append)
    size = files.part_size(FILE.sha256)
    ballast.unlink()
    await source(tmp_path / "stick", reserve=0).bring(FILE, part, list[int]().append)
    files.take(FILE.sha256, FILE.length, NOON)

    assert why.value.trouble is FetchTrouble.NO_SPACE
    assert size == 0
    with os.fdopen(files.open(FILE.sha256, FILE.length, NOON), "rb") as file:
        assert file.read() == CONTENT
