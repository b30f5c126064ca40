"""``edgeagent locks``: typed, over the real socket."""

from pathlib import Path

import pytest

from edgeagent.contracts.reports.locks import LocksReport
from tests.cli.commanded import commanded
from tests.flows.signing import POWER, TV
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("Q5", "L3")


async def test_a_lock_is_listed_and_taken_from_its_holder(tmp_path: Path) -> None:
    async with commanded(tmp_path) as terminal:
        await terminal.hub.television()
        terminal.hub.bus.reacts(f"{TV}/set/power", lambda _: None)
        none = await terminal.types("locks", "list")
        command = terminal.hub.command(POWER, on=True)
        await terminal.hub.admits(command)
        await eventually(lambda: bool(terminal.hub.bus.published))

        listed = (await terminal.types("--json", "locks", "list")).report(LocksReport)
        shown = await terminal.types("locks", "list")
        taken = await terminal.types("locks", "release", TV, "--reason", "it hangs")

        assert (none.status, none.out) == (0, "no device is worked\n")
        [lock] = listed.locks
        assert (lock.device, lock.command, lock.holder) == (TV, command.id, "low-1")
        assert "low-1" in shown.out
        assert taken.status == 0, taken.err
        assert command.id in taken.out


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("release", TV, "--reason", "x"), 1),
        (("release", TV), 2),
        (("release", "no such/device", "--reason", "x"), 2),
        (("release", TV, "--reason", ""), 1),
        (("release", TV, "--reason", "it hangs\x1b[31m"), 1),
    ],
    ids=["nobody works it", "no reason", "no device", "an empty reason", "what a terminal acts on"],
)
async def test_what_cannot_be_released_is_refused(
    tmp_path: Path, words: tuple[str, ...], status: int
) -> None:
    async with commanded(tmp_path) as terminal:
        await terminal.hub.television()
        before = terminal.hub.rows("SELECT count(*) FROM audit")

        said = await terminal.types("locks", *words)

        assert said.status == status
        assert said.err
        assert terminal.hub.rows("SELECT count(*) FROM audit") == before
