"""``edgeagent commands trace``: a timeline, with the agent and without."""

import shutil
from pathlib import Path

import pytest

from edgeagent.contracts.reports.trace import TraceReport
from tests.cli.building import lonely_terminal
from tests.cli.commanded import commanded
from tests.flows.signing import POWER, TV

pytestmark = pytest.mark.requirement("O2")


async def test_the_way_of_a_command_is_drawn_with_the_agent_and_without(tmp_path: Path) -> None:
    async with commanded(tmp_path) as terminal:
        await terminal.hub.television()
        await terminal.types("send", TV, "power", "on=true")
        [(command,)] = terminal.hub.rows("SELECT command FROM inbox")

        said = await terminal.types("commands", "trace", str(command))
        report = (await terminal.types("commands", "trace", str(command), "--json")).report(TraceReport)

        [way] = report.ways
        head, *lines = said.out.splitlines()
        assert (said.status, said.err) == (0, "")
        assert head.split() == [command, TV, "run", "1", "trace", way.trace]
        assert [line.split()[2] for line in lines] == [span.name for span in way.spans]
        assert len({line.rindex("|") for line in lines}) == 1

        away = tmp_path / "away"
        (away / "state").mkdir(parents=True)
        for suffix in ("", "-wal"):
            source = terminal.hub.path.with_name(terminal.hub.path.name + suffix)
            shutil.copy(source, away / "state" / f"hub.db{suffix}")
        async with lonely_terminal(away) as lonely:
            assert (await lonely.types("commands", "trace", str(command))).out == said.out


async def test_a_hostile_answer_of_a_device_acts_on_no_terminal(tmp_path: Path) -> None:
    async with commanded(tmp_path) as terminal:
        tv = await terminal.hub.television()
        tv.refuses("\x1b[2J\u202eno")
        command = terminal.hub.command(POWER, on=True)
        await terminal.hub.admits(command)
        await terminal.types("send", TV, "volume", "level=20")

        said = await terminal.types("commands", "trace", command.id)

        assert said.status == 0
        assert "\x1b" not in said.out
        assert "\u202e" not in said.out


async def test_a_command_that_never_came_is_told_as_such(tmp_path: Path) -> None:
    async with commanded(tmp_path) as terminal:
        for name in ("nothing", "../../etc"):
            said = await terminal.types("commands", "trace", name)

            assert (said.status, said.out) in {(1, ""), (2, "")}
            assert said.err
