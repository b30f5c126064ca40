"""``edgeagent health`` and ``status``: for people, for monitoring plugins, with the agent down (SPEC O5)."""

from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.contracts.door import encode
from edgeagent.contracts.reports.health import Check, HealthReport, Level
from edgeagent.contracts.reports.refusal import Refusal
from edgeagent.contracts.reports.status import StatusReport
from tests.cli.building import http, lonely_terminal, something_else, terminal, typed
from tests.support.clocks import NOON

pytestmark = pytest.mark.requirement("O5")


class TestHealth:
    """One line that a plugin can show, one for each check, and what to do next."""

    async def test_a_hub_that_is_well(self, tmp_path: Path) -> None:
        async with terminal(tmp_path, "dev-1") as typing:
            said = await typing.types("health")
            count = len((await typing.desk.health.report()).checks)

            assert said.status == 0
            assert said.out.splitlines()[0] == f"EDGEAGENT OK - {count} checks"
            assert len([line for line in said.out.splitlines() if line.startswith("OK ")]) == count
            assert said.err == ""

    async def test_a_warning(self, tmp_path: Path) -> None:
        async with terminal(tmp_path) as typing:
            typing.desk.hub.bus.goes_down("connection refused")

            said = await typing.types("health")

            assert said.status == 1
            assert said.out.startswith("EDGEAGENT WARNING - broker-control: not connected for 0 s")
            assert "next: check that mosquitto runs" in said.out

    async def test_something_critical(self, tmp_path: Path) -> None:
        async with terminal(tmp_path) as typing:
            typing.desk.hub.bus.goes_down()
            typing.desk.clock.passes(timedelta(hours=1))

            said = await typing.types("health")

            assert said.status == 2
            assert said.out.startswith("EDGEAGENT CRITICAL - broker-")

    async def test_as_json(self, tmp_path: Path) -> None:
        async with terminal(tmp_path) as typing:
            said = await typing.types("--json", "health")

            assert said.status == 0
            assert said.out.isascii()
            assert said.report(HealthReport).level is Level.OK

    @pytest.mark.requirement("V5")
    async def test_what_a_peer_says_cannot_paint_the_screen(self, tmp_path: Path) -> None:
        async with terminal(tmp_path) as typing:
            typing.desk.hub.bus.goes_down("bad\x1b[2J\u202e\nOK fine")

            said = await typing.types("health")

            assert all(line.isprintable() for line in said.out.splitlines())
            assert "\nOK fine" not in said.out


class TestHealthWithoutAnAnswer:
    """It says what it can, and never that all is well."""

    async def test_the_agent_is_down(self, tmp_path: Path) -> None:
        async with lonely_terminal(tmp_path) as typing:
            said = await typing.types("health")

            assert said.status == 2
            assert said.out.startswith("EDGEAGENT CRITICAL - agent: does not answer")
            assert "next: systemctl status edgeagent" in said.out

    async def test_how_it_stood_last_is_told_and_what_was_well_is_unknown_now(self, tmp_path: Path) -> None:
        last = HealthReport(
            at=NOON,
            checks=[
                Check(name="disk", level=Level.CRITICAL, summary="3 MiB free", advice="free some space"),
                Check(name="clock", level=Level.OK, summary="known"),
            ],
        )
        async with lonely_terminal(tmp_path) as typing:
            (typing.run_dir / "last-health.json").write_bytes(encode(last))

            said = await typing.types("--json", "health")

            assert said.status == 2
            checks = {check.name: check for check in said.report(HealthReport).checks}
            assert {name: check.level for name, check in checks.items()} == {
                "agent": Level.CRITICAL,
                "disk": Level.CRITICAL,
                "clock": Level.UNKNOWN,
            }
            assert checks["disk"].summary.startswith("3 MiB free (as of ")
            assert checks["disk"].advice == "free some space"

    @pytest.mark.parametrize("content", [b"", b'{"at":', b"\xff", b"[]", b"{}"])
    async def test_a_last_report_that_is_none_changes_nothing(self, tmp_path: Path, content: bytes) -> None:
        async with lonely_terminal(tmp_path) as typing:
            (typing.run_dir / "last-health.json").write_bytes(content)

            said = await typing.types("--json", "health")

            assert said.status == 2
            assert [check.name for check in said.report(HealthReport).checks] == ["agent"]

    @pytest.mark.parametrize(
        "answer",
        [
            pytest.param(
                http("403 Forbidden", encode(Refusal(error="no", advice="use sudo"))), id="it says no"
            ),
            pytest.param(http("500 Oops", b"what?"), id="it fails"),
            pytest.param(http("200 OK", b"[]"), id="another version answers"),
        ],
    )
    async def test_an_agent_that_does_not_tell_is_unknown(self, tmp_path: Path, answer: bytes) -> None:
        """1 would say that it works and somebody should look."""
        async with lonely_terminal(tmp_path) as typing, something_else(typing.run_dir / "admin.sock", answer):
            said = await typing.types("health")

            assert said.status == 3
            assert said.out.startswith("EDGEAGENT UNKNOWN - agent: ")

    @pytest.mark.parametrize(
        "answer",
        [
            pytest.param(b"", id="nothing"),
            pytest.param(b"SSH-2.0\r\n\r\n", id="another protocol"),
            pytest.param(http("200 OK", b"{", missing=500), id="half of it"),
        ],
    )
    async def test_what_is_no_answer_is_no_agent(self, tmp_path: Path, answer: bytes) -> None:
        async with lonely_terminal(tmp_path) as typing, something_else(typing.run_dir / "admin.sock", answer):
            said = await typing.types("health")

            assert said.status == 2
            assert "agent: does not answer" in said.out

    def test_a_configuration_that_is_wrong_is_the_operators(self, tmp_path: Path) -> None:
        said = typed("--config", str(tmp_path / "none.toml"), "health")

        assert said.status == 78
        assert "cannot read" in said.err


class TestStatus:
    """The hub at a glance."""

    async def test_it_shows_everything_on_a_page(self, tmp_path: Path) -> None:
        async with terminal(tmp_path, "dev-1") as typing:
            typing.desk.clock.passes(timedelta(minutes=10))

            said = await typing.types("status")

            lines = said.out.splitlines()
            assert said.status == 0
            assert lines[0].startswith("hub       venue-7, edgeagent ")
            assert lines[0].endswith("started 10 min ago")
            assert "from statement" in lines[2]
            assert "broker    control: connected" in lines
            assert "cloud     last upload never" in lines
            assert "policy    version 3" in lines
            assert "devices   1 admitted, 0 waiting for admission" in lines
            assert lines[-3].split()[:2] == ["record", "1"]

    async def test_it_says_why_something_does_not_work(self, tmp_path: Path) -> None:
        async with terminal(tmp_path) as typing:
            typing.desk.hub.bus.goes_down("no\x1b[2Jroute")
            await typing.desk.trust.offer_policy(b"nonsense")

            said = await typing.types("status")

            assert "broker    control: not connected: no\\x1b[2Jroute" in said.out
            assert "policy    version 3 - not JSON" in said.out

    async def test_as_json(self, tmp_path: Path) -> None:
        async with terminal(tmp_path) as typing:
            said = await typing.types("--json", "status")

            assert said.report(StatusReport).hub == "venue-7"

    async def test_without_an_agent_it_says_so(self, tmp_path: Path) -> None:
        async with lonely_terminal(tmp_path) as typing:
            said = await typing.types("status")

            assert (said.status, said.out) == (69, "")
            assert "no agent answers" in said.err
            assert "next: systemctl status edgeagent" in said.err
