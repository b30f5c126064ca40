"""Those who watch the page live: how many, how often they are told, and what it costs when nobody does."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path

import aiohttp
import pytest

from edgeagent.adapters.web.page import MayLook, Page
from edgeagent.adapters.web.questions import Questions
from edgeagent.adapters.web.server import WebServer
from edgeagent.adapters.web.watching import MOST, Pace
from edgeagent.contracts.reports.breakers import BreakersReport
from edgeagent.contracts.reports.commands import CommandsReport
from edgeagent.contracts.reports.dead_letters import LettersReport
from edgeagent.contracts.reports.devices import DevicesReport
from edgeagent.contracts.reports.health import Check, HealthReport, Level
from edgeagent.contracts.reports.history import HistoryReport
from edgeagent.contracts.reports.locks import LocksReport
from edgeagent.contracts.reports.status import StatusReport
from edgeagent.contracts.reports.switch import StopsReport
from edgeagent.contracts.reports.trace import TraceReport
from edgeagent.errors import StorageError, UnknownError
from edgeagent.ids import CommandId
from tests.flows.operating import OperatorDesk, operated_hub
from tests.support.brokers import free_port
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("H6")


class Asked:
    """A hub that counts what is asked of it.

    Attributes:
        times: how often each question was put.
        mark: what is on record.
        summary: of its one check.
        why: why it cannot be read; empty when it can.
        answers: whether it tells its health at once.
    """

    def __init__(self, desk: OperatorDesk) -> None:
        self._desk = desk
        self.times: Counter[str] = Counter()
        self.mark = 1
        self.summary = "well"
        self.why = ""
        self.answers = asyncio.Event()
        self.answers.set()

    @property
    def questions(self) -> Questions:
        """What the page is handed."""
        return Questions(
            status=self.status,
            health=self.health,
            devices=self.devices,
            commands=self.commands,
            command=self.command,
            trace=self.trace,
            letters=self.letters,
            breakers=self.breakers,
            stops=lambda: StopsReport(stops=[]),
            locks=self.locks,
            history=lambda: HistoryReport(now=0, spans=[]),
            latest=lambda: None,
            mark=self.marks,
        )

    async def status(self) -> StatusReport:
        self._put("status")
        return await self._desk.operator.status()

    async def health(self) -> HealthReport:
        self._put("health")
        await self.answers.wait()
        check = Check(name="outbox", level=Level.OK, summary=self.summary)
        return HealthReport(at=self._desk.clock.wall().best, checks=[check])

    async def devices(self) -> DevicesReport:
        self._put("devices")
        return await self._desk.operator.devices()

    async def commands(self) -> CommandsReport:
        self._put("commands")
        return CommandsReport(commands=[])

    async def command(self, command: CommandId) -> CommandsReport:
        raise UnknownError(f"no command {command} has come")

    async def trace(self, command: CommandId) -> TraceReport:
        raise UnknownError(f"no command {command} has come")

    async def letters(self) -> LettersReport:
        self._put("letters")
        return LettersReport(letters=[])

    async def breakers(self) -> BreakersReport:
        self._put("breakers")
        return BreakersReport(when_open="refuse", breakers=[])

    async def locks(self) -> LocksReport:
        self._put("locks")
        return LocksReport(locks=[])

    async def marks(self) -> int:
        self._put("mark")
        return self.mark

    def _put(self, question: str) -> None:
        self.times[question] += 1
        if self.why:
            raise StorageError(self.why)


PACE = Pace(
    every=timedelta(milliseconds=1),
    idle=timedelta(minutes=1),
    patience=timedelta(seconds=1),
    fresh=timedelta(0),
)
PARTS = ["status", "devices", "locks", "commands", "dead-letters", "stops", "breakers", "health", "look"]


class Viewer:
    """A program that watches.

    Attributes:
        status: of the answer.
    """

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer
        self.status = answer.status

    async def hears(self) -> tuple[str, str]:
        """The next part that it is told: its name, and its text."""
        async with asyncio.timeout(60):
            while True:
                line = (await self._answer.content.readline()).decode()
                assert line, "the stream has ended"
                if line.startswith("event: "):
                    data = (await self._answer.content.readline()).decode()
                    return line.removeprefix("event: ").strip(), data.removeprefix("data: ").strip()

    async def is_sent_away(self) -> bool:
        """Whether the stream ends."""
        async with asyncio.timeout(60):
            return await self._answer.content.read() is not None


class Shown:
    """A page that is served, and the hub behind it."""

    def __init__(self, hub: Asked, server: WebServer, address: str) -> None:
        self.hub = hub
        self.server = server
        self.address = address

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[Viewer]:
        """Somebody watches."""
        async with aiohttp.ClientSession() as http, http.get(f"{self.address}/api/stream") as answer:
            yield Viewer(answer)

    async def is_asked_for_long(self) -> None:
        """Time passes in which a look would long have been due."""
        async with aiohttp.ClientSession() as http:
            for _ in range(50):
                async with http.get(f"{self.address}/api/history") as answer:
                    assert answer.status == 200


@asynccontextmanager
async def shown(folder: Path, may_look: MayLook | None = None) -> AsyncIterator[Shown]:
    """A page at a hub that counts."""
    port = free_port()
    async with operated_hub(folder, "dev-1") as desk:
        hub = Asked(desk)
        page = Page(hub.questions, may_look, PACE)
        server = WebServer("127.0.0.1", port, desk.hub.around.metrics, desk.operator, page)
        await server.open()
        looking = asyncio.create_task(page.run())
        try:
            yield Shown(hub, server, f"http://127.0.0.1:{port}")
            assert not looking.done()
        finally:
            looking.cancel()
            await server.close()


@pytest.mark.requirement("Q9")
async def test_while_nobody_watches_nothing_is_looked_at(tmp_path: Path) -> None:
    async with shown(tmp_path) as page:
        await page.is_asked_for_long()
        assert page.hub.times == {}

        async with page.watched() as viewer:
            assert (await viewer.hears())[0] == "status"
        await eventually(lambda: page.server.watchers == 0)
        before = page.hub.times.copy()
        await page.is_asked_for_long()

        # A look that had begun may have ended.
        assert all(number <= before[question] + 1 for question, number in page.hub.times.items())


async def test_whoever_comes_is_told_everything_and_then_what_has_changed(tmp_path: Path) -> None:
    async with shown(tmp_path) as page, page.watched() as viewer:
        first = [await viewer.hears() for _ in PARTS]
        page.hub.summary = "worse"
        then = set[str]()
        while "health" not in then:
            then.add((await viewer.hears())[0])
        asked = page.hub.times["commands"]
        page.hub.mark += 1
        await eventually(lambda: page.hub.times["commands"] > asked)

        assert [part for part, _ in first] == PARTS
        # Devices come again now and then: their ages grow.
        assert then <= {"health", "devices", "status"}
        assert page.hub.times["commands"] == asked + 1 < page.hub.times["status"]


async def test_whoever_comes_back_in_the_middle_of_a_slow_look_is_told_everything_too(
    tmp_path: Path,
) -> None:
    async with shown(tmp_path) as page:
        page.hub.answers.clear()
        async with page.watched():
            await eventually(lambda: page.hub.times["health"] == 1)
        await eventually(lambda: page.server.watchers == 0)
        async with page.watched() as viewer:
            await eventually(lambda: page.server.watchers == 1)
            page.hub.answers.set()

            heard = set[str]()
            async with asyncio.timeout(30):
                while not heard >= set(PARTS):
                    heard.add((await viewer.hears())[0])


async def test_more_than_a_few_are_turned_away_until_one_goes(tmp_path: Path) -> None:
    async with shown(tmp_path) as page, AsyncExitStack() as others:
        async with page.watched() as first:
            await first.hears()
            for _ in range(MOST - 1):
                assert (await others.enter_async_context(page.watched())).status == 200
            async with page.watched() as late:
                assert late.status == 503
        await eventually(lambda: page.server.watchers == MOST - 1)
        async with page.watched() as later:
            assert later.status == 200
            assert (await later.hears())[0] == "status"


async def test_who_takes_nothing_is_dropped_and_others_are_told_all_the_same(tmp_path: Path) -> None:
    async with shown(tmp_path) as page, page.watched() as viewer:
        _, slow = await asyncio.open_connection("127.0.0.1", int(page.address.rpartition(":")[2]), limit=1)
        slow.write(b"GET /api/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await eventually(lambda: page.server.watchers == 2)
        sizes = 0
        while page.server.watchers == 2:
            sizes += 1
            page.hub.summary = str(sizes % 10) * 400_000
            await heard_of(viewer, "health")
        slow.transport.abort()
        with suppress(ConnectionError):
            await slow.wait_closed()

        assert page.server.watchers == 1
        assert viewer.status == 200


@pytest.mark.requirement("R2")
async def test_while_the_store_cannot_be_read_what_was_seen_stays_and_why_is_told(tmp_path: Path) -> None:
    async with shown(tmp_path) as page, page.watched() as viewer:
        for _ in PARTS:
            await viewer.hears()
        page.hub.why = "the disk is gone"
        told = await heard_of(viewer, "look")
        page.hub.why = ""
        told_later = await heard_of(viewer, "look")

        assert told == ("look", '{"failing":"the disk is gone"}')
        assert told_later == ("look", '{"failing":""}')


async def test_the_streams_end_when_the_agent_stops(tmp_path: Path) -> None:
    async with shown(tmp_path) as page, page.watched() as viewer:
        await viewer.hears()
        await page.server.close()

        assert await viewer.is_sent_away()


async def heard_of(viewer: Viewer, part: str) -> tuple[str, str]:
    """The next word of a part."""
    while True:
        heard = await viewer.hears()
        if heard[0] == part:
            return heard


@pytest.mark.threat("T49")
async def test_whoever_may_not_look_is_shown_nothing_and_told_what_lets_them(tmp_path: Path) -> None:
    asked = set[int]()

    def nobody_may(user: int) -> bool:
        asked.add(user)
        return False

    async with shown(tmp_path, nobody_may) as page, aiohttp.ClientSession() as http:
        for path in ("/", "/page/app.js", "/api/status", "/api/history", "/api/stream"):
            async with http.get(f"{page.address}{path}") as answer:
                assert answer.status == 403
                assert "view_group" in await answer.text()
        async with http.get(f"{page.address}/metrics") as answer:
            assert answer.status == 200

        assert asked == {os.geteuid()}
        assert page.hub.times == {}
        assert page.server.watchers == 0
