"""A real browser without a window: Debian's Chromium, spoken to over its own DevTools protocol.

    async with browser(tmp_path) as chromium:
        page = await chromium.opens("http://127.0.0.1:9464/")
        await page.until("document.querySelectorAll('.card').length === 2")

What it notes by itself: every request that the page makes, every complaint of the console (a breach of its
Content-Security-Policy is one), every dialog. Its profile is a folder of the test's; it asks nobody else for
anything by itself. Ended by its own process group.
"""

import asyncio
import json
import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import aiohttp
from pydantic import JsonValue

from tests.support.brokers import wait_until
from tests.support.waiting import DEADLINE

Fields = dict[str, JsonValue]

_FLAGS: Final = (
    "--headless=new",
    "--no-sandbox",  # tests run as root
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-proxy-server",
    "--remote-debugging-port=0",
)
_LISTENING: Final = re.compile(r"DevTools listening on (ws://\S+)")
_STEP: Final = 0.02


class BrowserError(Exception):
    """The browser could not do what it was asked."""


class Tab:
    """One page of the browser.

    Attributes:
        requests: the addresses that it has asked for.
        complaints: what the console was told of errors and breaches.
        dialogs: the texts of dialogs that it has opened.
    """

    def __init__(self, chromium: "Chromium", session: str) -> None:
        self._chromium = chromium
        self._session = session
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.dialogs: list[str] = []

    async def does(self, method: str, **parameters: JsonValue) -> Fields:
        """Send a command of the protocol, and return its result."""
        return await self._chromium.does(method, parameters, self._session)

    async def goes(self, address: str) -> None:
        """Load an address."""
        await self.does("Page.navigate", url=address)

    async def tells(self, expression: str) -> JsonValue:
        """What an expression evaluates to in the page."""
        told = await self.does(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in told, told
        result = told["result"]
        assert isinstance(result, dict)
        return result.get("value")

    async def until(self, condition: str, *, within: float = DEADLINE) -> None:
        """Wait until an expression is true in the page."""
        try:
            async with asyncio.timeout(within):
                while not await self._is_so(condition):  # noqa: ASYNC110 - it is the browser's
                    await asyncio.sleep(_STEP)
        except TimeoutError as why:
            shown = await self.tells("document.body && document.body.innerText")
            raise AssertionError(f"not so: {condition}\n{self.complaints}\n{shown}") from why

    async def _is_so(self, condition: str) -> bool:
        """Whether it is true; while a page is only half there, or leaves for another, nothing is."""
        try:
            told = await self.does("Runtime.evaluate", expression=f"Boolean({condition})")
        except BrowserError:
            return False
        result = told["result"]
        assert isinstance(result, dict)
        return result.get("value") is True

    async def text(self) -> str:
        """What a person can read of it."""
        return str(await self.tells("document.body.innerText"))

    async def is_sized(self, width: int, height: int = 800) -> None:
        """Give it a window of this size."""
        await self.does(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )

    async def prefers(self, **features: str) -> None:
        """Have the person prefer something, such as ``color_scheme="dark"``."""
        told: list[JsonValue] = [
            {"name": f"prefers-{name.replace('_', '-')}", "value": value} for name, value in features.items()
        ]
        await self.does("Emulation.setEmulatedMedia", features=told)

    async def presses(self, key: str) -> None:
        """Press a key that has a name, and let it go."""
        codes = {"Tab": 9, "Enter": 13}
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            await self.does(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=codes[key],
                **(text if kind == "keyDown" else {}),
            )

    def notes(self, event: str, told: Fields) -> None:
        """Take an event of the protocol."""
        match event, told:
            case "Network.requestWillBeSent", {"request": {"url": str(url)}}:
                self.requests.append(url)
            case "Log.entryAdded", {"entry": {"level": "error" | "warning", "text": str(text)}}:
                self.complaints.append(text)
            case "Runtime.exceptionThrown", {"exceptionDetails": details}:
                self.complaints.append(json.dumps(details))
            case "Page.javascriptDialogOpening", {"message": str(text)}:
                self.dialogs.append(text)
            case _:
                pass


class Chromium:
    """The browser; entered by ``browser``."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._sent = 0
        self._answers: dict[int, asyncio.Future[Fields]] = {}
        self._tabs: dict[str, Tab] = {}

    async def opens(self, address: str) -> Tab:
        """Open a page in a tab of its own."""
        target = await self.does("Target.createTarget", {"url": "about:blank"})
        joined = await self.does("Target.attachToTarget", {"targetId": target["targetId"], "flatten": True})
        session = str(joined["sessionId"])
        tab = self._tabs[session] = Tab(self, session)
        for domain in ("Page", "Runtime", "Network", "Log"):
            await tab.does(f"{domain}.enable")
        await tab.goes(address)
        return tab

    async def does(self, method: str, parameters: Fields, session: str | None = None) -> Fields:
        """Send a command of the protocol, and return its result."""
        self._sent += 1
        number = self._sent
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        command = {"id": number, "method": method, "params": parameters}
        await self._socket.send_json(command if session is None else command | {"sessionId": session})
        async with asyncio.timeout(DEADLINE):
            result: Fields = await answer
        return result

    async def listen(self) -> None:
        """Take what the browser tells, until it goes."""
        async for message in self._socket:
            told = json.loads(message.data)
            if "id" in told:
                answer = self._answers.pop(told["id"])
                if answer.done():
                    continue
                if "error" in told:
                    answer.set_exception(BrowserError(str(told["error"])))
                else:
                    answer.set_result(told["result"])
            elif told.get("sessionId") in self._tabs:
                self._tabs[told["sessionId"]].notes(told["method"], told["params"])


@asynccontextmanager
async def browser(folder: Path) -> AsyncIterator[Chromium]:
    """A browser with an empty profile in a folder of its own."""
    with _started(folder) as address:
        async with aiohttp.ClientSession() as http, http.ws_connect(address, max_msg_size=0) as socket:
            chromium = Chromium(socket)
            listening = asyncio.create_task(chromium.listen())
            try:
                yield chromium
            finally:
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)


@contextmanager
def _started(folder: Path) -> Iterator[str]:
    """Start it, tell where its protocol is spoken, and end it."""
    folder.mkdir()
    log = folder / "chromium.log"

    def said() -> re.Match[str] | None:
        return _LISTENING.search(log.read_text("utf-8", "replace"))

    with log.open("wb") as errors:
        process = subprocess.Popen(
            ["chromium", *_FLAGS, f"--user-data-dir={folder / 'profile'}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
            env={**os.environ, "HOME": str(folder)},
        )
    try:
        wait_until(lambda: said() is not None, "the browser's DevTools")
        found = said()
        assert found is not None
        yield found[1]
    finally:
        # Its parts are a group of their own.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(DEADLINE)
