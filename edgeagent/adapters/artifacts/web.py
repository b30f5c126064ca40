"""A file of a repository that is a web server: what is missing of it, and nothing that was not asked for.

    GET, or GET with Range and If-Range for what is missing (RFC 9110 section 14)
      200            from the beginning, whatever was asked
      206            from exactly where we are, or it is asked for once more from the beginning
      3xx            followed within the origin, a few times; to another it is a portal's
      else, or HTML  no file
    then piece by piece, until the signed length is there

Nothing is taken compressed. No page, cookie or header of the server has any further effect.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from http import HTTPStatus
from typing import Final

import aiohttp
from aiohttp import hdrs
from yarl import URL

from edgeagent.adapters.artifacts.addresses import CheckedResolver, ForbiddenAddressError, is_allowed
from edgeagent.adapters.artifacts.errand import Errand
from edgeagent.adapters.artifacts.part import Part
from edgeagent.adapters.artifacts.trouble import of_exception, of_status
from edgeagent.adapters.artifacts.trusting import trusting
from edgeagent.contracts.fetching import Bounds, FetchTrouble
from edgeagent.ports.artifacts import FetchError

_MOST_REDIRECTS: Final = 5
_LONGEST_TAG: Final = 200
_BUFFER: Final = 1024 * 1024
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_CONTENT_RANGE: Final = re.compile(r"bytes (\d{1,15})-(\d{1,15})/(\d{1,15}|\*)", re.ASCII)
_PAGES: Final = frozenset({"text/html", "application/xhtml+xml"})


async def download(errand: Errand, part: Part) -> None:
    """Add what is missing from the web server.

    Raises:
        FetchError: not all of it is there.
    """
    part.check_space()
    bounds = errand.bounds
    web = _Web(errand, part)
    whole = asyncio.timeout(bounds.whole.total_seconds())
    try:
        async with whole, web.session() as session:
            await web.bring(session)
    except FetchError:
        raise
    except TimeoutError as why:
        if whole.expired():
            raise FetchError(FetchTrouble.TOO_SLOW, f"not all of it came within {bounds.whole}") from why
        raise of_exception(why) from why
    except (aiohttp.ClientError, OSError, ValueError) as why:
        raise of_exception(why) from why


class Pace:
    """Holds a stream to its least rate, window by window."""

    def __init__(self, bounds: Bounds, began: float) -> None:
        self._window = bounds.window.total_seconds()
        self._least = bounds.least_rate * self._window
        self._began = began
        self._bytes = 0

    def took(self, count: int, now: float) -> None:
        """Note what came.

        Raises:
            FetchError: it comes too slowly.
        """
        self._bytes += count
        if now - self._began < self._window:
            return
        if self._bytes < self._least:
            window = timedelta(seconds=self._window)
            raise FetchError(FetchTrouble.TOO_SLOW, f"only {self._bytes} bytes came within {window}")
        self._began, self._bytes = now, 0


class _Web:
    """One file of one web server."""

    def __init__(self, errand: Errand, part: Part) -> None:
        self._errand = errand
        self._part = part
        base = URL(errand.place, encoded=True)
        self._url = URL(f"{errand.place.rstrip('/')}/{'/'.join(errand.file.place)}", encoded=True)
        self._proxy = errand.proxy if base.scheme == "https" else None
        host = base.host or ""
        # Who configures this machine itself means it.
        self._is_free = host == "localhost" or (_is_address(host) and not is_allowed(host))

    @asynccontextmanager
    async def session(self) -> AsyncIterator[aiohttp.ClientSession]:
        bounds = self._errand.bounds
        if self._is_free:
            resolver = None
        else:
            resolver = CheckedResolver(None if self._proxy is None else URL(self._proxy).host)
        trust = trusting(self._errand.authorities)
        connector = aiohttp.TCPConnector(resolver=resolver, ssl=trust, use_dns_cache=False, force_close=True)
        async with aiohttp.ClientSession(
            connector=connector,
            auto_decompress=False,
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=_BUFFER,
            headers={hdrs.ACCEPT_ENCODING: "identity", hdrs.USER_AGENT: "edgeagent"},
            timeout=aiohttp.ClientTimeout(
                total=None,
                connect=bounds.connect.total_seconds(),
                sock_read=bounds.idle.total_seconds(),
            ),
        ) as session:
            yield session

    async def bring(self, session: aiohttp.ClientSession) -> None:
        """Ask for what is missing; and once from the beginning, where that is not understood."""
        if not await self._tried(session):
            self._part.begin_anew()
            if not await self._tried(session):
                raise FetchError(FetchTrouble.BROKEN_ANSWER, "another part came than was asked for")

    async def _tried(self, session: aiohttp.ClientSession) -> bool:
        """Ask once.

        Returns:
            Whether it was answered with what can be used.
        """
        async with self._answer(session) as answer:
            is_part = answer.status == HTTPStatus.PARTIAL_CONTENT
            is_refused = answer.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
            if self._part.size and (is_refused or (is_part and not self._fits(answer))):
                return False
            self._check(answer, is_part=is_part)
            if not is_part:
                self._part.begin_anew()
            self._note_tag(answer.headers.get(hdrs.ETAG, ""))
            self._errand.tell(self._part.size)
            await self._receive(answer)
        return True

    @asynccontextmanager
    async def _answer(self, session: aiohttp.ClientSession) -> AsyncIterator[aiohttp.ClientResponse]:
        """What is answered where the redirects end."""
        url, part, headers = self._url, self._part, dict[str, str]()
        if part.size:
            headers[hdrs.RANGE] = f"bytes={part.size}-"
            # A weak one says nothing of bytes (RFC 9110 section 13.1.5).
            if part.tag.startswith('"'):
                headers[hdrs.IF_RANGE] = part.tag
        for _ in range(_MOST_REDIRECTS + 1):
            async with session.get(url, headers=headers, allow_redirects=False, proxy=self._proxy) as answer:
                self._check_peer(answer)
                if answer.status not in _REDIRECTS:
                    yield answer
                    return
                url = self._next(url, answer.headers.get(hdrs.LOCATION, ""))
        raise FetchError(FetchTrouble.BROKEN_ANSWER, f"more than {_MOST_REDIRECTS} redirects")

    def _next(self, url: URL, location: str) -> URL:
        try:
            following = url.join(URL(location, encoded=True))
            if location and following.origin() == url.origin() and following.user is None:
                return following
        except ValueError:  # no address at all, or one without a host
            pass
        raise FetchError(
            FetchTrouble.CAPTIVE_PORTAL, "it leads to another place, which is not followed: a login page?"
        )

    def _check_peer(self, answer: aiohttp.ClientResponse) -> None:
        """Look whom we are connected to, whatever the name had been resolved to."""
        connection = answer.connection
        if self._is_free or self._proxy is not None or connection is None or connection.transport is None:
            return
        peer = connection.transport.get_extra_info("peername")
        if peer is not None and not is_allowed(str(peer[0])):
            raise ForbiddenAddressError(f"{self._url.host} leads to {peer[0]}")

    def _fits(self, answer: aiohttp.ClientResponse) -> bool:
        """Whether a part begins where we are, and is of a file of the signed length."""
        found = _CONTENT_RANGE.fullmatch(answer.headers.get(hdrs.CONTENT_RANGE, ""))
        length = self._errand.file.length
        return (
            found is not None
            and int(found[1]) == self._part.size
            and int(found[2]) == length - 1
            and found[3] in {"*", str(length)}
        )

    def _check(self, answer: aiohttp.ClientResponse, *, is_part: bool) -> None:
        """Refuse what is not the file, before any of it is read.

        Raises:
            FetchError: it is not.
        """
        if answer.content_type in _PAGES and answer.ok:
            raise FetchError(FetchTrouble.CAPTIVE_PORTAL, f"HTTP {answer.status} with a page in its place")
        if answer.status != HTTPStatus.OK and not (is_part and self._part.size):
            through_proxy = self._proxy is not None
            waits = answer.headers.get(hdrs.RETRY_AFTER, "")
            raise of_status(answer.status, waits, through_proxy=through_proxy)
        if answer.headers.get(hdrs.CONTENT_ENCODING, "identity").lower() != "identity":
            raise FetchError(FetchTrouble.BROKEN_ANSWER, "it comes compressed, which was not asked for")
        missing = self._errand.file.length - (self._part.size if is_part else 0)
        if answer.content_length is not None and answer.content_length != missing:
            raise FetchError(
                FetchTrouble.BROKEN_ANSWER, f"{answer.content_length} bytes are announced, not {missing}"
            )

    def _note_tag(self, tag: str) -> None:
        # One that is none, or longer than anybody's, is forgotten: then all is asked for.
        self._part.tag = tag if tag.isascii() and len(tag) <= _LONGEST_TAG else ""
        self._errand.tell_tag(self._part.tag)

    async def _receive(self, answer: aiohttp.ClientResponse) -> None:
        now = asyncio.get_running_loop().time
        pace, part = Pace(self._errand.bounds, now()), self._part
        while not part.is_whole:
            chunk = await answer.content.readany()
            if not chunk:
                raise FetchError(FetchTrouble.BROKEN_ANSWER, f"it breaks off after {part.size} bytes")
            part.append(chunk)
            self._errand.tell(part.size)
            if not part.is_whole:
                pace.took(len(chunk), now())


def _is_address(host: str) -> bool:
    return ":" in host or host.replace(".", "").isdigit()
