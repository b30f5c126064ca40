"""The hub's page in a real browser: what it shows, to whom, and what it does not do whatever it is told."""

import asyncio
import json
import os
import re
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp
import pytest
from aiohttp import web

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.door import decode
from edgeagent.contracts.reports.commands import CommandsReport
from edgeagent.contracts.reports.devices import DevicesReport
from edgeagent.ids import DeviceId
from tests.attacks.harm import TEXTS
from tests.support.agents import AgentProcess
from tests.support.agents_venue import PLUG, Venue
from tests.support.brokers import HOST, free_port, wait_until
from tests.support.browser import Tab, browser
from tests.support.device import Device
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.requirement("H6")]

NOBODY: Final = 65_534
VIEWS: Final = ("", "devices", "commands", "queues", "dead-letters", "breakers", "health")
REPORTS: Final = (
    "status", "health", "devices", "commands", "dead-letters", "breakers", "stops", "locks", "history",
)  # fmt: skip
HOSTILE: Final = DeviceId("020000000001")
MARKUP: Final = "<img src=x onerror=alert(1)><script>alert(2)</script>"
ANNOUNCED: Final = {
    "ver": 1, "ft": "%prefix%/%topic%/", "tp": ["cmnd", "stat", "tele"], "rl": [1], "lt_st": 0,
    "so": {"4": 0}, "state": ["OFF", "ON"], "onln": "Online", "ofln": "Offline",
}  # fmt: skip
STAGES: Final = ("gate", "lane", "work", "step", "confirmation", "receipt")
DRAWN: Final = 40
# So often, with time for an answer in between.
DRAWN_AGAIN: Final = f"""
import("/page/hub.js").then(async ({{ hub }}) => {{
  for (let times = 0; times < {DRAWN}; times += 1) {{
    hub.changed("sample");
    await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
    await fetch("/api/history");
  }}
}})
"""

# The least contrast of any text that is shown with what is behind it (WCAG 2.2, 1.4.3).
CONTRAST: Final = """
(() => {
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((it) => it / 255)
    .map((it) => (it <= 0.04045 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4))
    .reduce((sum, it, index) => sum + it * [0.2126, 0.7152, 0.0722][index], 0);
  const behind = (element) => {
    for (let it = element; it; it = it.parentElement) {
      const colour = parts(getComputedStyle(it).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return parts(getComputedStyle(document.documentElement).backgroundColor);
  };
  const texts = [...document.querySelectorAll("body *")].filter((it) =>
    it.checkVisibility() && [...it.childNodes].some((node) => node.nodeType === 3 && node.data.trim()));
  return Math.min(...texts.map((it) => {
    const [a, b] = [light(parts(getComputedStyle(it).color)), light(behind(it))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  }));
})()
"""


@dataclass(frozen=True, slots=True)
class Watched:
    """A venue, and where its page is."""

    venue: Venue
    port: int
    folder: Path

    @property
    def address(self) -> str:
        """The page's address."""
        return f"http://{HOST}:{self.port}/"

    async def asked(self, path: str = "/", *, method: str = "GET", **headers: str) -> tuple[int, str]:
        """Status and body of an answer; headers with ``_`` for ``-``."""
        told = {name.replace("_", "-"): text for name, text in headers.items()}
        async with (
            aiohttp.ClientSession() as http,
            http.request(method, f"http://{HOST}:{self.port}{path}", headers=told) as answer,
        ):
            return answer.status, await answer.text()

    def status_for(self, user: int) -> str:
        """The status of the answer to somebody else on this machine."""
        dial = f"exec 3<>/dev/tcp/{HOST}/{self.port}"
        ask = f"printf 'GET /api/devices HTTP/1.1\\r\\nHost: {HOST}\\r\\n\\r\\n' >&3"
        said = subprocess.run(
            ["bash", "-c", f"{dial}; {ask}; read -r line <&3; echo $line"],
            user=user,
            group=user,
            extra_groups=[],
            capture_output=True,
            text=True,
            check=True,
        )
        return said.stdout.split()[1]

    @asynccontextmanager
    async def looked_at(self, name: str) -> AsyncIterator[Tab]:
        """The page in a browser, once it is live."""
        async with browser(self.folder / name) as chromium:
            tab = await chromium.opens(self.address)
            await tab.until("document.querySelector('.card') && document.querySelector('.check, .well')")
            yield tab
            # Whatever was done: it has asked nobody else, and breached nothing.
            assert [each for each in tab.requests if not each.startswith(self.address)] == []
            assert tab.dialogs == []


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A venue with a plug, and with devices that call themselves what means harm."""
    folder, port = tmp_path_factory.mktemp("page"), free_port()
    with Venue(folder) as venue, Device(venue.broker.port) as device:
        config = venue.agent.config
        config.write_text(config.read_text().replace("127.0.0.1:0", f"{HOST}:{port}"))
        venue.open()
        texts = [MARKUP, *TEXTS.values()]
        for number, text in enumerate(texts, start=1):
            mac = f"02000000{number:04X}"
            told = {"mac": mac, "t": mac.lower(), "dn": text, "md": text, "sw": text, "hn": text} | ANNOUNCED
            device.says(f"tasmota/discovery/{mac}/config", json.dumps(told).encode())
        venue.agent.admit(HOSTILE)
        device.says(f"tele/{HOSTILE.lower()}/LWT", b"Online")
        version = {"Info1": {"Module": MARKUP, "Version": MARKUP}}
        device.says(f"tele/{HOSTILE.lower()}/INFO1", json.dumps(version).encode())
        # One that is longer than any name is no announcement, and one is admitted.
        wait_until(lambda: len(venue.agent.devices().proposals) == len(texts) - 2, "all to be proposed")
        yield Watched(venue, port, folder)


async def test_the_venue_is_shown_live_and_a_command_to_its_end(watched: Watched) -> None:
    async with watched.looked_at("live") as tab:
        text = await tab.text()
        assert "venue-7" in text
        assert PLUG in text
        assert "What is wrong" in text

        await tab.tells("location.hash = '#/commands'")
        await tab.until("document.querySelector('h1').textContent === 'Commands'")
        said = await asyncio.to_thread(watched.venue.agent.run, "send", PLUG, "power", "on=true")
        assert said.returncode == 0, said.stderr
        await tab.until("document.querySelector('tbody .standing')?.textContent === 'succeeded'")
        await tab.tells("[...document.querySelectorAll('button')].at(-1).click()")  # those that ended badly
        await tab.until("document.querySelector('.view').innerText.includes('None of the last ones is so')")
        await tab.tells("document.querySelector('button').click()")
        await tab.until("document.querySelector('tbody a')")
        await tab.tells("document.querySelector('tbody a').click()")
        await tab.until("document.querySelectorAll('.way li').length > 4")

        shown = await tab.text()
        assert [stage for stage in STAGES if stage not in shown] == []
        assert await tab.tells("[...document.querySelectorAll('.bar')].every((bar) => bar.clientWidth > 0)")
        await tab.tells("location.hash = '#/queues'")
        await tab.until("document.querySelectorAll('.uplot canvas').length === 3")
        assert "stored" in str(await tab.tells("document.querySelectorAll('figure')[1].ariaLabel"))
        assert tab.complaints == []


async def test_it_is_read_on_a_phone_in_light_and_dark_and_without_a_mouse(watched: Watched) -> None:
    async with watched.looked_at("phone") as tab:
        await tab.is_sized(360)
        for scheme in ("light", "dark"):
            await tab.prefers(color_scheme=scheme, reduced_motion="reduce")
            for view in VIEWS:
                await tab.tells(f"location.hash = '#/{view}'")
                await tab.until(f"document.querySelector('.view')?.dataset.key === '{view}'")
                assert await tab.tells("document.documentElement.scrollWidth") == 360, view
                shown = await tab.text()
                assert [each for each in ("NaN", "undefined", "[object") if each in shown] == [], view
                contrast = await tab.tells(CONTRAST)
                assert isinstance(contrast, float)
                assert contrast >= 4.5, (view, scheme)

        await tab.goes(watched.address)
        await tab.until("document.querySelector('.card') && document.activeElement === document.body")
        reached = []
        for _ in range(1 + len(VIEWS)):
            await tab.presses("Tab")
            reached.append(await tab.tells("document.activeElement.textContent"))
            assert await tab.tells("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        assert reached[0] == "Skip to the content"
        assert [str(each).split(" 1")[0] for each in reached[1:7]] == [
            "Venue", "Devices", "Commands", "Queues", "Dead letters", "Breakers",
        ]  # fmt: skip
        await tab.presses("Enter")
        await tab.until("document.activeElement === document.querySelector('h1')")
        assert await tab.tells("document.title") == "Health · venue-7"
        for nonsense in ("#/commands/%E0%A4%A", "#/commands/../../metrics", "#//", "#/nothing", "#<img>"):
            await tab.tells(f"location.hash = {json.dumps(nonsense)}")
            await tab.until("document.querySelector('h1').textContent !== 'Health'")
            await tab.tells("location.hash = '#/health'")
            await tab.until("document.querySelector('h1').textContent === 'Health'")
        await tab.does("Emulation.setScriptExecutionDisabled", value=True)
        await tab.goes(watched.address)
        await tab.until("document.body?.innerText.includes('edgeagent status')")
        # That there are no such commands is told whenever their answers come.
        assert [each for each in tab.complaints if not re.search(r"status of 40[04]\b", each)] == []


async def test_a_command_that_is_not_known_is_said_to_be_so_asked_for_seldom_and_shown_when_it_comes(
    watched: Watched,
) -> None:
    signed = watched.venue.sign(PLUG, ActionName.POWER, {"on": False})
    async with watched.looked_at("unknown") as tab:
        await tab.tells(f"location.hash = '#/commands/{signed.command.id}'")
        await tab.until("document.querySelector('.view').innerText.includes('does not know this command')")
        await tab.tells(DRAWN_AGAIN)
        asked = [each for each in tab.requests if "/api/commands/" in each]
        await asyncio.to_thread(watched.venue.cloud.send, signed.envelope)
        await tab.until("document.querySelectorAll('.way li').length > 4")

        assert 2 <= len(asked) < DRAWN


@pytest.mark.threat("T50", "T31")
async def test_names_that_mean_harm_are_text_and_nothing_else(watched: Watched) -> None:
    elements = "document.querySelectorAll('script, img, iframe, object, svg, [onerror], [onload]').length"
    async with watched.looked_at("hostile") as tab:
        known = await tab.tells(elements)
        await tab.until(f"document.body.innerText.includes({json.dumps(MARKUP)})")
        assert await tab.tells(elements) == known == 2  # our own two scripts
        await tab.tells("location.hash = '#/devices'")
        await tab.until("document.querySelectorAll('tbody tr').length > 10")
        shown = await tab.text()

        assert MARKUP in shown
        assert await tab.tells(elements) == known
        # Also what the agent would never let in comes to nothing.
        texts = [*TEXTS.values(), "\ud800", "\u202e" * 10_000, "👩‍👩‍👧 שלום"]
        cleaned = await tab.tells(
            f"import('/page/dom.js').then((dom) => {json.dumps(texts)}.map((text) => dom.plain(text)))"
        )
        assert isinstance(cleaned, list)
        for text in map(str, cleaned):
            assert text.replace("\u200d", "").isprintable()
            assert len(text) <= 301 * len("\\u{202e}")
        assert cleaned[-1] == texts[-1]
        # Markup cannot be made of text, not even by mistake (Trusted Types).
        assert (
            await tab.tells(
                "(() => { try { document.body.innerHTML = '<i>'; } catch (why) { return why.name; } })()"
            )
            == "TypeError"
        )
        await eventually(lambda: tab.complaints)
        [complaint] = tab.complaints
        assert "TrustedHTML" in complaint


async def test_a_hub_with_nothing_there_is_shown_as_it_is(tmp_path: Path) -> None:
    port = free_port()
    with closing(AgentProcess(tmp_path / "hub", f"[broker]\nport = {free_port()}\n")) as agent:
        agent.config.write_text(agent.config.read_text().replace("127.0.0.1:0", f"{HOST}:{port}"))
        agent.start()
        async with browser(tmp_path / "browser") as chromium:
            tab = await chromium.opens(f"http://{HOST}:{port}/")
            await tab.until("document.querySelector('.check')")
            shown = ""
            for view in VIEWS:
                await tab.tells(f"location.hash = '#/{view}'")
                await tab.until(f"document.querySelector('.view')?.dataset.key === '{view}'")
                shown += await tab.text()

            told = ("works alone", "No device is admitted", "No command has come", "No dead letter waits")
            assert [each for each in told if each not in shown] == []
            assert [each for each in ("NaN", "undefined", "null", "[object") if each in shown] == []
            assert tab.complaints == []


@pytest.mark.threat("T50")
async def test_pages_of_other_addresses_get_nothing(watched: Watched) -> None:
    # given a page of another port of this machine, and by another name, that tries what a page can
    port, page = free_port(), f"{HOST}:{watched.port}"
    attack = f"""<!doctype html><title>other</title>
        <iframe src='http://{page}/'></iframe><img src='http://{page}/page/icon.svg'>
        <script src='http://{page}/page/app.js'></script>
        <script>
          window.got = [];
          const note = (what) => () => window.got.push(what);
          const devices = "http://{page}/api/devices";
          fetch(devices).then((answer) => answer.text()).then(note("read"), note("failed"));
          fetch(devices, {{ mode: "no-cors" }}).then(note("blind"), note("failed"));
          fetch(devices, {{ method: "POST", mode: "no-cors" }}).then(note("blind"), note("failed"));
          const stream = new EventSource("http://{page}/api/stream");
          stream.onopen = stream.onmessage = note("read");
          stream.onerror = note("failed");
        </script>"""

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(text=attack, content_type="text/html")

    app = web.Application()
    app.add_routes([web.get("/", answer)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, HOST, port).start()
    before = watched.venue.agent.devices()
    try:
        async with browser(watched.folder / "attack") as chromium:
            for name in (HOST, "localhost"):
                tab = await chromium.opens(f"http://{name}:{port}/")
                await tab.until("window.got?.length >= 4 && document.readyState === 'complete'")

                # then it reads nothing, embeds nothing, and does nothing
                got = await tab.tells("window.got.filter((what) => what === 'read')")
                assert got == []
                assert await tab.tells("document.querySelector('img').naturalWidth") == 0
                await eventually(lambda: any("frame" in each for each in tab.complaints))  # noqa: B023 - awaited here
                assert tab.requests.count(f"http://{page}/page/page.css") == 0
    finally:
        await runner.cleanup()
    assert watched.venue.agent.devices().devices[0].version == before.devices[0].version


@pytest.mark.threat("T50")
async def test_a_forged_host_or_origin_is_turned_away_and_nothing_can_be_changed(watched: Watched) -> None:
    own = f"http://{HOST}:{watched.port}"
    paths = ("/", "/page/app.js", "/api/devices", "/api/stream", "/metrics", "/healthz", "/nothing")
    link = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}
    refused = [
        {"Host": "evil.example"},
        {"Host": f"evil.example:{watched.port}"},
        {"Host": f"192.168.1.7:{watched.port}"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": f"http://localhost:{watched.port}"},
        {"Origin": own.replace("http", "https")},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {**link, "Sec_Fetch_Dest": "iframe"},
    ]
    for path in paths:
        for headers in refused:
            assert (await watched.asked(path, **headers))[0] == 403, (path, headers)
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PURGE"):
            assert (await watched.asked(path, method=method))[0] == 405, (path, method)
    # A link from elsewhere leads to the page, and to nothing else.
    assert (await watched.asked("/", **link))[0] == 200
    assert (await watched.asked("/api/devices", **link))[0] == 403
    assert (await watched.asked("/api/devices", Origin=own, Sec_Fetch_Site="same-origin"))[0] == 200


async def test_programs_read_the_same_reports(watched: Watched) -> None:
    for name in REPORTS:
        status, text = await watched.asked(f"/api/{name}")
        assert status == 200, text
        assert isinstance(json.loads(text), dict)
    _, text = await watched.asked("/api/devices")
    assert PLUG in {each.device for each in decode(DevicesReport, text.encode(), limit=2**20).devices}
    _, text = await watched.asked("/api/commands")
    [first, *_] = decode(CommandsReport, text.encode(), limit=2**20).commands
    assert (await watched.asked(f"/api/commands/{first.command}"))[0] == 200
    assert (await watched.asked(f"/api/commands/{first.command}/trace"))[0] == 200
    assert (await watched.asked("/api/commands/none-of-this-name"))[0] == 404
    assert (await watched.asked("/api/commands/%2e%2e%2fmetrics"))[0] == 400
    assert (await watched.asked("/page/../server.py"))[0] == 404
    assert (await watched.asked("/page/%2e%2e/server.py"))[0] == 404


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a program as somebody else")
@pytest.mark.threat("T49")
async def test_an_agent_that_comes_again_is_found_again_and_shows_itself_to_its_viewers(
    watched: Watched,
) -> None:
    assert watched.status_for(NOBODY) == "403"
    async with watched.looked_at("again") as tab:
        await asyncio.to_thread(watched.venue.agent.kill)
        await tab.until("document.getElementById('link').textContent.includes('does not answer')")
        assert PLUG in await tab.text()  # what was last known stays
        config = watched.venue.agent.config
        config.write_text(config.read_text().replace("[hub]", '[hub]\nview_group = "nogroup"'))
        await asyncio.to_thread(watched.venue.agent.start)
        await tab.until("document.getElementById('link').textContent === 'live'")
    assert watched.status_for(NOBODY) == "200"
