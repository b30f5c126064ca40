"""``edgeagent health`` and ``status``: for people, for monitoring plugins, with the agent down (SPEC O5)."""

import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from edgeagent.contracts.door import encode
from edgeagent.contracts.reports.health import Check, HealthReport, Level
from edgeagent.contracts.reports.refusal import Refusal
from edgeagent.contracts.reports.status import StatusReport
from edgeagent.store.files import MIGRATIONS, tables_known
from tests.cli.building import Said, http, lonely_terminal, something_else, terminal, typed
from tests.support.agents import ROOT
from tests.support.clocks import NOON
from tests.support.private import write_private
from tests.support.stores import opened

pytestmark = pytest.mark.requirement("O5")

KNOWN: Final = tables_known(MIGRATIONS)
OF_ITS_USER = {"disk", "filesystem", "configuration", "database", "certificates"}
"""What the agent's user and root look at without the agent."""
AS_SOMEBODY_ELSE = """
import os, sys
from contextlib import redirect_stdout
from edgeagent.cli.main import main
words = ["--config", sys.argv[1], "--json", "health"]
with redirect_stdout(open(os.devnull, "w")):
    main(words)  # what it imports may be out of reach for others
os.setgroups([]); os.setgid(64100); os.setuid(64100)
sys.exit(main(words))
"""


class TestHealth:
    """One line that a plugin can show, one for each check, and what to do next."""

    async def test_a_hub_that_is_well(self, tmp_path: Path) -> None:
        async with terminal(tmp_path, "dev-1") as typing:
            said = await typing.types("health")
            count = len((await typing.desk.health.report()).checks)

            assert said.status == 0
            line, _, numbers = said.out.splitlines()[0].partition(" | ")
            assert line == f"EDGEAGENT OK - {count} checks"
            assert re.fullmatch(r"([a-z_]+=-?[0-9.]+(s|B|%|c)?;[0-9.:]*;[0-9.:]* ?)+", numbers)
            assert "outbox=" in numbers
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
                Check(name="outbox", level=Level.CRITICAL, summary="3 events wait", advice="see the log"),
                Check(name="policy", level=Level.OK, summary="in force"),
                Check(name="memory", level=Level.OK, summary="known"),
            ],
        )
        async with lonely_terminal(tmp_path) as typing:
            (typing.run_dir / "last-health.json").write_bytes(encode(last))

            said = await typing.types("--json", "health")

            assert said.status == 2
            checks = {check.name: check for check in said.report(HealthReport).checks}
            assert checks["agent"].level is Level.CRITICAL
            assert (checks["outbox"].level, checks["outbox"].advice) == (Level.CRITICAL, "see the log")
            assert checks["outbox"].summary.startswith("3 events wait (as of ")
            assert checks["policy"].level is Level.UNKNOWN
            # What can be seen now is looked at now.
            assert "as of" not in checks["memory"].summary
            assert checks["memory"].summary != "known"

    @pytest.mark.parametrize("content", [b"", b'{"at":', b"\xff", b"[]", b"{}"])
    async def test_a_last_report_that_is_none_changes_nothing(self, tmp_path: Path, content: bytes) -> None:
        async with lonely_terminal(tmp_path) as typing:
            (typing.run_dir / "last-health.json").write_bytes(content)

            said = await typing.types("--json", "health")

            assert said.status == 2
            names = {check.name for check in said.report(HealthReport).checks}
            assert names == {"agent", "clock", "units", "broker-port", "memory", "temperature", *OF_ITS_USER}

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

    @pytest.mark.skipif(os.geteuid() != 0, reason="becomes somebody else")
    def test_whoever_may_not_read_the_configuration_is_told_of_the_machine_and_to_ask_with_more_rights(
        self, tmp_path: Path
    ) -> None:
        """The socket and the last report lie at the usual place then, and here is no agent."""
        config = tmp_path / "config.toml"
        write_private(config, '[hub]\nid = "venue-7"\nrun_dir = "/nowhere"\n')

        others = subprocess.run(
            [sys.executable, "-c", AS_SOMEBODY_ELSE, str(config)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )

        report = Said(others.returncode, others.stdout, others.stderr).report(HealthReport)
        checks = {check.name: check for check in report.checks}
        assert others.returncode == report.level.exit_status
        assert checks["agent"].level is Level.UNKNOWN
        assert checks["agent"].summary.startswith("no agent answers on /run/edgeagent/")
        assert checks["agent"].advice.startswith("sudo edgeagent health")
        assert set(checks) >= {"units", "clock", "memory", "temperature"}
        # Where the broker is, the configuration says; the rest is for others to see.
        assert not set(checks) & {"broker-port", *OF_ITS_USER}

    @pytest.mark.requirement("H4")
    async def test_a_database_of_a_newer_edgeagent_is_critical_with_the_way_back(
        self, tmp_path: Path
    ) -> None:
        """All its pages hang together, and no start of this one takes it."""
        database = tmp_path / "state" / "hub.db"
        database.parent.mkdir()
        async with opened(database):
            pass
        with closing(sqlite3.connect(database)) as connection:
            connection.execute(f"PRAGMA user_version = {KNOWN + 1}")
        before = database.read_bytes()
        async with lonely_terminal(tmp_path) as typing:
            said = await typing.types("--json", "health")

        checks = {check.name: check for check in said.report(HealthReport).checks}
        assert said.status == 2
        assert checks["database"].level is Level.CRITICAL
        assert checks["database"].summary == (
            f"the database has schema {KNOWN + 1}, this edgeagent knows {KNOWN}"
        )
        assert "install the newer edgeagent again, or put a backup" in checks["database"].advice
        assert "edgeagent backup restore" in checks["database"].advice
        assert database.read_bytes() == before

    def test_a_configuration_that_is_wrong_or_not_there_is_critical_in_a_plugins_line(
        self, tmp_path: Path
    ) -> None:
        config = tmp_path / "config.toml"

        missing = typed("--config", str(config), "health")
        config.write_text('[hub]\nid = "venue-7"\n[log]\nlevel = "debg"\nlevle = "info"\n', "utf-8")
        wrong = typed("--config", str(config), "health")

        assert (missing.status, wrong.status) == (2, 2)
        assert missing.out.startswith(f"EDGEAGENT CRITICAL - configuration: there is no {config}")
        assert "next: sudo edgeagent setup" in missing.out
        assert wrong.out.startswith(f"EDGEAGENT CRITICAL - configuration: {config}:4: log.level: ")
        assert "; and 1 more\n" in wrong.out
        assert "next: edgeagent config check" in wrong.out


class TestStatus:
    """The hub at a glance."""

    async def test_it_shows_everything_on_a_page(self, tmp_path: Path) -> None:
        async with terminal(tmp_path, "dev-1") as typing:
            typing.desk.clock.passes(timedelta(minutes=10))

            said = await typing.types("status")

            lines = said.out.splitlines()
            assert said.status == 0
            assert lines[0].startswith("hub       venue-7 (UTC), edgeagent ")
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
