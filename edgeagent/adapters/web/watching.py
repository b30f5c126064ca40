"""Whoever watches the hub live: one stream of server-sent events for each page (HTML standard, 9.2).

    nobody watches: nothing is looked at  --a page comes-->  looks, once a second at most
                                          <--the last one leaves--

What is shown consists of a few *parts*, each a report whole. A part is told when it has changed, and then as
it is now: a page that is slow misses what lay between and never falls behind, and nothing is kept for it but
what is kept for all. A page that takes nothing for ten seconds is dropped. It comes again by itself, and is
told everything then.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Final, TypeVar

from aiohttp import web

from edgeagent.adapters.web.api import refusal
from edgeagent.adapters.web.questions import Questions
from edgeagent.contracts.door import Contract, encode
from edgeagent.contracts.reports.commands import CommandReport, CommandsReport
from edgeagent.contracts.reports.devices import DevicesReport
from edgeagent.contracts.reports.looking import LookReport
from edgeagent.contracts.reports.refusal import Kind
from edgeagent.errors import TransientError
from edgeagent.values import dataclass

log = logging.getLogger(__name__)

R = TypeVar("R", bound=Contract)

MOST: Final = 8
"""Pages that may watch at once."""
_SELDOM: Final = 5
"""What nothing on record tells of is looked at with every fifth look."""
_REST: Final = 9
"""A look takes a tenth of the time at most, however much there is to look at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often, and how long.

    Attributes:
        every: between two looks, at least.
        idle: after which a page is told that all is as it was.
        patience: for a page that takes nothing.
        fresh: for which what was seen is shown to whoever comes next.
    """

    every: timedelta = timedelta(seconds=1)
    idle: timedelta = timedelta(seconds=10)
    patience: timedelta = timedelta(seconds=10)
    fresh: timedelta = timedelta(seconds=3)


@dataclass(frozen=True, slots=True)
class _Part:
    """A report as it was last seen.

    Attributes:
        version: grows with every change of any part.
        key: what it is compared by.
        text: as it is sent.
    """

    version: int
    key: bytes
    text: bytes


class Watching:
    """Looks while somebody watches, and tells them.

    Attributes:
        pages: how many watch.
    """

    def __init__(self, ask: Questions, pace: Pace) -> None:
        self._ask = ask
        self._pace = pace
        self._parts: dict[str, _Part] = {}
        self._version = 0
        self.pages = 0
        self._someone = asyncio.Event()
        self._changed = asyncio.Event()
        self._closed = False
        self._looks = 0
        self._looked = 0.0
        self._mark: int | None = None
        self._are_open = False
        self._failing = ""
        self._broken: set[str] = set()

    async def run(self) -> None:
        """Look while somebody watches; ends only by cancellation."""
        loop = asyncio.get_running_loop()
        while True:
            await self._someone.wait()
            began = loop.time()
            await self._look()
            self._looked = loop.time()
            await asyncio.sleep(max(self._pace.every.total_seconds(), _REST * (self._looked - began)))

    def close(self) -> None:
        """Send everybody away."""
        self._closed = True
        self._wake()

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """Tell a page how the hub stands, for as long as it watches."""
        headers = {"Content-Type": "text/event-stream; charset=utf-8"}
        if request.method == "HEAD":
            return web.Response(headers=headers)
        if self.pages >= MOST:
            return refusal(503, Kind.BUSY, f"{MOST} pages watch already", "close one of them")
        response = web.StreamResponse(headers=headers)
        self._comes()
        try:
            await response.prepare(request)
            with suppress(ConnectionError):
                await self._tell(response)
        except TimeoutError:
            log.info("a page that takes nothing is dropped")
            if request.transport is not None:
                request.transport.abort()
        finally:
            self.pages -= 1
            if not self.pages:
                self._someone.clear()
        return response

    def _comes(self) -> None:
        """One more watches; the first is not shown what was seen long ago."""
        unseen = asyncio.get_running_loop().time() - self._looked
        if not self.pages and unseen > self._pace.fresh.total_seconds():
            self._parts, self._mark, self._looks = {}, None, 0
        self.pages += 1
        self._someone.set()

    async def _tell(self, response: web.StreamResponse) -> None:
        told, text = 0, b"retry: 1000\n\n"
        while not self._closed:
            async with asyncio.timeout(self._pace.patience.total_seconds()):
                await response.write(text)
            changed = self._changed
            text = b"".join(part.text for part in self._parts.values() if part.version > told)
            told = self._version
            if not text:
                text = b": all is as it was\n\n"
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._pace.idle.total_seconds()):
                        await changed.wait()
                    text = b"".join(part.text for part in self._parts.values() if part.version > told)
                    told = self._version

    async def _look(self) -> None:
        """Look at every part that may have changed. What cannot be looked at stays as it was."""
        ask, is_turn, parts = self._ask, self._looks % _SELDOM == 0, self._parts
        self._looks += 1
        self._failing = ""
        before = self._version
        await self._see("status", ask.status)
        await self._see("devices", ask.devices, _without_ages, always=is_turn)
        await self._see("locks", ask.locks)
        mark = await self._marked()
        is_news = mark is None or mark != self._mark
        if is_news or (is_turn and self._are_open):
            await self._see("commands", self._commands)
        if is_news:
            await self._see("dead-letters", ask.letters)
            self._put("stops", ask.stops())
        if is_news or is_turn:
            await self._see("breakers", ask.breakers)
        if is_turn:
            await self._see("health", ask.health)
        if (latest := ask.latest()) is not None:
            self._put("sample", latest)
        # Whoever came meanwhile may have to be shown everything anew.
        self._mark = None if self._failing or self._parts is not parts else mark
        self._put("look", LookReport(failing=self._failing))
        if self._version != before:
            self._wake()

    async def _marked(self) -> int | None:
        try:
            return await self._ask.mark()
        except TransientError as why:
            self._failing = str(why)
            return None

    async def _commands(self) -> CommandsReport:
        """The commands that came last, without the signatures of their receipts."""
        found = await self._ask.commands()
        self._are_open = any(each.receipt is None for each in found.commands)
        return CommandsReport(commands=[_unsigned(each) for each in found.commands])

    async def _see(
        self,
        name: str,
        question: Callable[[], Awaitable[R]],
        key: Callable[[R], bytes] = encode,
        *,
        always: bool = False,
    ) -> None:
        """Look at one part, and keep it if it differs by ``key``, or always."""
        try:
            report = await question()
        except TransientError as why:
            self._failing = str(why)
            return
        except Exception:  # whatever is wrong with what is shown, the agent goes on
            if name not in self._broken:
                log.exception("a part of the page cannot be made", extra={"part": name})
            self._broken.add(name)
            self._failing = f"{name}: the agent failed; see its log"
            return
        self._broken.discard(name)
        self._put(name, report, key(report), always=always)

    def _put(self, name: str, report: Contract, key: bytes | None = None, *, always: bool = False) -> None:
        data = encode(report)
        key = data if key is None else key
        held = self._parts.get(name)
        if always or held is None or held.key != key:
            self._version += 1
            # A report is one line: JSON has no line break outside of texts, and escapes those.
            text = b"event: %s\ndata: %s\n\n" % (name.encode(), data)
            self._parts[name] = _Part(self._version, key, text)

    def _wake(self) -> None:
        """Wake all that wait; whoever waits later waits for the next time."""
        self._changed.set()
        self._changed = asyncio.Event()


def _unsigned(command: CommandReport) -> CommandReport:
    if command.receipt is None or command.receipt.proof is None:
        return command
    return command.model_copy(update={"receipt": command.receipt.model_copy(update={"proof": None})})


def _without_ages(report: DevicesReport) -> bytes:
    """Devices as they are compared: an age grows while nothing happens."""
    devices = [each.model_copy(update={"heard": None}) for each in report.devices]
    return encode(report.model_copy(update={"devices": devices}))
