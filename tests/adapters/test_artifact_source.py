"""The fetching process, the agent's child or a unit's: from the web and from a folder, cut, killed."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.adapters.artifacts.source import ArtifactSourceSettings, FetchedFiles
from edgeagent.adapters.fetcher.inside import InsideFetcher
from edgeagent.adapters.fetcher.outside import OutsideFetcher
from edgeagent.contracts.fetching import Bounds, FetchTrouble
from edgeagent.errors import MalformedError
from edgeagent.ports.artifacts import FetchError, SignedFile
from edgeagent.ports.fetcher import Fetcher
from tests.support.activating import activated
from tests.support.bad_servers import hangs_after, serves
from tests.support.fetching import ID, lays_out, signed_file, some_bytes
from tests.support.portals import Authority, Portal, server_context
from tests.support.processes import fetching
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.requirement("F2", "W1")]

CONTENT = some_bytes(300_000)
FILE = signed_file(CONTENT)


@pytest.fixture(params=["inside", "outside"])
def who(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fetcher]:
    """Who starts the process; what it does and says is the same."""
    if request.param == "inside":
        yield InsideFetcher(tmp_path / "fetching")
        return
    with activated(tmp_path / "fetch.sock"):
        yield OutsideFetcher(tmp_path / "fetch.sock")


def source(place: str, who: Fetcher, **bounds: timedelta | int) -> FetchedFiles:
    known = Bounds(**({"reserve": 0} | bounds))  # type: ignore[arg-type]
    return FetchedFiles(ArtifactSourceSettings(place=place, bounds=known), who)


@asynccontextmanager
async def silent(count: int) -> AsyncIterator[Portal]:
    async with Portal(hangs_after(CONTENT, count)) as portal:
        yield portal


async def test_a_file_comes_from_a_web_server_with_progress(tmp_path: Path, who: Fetcher) -> None:
    """The process of another user writes to a file that it could not open."""
    told: list[int] = []
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o700)
    async with Portal(serves(CONTENT, tag='"one"')) as portal:
        before = await source(portal.url, who).bring(FILE, folder / "part", told.append)

    assert before == 0
    assert (folder / "part").read_bytes() == CONTENT
    assert (told[0], told[-1]) == (0, len(CONTENT))
    assert os.getxattr(folder / "part", "user.edgeagent.etag") == b'"one"'


async def test_the_configured_authorities_go_along(tmp_path: Path, who: Fetcher) -> None:
    """The process reads no file of the agent's; names in any alphabet stand between certificates."""
    authority = Authority(tmp_path / "ca")
    bundle = tmp_path / "closed"
    bundle.write_bytes("Prüfstelle\n".encode() + authority.file.read_bytes())
    bundle.chmod(0o600)
    async with Portal(serves(CONTENT), tls=server_context(authority.issues("repository"))) as portal:
        settings = ArtifactSourceSettings(place=portal.url, ca_file=bundle, bounds=Bounds(reserve=0))
        await FetchedFiles(settings, who).bring(FILE, tmp_path / "part", list[int]().append)
        bundle.unlink()
        with pytest.raises(FetchError, match="cannot read the authorities") as gone:
            await FetchedFiles(settings, who).bring(FILE, tmp_path / "part", list[int]().append)
        bundle.write_bytes(b"no certificate")
        (tmp_path / "part").unlink()
        with pytest.raises(FetchError, match="are none") as none:
            await FetchedFiles(settings, who).bring(FILE, tmp_path / "part", list[int]().append)

    assert [gone.value.trouble, none.value.trouble] == [FetchTrouble.TLS, FetchTrouble.TLS]
    assert len(portal.asked) == 1


async def test_a_file_comes_from_a_folder_and_goes_on_where_it_was(tmp_path: Path) -> None:
    lays_out(tmp_path / "stick", FILE, CONTENT)
    (tmp_path / "part").write_bytes(CONTENT[:1000])

    before = await source(str(tmp_path / "stick"), InsideFetcher(tmp_path / "fetching")).bring(
        FILE, tmp_path / "part", list[int]().append
    )

    assert before == 1000
    assert (tmp_path / "part").read_bytes() == CONTENT


@pytest.mark.requirement("R1")
async def test_after_the_process_was_killed_the_next_one_goes_on(tmp_path: Path, who: Fetcher) -> None:
    part = tmp_path / "part"
    async with silent(100_000) as portal:
        fetch = asyncio.create_task(source(portal.url, who).bring(FILE, part, list[int]().append))
        await eventually(lambda: part.exists() and part.stat().st_size == 100_000)
        [child] = fetching(os.getpid())
        os.kill(child, signal.SIGKILL)
        with pytest.raises(FetchError) as killed:
            await fetch
    async with Portal(serves(CONTENT)) as portal:
        before = await source(portal.url, who).bring(FILE, part, list[int]().append)

    assert killed.value.trouble is FetchTrouble.FAILED
    assert before == 100_000
    assert portal.asked[0].headers["range"] == "bytes=100000-"
    assert part.read_bytes() == CONTENT


async def test_a_fetch_that_is_stopped_leaves_no_process_and_what_has_come(
    tmp_path: Path, who: Fetcher
) -> None:
    part = tmp_path / "part"
    async with silent(100_000) as portal:
        fetch = asyncio.create_task(source(portal.url, who).bring(FILE, part, list[int]().append))
        await eventually(lambda: part.exists() and part.stat().st_size == 100_000)
        fetch.cancel()
        with pytest.raises(asyncio.CancelledError):
            await fetch
        await eventually(lambda: fetching(os.getpid()) == [])

    assert part.read_bytes() == CONTENT[:100_000]


@pytest.mark.threat("T38")
async def test_a_server_that_falls_silent_is_given_up(tmp_path: Path, who: Fetcher) -> None:
    async with silent(1000) as portal:
        with pytest.raises(FetchError) as silence:
            await source(portal.url, who, idle=timedelta(milliseconds=200)).bring(
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
        await source(str(tmp_path / "stick"), InsideFetcher(tmp_path / "fetching")).bring(
            FILE, tmp_path / "part", list[int]().append
        )

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
