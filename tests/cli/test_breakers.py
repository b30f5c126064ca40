"""``edgeagent breakers`` and ``edgeagent dead-letters``: typed, over the real socket."""

import json
from pathlib import Path

import pytest

from edgeagent.contracts.policy import BreakerRule
from edgeagent.contracts.reports.breakers import BreakersReport
from edgeagent.contracts.reports.dead_letters import DealtsReport, LettersReport
from tests.cli.commanded import commanded
from tests.flows.signing import INPUT, POWER, TV

pytestmark = pytest.mark.requirement("B2", "D3")


async def test_a_breaker_is_listed_shown_tripped_and_reset(tmp_path: Path) -> None:
    async with commanded(tmp_path) as terminal:
        await terminal.hub.television()

        none = await terminal.types("breakers", "list")
        tripped = await terminal.types("breakers", "trip", "power@hub", "--reason", "drill\x1b[31m")
        refused = await terminal.types("send", TV, "power", "on=true")
        shown = await terminal.types("breakers", "show", "power@hub")
        health = await terminal.types("health")
        reset = await terminal.types("breakers", "reset", "power@hub", "--reason", "over")
        done = await terminal.types("send", TV, "power", "on=true")

        assert (none.status, none.out) == (0, "no breaker is open\n")
        assert tripped.out.splitlines()[1].split()[:2] == ["power@hub", "open"]
        assert "\x1b" not in tripped.out
        assert (refused.status, "breaker_open" in refused.out) == (1, True)
        assert "reset only" in shown.out
        assert "edgeagent breakers list" in health.out
        assert "no breaker is open" in reset.out
        assert done.status == 0


@pytest.mark.parametrize(
    "words",
    [
        ("trip", "power", "--reason", "x"),
        ("trip", "fly@hub", "--reason", "x"),
        ("trip", "power@nobody", "--reason", "x"),
        ("reset", "power@hub", "--reason", "x"),
        ("show", "power@hub"),
    ],
)
async def test_what_is_no_breaker_or_is_closed_is_refused(tmp_path: Path, words: tuple[str, ...]) -> None:
    async with commanded(tmp_path) as terminal:
        said = await terminal.types("breakers", *words)

        assert said.status == 1
        assert said.err.startswith("edgeagent: ")
        assert terminal.hub.rows("SELECT 1 FROM breakers") == []


@pytest.mark.requirement("B4")
async def test_an_operator_reads_the_story_of_a_burst_from_the_audit_trail(tmp_path: Path) -> None:
    async with commanded(tmp_path) as terminal:
        hub = terminal.hub
        await hub.television()
        await hub.has_policy(version=2, breaker=BreakerRule(refusals=3))
        await hub.admits(*[hub.command(INPUT, name="HDMI 9") for _ in range(40)])

        trail = await terminal.types("audit", "list")
        listed = (await terminal.types("--json", "breakers", "list")).report(BreakersReport)

        for told in ("command_refused", "breaker_opened", "breaker_refused"):
            assert told in trail.out
        [breaker] = listed.breakers
        assert (breaker.name, breaker.phase, breaker.signal) == ("desk", "open", "invalid")
        assert hub.rows("SELECT count(*) FROM inbox") == [(3,)]


@pytest.mark.requirement("D1", "D2")
async def test_dead_letters_are_listed_shown_exported_and_discarded(tmp_path: Path) -> None:
    async with commanded(tmp_path) as terminal:
        await terminal.hub.admits(terminal.hub.command(POWER, id_="c-1", on=True))
        await terminal.hub.television()
        for on in (True, False):
            await terminal.hub.admits(terminal.hub.command(POWER, id_="c-2", on=on))
        file = tmp_path / "letters.jsonl"

        listed = await terminal.types("dead-letters", "list", "--reason", "id_conflict", "--device", TV)
        shown = await terminal.types("dead-letters", "show", "1")
        replayed = await terminal.types("--json", "dead-letters", "replay", "1", "--dry-run")
        exported = await terminal.types("dead-letters", "export", str(file))
        again = await terminal.types("dead-letters", "export", str(file))
        nothing = await terminal.types("dead-letters", "discard", "--why", "known")
        gone = await terminal.types("dead-letters", "discard", "1", "--why", "known")
        left = (await terminal.types("--json", "dead-letters", "list")).report(LettersReport)

        assert listed.out.splitlines()[1].split()[:3] == ["1", "c-2", TV]
        assert "suspicious" in shown.out
        [dealt] = replayed.report(DealtsReport).letters
        assert (replayed.status, dealt.reason) == (1, "id_conflict")
        assert exported.status == 0
        assert file.stat().st_mode & 0o777 == 0o600
        assert json.loads(file.read_text())["envelope"]["payloadType"].startswith("application/vnd.edgeagent")
        assert again.status == 1
        assert (nothing.status, "say which" in nothing.err) == (1, True)
        assert (gone.status, left.letters) == (0, [])
