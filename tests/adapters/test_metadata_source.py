"""The fetching process and what is made of its work: over the web, over a folder, killed, poisoned."""

import asyncio
import gzip
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

import pytest
from typing_extensions import override

from edgeagent.adapters.fetcher.inside import InsideFetcher
from edgeagent.adapters.fetcher.outside import OutsideFetcher
from edgeagent.adapters.metadata.source import SourceSettings, TufSource
from edgeagent.contracts.fetching import FetchLine, FetchTrouble, PolicyErrand
from edgeagent.fetcher.policy import fetch
from edgeagent.ports.artifacts import FetchError
from edgeagent.ports.fetcher import Fetcher, Lines, Parcel
from edgeagent.ports.links import LinkError
from edgeagent.ports.policy_source import UnprovenMetadataError
from tests.support.activating import activated
from tests.support.clocks import NOON
from tests.support.processes import fetching
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
    who: Fetcher | None = None,
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
        ),
        who or InsideFetcher(repository.folder.parent / "fetching"),
    )


@dataclass(slots=True)
class Fetched:
    """What the fetching process says.

    Attributes:
        files: what it gives.
        complaint: why not all of it; empty for no reason.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    complaint: str = ""

    def say(self, line: FetchLine, piece: bytes) -> None:
        """Take in a line."""
        assert (line.piece, line.bytes) == (len(piece), sum(map(len, self.files.values())) + len(piece))
        name = line.name or list(self.files)[-1]
        self.files[name] = (b"" if line.name else self.files[name]) + piece


def fetched(repository: Repository, place: str) -> Fetched:
    """Fetch as the process does, in this one."""
    found = Fetched()
    try:
        size = fetch(
            PolicyErrand(place=place, now=NOON), {"bootstrap.json": repository.first_root}, found.say
        )
    except FetchError as why:
        found.complaint = f"{why.trouble}: {why}"
    else:
        assert size == sum(map(len, found.files.values()))
    return found


# By the process.


@pytest.mark.slow
@pytest.mark.parametrize("way", ["inside", "outside"])
async def test_it_comes_from_a_web_server(
    repository: Repository, web: WebFolder, way: str, tmp_path: Path
) -> None:
    """The agent's child, and a process of another user, who sees nothing of ours."""
    async with AsyncExitStack() as stack:
        who: Fetcher = InsideFetcher(tmp_path / "fetching")
        if way == "outside":
            stack.enter_context(activated(tmp_path / "fetch.sock"))
            who = OutsideFetcher(tmp_path / "fetch.sock")
        await comes_from_a_web_server(source_of(repository, web.address, who), repository, web)


async def comes_from_a_web_server(source: TufSource, repository: Repository, web: WebFolder) -> None:

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
    await eventually(lambda: TIMESTAMP in web.asked, within=60)
    [child] = fetching(os.getpid())

    os.kill(child, signal.SIGKILL)
    with pytest.raises(LinkError, match="ended before it was done"):
        await fetch
    del web.at[TIMESTAMP]

    assert (await source.published(None, NOON)).held.policy == POLICY


@pytest.mark.slow
async def test_what_an_earlier_life_left_behind_is_cleared_away(repository: Repository) -> None:
    work = repository.folder.parent / "work"
    (work / "metadata").mkdir(parents=True)
    (work / "metadata/timestamp.json").write_bytes(b"{}")

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


# What the process does, asked in this one.


def test_what_is_fetched_is_told_in_the_repositorys_layout(repository: Repository, web: WebFolder) -> None:
    repository.rotates("root")

    found = fetched(repository, web.address)

    assert found.complaint == ""
    assert set(found.files) == {
        "metadata/2.root.json",
        "metadata/timestamp.json",
        "metadata/1.snapshot.json",
        "metadata/1.targets.json",
        f"targets/{sha256(POLICY).hexdigest()}.policy.json",
    }
    assert all(raw == (repository.folder / name).read_bytes() for name, raw in found.files.items())


def test_a_redirect_within_the_host_is_followed(repository: Repository, web: WebFolder) -> None:
    body = repository.file("timestamp").read_bytes()
    web.at[TIMESTAMP] = Answer(status=302, headers={"Location": "/elsewhere"})
    web.at["/elsewhere"] = Answer(body=body)

    assert fetched(repository, web.address).complaint == ""


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
def test_an_answer_that_is_none_is_told(
    repository: Repository, web: WebFolder, answer: Answer, word: str
) -> None:
    web.at[TIMESTAMP] = answer

    found = fetched(repository, web.address)

    assert found.complaint.startswith(FetchTrouble.UNREACHABLE)
    assert word in found.complaint


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_in_a_folder_only_files_are_read(repository: Repository, kind: str) -> None:
    path = repository.file("timestamp")
    kept = path.rename(path.with_name("kept"))
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(kept)
    else:
        path.mkdir()

    found = fetched(repository, str(repository.folder))

    assert "timestamp.json" in found.complaint
    assert found.files == {}


def test_a_name_that_leads_out_of_the_folder_is_not_followed(repository: Repository) -> None:
    """Whoever holds the targets' key may name any digest; it is part of a file's name."""
    repository.targets.targets["policy.json"].hashes["sha256"] = "../../" * 3 + "etc/x"
    repository.signs_targets()

    assert "leads elsewhere" in fetched(repository, str(repository.folder)).complaint


# A process that gives what no repository has.


class Giving(Fetcher):
    """A process that has fallen to a stranger, and says this."""

    def __init__(self, *told: tuple[FetchLine, bytes]) -> None:
        self._told = told

    @override
    @asynccontextmanager
    async def sent(self, parcel: Parcel) -> AsyncIterator[Lines]:
        async def lines() -> AsyncIterator[tuple[FetchLine, bytes]]:
            for each in self._told:
                yield each

        yield lines()


def piece(name: str | None, raw: bytes = b"x") -> tuple[FetchLine, bytes]:
    return FetchLine(bytes=0, name=name, piece=len(raw)), raw


@pytest.mark.threat("T34")
@pytest.mark.parametrize(
    "told",
    [
        pytest.param([piece("../hub.db")], id="out of the folder"),
        pytest.param([piece("/etc/passwd")], id="an absolute path"),
        pytest.param([piece("metadata/../../hub.db")], id="by a detour"),
        pytest.param([piece("hub.db")], id="beside the folders"),
        pytest.param([piece("a/b/c")], id="too deep"),
        pytest.param([piece(None)], id="of no file"),
        pytest.param([piece(f"metadata/{number}") for number in range(500)], id="too many"),
    ],
)
async def test_what_no_repository_has_is_not_kept(
    repository: Repository, told: list[tuple[FetchLine, bytes]]
) -> None:
    (repository.folder.parent / "hub.db").write_bytes(b"mine")

    with pytest.raises(LinkError, match="the fetching process gives"):
        await source_of(repository, "", Giving(*told)).published(None, NOON)

    assert (repository.folder.parent / "hub.db").read_bytes() == b"mine"
    assert not (repository.folder.parent / "work").exists()


@pytest.mark.threat("T36")
async def test_metadata_that_the_process_has_changed_are_refused(repository: Repository) -> None:
    honest = fetched(repository, str(repository.folder)).files
    changed = honest | {"metadata/1.targets.json": honest["metadata/1.targets.json"].replace(b"1", b"2", 1)}
    told = [piece(name, raw) for name, raw in changed.items()]
    end = FetchLine(bytes=0, is_last=True), b""

    with pytest.raises(UnprovenMetadataError):
        await source_of(repository, "", Giving(*told, end)).published(None, NOON)
    with pytest.raises(LinkError):
        await source_of(repository, "", Giving(end)).published(None, NOON)
    good = [piece(name, raw) for name, raw in honest.items()]
    assert (await source_of(repository, "", Giving(*good, end)).published(None, NOON)).held.policy == POLICY
