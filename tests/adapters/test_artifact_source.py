"""The fetching process, as the agent starts it: over the web and from a folder, cut, killed, stopped."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.adapters.artifacts.errand import Bounds
from edgeagent.adapters.artifacts.source import ArtifactSourceSettings, FetchProcess
from edgeagent.contracts.fetching import FetchTrouble
from edgeagent.errors import MalformedError
from edgeagent.ports.artifacts import FetchError, SignedFile
from tests.support.bad_servers import hangs_after, serves
from tests.support.fetching import ID, lays_out, signed_file, some_bytes
from tests.support.portals import Portal
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.requirement("F2", "W1")]

CONTENT = some_bytes(300_000)
FILE = signed_file(CONTENT)


def source(place: str, **bounds: timedelta | int) -> FetchProcess:
    known = Bounds(**({"reserve": 0} | bounds))  # type: ignore[arg-type]
    return FetchProcess(ArtifactSourceSettings(place=place, bounds=known))


@asynccontextmanager
async def silent(count: int) -> AsyncIterator[Portal]:
    async with Portal(hangs_after(CONTENT, count)) as portal:
        yield portal


async def test_a_file_comes_from_a_web_server_with_progress(tmp_path: Path) -> None:
    told: list[int] = []
    async with Portal(serves(CONTENT)) as portal:
        before = await source(portal.url).bring(FILE, tmp_path / "part", told.append)

    assert before == 0
    assert (tmp_path / "part").read_bytes() == CONTENT
    assert (told[0], told[-1]) == (0, len(CONTENT))


async def test_a_file_comes_from_a_folder_and_goes_on_where_it_was(tmp_path: Path) -> None:
    lays_out(tmp_path / "stick", FILE, CONTENT)
    (tmp_path / "part").write_bytes(CONTENT[:1000])

    before = await source(str(tmp_path / "stick")).bring(FILE, tmp_path / "part", list[int]().append)

    assert before == 1000
    assert (tmp_path / "part").read_bytes() == CONTENT


@pytest.mark.requirement("R1")
async def test_after_the_process_was_killed_the_next_one_goes_on(tmp_path: Path) -> None:
    part = tmp_path / "part"
    async with silent(100_000) as portal:
        fetch = asyncio.create_task(source(portal.url).bring(FILE, part, list[int]().append))
        await eventually(lambda: part.exists() and part.stat().st_size == 100_000, within=30)
        [child] = [pid for pid in children() if b"fetch-artifact" in command_line(pid)]
        os.kill(child, signal.SIGKILL)
        with pytest.raises(FetchError) as killed:
            await fetch
    async with Portal(serves(CONTENT)) as portal:
        before = await source(portal.url).bring(FILE, part, list[int]().append)

    assert killed.value.trouble is FetchTrouble.FAILED
    assert before == 100_000
    assert portal.asked[0].headers["range"] == "bytes=100000-"
    assert part.read_bytes() == CONTENT


async def test_a_fetch_that_is_stopped_leaves_no_process_and_what_has_come(tmp_path: Path) -> None:
    part = tmp_path / "part"
    async with silent(100_000) as portal:
        fetch = asyncio.create_task(source(portal.url).bring(FILE, part, list[int]().append))
        await eventually(lambda: part.exists() and part.stat().st_size == 100_000, within=30)
        fetch.cancel()
        with pytest.raises(asyncio.CancelledError):
            await fetch

    assert [pid for pid in children() if b"fetch-artifact" in command_line(pid)] == []
    assert part.read_bytes() == CONTENT[:100_000]


@pytest.mark.threat("T38")
async def test_a_server_that_falls_silent_is_given_up(tmp_path: Path) -> None:
    async with silent(1000) as portal:
        with pytest.raises(FetchError) as silence:
            await source(portal.url, idle=timedelta(milliseconds=200)).bring(
                FILE, tmp_path / "part", list[int]().append
            )

    assert silence.value.trouble is FetchTrouble.TOO_SLOW


@pytest.mark.threat("T34")
@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "device", "folder that is a link"])
async def test_in_a_folder_only_files_are_read_and_through_no_link(tmp_path: Path, kind: str) -> None:
    path = lays_out(tmp_path / "stick", FILE, CONTENT)
    kept = path.rename(tmp_path / "kept")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(kept)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        kept.rename(path)
        path.parent.rename(tmp_path / "elsewhere").exists()
        path.parent.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(FetchError) as why:
        await source(str(tmp_path / "stick")).bring(FILE, tmp_path / "part", list[int]().append)

    assert why.value.trouble in {FetchTrouble.BROKEN_ANSWER, FetchTrouble.UNREACHABLE}
    assert (tmp_path / "part").stat().st_size == 0


@pytest.mark.threat("T34")
@pytest.mark.parametrize(
    "path",
    [
        *("../x", "/etc/passwd", "artifacts/../../x", "a/./b", "a//b", "", "a/", "a\\b", "C:x", "a\x00b"),
        *(
            "a/%2e%2e/b",
            "a?b",
            "a#b",
            "a b",
            ".hidden",
            "-rf",
            "a/\u202eb",
            "é",
            "a\n",
            "x" * 65,
            "a/" * 9 + "b",
        ),
    ],
)
def test_a_name_that_could_mean_something_else_is_none(path: str) -> None:
    with pytest.raises(MalformedError):
        SignedFile(artifact=ID, sha256=FILE.sha256, length=1, path=path)


def children() -> list[int]:
    """The processes that this one has started."""
    return [
        int(pid)
        for task in Path("/proc/self/task").iterdir()
        for pid in (task / "children").read_text().split()
    ]


def command_line(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()
