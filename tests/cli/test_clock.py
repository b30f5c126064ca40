"""``edgeagent clock show | confirm | reset-floor``."""

from pathlib import Path

import pytest

from edgeagent.clock import ClockSource
from edgeagent.contracts.reports.clock import ClockStanding
from tests.cli.building import Attended, lonely_terminal, terminal

pytestmark = pytest.mark.requirement("T5", "T6")


def unproven(typing: Attended) -> None:
    """Let the time be unknown."""
    typing.desk.clock.reset_floor(typing.desk.clock.floor)


def shown(typing: Attended) -> str:
    """What the machine's clock says, as people read it."""
    return f"{typing.desk.clock.readings.wall():%Y-%m-%d %H:%M:%S} UTC"


async def test_it_shows_the_time_and_what_that_rests_on(tmp_path: Path) -> None:
    async with terminal(tmp_path) as typing:
        said = await typing.types("clock", "show")

        rows = {line.split()[0]: line for line in said.out.splitlines()}
        assert said.status == 0
        assert f"{shown(typing)} within 0.020 s" in rows["time"]
        assert "statement" in rows["source"]
        assert "not synchronised" in rows["kernel"]
        assert "2027-02-28 12:00:00 UTC, by " in rows["floor"]
        assert "0 commands" in rows["waiting"]


async def test_it_says_plainly_that_the_time_is_not_proven(tmp_path: Path) -> None:
    async with terminal(tmp_path) as typing:
        unproven(typing)

        said = await typing.types("--json", "clock", "show")
        plain = await typing.types("clock", "show")

        report = said.report(ClockStanding)
        assert (report.source, report.latest, report.error, report.proven) == (
            ClockSource.NONE,
            None,
            None,
            None,
        )
        assert "not proven" in plain.out


async def test_a_person_says_what_time_it_is(tmp_path: Path) -> None:
    async with terminal(tmp_path) as typing:
        unproven(typing)

        said = await typing.types("clock", "confirm", "2027-03-01T14:00:30+01:00", "--within", "2m")

        assert said.status == 0
        assert "2027-03-01 13:00:30 UTC within 120.000 s" in said.out
        assert "operator" in said.out


async def test_the_machines_clock_is_confirmed_unseen_only_with_yes(tmp_path: Path) -> None:
    async with terminal(tmp_path) as typing:
        unproven(typing)

        asked = await typing.types("clock", "confirm")
        assert asked.status == 1
        assert shown(typing) in asked.err
        assert typing.desk.clock.wall().source is ClockSource.NONE

        said = await typing.types("clock", "confirm", "--yes")
        assert said.status == 0
        assert typing.desk.clock.wall().best == typing.desk.clock.readings.wall()


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("confirm", "noon"), 2),
        (("confirm", "2027-03-01T12:00:00"), 2),
        (("confirm", "2027-02-30T12:00:00Z"), 2),
        (("confirm", "2027-03-01T12:00:00Z", "--within", "soon"), 2),
        (("confirm", "2027-03-01T12:00:00Z", "--within", "10d"), 1),
        (("confirm", "2020-03-01T12:00:00Z"), 1),
        (("reset-floor", "2020-03-01T12:00:00Z"), 1),
        (("reset-floor", "2030-03-01T12:00:00Z"), 1),
        (("reset-floor",), 1),
    ],
)
async def test_what_cannot_be_is_refused_with_a_reason_and_nothing_changes(
    tmp_path: Path, words: tuple[str, ...], status: int
) -> None:
    async with terminal(tmp_path) as typing:
        unproven(typing)
        floor = typing.desk.clock.floor

        said = await typing.types("clock", *words)

        assert (said.status, said.out) == (status, "")
        assert said.err
        assert typing.desk.clock.floor == floor
        assert typing.desk.clock.wall().source is ClockSource.NONE


async def test_the_floor_is_set_back(tmp_path: Path) -> None:
    async with terminal(tmp_path) as typing:
        said = await typing.types("clock", "reset-floor", "2026-12-01T00:00:00Z")

        assert said.status == 0
        assert "floor     2026-12-01 00:00:00 UTC, by reset" in said.out
        assert (await typing.types("clock", "reset-floor", "--yes")).status == 0


async def test_without_an_agent_it_says_so(tmp_path: Path) -> None:
    async with lonely_terminal(tmp_path) as typing:
        assert (await typing.types("clock", "show")).status == 69
