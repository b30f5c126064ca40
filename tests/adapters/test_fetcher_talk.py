"""Both ends of the talk with a fetching process: one that lies, babbles or dies, an errand that is none."""

import asyncio
import json
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from edgeagent.adapters.fetcher.environment import environment
from edgeagent.adapters.fetcher.inside import InsideFetcher, clear_left
from edgeagent.adapters.fetcher.outside import OutsideFetcher
from edgeagent.adapters.fetcher.talk import conversation
from edgeagent.adapters.fetcher.wire import Wire
from edgeagent.contracts.door import encode
from edgeagent.contracts.fetching import (
    ERRAND_BYTES,
    PIECE_BYTES,
    WHOLE_BYTES,
    Bounds,
    Enclosure,
    FetchLine,
    FetchTrouble,
    FileErrand,
    PolicyErrand,
    Request,
)
from edgeagent.contracts.reports.health import Level
from edgeagent.errors import MalformedError
from edgeagent.fetcher.serving import EXIT_LEFT
from edgeagent.ports.artifacts import FetchError
from edgeagent.ports.fetcher import Fetcher, Lines, Parcel
from tests.support.activating import NOBODY, activated
from tests.support.agents import ROOT
from tests.support.clocks import NOON
from tests.support.fetching import signed_file

pytestmark = [pytest.mark.requirement("W1", "F2"), pytest.mark.threat("T37")]

FILE = signed_file(b"firmware")
ERRAND = FileErrand(
    place="https://repository.example",
    proxy="http://me:hunter2@proxy:3128",
    artifact=FILE.artifact,
    sha256=FILE.sha256,
    length=FILE.length,
    path=FILE.path,
    tag='"one"',
    bounds=Bounds(idle=timedelta(milliseconds=300)),
)


def framed(raw: bytes) -> bytes:
    return struct.pack(">I", len(raw)) + raw


def line(**fields: object) -> bytes:
    return framed(json.dumps({"bytes": 0} | fields).encode())


async def all_lines(talk: AbstractAsyncContextManager[Lines]) -> list[FetchLine]:
    async with talk as lines:
        return [told async for told, _ in lines]


# What the agent hears.


async def heard_from(says: bytes, *, ends: bool = True, parcel: Parcel | None = None) -> list[FetchLine]:
    """What is made of a process that says this."""
    ours, theirs = socket.socketpair()

    async def speak() -> None:
        reader, writer = await asyncio.open_unix_connection(sock=theirs)
        writer.write(says)
        if ends:
            writer.write_eof()
        await reader.read()
        writer.close()

    found = []
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(speak())
        try:
            async with conversation(ours, parcel or Parcel(errand=ERRAND)) as lines:
                async for told, _ in lines:
                    found.append(told)
        except FetchError as why:
            found.append(FetchLine(bytes=0, trouble=why.trouble, why=str(why)))
    return found


async def test_lines_are_heard_to_the_last_and_nothing_after_it() -> None:
    says = line(began_at=3, bytes=3) + line(bytes=8, is_last=True) + b"and this is no line"

    assert await heard_from(says, ends=False) == [
        FetchLine(bytes=3, began_at=3),
        FetchLine(bytes=8, is_last=True),
    ]


@pytest.mark.parametrize(
    ("says", "words"),
    [
        pytest.param(b"", "ended before it was done", id="dies without a word"),
        pytest.param(line(bytes=1), "ended before it was done", id="dies without the last word"),
        pytest.param(line(bytes=1)[:-2], "ended before it was done", id="half a line"),
        pytest.param(line(piece=9) + b"short", "ended before it was done", id="half a piece"),
        pytest.param(struct.pack(">I", 2**32 - 1), "nobody understands", id="a line without end"),
        pytest.param(framed(b"\xff\xfe"), "nobody understands", id="no text"),
        pytest.param(framed(b'{"bytes":1,"bytes":2}'), "nobody understands", id="a key twice"),
        pytest.param(line(bytes=-1), "nobody understands", id="fewer than none"),
        pytest.param(line(bytes=True), "nobody understands", id="a word for a number"),
        pytest.param(line(bytes=1, exec="sh"), "nobody understands", id="a word that nobody knows"),
        pytest.param(line(piece=PIECE_BYTES + 1), "nobody understands", id="a piece too large"),
        pytest.param(line(trouble="fire"), "nobody understands", id="a trouble of its own"),
        pytest.param(
            (line(piece=PIECE_BYTES) + bytes(PIECE_BYTES)) * (WHOLE_BYTES // PIECE_BYTES + 1),
            f"more than {WHOLE_BYTES} bytes",
            id="bytes without end",
        ),
        pytest.param(line() * 30_001, "more than there is to say", id="babbles"),
    ],
)
async def test_what_a_process_says_that_is_not_to_be_said_ends_the_fetch(says: bytes, words: str) -> None:
    [*_, last] = await heard_from(says)

    assert last.trouble is FetchTrouble.FAILED
    assert words in last.why


async def test_a_process_that_is_gone_before_it_is_asked_is_told_as_gone() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()

    with pytest.raises(FetchError, match="ended before it was done"):
        await all_lines(conversation(ours, Parcel(errand=ERRAND)))


@pytest.mark.parametrize(("is_asked", "status"), [(True, EXIT_LEFT), (False, 0)], ids=["asked", "not yet"])
async def test_when_the_agent_is_killed_the_process_ends(
    tmp_path: Path, *, is_asked: bool, status: int
) -> None:
    ours, theirs = socket.socketpair()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "edgeagent", "fetch"),
        env=environment(os.environ, sys.path, tmp_path),
        stdin=theirs.fileno(),
    )
    theirs.close()

    if is_asked:
        errand = PolicyErrand(place="https://gone.example", now=NOON)
        async with conversation(ours, Parcel(errand=errand)) as lines:
            await anext(aiter(lines))
    ours.close()

    assert await asyncio.wait_for(process.wait(), 60) == status


def test_what_a_killed_agent_has_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    left = tmp_path / "fetching"
    (left / "begun").mkdir(parents=True)
    (left / "begun" / "half").write_text("of something")

    clear_left(left)
    clear_left(left)

    assert not left.exists()


# What the process hears.


@contextmanager
def asked(*, raw: bytes, handle: int | None = None) -> Iterator[Wire]:
    """The process's end, where this was said and nothing more comes."""
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.settimeout(60)
        with ours:
            if handle is None:
                ours.sendall(raw)
            else:
                socket.send_fds(ours, [raw], [handle])
        yield Wire(theirs)


def test_an_errand_comes_whole_with_its_files_and_the_opened_part(tmp_path: Path) -> None:
    files = (b"-----BEGIN", b"")
    enclosed = (Enclosure(name="authorities.pem", size=10), Enclosure(name="empty.json", size=0))
    errand = ERRAND.model_copy(update={"enclosed": enclosed})
    raw = framed(encode(Request(errand=errand))) + b"".join(files)
    with (tmp_path / "part").open("w+b") as part, asked(raw=raw, handle=part.fileno()) as wire:
        heard = wire.errand()

    assert heard is not None
    assert heard.errand == errand
    assert heard.files == {"authorities.pem": b"-----BEGIN", "empty.json": b""}
    assert heard.handle is not None
    assert os.get_inheritable(heard.handle) is False
    assert os.fstat(heard.handle).st_ino == (tmp_path / "part").stat().st_ino
    os.close(heard.handle)
    assert "hunter2" not in repr(heard)


def test_where_nobody_says_a_word_there_is_no_errand() -> None:
    with asked(raw=b"") as wire:
        assert wire.errand() is None


GOOD = json.loads(encode(Request(errand=ERRAND)))
POLICY = json.loads(encode(Request(errand=PolicyErrand(place="/media/stick", now=NOON))))


def open_handles() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(struct.pack(">I", ERRAND_BYTES + 1), id="too long"),
        pytest.param(framed(b"{}"), id="nothing"),
        pytest.param(framed(b"GET / HTTP/1.1"), id="another protocol"),
        pytest.param(framed(encode(Request(errand=ERRAND)))[:-1], id="half"),
        pytest.param(framed(json.dumps({"errand": GOOD["errand"] | {"kind": "shell"}}).encode()), id="kind"),
        pytest.param(
            framed(
                json.dumps(
                    {"errand": POLICY["errand"] | {"enclosed": [{"name": "../x", "size": 0}]}}
                ).encode()
            ),
            id="a file that leads elsewhere",
        ),
        pytest.param(
            framed(
                json.dumps(
                    {
                        "errand": POLICY["errand"]
                        | {"enclosed": [{"name": f"{n}.json", "size": 2**20} for n in range(40)]}
                    }
                ).encode()
            ),
            id="more than is allowed goes along",
        ),
    ],
)
def test_what_is_no_errand_is_refused_and_what_came_with_it_closed(tmp_path: Path, raw: bytes) -> None:
    with (tmp_path / "part").open("w+b") as part:
        before = open_handles()
        with asked(raw=raw, handle=part.fileno()) as wire, pytest.raises(MalformedError):
            wire.errand()

        assert open_handles() == before


@pytest.mark.slow
def test_the_word_is_not_for_people_and_says_so_of_what_it_does_not_know() -> None:
    """Without a socket; with one that says nothing; and with one from an agent of another version."""
    words = [sys.executable, "-m", "edgeagent", "fetch"]
    typed = subprocess.run(words, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(words, cwd=ROOT, stdin=theirs.fileno())
    ours.sendall(framed(b'{"errand":{"kind":"teleport"}}'))
    answer = ours.recv(4096)
    ours.close()
    status = process.wait(60)

    assert (typed.returncode, b"Unix stream socket" in typed.stderr) == (2, True)
    assert status == 65
    assert b"knows no such errand" in answer


# Who is connected to.


async def lines_of(who: Fetcher) -> list[FetchLine]:
    return await all_lines(who.sent(Parcel(errand=ERRAND)))


async def test_where_nobody_listens_it_says_which_unit_to_start(tmp_path: Path) -> None:
    path = tmp_path / "fetch.sock"
    who = OutsideFetcher(path)

    with pytest.raises(FetchError, match=r"systemctl start edgeagent-fetch\.socket") as none:
        await lines_of(who)
    told = who.check()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with pytest.raises(FetchError, match="refused") as refused:
        await lines_of(who)
    path.unlink()
    path.write_bytes(b"")
    with pytest.raises(FetchError):
        await lines_of(who)

    assert [none.value.trouble, refused.value.trouble] == [FetchTrouble.NO_FETCHER] * 2
    assert (told.level, told.advice) == (Level.WARNING, "systemctl start edgeagent-fetch.socket")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users get to, which pytest's own they do not."""
    with TemporaryDirectory(prefix="edgeagent-test-") as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="it takes another user, who listens")
async def test_who_is_neither_root_nor_we_is_told_nothing(open_folder: Path) -> None:
    """Another user listens there: the errand may hold the proxy's password."""
    heard, path = open_folder / "heard", open_folder / "fetch.sock"
    words = ["sh", "-c", f"cat > {heard}"]
    with activated(path, words, user=NOBODY), pytest.raises(FetchError, match=f"user {NOBODY}") as why:
        await lines_of(OutsideFetcher(path))

    assert why.value.trouble is FetchTrouble.NO_FETCHER
    assert not heard.exists() or heard.read_bytes() == b""


@pytest.mark.slow
async def test_an_errand_without_the_file_to_write_to_is_told(tmp_path: Path) -> None:
    [last] = await lines_of(InsideFetcher(tmp_path / "fetching"))
    assert list((tmp_path / "fetching").iterdir()) == []

    assert (last.trouble, "no file came along" in last.why) == (FetchTrouble.FAILED, True)
