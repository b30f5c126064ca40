"""The fetching process and what is made of its work: over the web, over a folder, killed, poisoned."""

import asyncio
import gzip
import os
import signal
from collections.abc import Iterator
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

import pytest

from edgeagent.adapters.metadata.source import FETCHED, SourceSettings, TufSource
from edgeagent.contracts.scalars import timestamp_text
from edgeagent.ports.links import LinkError
from edgeagent.ports.policy_source import UnprovenMetadataError
from tests.cli.building import typed
from tests.support.clocks import NOON
from tests.support.tuf_repository import Repository
from tests.support.waiting import eventually
from tests.support.web_folder import Answer, WebFolder, web_folder

pytestmark = pytest.mark.requirement("T2", "C5")

POLICY = b'{"version":1}'
TIMESTAMP = "/metadata/timestamp.json"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "repository", now=NOON)
    made.publishes(POLICY)
    return made


@pytest.fixture
def web(repository: Repository) -> Iterator[WebFolder]:
    with web_folder(repository.folder) as served:
        yield served


def source_of(
    repository: Repository,
    place: str,
    *,
    root: bytes | None = b"",
    longest: timedelta = timedelta(minutes=1),
) -> TufSource:
    """Who fetches from there, beginning with the repository's first root."""
    return TufSource(
        SourceSettings(
            place=place,
            root=repository.first_root if root == b"" else root,
            work=repository.folder.parent / "work",
            longest=longest,
        )
    )


def laid_out(repository: Repository) -> Path:
    """A work folder as the fetching process finds it."""
    work = repository.folder.parent / "work"
    (work / "trusted").mkdir(parents=True)
    (work / "trusted/bootstrap.json").write_bytes(repository.first_root)
    return work


def fetched(repository: Repository, place: str) -> tuple[int, str]:
    """What the fetching process says: its status and its complaint."""
    work = repository.folder.parent / "work"
    said = typed(
        *("fetch-policy", "--from", place, "--into", str(work), "--now", timestamp_text(NOON)),
    )
    return said.status, said.err


# By the process.


@pytest.mark.slow
async def test_it_comes_from_a_web_server(repository: Repository, web: WebFolder) -> None:
    source = source_of(repository, web.address)

    first = await source.published(None, NOON)
    repository.rotates("root")
    repository.rotates("timestamp")
    repository.publishes(b'{"version":2}')
    second = await source.published(first.held, NOON)

    assert (first.held.policy, second.held.policy) == (POLICY, b'{"version":2}')
    assert second.versions.root == 3
    assert set(web.encodings) == {"identity"}
    assert not (repository.folder.parent / "work").exists()


@pytest.mark.slow
async def test_it_comes_from_a_folder(repository: Repository) -> None:
    found = await source_of(repository, str(repository.folder)).published(None, NOON)

    assert found.held.policy == POLICY


@pytest.mark.slow
async def test_an_attack_is_refused_by_the_agent_itself(repository: Repository, web: WebFolder) -> None:
    web.at[TIMESTAMP] = Answer(body=b" " * 1_000_000)

    with pytest.raises(UnprovenMetadataError, match="maximum allowed length"):
        await source_of(repository, web.address).published(None, NOON)


@pytest.mark.slow
async def test_where_nobody_answers_it_cannot_be_fetched_now(repository: Repository) -> None:
    with pytest.raises(LinkError, match="refused"):
        await source_of(repository, "http://127.0.0.1:1").published(None, NOON)


@pytest.mark.slow
async def test_a_fetch_without_end_is_ended(repository: Repository, web: WebFolder) -> None:
    web.at[TIMESTAMP] = Answer(body=b"{}", hangs=True)

    with pytest.raises(LinkError, match="not fetched within"):
        await source_of(repository, web.address, longest=timedelta(seconds=3)).published(None, NOON)


@pytest.mark.slow
async def test_a_fetch_that_is_killed_midway_leaves_nothing_that_counts(
    repository: Repository, web: WebFolder
) -> None:
    web.at[TIMESTAMP] = Answer(body=b"{}", hangs=True)
    source = source_of(repository, web.address)
    fetch = asyncio.create_task(source.published(None, NOON))
    await eventually(lambda: TIMESTAMP in web.asked, within=30)
    [child] = [pid for pid in children() if b"fetch-policy" in command_line(pid)]

    os.kill(child, signal.SIGKILL)
    with pytest.raises(LinkError, match="ended with -9"):
        await fetch
    del web.at[TIMESTAMP]

    assert (await source.published(None, NOON)).held.policy == POLICY


@pytest.mark.slow
async def test_what_an_earlier_life_left_behind_is_cleared_away(repository: Repository) -> None:
    work = repository.folder.parent / "work"
    (work / FETCHED / "metadata").mkdir(parents=True)
    (work / FETCHED / "metadata/timestamp.json").write_bytes(b"{}")

    assert (await source_of(repository, str(repository.folder)).published(None, NOON)).held.policy == POLICY


@pytest.mark.slow
async def test_where_the_first_root_cannot_be_read_what_is_held_goes_on(repository: Repository) -> None:
    held = (await source_of(repository, str(repository.folder)).published(None, NOON)).held
    source = source_of(repository, str(repository.folder), root=None)
    repository.publishes(b'{"version":2}')

    assert source.vouches(held)
    assert (await source.published(held, NOON)).held.policy == b'{"version":2}'
    with pytest.raises(LinkError, match="first root cannot be read"):
        await source.published(None, NOON)


def children() -> list[int]:
    """The processes that this one has started."""
    return [
        int(pid)
        for task in Path("/proc/self/task").iterdir()
        for pid in (task / "children").read_text().split()
    ]


def command_line(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


# What the process does, asked in this one.


def test_what_is_fetched_lies_in_the_repositorys_layout(repository: Repository, web: WebFolder) -> None:
    work = laid_out(repository)
    repository.rotates("root")

    assert fetched(repository, web.address) == (0, "")

    found = {str(path.relative_to(work / FETCHED)) for path in (work / FETCHED).rglob("*") if path.is_file()}
    assert found == {
        "metadata/2.root.json",
        "metadata/timestamp.json",
        "metadata/1.snapshot.json",
        "metadata/1.targets.json",
        f"targets/{sha256(POLICY).hexdigest()}.policy.json",
    }
    assert not (work / "part").exists()


def test_a_redirect_within_the_host_is_followed(repository: Repository, web: WebFolder) -> None:
    laid_out(repository)
    body = repository.file("timestamp").read_bytes()
    web.at[TIMESTAMP] = Answer(status=302, headers={"Location": "/elsewhere"})
    web.at["/elsewhere"] = Answer(body=body)

    assert fetched(repository, web.address) == (0, "")


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        pytest.param(
            Answer(status=302, headers={"Location": "http://localhost:1/"}), "another host", id="away"
        ),
        pytest.param(Answer(status=302, headers={"Location": "file:///etc/passwd"}), "HTTP 302", id="a file"),
        pytest.param(Answer(status=302, headers={"Location": TIMESTAMP}), "HTTP 302", id="in a circle"),
        pytest.param(Answer(status=503), "HTTP 503", id="busy"),
        pytest.param(Answer(status=401), "HTTP 401", id="a login"),
        pytest.param(Answer(status=404), "HTTP 404", id="nothing"),
        pytest.param(Answer(body=b"{", missing=9), "breaks off", id="cut off"),
        pytest.param(
            Answer(body=gzip.compress(bytes(10_000_000)), headers={"Content-Encoding": "gzip"}),
            "compressed",
            id="a bomb",
        ),
    ],
)
def test_an_answer_that_is_none_is_told_and_leaves_nothing(
    repository: Repository, web: WebFolder, answer: Answer, word: str
) -> None:
    work = laid_out(repository)
    web.at[TIMESTAMP] = answer

    status, complaint = fetched(repository, web.address)

    assert status == 75
    assert word in complaint
    assert not (work / FETCHED).exists()


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_in_a_folder_only_files_are_read(repository: Repository, kind: str) -> None:
    work = laid_out(repository)
    path = repository.file("timestamp")
    kept = path.rename(path.with_name("kept"))
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(kept)
    else:
        path.mkdir()

    status, complaint = fetched(repository, str(repository.folder))

    assert status == 75
    assert "timestamp.json" in complaint
    assert not (work / FETCHED).exists()


def test_a_name_that_leads_out_of_the_folder_is_not_followed(repository: Repository) -> None:
    """Whoever holds the targets' key may name any digest; it is part of a file's name."""
    work = laid_out(repository)
    repository.targets.targets["policy.json"].hashes["sha256"] = "../../" * 3 + "etc/x"
    repository.signs_targets()

    status, complaint = fetched(repository, str(repository.folder))

    assert (status, "leads elsewhere" in complaint) == (75, True)
    assert not (work / FETCHED).exists()
