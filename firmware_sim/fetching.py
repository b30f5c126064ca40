"""A real GET of a device, from the URL that it was told, piece by piece.

A device waits for each piece to be written before it reads the next, so that a slow flash slows the server
down. What may go wrong on the way (``stall``, ``wifi_lost``, ``vanish``) goes wrong here, where it is known
how much has come. Redirects are not followed; neither family's library does as they set it up (*assumed*).
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final, Protocol

from aiohttp import (
    ClientError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    HttpVersion10,
    HttpVersion11,
    InvalidURL,
)

from firmware_sim.faults import Fault, Kind
from firmware_sim.fields import Json
from firmware_sim.firmware import Taker, Wanted
from firmware_sim.image import SECTOR
from firmware_sim.journal import What
from firmware_sim.wiring import Handling

_WHOLE: Final = 200
_PART: Final = 206
_CONNECTING: Final = timedelta(seconds=5)
_AT_ONCE: Final = 16 * SECTOR


class Ground(Protocol):
    """The board below."""

    def handling(self) -> Handling:
        """Why the fetch was begun."""
        ...

    async def done(self, handling: Handling, work: Callable[[], None]) -> None:
        """Let the appliance's task do something, and wait until it has."""
        ...

    def befalls(
        self, kind: Kind, part: str, *, percent: float = 100, update: int | None = None
    ) -> Fault | None:
        """Whether this goes wrong now."""
        ...

    def falls(self, fault: Fault) -> None:
        """Let the appliance lose its connection, or be gone."""
        ...

    def note(self, what: What, details: dict[str, Json]) -> None:
        """Write a line into the journal."""
        ...


class Fetching:
    """One GET; ``cancel`` ends it without a word to its taker.

    Args:
        ground: the board.
        wanted: what.
        taker: for whom.
        transfer: what the device takes at least over all of it.
    """

    def __init__(self, ground: Ground, wanted: Wanted, taker: Taker, transfer: timedelta) -> None:
        self._ground = ground
        self._wanted = wanted
        self._taker = taker
        self._transfer = transfer
        self._handling = ground.handling()
        self._come = 0
        self._over = False
        self.task: asyncio.Task[None] | None = None

    def cancel(self) -> None:
        """End it."""
        if not self._over and self.task is not None:
            self._over = True
            self.task.cancel()
            self._note("cancelled")

    async def run(self) -> None:
        """Fetch, and hand over what comes."""
        try:
            why = await self._fetched()
        except (ClientError, InvalidURL, ValueError) as wrong:
            why = f"{type(wrong).__name__}: {wrong}"
        except TimeoutError:
            why = "timed out"
        except OSError as wrong:
            why = wrong.strerror or "connection failed"
        self._note(why)
        self._over = True
        await self._hand(lambda: self._taker.ended(why))

    async def _fetched(self) -> str:
        async with self._asked() as answer:
            begin = self._wanted.begin if answer.status == _PART else 0
            if answer.status not in {_WHOLE, _PART}:
                return f"HTTP {answer.status}"
            length = None if answer.content_length is None else begin + answer.content_length
            await self._hand(lambda: self._taker.begun(begin, length))
            async for data in answer.content.iter_chunked(_AT_ONCE):
                for place in range(0, len(data), SECTOR):
                    why = await self._took(data[place : place + SECTOR], begin, length)
                    if why:
                        return why
            return "" if length in {None, begin + self._come} else "connection lost"

    @asynccontextmanager
    async def _asked(self) -> AsyncIterator[ClientResponse]:
        wanted = self._wanted
        timeout = ClientTimeout(
            total=None,
            sock_connect=_CONNECTING.total_seconds(),
            sock_read=wanted.patience.total_seconds(),
        )
        headers = {"User-Agent": wanted.agent or "device", "Accept-Encoding": "identity"}
        if wanted.begin:
            headers["Range"] = f"bytes={wanted.begin}-"
        version = HttpVersion10 if wanted.old else HttpVersion11
        async with (
            ClientSession(timeout=timeout, version=version, auto_decompress=False) as session,
            session.get(wanted.url, headers=headers, allow_redirects=False) as answer,
        ):
            yield answer

    async def _took(self, data: bytes, begin: int, length: int | None) -> str:
        """Hand over one piece, unless something goes wrong; why it ends, if it does."""
        percent = 100 * (begin + self._come) / (length or 1)
        stalled = self._befalls(Kind.STALL, percent)
        if stalled is not None:
            await _quiet(stalled.lasting)
        lost = self._befalls(Kind.WIFI_LOST, percent) or self._befalls(Kind.VANISH, percent)
        if lost is not None:
            await self._hand(lambda: self._ground.falls(lost))
            return "connection lost"
        self._come += len(data)
        await self._hand(lambda: self._taker.piece(data))
        if length:
            await asyncio.sleep((self._transfer * len(data) / length).total_seconds())
        return ""

    def _befalls(self, kind: Kind, percent: float) -> Fault | None:
        wanted = self._wanted
        return self._ground.befalls(kind, wanted.part, percent=percent, update=wanted.update)

    async def _hand(self, work: Callable[[], None]) -> None:
        await self._ground.done(self._handling, work)

    def _note(self, why: str) -> None:
        wanted = self._wanted
        details: dict[str, Json] = {"part": wanted.part, "url": wanted.url, "begin": wanted.begin}
        self._ground.note(What.DOWNLOAD, {**details, "bytes": self._come, "why": why})


async def _quiet(lasting: timedelta | None) -> None:
    if lasting is None:
        await asyncio.Event().wait()
    else:
        await asyncio.sleep(lasting.total_seconds())
