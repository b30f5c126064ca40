"""Ids as people type them: to look, their beginning will do; to have something done, it will not."""

import json
from pathlib import Path

import pytest

from edgeagent.contracts.reports.commands import CommandsReport
from edgeagent.contracts.reports.trace import TraceReport
from edgeagent.ids import device_id
from tests.cli.building import terminal
from tests.cli.commanded import Commanded, commanded
from tests.flows.approvals import have_a_say
from tests.flows.signing import POWER, REBOOT
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("G3")

NAMES = ("3fa2c19b0011", "3fa2c19b7722", "77aa")


async def has_come(typing: Commanded, *names: str) -> None:
    """Have commands come, and end."""
    await typing.hub.television()
    for number, name in enumerate(names):
        await typing.hub.admits(typing.hub.command(POWER, id_=name, on=bool(number % 2)))
    await eventually(lambda: len(typing.hub.rows("SELECT 1 FROM receipts")) == len(names))


async def test_the_beginning_of_a_commands_id_is_enough(tmp_path: Path) -> None:
    async with commanded(tmp_path) as typing:
        await has_come(typing, *NAMES)

        shown = (await typing.types("commands", "show", "3fa2c19b7", "--json")).report(CommandsReport)
        traced = (await typing.types("commands", "trace", "77aa", "--json")).report(TraceReport)

        assert [each.command for each in shown.commands] == ["3fa2c19b7722"]
        assert traced.command == "77aa"


async def test_the_beginning_of_several_is_nobodys_and_they_are_told(tmp_path: Path) -> None:
    async with commanded(tmp_path) as typing:
        await has_come(typing, *NAMES)

        said = await typing.types("commands", "show", "3fa2c19b")
        as_json = await typing.types("commands", "show", "3fa2c19b", "--json")

        assert (said.status, said.out) == (1, "")
        assert said.err.splitlines() == [
            "edgeagent: 3fa2c19b is the beginning of several: 3fa2c19b0011, 3fa2c19b7722",
            "  next: type more of it",
        ]
        assert json.loads(as_json.out)["error"]["kind"] == "ambiguous"


@pytest.mark.parametrize("typed", ["9999", "3fa2c19b00112", "3FA2C19B0"])
async def test_what_is_nobodys_is_told_with_where_the_ids_stand(tmp_path: Path, typed: str) -> None:
    async with commanded(tmp_path) as typing:
        await has_come(typing, *NAMES)

        said = await typing.types("commands", "show", typed)

        assert said.status == 1
        assert said.err.splitlines() == [
            f"edgeagent: no command {typed} has come",
            "  next: edgeagent commands list",
        ]


async def test_what_is_too_short_is_told_as_such(tmp_path: Path) -> None:
    async with commanded(tmp_path) as typing:
        await has_come(typing, "3fa2c19b0011")

        said = await typing.types("commands", "show", "3fa")

        assert (said.status, said.out) == (1, "")
        assert "3fa is too little of an id: at least 4 characters are needed" in said.err


async def test_lists_print_as_much_of_an_id_as_tells_it_apart_and_all_when_asked(tmp_path: Path) -> None:
    async with commanded(tmp_path) as typing:
        long = ("a" * 64, "a" * 20 + "b" * 44)
        await has_come(typing, *long)

        short = [line.split()[0] for line in (await typing.types("commands", "list")).out.splitlines()[1:]]
        wide = (await typing.types("commands", "list", "--wide")).out
        as_json = (await typing.types("commands", "list", "--json")).report(CommandsReport)

        assert short == ["a" * 20 + "b", "a" * 21]
        for name, typed in zip(reversed(long), short, strict=True):
            assert name in wide
            assert name in (await typing.types("commands", "show", typed)).out
        assert {each.command for each in as_json.commands} == set(long)


@pytest.mark.parametrize("id_", ["lamp", "lamp-1"])
async def test_the_beginning_of_a_device_lets_nobody_go(tmp_path: Path, id_: str) -> None:
    """The whole id of one that is gone is no word about another that is called nearly so."""
    async with terminal(tmp_path, "lamp-10", "plug-1") as typing:
        said = await typing.types("devices", "forget", id_)

        assert (said.status, said.out) == (1, "")
        assert said.err.splitlines() == [
            f"edgeagent: {id_} is the beginning of lamp-10: to have something done, type that whole",
            "  next: type more of it",
        ]
        assert [each.id for each in typing.desk.hub.devices.all()] == ["lamp-10", "plug-1"]


async def test_a_device_whose_whole_id_begins_anothers_is_meant_itself(tmp_path: Path) -> None:
    async with terminal(tmp_path, "lamp-1", "lamp-10") as typing:
        said = await typing.types("devices", "forget", "lamp-1")

        assert (said.status, said.out) == (0, "lamp-1 is forgotten\n")
        assert [each.id for each in typing.desk.hub.devices.all()] == ["lamp-10"]


@pytest.mark.parametrize("words", [("devices", "show"), ("devices", "forget")])
async def test_the_beginning_of_two_devices_is_neither(tmp_path: Path, words: tuple[str, str]) -> None:
    async with terminal(tmp_path, "lamp-1", "lamp-2") as typing:
        said = await typing.types(*words, "lamp")

        assert (said.status, said.out) == (1, "")
        assert "lamp is the beginning of several: lamp-1, lamp-2" in said.err
        assert len(typing.desk.hub.devices.all()) == 2


async def test_no_device_is_taken_from_its_holder_by_its_beginning(tmp_path: Path) -> None:
    async with commanded(tmp_path) as typing:
        await typing.hub.television(device_id("screen-1"))
        typing.hub.bus.reacts("screen-1/set/power", lambda _: None)
        await typing.hub.admits(typing.hub.command(POWER, device=device_id("screen-1"), on=True))
        await eventually(lambda: bool(typing.hub.bus.published))

        said = await typing.types("locks", "release", "scre", "--reason", "it hangs")

        assert (said.status, said.out) == (1, "")
        assert "scre is the beginning of screen-1" in said.err
        assert typing.hub.rows("SELECT state, fence FROM inbox JOIN locks USING (run)") == [("running", 1)]


async def test_a_breaker_is_tripped_by_the_beginning_of_a_keys_id(tmp_path: Path) -> None:
    async with commanded(tmp_path) as typing:
        key = typing.hub.keys.desk.id

        tripped = await typing.types("breakers", "trip", f"power@{key[:6]}", "--reason", "drill")
        shown = await typing.types("breakers", "show", f"power@{key[:6]}")
        none = await typing.types("breakers", "reset", "power@zz", "--reason", "drill")

        assert tripped.status == 0
        assert shown.out.splitlines()[0].endswith(key)
        assert (none.status, "no key is called zz" in none.err) == (1, True)
        assert typing.hub.rows("SELECT origin FROM breakers") == [(key,)]


@pytest.mark.requirement("T1")
async def test_what_is_signed_names_its_device_whole(tmp_path: Path) -> None:
    async with commanded(tmp_path) as typing:
        await typing.hub.television(device_id("screen-1"))

        said = await typing.types("send", "screen", "power", "on=true")

        assert (said.status, "device_unknown" in said.out) == (1, True)
        assert typing.hub.bus.published == []


async def test_none_that_has_shown_itself_is_taken_in_by_its_beginning(tmp_path: Path) -> None:
    async with terminal(tmp_path) as typing:
        for name in ("lamp-7", "plug-7"):
            typing.desk.hub.bus.delivers(f"announce/{name}", b'{"label": "One"}')
        await typing.desk.hub.settles()

        said = await typing.types("devices", "admit", "lamp")

        assert (said.status, said.out) == (1, "")
        assert "lamp is the beginning of lamp-7" in said.err
        assert typing.desk.hub.devices.all() == []


@pytest.mark.requirement("T7")
async def test_nobody_agrees_unseen_to_what_begins_so(tmp_path: Path) -> None:
    async with commanded(tmp_path) as typing:
        await typing.hub.television()
        await have_a_say(typing.hub)
        await typing.hub.admits(typing.hub.command(REBOOT, id_="order-10"))

        said = await typing.types("commands", "approve", "order-1", "--yes")

        assert said.status == 1
        assert "order-1 is the beginning of order-10" in said.err
        assert typing.hub.rows("SELECT count(*) FROM approvals") == [(0,)]
