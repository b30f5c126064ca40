"""``edgeagent devices list | show | admit | forget``."""

import json
from pathlib import Path

import pytest

from edgeagent.contracts.reports.devices import DeviceReport, DevicesReport
from tests.cli.building import lonely_terminal, terminal

pytestmark = pytest.mark.requirement("M4", "M11")


class TestListing:
    """Who is there, and who waits."""

    async def test_devices_and_those_that_wait(self, tmp_path: Path) -> None:
        async with terminal(tmp_path, "dev-1") as typing:
            announcement = json.dumps({"label": "The other lamp"})
            typing.desk.hub.bus.delivers("announce/dev-2", announcement.encode())
            await typing.desk.hub.settles()

            said = await typing.types("devices", "list")

            lines = said.out.splitlines()
            assert said.status == 0
            assert lines[1].split() == ["dev-1", "The", "dev-1", "thing", "online", "10", "s", "ago", "power"]
            assert lines[4].split() == ["dev-2", "The", "other", "lamp", "thing"]
            assert lines[-1] == "  next: edgeagent devices admit DEVICE"

    async def test_nobody(self, tmp_path: Path) -> None:
        async with terminal(tmp_path) as typing:
            said = await typing.types("devices", "list")

            assert said.status == 0
            assert len(said.out.splitlines()) == 1

    async def test_as_json(self, tmp_path: Path) -> None:
        async with terminal(tmp_path, "dev-1") as typing:
            said = await typing.types("--json", "devices", "list")

            assert [device.device for device in said.report(DevicesReport).devices] == ["dev-1"]


class TestShowing:
    """One device and what is known of it."""

    async def test_its_readings(self, tmp_path: Path) -> None:
        async with terminal(tmp_path, "dev-1") as typing:
            typing.desk.hub.bus.delivers("dev-1/state", b'{"power": true}')
            typing.desk.hub.bus.delivers("dev-1/sensor", b'{"temperature": 20.5}')
            await typing.desk.hub.settles()

            said = await typing.types("devices", "show", "dev-1")

            rows = {line.split()[0]: line.split()[1:] for line in said.out.splitlines()[4:]}
            assert said.status == 0
            assert said.out.startswith("dev-1  The dev-1  (thing, online)")
            assert rows["power"][:2] == ["true", "2"]
            assert rows["power"][-1] == "yes"
            assert rows["temperature"] == ["20.5", "°C"]

    @pytest.mark.requirement("M1")
    async def test_how_it_is_updated(self, tmp_path: Path) -> None:
        async with terminal(tmp_path, "dev-1") as typing:
            thing = await typing.types("devices", "show", "dev-1")
            plug = await typing.types(
                *("devices", "admit", "AABBCCDDEEFF", "--profile", "tasmota", "--set", "topic=plug-a")
            )

            assert "updates: none over the air\n" in thing.out
            assert (
                "updates: it fetches over http, goes back, cannot be called off; firmware tells the version\n"
                in plug.out
            )

    async def test_as_json(self, tmp_path: Path) -> None:
        async with terminal(tmp_path, "dev-1") as typing:
            said = await typing.types("--json", "devices", "show", "dev-1")

            assert said.out.isascii()
            assert said.report(DeviceReport).device == "dev-1"

    async def test_a_stranger(self, tmp_path: Path) -> None:
        async with terminal(tmp_path) as typing:
            said = await typing.types("devices", "show", "dev-9")

            assert (said.status, said.out) == (1, "")
            assert said.err == "edgeagent: dev-9 is not admitted\n  next: edgeagent devices list\n"

    @pytest.mark.requirement("V5")
    async def test_what_is_no_id_is_not_even_asked_about(self, tmp_path: Path) -> None:
        async with lonely_terminal(tmp_path) as typing:
            said = await typing.types("devices", "show", "../../etc\x1b[2J")

            assert said.status == 1
            assert said.err.startswith("edgeagent: not a device id: ")
            assert all(line.isprintable() for line in said.err.splitlines())


class TestAdmitting:
    """By what it says of itself, or by hand."""

    async def test_one_that_has_shown_itself(self, tmp_path: Path) -> None:
        async with terminal(tmp_path) as typing:
            typing.desk.hub.bus.delivers("announce/dev-1", b'{"label": "The lamp"}')
            await typing.desk.hub.settles()

            said = await typing.types("devices", "admit", "dev-1")

            assert said.status == 0
            assert said.out.startswith("dev-1  The lamp  (thing, unknown)")
            assert [device.id for device in typing.desk.hub.devices.all()] == ["dev-1"]

    async def test_one_that_has_not(self, tmp_path: Path) -> None:
        async with terminal(tmp_path) as typing:
            said = await typing.types(
                *("--json", "devices", "admit", "AABBCCDDEEFF", "--profile", "tasmota", "--label", "Plug A"),
                *("--set", "topic=plug-a", "--set", "relays=[1,2]", "--set", "own_topics=true"),
            )

            device = said.report(DeviceReport)
            assert said.status == 0
            assert (device.label, device.profile) == ("Plug A", "tasmota")
            assert device.parameters == {"topic": "plug-a", "relays": [1, 2], "own_topics": True}

    @pytest.mark.parametrize(
        ("words", "word"),
        [
            pytest.param(["dev-1"], "name its profile", id="it has not shown itself"),
            pytest.param(["dev-1", "--profile", "toaster"], "no profile", id="no such family"),
            pytest.param(["dev-1", "--profile", "thing"], "topic", id="a parameter is missing"),
            pytest.param(["dev-1", "--profile", "thing", "--set", "topic"], "NAME=VALUE", id="no value"),
            pytest.param(["dev-1", "--profile", "thing", "--set", "topic=a/b"], "topic", id="two levels"),
            pytest.param(["dev-1", "--profile", "thing", "--set", "topic=7"], "topic", id="a number"),
            pytest.param(["dev-1", "--label", "a\x1bb"], "not a label", id="a label that paints"),
            pytest.param(["dev/1"], "not a device id", id="no device id"),
            pytest.param(["dev-1", "--profile", "No Such"], "profile", id="no profile id"),
        ],
    )
    async def test_what_cannot_be_is_refused_and_nothing_is_admitted(
        self, tmp_path: Path, words: list[str], word: str
    ) -> None:
        async with terminal(tmp_path) as typing:
            said = await typing.types("devices", "admit", *words)

            assert (said.status, said.out) == (1, "")
            assert word in said.err
            assert said.err.startswith("edgeagent: ")
            assert typing.desk.hub.devices.all() == []

    async def test_one_that_is_admitted_already_is_told_so_and_stays_as_it_is(self, tmp_path: Path) -> None:
        async with terminal(tmp_path, "dev-1") as typing:
            before = typing.desk.hub.devices.all()

            said = await typing.types("devices", "admit", "dev-1", "--label", "Another")

            assert said.status == 1
            assert "dev-1 is admitted already" in said.err
            assert typing.desk.hub.devices.all() == before


class TestForgetting:
    """Letting a device go."""

    async def test_one_is_let_go(self, tmp_path: Path) -> None:
        async with terminal(tmp_path, "dev-1") as typing:
            said = await typing.types("devices", "forget", "dev-1")

            assert said.status == 0
            assert typing.desk.hub.devices.all() == []

    async def test_a_stranger_cannot_be(self, tmp_path: Path) -> None:
        async with terminal(tmp_path, "dev-1") as typing:
            said = await typing.types("devices", "forget", "dev-2")

            assert said.status == 1
            assert "not admitted" in said.err


@pytest.mark.parametrize("words", [["list"], ["show", "dev-1"], ["admit", "dev-1"], ["forget", "dev-1"]])
async def test_without_an_agent_nothing_is_done(tmp_path: Path, words: list[str]) -> None:
    async with lonely_terminal(tmp_path) as typing:
        said = await typing.types("devices", *words)

        assert (said.status, said.out) == (69, "")


@pytest.mark.parametrize("words", [[], ["paint"], ["show"], ["admit"], ["admit", "dev-1", "--colour", "red"]])
async def test_wrong_words_are_told_from_everything_else(tmp_path: Path, words: list[str]) -> None:
    async with lonely_terminal(tmp_path) as typing:
        said = await typing.types("devices", *words)

        assert said.status == 2
        assert "usage: edgeagent" in said.err
