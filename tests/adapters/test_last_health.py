"""The last health report as a file: whole, up to date, and no reason to stop."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from edgeagent.adapters.last_health import LastHealth
from edgeagent.contracts.door import decode
from edgeagent.contracts.reports.health import HealthReport
from tests.flows.operating import OperatorDesk, operated_hub
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("O5")

MINUTE = timedelta(minutes=1)


@asynccontextmanager
async def written(desk: OperatorDesk, path: Path) -> AsyncIterator[None]:
    """Have the report kept at ``path``."""
    task = asyncio.create_task(LastHealth(path, desk.operator).run())
    try:
        yield
        assert not task.done()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def names(folder: Path) -> list[str]:
    """The files of the report."""
    return [file.name for file in folder.iterdir() if "health" in file.name]


def reported_at(path: Path) -> datetime | None:
    """When the report in the file was made; it is always a whole one."""
    return decode(HealthReport, path.read_bytes(), limit=100_000).at if path.exists() else None


async def test_it_is_written_soon_after_the_start_and_then_each_minute(tmp_path: Path) -> None:
    path = tmp_path / "last-health.json"
    async with operated_hub(tmp_path) as desk, written(desk, path):
        await desk.hub.passes(MINUTE / 20)
        await eventually(path.exists)
        first = reported_at(path)
        assert first is not None

        await desk.hub.passes(MINUTE)
        await eventually(lambda: reported_at(path) == first + MINUTE)

        assert names(tmp_path) == ["last-health.json"]


async def test_everybody_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "last-health.json"
    async with operated_hub(tmp_path) as desk, written(desk, path):
        await desk.hub.passes(MINUTE)
        await eventually(path.exists)

        assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.requirement("R2")
async def test_a_folder_that_takes_no_file_ends_nothing_and_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "run" / "last-health.json"
    async with operated_hub(tmp_path) as desk, written(desk, path):
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                await desk.hub.passes(MINUTE)
                await desk.hub.breathes()
            await eventually(lambda: caplog.messages)
        path.parent.mkdir()
        await desk.hub.passes(MINUTE)
        await eventually(path.exists)

    assert caplog.messages == ["last health report not written"]
