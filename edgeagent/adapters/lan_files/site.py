"""The hub's file server for devices (SPEC F3): the ``ArtifactSite`` of the running agent.

    no offer: nothing listens  --offer-->  listening  --the last offer ends-->  nothing listens

Plain HTTP, for devices without TLS: what keeps a changed file off a device is its digest and its own check,
what keeps others away is that the address cannot be guessed, is for one device, and ends. Whoever overhears
it gets what is no secret. GET and HEAD of what is offered, one request to a connection; anything else has the
same answer as nothing at all, and is counted.
"""

import asyncio
import re
import secrets
import socket
from collections.abc import Sequence
from dataclasses import field
from datetime import timedelta
from functools import partial
from ipaddress import IPv6Address, ip_address
from typing import Final

from aiohttp import web

from edgeagent.adapters.lan_files.connections import Connection, Places, nothing, plain_headers
from edgeagent.adapters.lan_files.live import Address, Live, budget_of, found
from edgeagent.adapters.lan_files.opened import Opened, close_all, open_all
from edgeagent.adapters.lan_files.ranges import NoSuchRangeError, Stretch, asked_for
from edgeagent.adapters.lan_files.settings import PIECE, LanFilesSettings
from edgeagent.adapters.lan_files.transfer import Transfer
from edgeagent.clock import Clock
from edgeagent.contracts.serving import Ended, Turned
from edgeagent.errors import BrokenInvariantError, RejectedError, TransientError, UnknownError
from edgeagent.ids import DeviceId
from edgeagent.ports.artifact_site import (
    LONGEST_URL,
    MOST_FILES,
    Content,
    Fetch,
    Offer,
    Progress,
    SiteWitness,
)
from edgeagent.values import dataclass

MOST_OFFERS: Final = 32
"""Offers at once; those that are over and not withdrawn count."""
_TOKEN_BYTES: Final = 16
_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{22}", re.ASCII)
_PATH: Final = re.compile(rf"/({_TOKEN.pattern})/([A-Za-z0-9][A-Za-z0-9._-]{{0,31}})", re.ASCII)
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9.-]{1,253})(?::[0-9]{1,5})?", re.ASCII)
_GIVING_UP: Final = 1.0


@dataclass(frozen=True, slots=True)
class _Listener:
    """What listens while there is an offer."""

    server: asyncio.Server
    places: Places
    port: int


@dataclass(frozen=True, slots=True)
class _Asked:
    """What an offer is to be, beside its files."""

    device: DeviceId
    until: timedelta
    address: Address | None
    token: str = field(repr=False)


class LanFiles:
    """See the module's docstring.

    Args:
        settings: where it listens.
        clock: for when offers end.
        witness: told of what happens.
    """

    def __init__(self, settings: LanFilesSettings, clock: Clock, witness: SiteWitness) -> None:
        self._settings = settings
        self._clock = clock
        self._witness = witness
        self._offers: dict[int, Live] = {}
        self._last = 0
        self._listener: _Listener | None = None
        self._fetching: set[asyncio.Task[object]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._turn = asyncio.Lock()
        self._being_made = 0
        self._is_closed = False

    @property
    def port(self) -> int | None:
        """Where it listens now; None while it does not."""
        return None if self._listener is None else self._listener.port

    async def offer(
        self,
        device: DeviceId,
        contents: Sequence[Content],
        *,
        until: timedelta,
        address: Address | None = None,
        token: str | None = None,
    ) -> Offer:
        """Offer files to a device; see ``ArtifactSite``."""
        self._check(contents, until, token)
        files = await _opened(contents)
        self._being_made += 1
        try:
            async with self._turn:
                if self._listener is None:
                    self._listener = await self._listen()
            token = secrets.token_urlsafe(_TOKEN_BYTES) if token is None else token
            live = self._made(_Asked(device, until, address, token), files, self._listener.port)
        except BaseException:
            close_all(files)
            raise
        else:
            self._offers[live.offer.number] = live
        finally:
            self._being_made -= 1
            self._look()
        return live.offer

    async def withdraw(self, offer: Offer) -> None:
        """End an offer; see ``ArtifactSite``."""
        live = self._offers.pop(offer.number, None)
        if live is not None:
            live.is_ended()
            self._look()

    def progress(self, offer: Offer) -> Progress:
        """What came of an offer; see ``ArtifactSite``."""
        live = self._offers.get(offer.number)
        if live is None:
            raise UnknownError("it was withdrawn")
        self._end_due()
        return live.progress()

    async def close(self) -> None:
        """End all offers and whatever is fetched of them; there are no more."""
        self._is_closed = True
        for live in self._offers.values():
            live.is_ended()
        self._look()
        if self._fetching:
            await asyncio.wait(set(self._fetching), timeout=_GIVING_UP)

    def _check(self, contents: Sequence[Content], until: timedelta, token: str | None) -> None:
        if self._is_closed:
            raise TransientError("the agent stops")
        if not 1 <= len(contents) <= MOST_FILES:
            raise RejectedError(f"an offer has 1 to {MOST_FILES} files, not {len(contents)}")
        if len({content.name for content in contents}) != len(contents):
            raise RejectedError("two files of an offer have one name")
        if until <= self._clock.boot():
            raise RejectedError("the time of the offer is over")
        if token is not None and _TOKEN.fullmatch(token) is None:
            raise RejectedError("that is no token of an offer")
        if len(self._offers) >= MOST_OFFERS:
            raise TransientError(f"there are {MOST_OFFERS} offers already")

    def _made(self, asked: _Asked, files: dict[str, Opened], port: int) -> Live:
        if self._is_closed:
            raise TransientError("the agent stops")
        if found([*self._offers.values()], asked.token) is not None:
            raise RejectedError("another offer has that token")
        url = f"http://{self._settings.public}:{port}/{asked.token}/{next(iter(files))}"
        if len(url) > LONGEST_URL:
            raise RejectedError(
                f"its address has {len(url)} characters, of which a device takes {LONGEST_URL}"
            )
        self._last += 1
        offer = Offer(number=self._last, device=asked.device, url=url, until=asked.until)
        budget = budget_of([opened.content for opened in files.values()])
        return Live(offer=offer, token=asked.token, files=files, address=asked.address, budget=budget)

    async def _listen(self) -> _Listener:
        settings = self._settings
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        places = Places(self._expects, self._witness.turned_away)
        server = web.Server(self._answer)
        try:
            channel = socket.create_server((settings.host, settings.port), family=family, backlog=16)
            # Connections inherit it: what a device has not taken is not to lie in the kernel by the megabyte.
            channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, PIECE)
            listening = await asyncio.get_running_loop().create_server(
                lambda: Connection(server, places, settings.first_word), sock=channel
            )
        except OSError as why:
            raise TransientError(f"cannot listen on {settings.host}:{settings.port}: {why.strerror}") from why
        return _Listener(listening, places, int(channel.getsockname()[1]))

    def _expects(self, address: Address) -> bool:
        return any(live.expects(address) for live in self._offers.values())

    def _end_due(self) -> None:
        now = self._clock.boot()
        for live in self._offers.values():
            if now >= live.offer.until:
                live.is_ended()

    def _look(self) -> None:
        """End what is due, stop listening when nothing stands, and look again when the next is due."""
        self._end_due()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        standing = [live for live in self._offers.values() if not live.over]
        self._witness.standing(len(standing))
        if standing:
            wait = min(live.offer.until for live in standing) - self._clock.boot()
            # Boot time goes on while the machine sleeps, the loop's time does not: each request looks itself.
            self._timer = asyncio.get_running_loop().call_later(wait.total_seconds(), self._look)
        elif self._listener is not None and not self._being_made:
            self._listener.server.close()
            self._listener.places.clear()
            self._listener = None

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request."""
        connection = _connection(request)
        connection.asked()
        try:
            return await self._answered(request, connection.address)
        finally:
            connection.goes_within(self._settings.patience)

    async def _answered(self, request: web.BaseRequest, address: Address) -> web.StreamResponse:
        self._end_due()
        match = self._found(request, address)
        if isinstance(match, Turned):
            self._witness.turned_away(match, str(address))
            return nothing()
        live, opened = match
        size = opened.content.size
        try:
            # The method for which ranges are defined is GET (RFC 9110 14.2). Nobody has a validator of ours.
            ignored = request.method == "HEAD" or "If-Range" in request.headers
            stretch = None if ignored else asked_for(request.headers.getall("Range", []), size)
        except NoSuchRangeError:
            self._witness.turned_away(Turned.NO_SUCH_RANGE, str(address))
            live.takes(0, address)
            return _no_such_range(size)
        whole = Stretch(0, size)
        transfer = Transfer(live, opened, stretch or whole, stretch is not None)
        charge = 0 if request.method == "HEAD" else transfer.stretch.length
        if not live.takes(charge, address):
            self._witness.turned_away(Turned.SPENT, str(address))
            return nothing()
        answer = transfer.answer()
        return answer if request.method == "HEAD" else await self._sent(request, transfer, answer)

    async def _sent(
        self, request: web.BaseRequest, transfer: Transfer, answer: web.StreamResponse
    ) -> web.StreamResponse:
        live, content = transfer.live, transfer.opened.content
        connection, task, ended = _connection(request), asyncio.current_task(), Ended.OVER
        reader = connection.transport
        if reader is None or task is None:
            return answer
        live.begins(content.name, transfer.stretch, reader, connection.address)
        self._fetching.add(task)
        try:
            ended = await transfer.run(request, answer, self._clock, self._settings)
        finally:
            if ended is not Ended.SENT:
                # Half an answer has to look like half of one.
                reader.abort()
            self._fetching.discard(task)
            live.ends(transfer.stretch.length, transfer.sent, reader)
            told = partial(Fetch, device=live.offer.device, digest=content.digest)
            self._witness.served(told(address=str(connection.address), sent=transfer.sent, ended=ended))
        return answer

    def _found(self, request: web.BaseRequest, address: Address) -> tuple[Live, Opened] | Turned:
        """What is asked for, or why it is not to be had."""
        path = _PATH.fullmatch(request.raw_path)
        live = found([*self._offers.values()], path[1] if path else "")
        opened = live.files.get(path[2]) if live and path else None
        if not self._names_us(request):
            return Turned.OTHER_HOST
        if request.method not in {"GET", "HEAD"} or request.can_read_body:
            return Turned.OTHER_METHOD
        if live is None or opened is None:
            return Turned.NO_SUCH_PATH
        return (live, opened) if live.is_for(address) else Turned.OTHER_ADDRESS

    def _names_us(self, request: web.BaseRequest) -> bool:
        """Whether the request is for this hub: by its name in URLs, or by the address that it came in at."""
        fields = request.headers.getall("Host", [])
        host = _HOST.fullmatch(fields[0]) if len(fields) == 1 else None
        if host is None or request.transport is None:
            return False
        name = request.transport.get_extra_info("sockname")
        ours = {_plain(self._settings.public), _plain(str(name[0]) if name else "")}
        return _plain(host[1]) in ours


async def _opened(contents: Sequence[Content]) -> dict[str, Opened]:
    """Open files beside the loop; raises as ``open_all`` does, and leaves nothing open when nobody waits."""
    opening = asyncio.create_task(asyncio.to_thread(open_all, contents))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        # A thread goes on to its end.
        opening.add_done_callback(_forgotten)
        raise


def _forgotten(opening: asyncio.Task[dict[str, Opened]]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        close_all(opening.result())


def _plain(host: str) -> str:
    """A host in one spelling."""
    bare = host.strip("[]").partition("%")[0].removesuffix(".").lower()
    try:
        address = ip_address(bare)
    except ValueError:
        return bare
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)


def _connection(request: web.BaseRequest) -> Connection:
    if not isinstance(request.protocol, Connection):
        raise BrokenInvariantError("a request came by a connection that is not ours")
    return request.protocol


def _no_such_range(size: int) -> web.Response:
    """RFC 9110 section 15.5.17."""
    answer = web.Response(status=416, headers=plain_headers() | {"Content-Range": f"bytes */{size}"})
    answer.force_close()
    return answer
