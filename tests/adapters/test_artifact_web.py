"""What comes of a file from a web server, whatever its habits: asked in this process."""

import gzip
import os
import ssl
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from edgeagent.adapters.artifacts.addresses import CheckedResolver, ForbiddenAddressError, is_allowed
from edgeagent.adapters.artifacts.errand import Errand
from edgeagent.adapters.artifacts.opening import note_tag, opened, tag_of
from edgeagent.adapters.artifacts.part import Part
from edgeagent.adapters.artifacts.web import download
from edgeagent.contracts.fetching import Bounds, FetchTrouble
from edgeagent.ports.artifacts import FetchError
from tests.support.bad_servers import BINARY, drips, hangs_after, serves
from tests.support.fetching import signed_file, some_bytes
from tests.support.portals import (
    Authority,
    Portal,
    Script,
    answers,
    captive_portal,
    never_ends,
    redirects,
    response,
    server_context,
    speaks,
)

pytestmark = pytest.mark.requirement("F2")

CONTENT = some_bytes(200_000)
FILE = signed_file(CONTENT)
PATIENT = Bounds(reserve=0)
QUICK = Bounds(idle=timedelta(milliseconds=300), reserve=0)


async def comes(folder: Path, place: str, *, bounds: Bounds = PATIENT, **further: bytes | str) -> bytes:
    """What lies there afterwards."""
    told: list[int] = []
    path = folder / FILE.sha256
    handle = opened(path)
    errand = Errand(
        place=place,
        file=FILE,
        tell=told.append,
        tell_tag=partial(note_tag, handle),
        bounds=bounds,
        **further,  # type: ignore[arg-type]
    )
    with Part(handle, FILE.length, bounds.reserve, tag_of(handle)) as part:
        await download(errand, part)
    assert told == sorted(told)
    return path.read_bytes()


async def fails(folder: Path, place: str, *, bounds: Bounds = PATIENT, **further: bytes | str) -> FetchError:
    with pytest.raises(FetchError) as why:
        await comes(folder, place, bounds=bounds, **further)
    return why.value


def lies_there(folder: Path, content: bytes) -> None:
    """What an earlier fetch has left."""
    (folder / FILE.sha256).write_bytes(content)


async def test_a_file_comes_whole_and_nothing_of_us_is_told(tmp_path: Path) -> None:
    async with Portal(serves(CONTENT)) as portal:
        came = await comes(tmp_path, f"{portal.url}/base/")

    assert came == CONTENT
    [asked] = portal.asked
    assert asked.path == f"/base/targets/artifacts/plug/{FILE.sha256}.plug-fw-2"
    assert asked.headers["accept-encoding"] == "identity"
    assert asked.headers.keys() <= {"host", "accept", "accept-encoding", "user-agent", "connection"}


async def test_after_a_cut_only_what_is_missing_is_asked_for(tmp_path: Path) -> None:
    async with Portal(serves(CONTENT, cut_at=50_000)) as portal:
        cut = await fails(tmp_path, portal.url)
    async with Portal(serves(CONTENT)) as portal:
        came = await comes(tmp_path, portal.url)

    assert cut.trouble is FetchTrouble.BROKEN_ANSWER
    assert came == CONTENT
    assert portal.asked[0].headers["range"] == "bytes=50000-"


async def test_a_part_of_an_earlier_version_is_not_gone_on_with(tmp_path: Path) -> None:
    other = some_bytes(len(CONTENT), seed=2)
    async with Portal(serves(other, cut_at=50_000, tag='"old"')) as portal:
        await fails(tmp_path, portal.url)
    async with Portal(serves(CONTENT, tag='"new"')) as portal:
        came = await comes(tmp_path, portal.url)

    assert came == CONTENT
    assert portal.asked[0].headers.get("if-range", '"old"') == '"old"'


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(serves(CONTENT, deaf=True), id="no ranges"),
        pytest.param(serves(CONTENT, shifted=10), id="another part"),
        pytest.param(serves(CONTENT, told="bytes 0-1/2"), id="a part of another file"),
        pytest.param(serves(CONTENT, told="bytes"), id="no range"),
    ],
)
async def test_a_server_that_does_not_understand_ranges_is_asked_for_all(
    tmp_path: Path, script: Script
) -> None:
    lies_there(tmp_path, CONTENT[:1000])

    async with Portal(script) as portal:
        came = await comes(tmp_path, portal.url)

    assert came == CONTENT
    assert len(portal.asked) <= 2


async def test_where_the_rest_is_refused_all_is_asked_for(tmp_path: Path) -> None:
    lies_there(tmp_path, CONTENT[:1000])

    async def script(asked: object, writer: object) -> None:
        ranged = "range" in asked.headers  # type: ignore[attr-defined]
        await (answers("416 Range Not Satisfiable") if ranged else serves(CONTENT))(asked, writer)  # type: ignore[arg-type]

    async with Portal(script) as portal:
        assert await comes(tmp_path, portal.url) == CONTENT


async def test_a_longer_part_than_the_file_is_begun_anew(tmp_path: Path) -> None:
    lies_there(tmp_path, CONTENT + b"more")

    async with Portal(serves(CONTENT)) as portal:
        assert await comes(tmp_path, portal.url) == CONTENT


async def test_a_redirect_within_the_origin_is_followed(tmp_path: Path) -> None:
    moved = serves(CONTENT)

    async def script(asked: object, writer: object) -> None:
        here = asked.path == "/store/x"  # type: ignore[attr-defined]
        await (moved if here else redirects("/store/x"))(asked, writer)  # type: ignore[arg-type]

    async with Portal(script) as portal:
        assert await comes(tmp_path, portal.url) == CONTENT


@pytest.mark.threat("T37", "T39", "T40")
@pytest.mark.parametrize(
    ("script", "trouble"),
    [
        pytest.param(captive_portal(), FetchTrouble.CAPTIVE_PORTAL, id="a portal's page"),
        pytest.param(redirects("http://portal.example/login"), FetchTrouble.CAPTIVE_PORTAL, id="a login"),
        pytest.param(redirects("file:///etc/passwd"), FetchTrouble.CAPTIVE_PORTAL, id="a file"),
        pytest.param(redirects("http://169.254.169.254/latest"), FetchTrouble.CAPTIVE_PORTAL, id="metadata"),
        pytest.param(redirects("http://["), FetchTrouble.CAPTIVE_PORTAL, id="nonsense"),
        pytest.param(redirects("/again"), FetchTrouble.BROKEN_ANSWER, id="in a circle"),
        pytest.param(answers("407 Proxy"), FetchTrouble.CAPTIVE_PORTAL, id="a proxy that nobody set"),
        pytest.param(answers("511 Login"), FetchTrouble.CAPTIVE_PORTAL, id="a network's login"),
        pytest.param(answers("401 No"), FetchTrouble.LOGIN, id="a login of its own"),
        pytest.param(answers("404 Nothing"), FetchTrouble.MISSING, id="nothing"),
        pytest.param(answers("500 Oh"), FetchTrouble.BROKEN_ANSWER, id="failing"),
        pytest.param(answers("502 Oh"), FetchTrouble.UNREACHABLE, id="a gateway's"),
        pytest.param(answers("204 None"), FetchTrouble.BROKEN_ANSWER, id="no content"),
        pytest.param(answers("206 Partial", CONTENT), FetchTrouble.BROKEN_ANSWER, id="a part unasked"),
        pytest.param(serves(CONTENT[:-1]), FetchTrouble.BROKEN_ANSWER, id="too short"),
        pytest.param(serves(CONTENT + b"x"), FetchTrouble.BROKEN_ANSWER, id="too long"),
        pytest.param(never_ends(CONTENT[:60_000]), FetchTrouble.BROKEN_ANSWER, id="without end"),
        pytest.param(hangs_after(CONTENT, 1000), FetchTrouble.TOO_SLOW, id="silent"),
        pytest.param(speaks(b"SSH-2.0-x\r\n\r\n"), FetchTrouble.BROKEN_ANSWER, id="no HTTP"),
        pytest.param(speaks(b""), FetchTrouble.UNREACHABLE, id="hung up"),
        pytest.param(
            answers("200 OK", gzip.compress(CONTENT), headers={"Content-Encoding": "gzip"}),
            FetchTrouble.BROKEN_ANSWER,
            id="compressed",
        ),
    ],
)
async def test_what_is_not_the_file_is_told_by_its_kind(
    tmp_path: Path, script: Script, trouble: FetchTrouble
) -> None:
    # One of them says nothing more; nobody else is to be hurried.
    bounds = QUICK if trouble is FetchTrouble.TOO_SLOW else PATIENT
    async with Portal(script) as portal:
        failed = await fails(tmp_path, portal.url, bounds=bounds)

    assert failed.trouble is trouble
    assert str(failed).isprintable()
    assert (tmp_path / FILE.sha256).stat().st_size <= FILE.length


@pytest.mark.threat("T35")
async def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    bomb = gzip.compress(bytes(50_000_000))
    raw = response("200 OK", bomb, content_type=BINARY, headers={"Content-Encoding": "gzip"})

    async with Portal(speaks(raw)) as portal:
        failed = await fails(tmp_path, portal.url)

    assert "compressed" in str(failed)
    assert (tmp_path / FILE.sha256).stat().st_size == 0


@pytest.mark.threat("T38")
async def test_a_server_that_drips_is_given_up(tmp_path: Path) -> None:
    bounds = Bounds(window=timedelta(seconds=1), least_rate=1000, reserve=0)

    async with Portal(drips(CONTENT, pause=0.01)) as portal:
        failed = await fails(tmp_path, portal.url, bounds=bounds)

    assert failed.trouble is FetchTrouble.TOO_SLOW
    assert 0 < (tmp_path / FILE.sha256).stat().st_size < 1000


async def test_all_of_it_has_to_come_in_time(tmp_path: Path) -> None:
    bounds = Bounds(whole=timedelta(milliseconds=300), reserve=0)

    async with Portal(drips(CONTENT, pause=0.01)) as portal:
        failed = await fails(tmp_path, portal.url, bounds=bounds)

    assert failed.trouble is FetchTrouble.TOO_SLOW
    assert "within" in str(failed)


async def test_how_long_to_wait_is_listened_to_within_bounds(tmp_path: Path) -> None:
    async with Portal(answers("503 Later", headers={"Retry-After": "999999"})) as portal:
        failed = await fails(tmp_path, portal.url)

    assert failed.trouble is FetchTrouble.BUSY
    assert failed.retry_after == timedelta(hours=1)


async def test_without_room_nothing_is_asked_for(tmp_path: Path) -> None:
    async with Portal(serves(CONTENT)) as portal:
        failed = await fails(tmp_path, portal.url, bounds=Bounds(reserve=2**60))

    assert failed.trouble is FetchTrouble.NO_SPACE
    assert portal.asked == []


# TLS and proxies.


@pytest.mark.threat("T41")
@pytest.mark.parametrize(
    ("how", "told"),
    [
        pytest.param({"valid": -timedelta(days=1)}, "expired", id="expired"),
        pytest.param({"host": "elsewhere.example"}, "localhost", id="another host's"),
    ],
)
async def test_a_certificate_that_is_not_in_order_is_refused(
    tmp_path: Path, how: dict[str, object], told: str
) -> None:
    authority = Authority(tmp_path / "ca")
    files = authority.issues("repository", **how)  # type: ignore[arg-type]

    async with Portal(serves(CONTENT), tls=server_context(files)) as portal:
        failed = await fails(tmp_path, portal.url, authorities=authority.file.read_bytes())

    assert failed.trouble is FetchTrouble.TLS
    assert told in str(failed)
    assert portal.asked == []


@pytest.mark.threat("T41")
async def test_only_the_configured_authorities_count(tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path / "a", "ours"), Authority(tmp_path / "b", "theirs")
    context: ssl.SSLContext = server_context(theirs.issues("repository"))
    async with Portal(serves(CONTENT), tls=context) as portal:
        failed = await fails(tmp_path, portal.url, authorities=ours.file.read_bytes())
        asked = list(portal.asked)
        came = await comes(tmp_path, portal.url, authorities=theirs.file.read_bytes())

    assert (failed.trouble, asked) == (FetchTrouble.TLS, [])
    assert came == CONTENT


@pytest.mark.threat("T40")
async def test_a_proxys_refusals_are_told_without_its_password(tmp_path: Path) -> None:
    async with Portal(answers("407 Proxy Authentication Required")) as proxy:
        url = proxy.url.replace("http://", "http://me:hunter2@")
        failed = await fails(tmp_path, "https://repository.example", proxy=url)

    assert failed.trouble is FetchTrouble.LOGIN
    assert "hunter2" not in str(failed)


# Addresses.


@pytest.mark.threat("T39")
@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.8.8.8", "::1", "169.254.169.254", "fe80::1%eth0", "::", "0.0.0.0"),  # noqa: S104 - refused
        *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "224.0.0.1"),
        *("fd00:ec2::254", "100.100.100.200", "no address", ""),
    ],
)
def test_an_address_that_no_repository_is_at_is_not_connected_to(address: str) -> None:
    assert not is_allowed(address)


@pytest.mark.parametrize("address", ["192.0.2.7", "10.1.2.3", "192.168.1.5", "2001:db8::1", "fd12::7"])
def test_an_address_that_a_repository_may_be_at_is(address: str) -> None:
    assert is_allowed(address)


@pytest.mark.threat("T39")
@pytest.mark.parametrize("name", ["localhost", "0x7f.1", "127.1", "2130706433"])
async def test_a_name_that_leads_to_this_machine_is_not_connected_to(name: str) -> None:
    resolver = CheckedResolver()
    try:
        with pytest.raises(ForbiddenAddressError, match="leads to"):
            await resolver.resolve(name, 443)
    finally:
        await resolver.close()


@pytest.mark.threat("T39")
async def test_a_repository_whose_name_leads_here_is_not_asked(tmp_path: Path) -> None:
    """As a name server has it that an attacker holds: to every resolver this name is this machine."""
    async with Portal(serves(CONTENT)) as portal:
        failed = await fails(tmp_path, f"http://0x7f.1:{portal.port}")

    assert failed.trouble is FetchTrouble.FORBIDDEN_ADDRESS
    assert portal.asked == []


# The part.


@pytest.mark.threat("T34")
@pytest.mark.parametrize("kind", ["link", "hard link", "pipe", "folder"])
def test_a_part_that_is_no_file_of_its_own_is_not_written_to(tmp_path: Path, kind: str) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"mine")
    path = tmp_path / FILE.sha256
    make: dict[str, Callable[[], object]] = {
        "link": lambda: path.symlink_to(other),
        "hard link": lambda: path.hardlink_to(other),
        "pipe": lambda: os.mkfifo(path),
        "folder": path.mkdir,
    }
    make[kind]()

    with pytest.raises(FetchError):
        opened(path)

    assert other.read_bytes() == b"mine"


def test_one_process_at_a_time_adds_to_a_part(tmp_path: Path) -> None:
    path = tmp_path / FILE.sha256
    with Part(opened(path), 10, 0) as part:
        with pytest.raises(FetchError) as why:
            opened(path)
        part.append(b"12345")

    assert why.value.trouble is FetchTrouble.BUSY
    assert path.read_bytes() == b"12345"


def test_a_part_never_grows_beyond_what_was_signed(tmp_path: Path) -> None:
    with Part(opened(tmp_path / FILE.sha256), 10, 0) as part:
        part.append(b"1234567890")
        with pytest.raises(FetchError, match="longer than the 10 bytes"):
            part.append(b"1")

    assert (tmp_path / FILE.sha256).read_bytes() == b"1234567890"
