"""``edgeagent send``: one line, and an exit status that a script can go by."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.contracts.reports.commands import SendReport, SendRequest
from tests.cli.building import Said, lonely_terminal, typed
from tests.cli.commanded import Commanded, commanded
from tests.flows.signing import MINUTE, POWER, TV
from tests.support.waiting import eventually

ON = ("power", "on=true")


async def sends(terminal: Commanded, *words: str) -> Said:
    """Have the television do something."""
    return await terminal.types("send", TV, *words)


# What became of it.


@pytest.mark.requirement("G1", "V6", "M7")
@pytest.mark.parametrize("value", ["on=true", "on=on", "on=YES"])
async def test_what_is_done_is_told_in_one_line_and_ends_with_0(tmp_path: Path, value: str) -> None:
    async with commanded(tmp_path) as terminal:
        tv = await terminal.hub.television()

        said = await sends(terminal, "power", value)

        assert said == Said(0, "tv-1 power: succeeded (applied)\n", "")
        assert tv.effects == [("power", True)]


@pytest.mark.requirement("G1", "C6")
async def test_what_is_so_already_is_done(tmp_path: Path) -> None:
    async with commanded(tmp_path) as terminal:
        await terminal.hub.television()

        said = await sends(terminal, "power", "on=off")

        assert said.status == 0
        assert said.out.startswith("tv-1 power: succeeded (applied): already_so: A live reading shows")


@pytest.mark.requirement("G1", "V5")
async def test_what_the_device_refuses_ends_with_1_and_its_words_act_on_no_terminal(tmp_path: Path) -> None:
    async with commanded(tmp_path) as terminal:
        tv = await terminal.hub.television()
        tv.refuses("child lock \x1b[2J\u202e")

        said = await sends(terminal, *ON)

        assert said.status == 1
        assert "failed: device_refused" in said.out
        assert "child lock" in said.out
        assert said.out.removesuffix("\n").isprintable()


@pytest.mark.requirement("G1", "I3")
async def test_what_was_sent_and_cannot_be_told_ends_with_3(tmp_path: Path) -> None:
    async with commanded(tmp_path) as terminal:
        tv = await terminal.hub.television()
        tv.is_silent()

        said = await sends(terminal, "reboot")

        assert said.status == 3
        assert said.out.startswith("tv-1 reboot: unknown: no_confirmation:")
        assert tv.effects == [("reboot", True)]


@pytest.mark.requirement("G1", "E2")
async def test_what_has_not_ended_when_the_wait_is_over_ends_with_4(tmp_path: Path) -> None:
    async with commanded(tmp_path) as terminal:
        tv = await terminal.hub.television()
        tv.goes_offline()
        await terminal.hub.settles()

        said = await sends(terminal, *ON, "--wait", "0s")
        await eventually(lambda: terminal.hub.rows("SELECT state FROM inbox") == [("waiting",)])
        listed = await terminal.types("commands", "list")

        assert said.status == 4
        assert said.out.startswith(("tv-1 power: queued", "tv-1 power: running", "tv-1 power: waiting"))
        assert "waiting" in listed.out
        assert "device_offline" in listed.out


@pytest.mark.requirement("G1", "T4")
async def test_one_that_gives_way_to_a_later_one_ends_with_1(tmp_path: Path) -> None:
    async with commanded(tmp_path) as terminal:
        tv = await terminal.hub.television()
        tv.goes_offline()
        await terminal.hub.settles()
        first = asyncio.create_task(sends(terminal, *ON, "--wait", "2m"))
        await eventually(lambda: terminal.hub.rows("SELECT state FROM inbox") == [("waiting",)])

        # Not typed as well: what two who type at once print cannot be told apart here.
        off = SendRequest(device=TV, action=POWER, arguments={"on": False}, wait=timedelta(0))
        await terminal.hub.now.local.send(off, "uid:0 root")
        said = await first

        assert said.status == 1
        assert said.out.startswith("tv-1 power: superseded: superseded:")


@pytest.mark.requirement("G1", "T5")
async def test_one_that_runs_out_ends_with_1(tmp_path: Path) -> None:
    async with commanded(tmp_path) as terminal:
        tv = await terminal.hub.television()
        tv.goes_offline()
        await terminal.hub.settles()
        sending = asyncio.create_task(sends(terminal, *ON, "--wait", "2m"))
        await eventually(lambda: terminal.hub.rows("SELECT state FROM inbox") == [("waiting",)])

        # Over for the command, which is good for a minute, and not for whoever waits for it.
        terminal.hub.passes(1.5 * MINUTE)
        terminal.hub.now.upkeep.bell.ring()
        said = await sending

        assert said.status == 1
        assert said.out.startswith("tv-1 power: expired")


@pytest.mark.requirement("G1", "V2")
async def test_what_is_not_let_in_ends_with_1_and_says_why(tmp_path: Path) -> None:
    async with commanded(tmp_path) as terminal:
        said = await terminal.types("send", "tv-9", *ON)

        assert said.status == 1
        assert said.out == f"tv-9 power: refused: device_unknown: {Reason.DEVICE_UNKNOWN.sentence}\n"


@pytest.mark.requirement("G1", "G3")
async def test_without_a_policy_it_says_what_to_do_next(tmp_path: Path) -> None:
    async with commanded(tmp_path, has_policy=False) as terminal:
        await terminal.hub.television()

        said = await sends(terminal, *ON)

        assert said.status == 1
        assert "no_policy" in said.out
        assert "known key" not in said.out
        assert "next: [policy] in the configuration" in said.err


@pytest.mark.requirement("G1", "C2")
async def test_a_version_that_has_passed_is_told_as_stale(tmp_path: Path) -> None:
    async with commanded(tmp_path) as terminal:
        tv = await terminal.hub.television()

        said = await sends(terminal, *ON, "--if-version", "1")

        assert said.status == 1
        assert "refused: stale" in said.out
        assert tv.effects == []


@pytest.mark.requirement("G1", "I1")
async def test_an_operation_that_was_done_is_not_done_again(tmp_path: Path) -> None:
    async with commanded(tmp_path) as terminal:
        tv = await terminal.hub.television()
        await sends(terminal, "reboot", "--operation", "night/7")

        said = await sends(terminal, "reboot", "--operation", "night/7")

        assert said.status == 1
        assert "operation_done" in said.out
        assert len(tv.effects) == 1


@pytest.mark.requirement("G1")
async def test_as_json_all_of_it_is_told(tmp_path: Path) -> None:
    async with commanded(tmp_path) as terminal:
        await terminal.hub.television()

        said = await sends(terminal, *ON, "--json")

        report = said.report(SendReport)
        assert said.status == 0
        assert report.command is not None
        assert report.command.receipt is not None
        assert report.command.receipt.outcome is Outcome.SUCCEEDED
        assert report.command.arguments == {"on": True}


# Wrong words.


@pytest.mark.requirement("V1", "G1")
@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        pytest.param(("tv-1", "explode"), "there is no action 'explode': power, ", id="action"),
        pytest.param(("tv/1", *ON), "not a device id: 'tv/1'", id="device"),
        pytest.param(("tv-1", "power", "on"), "not NAME=VALUE: 'on'", id="no value"),
        pytest.param(("tv-1", "power", "on=perhaps"), "on is on, yes, true, off, no, false, not", id="truth"),
        pytest.param(("tv-1", "power", "on=1"), "on is on, yes, true, off, no, false, not '1'", id="number"),
        pytest.param(("tv-1", "power", "on=true", "on=false"), "on is given twice", id="twice"),
        pytest.param(("tv-1", "power", "topic=cmnd/x"), "power has no argument 'topic'", id="free field"),
        pytest.param(("tv-1", "reboot", "now=true"), "it has: none", id="no arguments"),
        pytest.param(("tv-1", "install", "url=http://x/tv"), "it has: artifact, digest", id="an address"),
        pytest.param(("tv-1", "volume", "level=loud"), "level is integer, not 'loud'", id="word"),
        pytest.param(("tv-1", "volume", "level=NaN"), "level is integer, not 'NaN'", id="NaN"),
        pytest.param(("tv-1", "volume", "level=1e400"), "level is integer, not", id="too large"),
        pytest.param(("tv-1", "volume", "level=" + "9" * 5000), "level is integer, not", id="5000 digits"),
        pytest.param(("tv-1", "volume", "level=" + "[" * 50_000), "level is integer, not", id="deep"),
        pytest.param(("tv-1", "volume", "level=[1]"), "level is integer, not '[1]'", id="list"),
        pytest.param(("tv-1", "input", "name="), "arguments.name", id="empty"),
        pytest.param(("tv-1", "input", "name=" + "x" * 300), "arguments.name", id="long"),
        pytest.param(("tv-1", "input", "name=a\x1b[2J"), "arguments.name", id="escape"),
        pytest.param(("tv-1", *ON, "--operation", "two words"), "not a operation", id="operation"),
        pytest.param(("tv-1", *ON, "--if-version", "-1"), "version", id="version"),
        pytest.param(("tv-1", *ON, "--wait", "3m"), "wait", id="too long a wait"),
    ],
)
async def test_words_that_make_no_command_end_with_1_and_are_told(
    tmp_path: Path, words: tuple[str, ...], complaint: str
) -> None:
    async with lonely_terminal(tmp_path) as terminal:
        said = await terminal.types("send", *words)

    assert (said.status, said.out) == (1, "")
    assert complaint in said.err
    assert "Traceback" not in said.err
    assert said.err.replace("\n", "").isprintable()
    assert len(said.err) < 400


@pytest.mark.requirement("G1")
@pytest.mark.parametrize(
    "words", [("tv-1",), (), ("tv-1", *ON, "--wait", "soon"), ("tv-1", *ON, "--if-version", "first")]
)
def test_words_that_are_missing_or_none_end_with_2(words: tuple[str, ...]) -> None:
    said = typed("send", *words)

    assert (said.status, said.out) == (2, "")
    assert "usage: edgeagent send" in said.err


@pytest.mark.requirement("G1")
async def test_where_no_agent_answers_it_ends_with_69(tmp_path: Path) -> None:
    async with lonely_terminal(tmp_path) as terminal:
        said = await terminal.types("send", TV, *ON)

    assert (said.status, said.out) == (69, "")
    assert "next: systemctl status edgeagent" in said.err


@pytest.mark.requirement("G1", "H4")
def test_where_the_configuration_is_wrong_it_ends_with_78(tmp_path: Path) -> None:
    said = typed("--config", str(tmp_path / "none.toml"), "send", TV, *ON)

    assert (said.status, said.out) == (78, "")
    assert "none.toml" in said.err
