"""The file server for devices on real sockets: who gets what, who gets nothing, and when it ends."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from hashlib import sha256
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from edgeagent.adapters.lan_files.connections import MOST_OF_ONE, MOST_STRANGERS
from edgeagent.adapters.lan_files.live import MOST_ADDRESSES, MOST_FETCHES
from edgeagent.adapters.lan_files.settings import PIECE, LanFilesSettings
from edgeagent.adapters.lan_files.site import LanFiles
from edgeagent.contracts.serving import Ended, Turned
from edgeagent.errors import RejectedError, SuspiciousError, TransientError, UnknownError
from edgeagent.ids import device_id, digest
from edgeagent.ports.artifact_site import Content, Fetch, Offer
from firmware_sim.television.abuse import Server, crowd, dawdle, ranges, wander
from tests.support.clocks import ManualClock
from tests.support.fetching import some_bytes
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("F3")

PLUG = device_id("plug-1")
DATA = bytes(range(256)) * 400
LARGE = 24 * 1024 * 1024
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
QUICK = timedelta(milliseconds=500)


@dataclass
class Witness:
    """Writes down what it is told."""

    fetches: list[Fetch] = field(default_factory=list)
    turned: list[Turned] = field(default_factory=list)
    offers: int = 0

    def served(self, fetch: Fetch) -> None:
        self.fetches.append(fetch)

    def turned_away(self, why: Turned, address: str) -> None:
        assert address.startswith("127.0.0.")
        self.turned.append(why)

    def standing(self, offers: int) -> None:
        self.offers = offers


@dataclass
class Desk:
    """A site, and what lies around it."""

    site: LanFiles
    witness: Witness
    clock: ManualClock
    folder: Path

    def content(self, data: bytes = DATA, name: str = "plug.bin") -> Content:
        path = self.folder / name
        path.write_bytes(data)
        return Content(
            name=name,
            digest=digest(sha256(data).hexdigest()),
            size=len(data),
            open_file=lambda: os.open(path, os.O_RDONLY),
        )

    async def offers(self, *contents: Content, address: str | None = "127.0.0.1") -> Offer:
        return await self.site.offer(
            PLUG,
            contents or (self.content(),),
            until=self.clock.boot() + HOUR,
            address=None if address is None else ip_address(address),
        )


@asynccontextmanager
async def a_site(folder: Path, *, patience: timedelta = MINUTE) -> AsyncIterator[Desk]:
    """Where files are offered; who says nothing, or takes nothing, is waited for so long."""
    witness, clock = Witness(), ManualClock()
    settings = LanFilesSettings(
        host="127.0.0.1",
        port=0,
        public="127.0.0.1",
        first_word=patience,
        patience=patience,
    )
    site = LanFiles(settings, clock, witness)
    try:
        yield Desk(site, witness, clock, folder)
    finally:
        await site.close()


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with a_site(tmp_path) as desk:
        yield desk


async def asked(url: str, *headers: str, method: str = "GET", path: str = "") -> tuple[int, bytes, bytes]:
    """Status, head and body of an answer."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    lines = [f"{method} {path or parts.path} HTTP/1.1", *(headers or (f"Host: {parts.netloc}",))]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
    answer = await reader.read()
    while more := await reader.read():
        answer += more
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), head, body


def server(offer: Offer) -> Server:
    parts = urlsplit(offer.url)
    return Server(parts.hostname or "", parts.port or 0, parts.path)


async def test_a_device_fetches_what_it_was_offered_and_that_is_known(desk: Desk) -> None:
    offer = await desk.offers()

    status, head, body = await asked(offer.url)

    assert (status, body) == (200, DATA)
    assert b"python" not in head.lower()
    assert b"aiohttp" not in head.lower()
    assert len(offer.url) <= 100
    await eventually(lambda: desk.witness.fetches)
    [fetch] = desk.witness.fetches
    assert (fetch.device, fetch.sent, fetch.ended) == (PLUG, len(DATA), Ended.SENT)
    progress = desk.site.progress(offer)
    assert (progress.place, progress.fetches, progress.finished) == (len(DATA), 1, frozenset({"plug.bin"}))


async def test_head_tells_the_length_and_sends_nothing(desk: Desk) -> None:
    offer = await desk.offers()

    status, head, body = await asked(offer.url, method="HEAD")

    assert (status, body) == (200, b"")
    assert f"Content-Length: {len(DATA)}".encode() in head


SIZE = len(DATA)


@pytest.mark.parametrize(
    ("field_", "status", "first", "end"),
    [
        ("bytes=0-", 206, 0, SIZE),
        ("bytes=5-9", 206, 5, 10),
        ("bytes=100-99999999", 206, 100, SIZE),
        (f"bytes={SIZE - 1}-", 206, SIZE - 1, SIZE),
        ("bytes=-1", 206, SIZE - 1, SIZE),
        ("bytes=-999999999", 206, 0, SIZE),
        ("BYTES=3-3", 206, 3, 4),
        ("bytes=0-18446744073709551616", 206, 0, SIZE),
        ("lines=1-2", 200, 0, SIZE),
        (f"bytes={SIZE}-", 416, 0, 0),
        ("bytes=-0", 416, 0, 0),
        ("bytes=9-1", 416, 0, 0),
        ("bytes=x-y", 416, 0, 0),
        ("bytes=-", 416, 0, 0),
        ("bytes=0-1,3-4", 416, 0, 0),
        ("bytes=999999999999999999999999-", 416, 0, 0),
        ("nonsense", 416, 0, 0),
    ],
)
async def test_one_range_is_served_and_no_other(
    desk: Desk, field_: str, status: int, first: int, end: int
) -> None:
    offer = await desk.offers()

    found, head, body = await asked(offer.url, "Host: 127.0.0.1", f"Range: {field_}")

    assert (found, body) == (status, DATA[first:end])
    if status == 206:
        assert f"Content-Range: bytes {first}-{end - 1}/{SIZE}".encode() in head
    if status == 416:
        assert f"Content-Range: bytes */{SIZE}".encode() in head


async def test_whatever_is_not_offered_has_one_answer(desk: Desk) -> None:
    offer = await desk.offers()
    token = offer.url.split("/")[3]
    other = "A" * 22

    answers = {
        (status, body)
        for status, _, body in [
            await asked(offer.url, path=f"/{other}/plug.bin"),
            await asked(offer.url, path=f"/{token}/other.bin"),
            await asked(offer.url, path=f"/{token}/"),
            await asked(offer.url, path="/"),
            await asked(offer.url, path=f"/{token}/../plug.bin"),
            await asked(offer.url, method="DELETE"),
            await asked(offer.url, "Host: evil.example"),
            await asked(offer.url, "Accept: */*"),
            await asked(offer.url, "no header at all"),
        ]
    }

    assert answers == {(404, b"")}
    assert desk.witness.fetches == []
    assert {Turned.NO_SUCH_PATH, Turned.OTHER_METHOD, Turned.OTHER_HOST} <= set(desk.witness.turned)


async def test_another_address_gets_nothing(desk: Desk) -> None:
    offer = await desk.offers(address="127.0.0.9")

    status, _, body = await asked(offer.url)

    assert (status, body, desk.witness.turned) == (404, b"", [Turned.OTHER_ADDRESS])


async def test_it_can_be_fetched_so_often_and_no_more(desk: Desk) -> None:
    offer = await desk.offers()

    answers = [(await asked(offer.url))[0] for _ in range(MOST_FETCHES + 1)]

    assert answers == [200] * MOST_FETCHES + [404]
    assert desk.witness.turned == [Turned.SPENT]


async def test_nothing_listens_while_there_is_no_offer(desk: Desk) -> None:
    first, second = await desk.offers(), await desk.offers()
    await desk.site.withdraw(first)
    assert (await asked(second.url))[0] == 200
    await desk.site.withdraw(second)

    assert desk.site.port is None
    with pytest.raises(ConnectionRefusedError):
        await asked(second.url)
    with pytest.raises(UnknownError):
        desk.site.progress(second)
    assert desk.witness.offers == 0


async def test_when_its_time_is_over_nothing_more_is_sent(desk: Desk) -> None:
    offer = await desk.offers(desk.content(bytes(LARGE)))
    parts = urlsplit(offer.url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(f"GET {parts.path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    await reader.readexactly(1000)

    desk.clock.passes(HOUR)

    assert desk.site.progress(offer).over
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await reader.readexactly(LARGE)
    writer.close()
    await eventually(lambda: [fetch.ended for fetch in desk.witness.fetches] == [Ended.OVER])


async def test_a_stop_ends_what_is_being_fetched(desk: Desk) -> None:
    offer = await desk.offers(desk.content(bytes(LARGE)))
    parts = urlsplit(offer.url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(f"GET {parts.path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    await reader.readexactly(1000)

    await desk.site.close()

    assert [fetch.ended for fetch in desk.witness.fetches] == [Ended.OVER]
    with pytest.raises(TransientError):
        await desk.offers()
    writer.close()


async def test_a_file_that_becomes_shorter_is_sent_as_half_of_one(desk: Desk) -> None:
    offer = await desk.offers()
    os.truncate(desk.folder / "plug.bin", 1000)

    _, _, body = await asked_until_cut(offer.url)

    assert len(body) < len(DATA)
    await eventually(lambda: [fetch.ended for fetch in desk.witness.fetches] == [Ended.BROKEN])


async def asked_until_cut(url: str) -> tuple[int, bytes, bytes]:
    try:
        return await asked(url)
    except (ConnectionError, IndexError):
        return 0, b"", b""


@pytest.mark.threat("T36")
@pytest.mark.parametrize("at", [0, PIECE - 1, PIECE, 2 * PIECE + 7])
async def test_of_a_file_that_somebody_writes_to_only_what_was_signed_is_sent(desk: Desk, at: int) -> None:
    data = some_bytes(3 * PIECE - 5)
    offer = await desk.offers(desk.content(data))
    with (desk.folder / "plug.bin").open("r+b") as file:
        file.seek(at)
        file.write(bytes([data[at] ^ 1]))

    _, _, body = await asked_until_cut(offer.url)
    _, _, around = await asked_until_cut_at(offer.url, at)

    whole_pieces = at // PIECE * PIECE
    assert len(body) <= whole_pieces
    assert body == data[: len(body)]
    assert around == b""
    await eventually(lambda: len(desk.witness.fetches) == 2)
    assert {fetch.ended for fetch in desk.witness.fetches} == {Ended.BROKEN}


async def asked_until_cut_at(url: str, place: int) -> tuple[int, bytes, bytes]:
    try:
        return await asked(url, "Host: 127.0.0.1", f"Range: bytes={place}-{place}")
    except (ConnectionError, IndexError):
        return 0, b"", b""


@pytest.mark.threat("T36")
@pytest.mark.parametrize("wrong", [DATA[:1000], bytes(len(DATA))], ids=["shorter", "other bytes"])
async def test_a_file_that_is_not_what_was_signed_any_more_is_not_offered(desk: Desk, wrong: bytes) -> None:
    content = desk.content()
    (desk.folder / "plug.bin").write_bytes(wrong)

    with pytest.raises(SuspiciousError):
        await desk.offers(content)
    assert desk.site.port is None


async def test_who_has_overheard_the_address_and_is_quicker_takes_nothing_from_the_device(desk: Desk) -> None:
    offer = await desk.offers(address=None)
    thieves = [(f"127.0.0.{30 + n}", 0) for n in range(MOST_ADDRESSES + 1)]
    for thief in thieves[1:-1]:
        for _ in range(MOST_FETCHES + 1):
            await asked_from(thief, offer.url)

    status, _, body = await asked(offer.url)
    too_many = await asked_from(thieves[-1], offer.url)

    assert (status, body) == (200, DATA)
    assert too_many == b""
    await eventually(lambda: desk.witness.turned.count(Turned.SPENT) == MOST_ADDRESSES)


async def asked_from(source: tuple[str, int], url: str) -> bytes:
    """The body of an answer to somebody with another address."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port, local_addr=source)
    writer.write(f"GET {parts.path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    answer = await reader.read(-1)
    writer.close()
    return answer.partition(b"\r\n\r\n")[2]


async def test_strangers_from_many_addresses_keep_no_device_out_that_is_not_known_yet(desk: Desk) -> None:
    offer = await desk.offers(address=None)
    parts = urlsplit(offer.url)
    crowd_ = [
        await asyncio.open_connection(parts.hostname, parts.port, local_addr=(f"127.0.0.{20 + n}", 0))
        for n in range(2 * MOST_STRANGERS)
    ]

    status, _, body = await asked(offer.url)

    for _, writer in crowd_:
        writer.close()
    assert (status, body) == (200, DATA)
    assert Turned.CROWDED in desk.witness.turned


async def test_an_offer_that_nobody_waits_for_any_more_leaves_nothing_open(desk: Desk) -> None:
    content, begun, goes_on, handles = desk.content(), threading.Event(), threading.Event(), list[int]()

    def slowly() -> int:
        handles.append(content.open_file())
        begun.set()
        goes_on.wait(60)
        return handles[-1]

    offering = asyncio.create_task(desk.offers(replace(content, open_file=slowly)))
    await eventually(begun.is_set)
    offering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await offering
    goes_on.set()

    link = Path(f"/proc/self/fd/{handles[0]}")
    await eventually(lambda: not link.is_symlink() or link.readlink() != desk.folder / "plug.bin")
    assert desk.site.port is None


async def test_what_cannot_be_offered_is_refused(desk: Desk) -> None:
    content = desk.content()
    for wrong in ((), (content, content), tuple(desk.content(name=f"f{n}") for n in range(5))):
        with pytest.raises(RejectedError):
            await desk.site.offer(PLUG, wrong, until=desk.clock.boot() + HOUR)
    with pytest.raises(RejectedError):
        await desk.site.offer(PLUG, [content], until=desk.clock.boot())
    with pytest.raises(RejectedError):
        desk.content(name=".hidden")
    assert desk.site.port is None


async def test_an_offer_that_is_made_again_lies_where_it_lay_and_no_other_lies_there(desk: Desk) -> None:
    until, token = desk.clock.boot() + HOUR, "Ab-_" * 5 + "xy"
    first = await desk.site.offer(PLUG, [desk.content()], until=until, token=token)
    for wrong in (token, token[1:], token[:-1] + "/", ""):
        with pytest.raises(RejectedError):
            await desk.site.offer(PLUG, [desk.content(name="other.bin")], until=until, token=wrong)
    assert (await asked(first.url))[2] == DATA

    await desk.site.withdraw(first)
    again = await desk.site.offer(PLUG, [desk.content()], until=until, token=token)

    assert urlsplit(again.url).path == urlsplit(first.url).path == f"/{token}/plug.bin"
    assert (await asked(again.url))[2] == DATA
    assert token not in repr(first)


@pytest.mark.slow
async def test_a_hostile_television_gets_nothing_and_keeps_no_place(tmp_path: Path) -> None:
    async with a_site(tmp_path, patience=QUICK) as desk:
        offer = await desk.offers(desk.content(bytes(LARGE)))
        wandered = await wander(server(offer))
        crowded = await crowd(server(offer), 20)
        ranged = await ranges(server(offer))
        dawdled = await dawdle(server(offer))

        assert {str(answer).partition(" ")[0] for answer in wandered} <= {"404", "closed"}
        assert int(crowded[1].removeprefix("stood ")) <= MOST_OF_ONE
        # Of seven that it asks for, one is a range: from the start to far behind the end.
        assert [answer.partition(" ")[0] for answer in ranged].count("206") == 1
        assert dawdled
        await eventually(lambda: Ended.SLOW in [fetch.ended for fetch in desk.witness.fetches])
        assert {Turned.CROWDED, Turned.SILENT} <= set(desk.witness.turned)
