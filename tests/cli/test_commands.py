"""``edgeagent commands list | show``."""

from pathlib import Path

import pytest

from edgeagent.contracts.reports.commands import CommandsReport
from tests.cli.commanded import commanded
from tests.flows.signing import POWER, TV

pytestmark = pytest.mark.requirement("G1", "A1")


async def test_the_last_commands_are_listed_newest_first(tmp_path: Path) -> None:
    async with commanded(tmp_path) as terminal:
        await terminal.hub.television()
        await terminal.types("send", TV, "power", "on=true")
        await terminal.types("send", TV, "volume", "level=20")

        said = await terminal.types("commands", "list")
        as_json = (await terminal.types("commands", "list", "--json")).report(CommandsReport)

        head, *lines = said.out.splitlines()
        assert said.status == 0
        assert head.split() == ["command", "device", "action", "state", "reason", "attempts", "came"]
        assert [line.split()[1:5] for line in lines] == [
            [TV, "volume", "level=20", "succeeded"],
            [TV, "power", "on=true", "succeeded"],
        ]
        assert [each.action for each in as_json.commands] == ["volume", "power"]


async def test_a_list_has_short_digests_and_what_is_wide_has_them_whole(tmp_path: Path) -> None:
    async with commanded(tmp_path) as terminal:
        await terminal.hub.television()
        await terminal.types("send", TV, "install", "artifact=panel-2.0.0", f"digest={'ab' * 32}")

        short = await terminal.types("commands", "list")
        wide = await terminal.types("--wide", "commands", "list")

        assert 'digest="abababababab…"' in short.out
        assert f'digest="{"ab" * 32}"' in wide.out


async def test_with_no_commands_it_is_said_so(tmp_path: Path) -> None:
    async with commanded(tmp_path) as terminal:
        said = await terminal.types("commands", "list")

        assert (said.status, said.out) == (0, "no command has come\n")


async def test_one_is_shown_with_who_is_on_record_and_what_went_wrong(tmp_path: Path) -> None:
    async with commanded(tmp_path) as terminal:
        tv = await terminal.hub.television()
        tv.refuses("child lock")
        command = terminal.hub.command(POWER, on=True)
        await terminal.hub.admits(command)
        await terminal.types("send", TV, "volume", "level=20")

        said = await terminal.types("commands", "show", command.id)
        report = (await terminal.types("--json", "commands", "show", command.id)).report(CommandsReport)
        [shown] = report.commands

        assert said.status == 0
        lines = dict(line.split(None, 1) for line in said.out.splitlines() if line)
        assert lines[command.id].split() == [TV, "power", "on=true"]
        assert lines["state"].startswith("failed: device_refused")
        assert lines["lane"] == "low, run 1, sent 1 times"
        assert lines["issuer"] == terminal.hub.keys.desk.id
        assert lines["error"] == "child lock"
        assert shown.receipt is not None
        assert shown.receipt.command == command.id


@pytest.mark.parametrize(
    ("name", "complaint"), [("nobody", "no command nobody has come"), ("no/body", "not a command id")]
)
async def test_one_that_never_came_is_told_so(tmp_path: Path, name: str, complaint: str) -> None:
    async with commanded(tmp_path) as terminal:
        said = await terminal.types("commands", "show", name)

        assert (said.status, said.out) == (1, "")
        assert complaint in said.err
