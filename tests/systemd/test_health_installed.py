"""Health and the support bundle on an installed hub: by root, by a viewer, by anybody, with the agent down.

One machine for all of it, with the agent as its unit runs it.
"""

import json
import tarfile
from pathlib import Path

import pytest

from edgeagent.contracts.door import decode
from edgeagent.contracts.reports.health import Check, HealthReport, Level
from tests.support.containers import Container, booted, debian, needs_container
from tests.support.installed import SUITE, checked, configure, install, needs_its_python, program

pytestmark = [pytest.mark.slow, pytest.mark.requirement("O5"), needs_container, needs_its_python]

SECTIONS = '[broker]\nport = 1883\nusername = "hub"\npassword_file = "broker.password"\n'
SOUND = ("filesystem", "memory", "temperature", "pages", "writes", "broker-control")
SECRET = "canary-of-the-broker"  # noqa: S105 - what is looked for


def health(hub: Container, *, user: str | None = None) -> tuple[int, dict[str, Check]]:
    """What health comes to for somebody, and its checks by name."""
    said = hub.run("edgeagent", "--json", "health", user=user, check=False)
    report = decode(HealthReport, said.stdout.encode(), limit=1_000_000)
    return said.returncode, {check.name: check for check in report.checks}


def bundle(hub: Container, name: str) -> dict[str, str]:
    """A support bundle that root makes there, by its files."""
    hub.run("edgeagent", "support-bundle", "--yes", "--out", f"/root/{name}")
    with tarfile.open(hub.inside(f"/root/{name}")) as tar:
        files = {each.name.partition("/")[2]: tar.extractfile(each) for each in tar}
        return {name: file.read().decode() for name, file in files.items() if file is not None}


def test_whoever_asks_is_told_what_they_may_know_whatever_has_failed(tmp_path: Path) -> None:
    volumes = {"/var/lib/edgeagent": 64}
    with booted(debian(SUITE), tmp_path / "hub", program(tmp_path), volumes) as hub:
        install(hub, SECTIONS, {"broker.password": SECRET})
        hub.run("useradd", "--groups", "edgeagent-view", "anna")
        hub.run("useradd", "berta")
        hub.run("chown", "edgeagent:edgeagent", "/var/lib/edgeagent")
        hub.run("systemctl", "start", "mosquitto", "edgeagent")
        checked(hub, *SOUND)

        # 64 MiB are little: the disk is what is wrong, and all else is seen through the unit's own bounds.
        status, checks = health(hub)
        assert (status, checks["disk"].level) == (2, Level.CRITICAL)
        # That of its unit is told where the kernel of this machine counts it.
        assert {"memory_resident", "memory_free"} <= {each.name for each in checks["memory"].measures}
        for name in SOUND:
            assert checks[name].level is Level.OK, checks[name]
        assert health(hub, user="anna")[1]["disk"].level is Level.CRITICAL
        line = hub.run("edgeagent", "health", check=False).stdout.splitlines()[0]
        assert line.startswith("EDGEAGENT CRITICAL - disk: ")
        assert " | " in line

        # Whoever is in no group may read how it stood a minute ago, and is told to ask with more rights.
        hub.eventually("test", "-e", "/run/edgeagent/last-health.json")
        status, checks = health(hub, user="berta")
        assert checks["agent"].level is Level.UNKNOWN
        assert "sudo" in checks["agent"].advice
        assert "as of" in checks["disk"].summary

        # What somebody writes into its configuration meanwhile is told beside what the agent goes on to tell.
        configure(hub, f'{SECTIONS}[log]\nlevel = "debg"\n')
        status, checks = health(hub)
        assert (status, checks["broker-control"].level) == (2, Level.OK)
        assert "log.level" in checks["configuration"].summary
        configure(hub, SECTIONS)

        up = bundle(hub, "up.tar.gz")
        assert "edgeagent.service" in up["log.txt"] or '"event"' in up["log.txt"]
        assert json.loads(up["units.json"])["edgeagent.service"]["active"] == "active"

        # A card at its end: the kernel makes it read-only.
        hub.run("systemctl", "stop", "mosquitto", "edgeagent")
        hub.run("mount", "-o", "remount,ro", "/var/lib/edgeagent")
        status, checks = health(hub)
        # What only the agent can see is told as it was last.
        assert (status, "as of" in checks["outbox"].summary) == (2, True)
        for name in ("agent", "units", "filesystem", "broker-port"):
            assert checks[name].level is Level.CRITICAL, checks[name]
            assert checks[name].advice
        assert (checks["database"].level, checks["database"].advice) == (
            Level.UNKNOWN,
            "see the check filesystem",
        )
        hub.run("mount", "-o", "remount,rw", "/var/lib/edgeagent")

        # A configuration that is wrong: it is not started again and again, and health says what to do.
        configure(hub, f'{SECTIONS}[cloud]\nurl = "https://127.0.0.1:9"\ntoken_file = "none.token"\n')
        hub.run("systemctl", "start", "edgeagent", check=False)
        hub.eventually("systemctl", "show", "edgeagent", "--property=ActiveState", says="failed")
        status, checks = health(hub)
        assert "config check" in checks["units"].advice
        assert checks["configuration"].level is Level.CRITICAL
        assert "none.token" in checks["configuration"].summary

        down = bundle(hub, "down.tar.gz")
        # Root has looked at the database meanwhile, and nothing of it is root's now.
        others = ("find", "/var/lib/edgeagent", "-type", "f", "!", "-user", "edgeagent")
        assert hub.run(*others).stdout == ""
        assert json.loads(down["store.json"])["tables"]["audit"] >= 1
        assert json.loads(down["config.json"])["problems"]
        for found in (up, down):
            assert [name for name, content in found.items() if SECRET in content] == []
