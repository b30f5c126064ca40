"""The product in a machine of a test as its units run it, without its package: quicker than building one.

    with booted(debian(SUITE), tmp_path / "hub", program(tmp_path)) as hub:
        install(hub, sections, {"hub.token": "secret"})
        hub.run("systemctl", "start", "edgeagent")

What runs there is this checkout, by the machine's own Python, under the users and units of ``systemd/``.
"""

import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from edgeagent.contracts.door import decode
from edgeagent.contracts.reports.health import Check, HealthReport
from tests.support.containers import Container

ROOT: Final = Path(__file__).parents[2]
UNITS: Final = ROOT / "systemd"
"""The units and users that are shipped."""

_SUITES: Final = {(3, 11): "bookworm", (3, 13): "trixie"}
SUITE: Final = _SUITES.get(sys.version_info[:2], "")
"""The Debian whose Python runs the tests, so that it can use their packages; empty where there is none."""

needs_its_python = pytest.mark.skipif(not SUITE, reason="no Debian has this Python; it takes 3.11 or 3.13")

_OPT: Final = "/opt/edgeagent"
_LAUNCHER: Final = f"""#!/usr/bin/python3 -I
import sys
sys.path[:0] = ["{_OPT}/lib/app", "{_OPT}/lib/site"]
from edgeagent.cli.main import main
sys.exit(main())
"""


def program(folder: Path) -> Mapping[Path, str]:
    """What a machine has to see to run the product (``binds``)."""
    launcher = folder / "launcher"
    launcher.mkdir(exist_ok=True)
    (launcher / "edgeagent").write_text(_LAUNCHER)
    (launcher / "edgeagent").chmod(0o755)
    return {
        launcher: f"{_OPT}/bin",
        ROOT / "edgeagent": f"{_OPT}/lib/app/edgeagent",
        Path(sysconfig.get_path("purelib")): f"{_OPT}/lib/site",
    }


def install(hub: Container, sections: str, secrets: Mapping[str, str] | None = None) -> None:
    """Put users, units and a configuration in; nothing is started.

    Args:
        hub: the machine, booted with ``program``.
        sections: TOML of everything but ``[hub]``'s id and groups.
        secrets: what lies in the folder of credentials, by name.
    """
    for unit in UNITS.glob("edgeagent*.s*"):
        hub.inside(f"/lib/systemd/system/{unit.name}").write_text(unit.read_text())
    hub.inside("/usr/lib/sysusers.d/edgeagent.conf").write_text((UNITS / "edgeagent-users.conf").read_text())
    hub.run("systemd-sysusers")
    hub.run("install", "-d", "-m", "750", "-o", "root", "-g", "edgeagent", "/etc/edgeagent")
    hub.run("install", "-d", "-m", "700", "/etc/edgeagent/credentials")
    for name, secret in (secrets or {}).items():
        path = f"/etc/edgeagent/credentials/{name}"
        hub.run("install", "-m", "600", "/dev/stdin", path, given=secret)
    configure(hub, sections)
    hub.run("ln", "-sf", f"{_OPT}/bin/edgeagent", "/usr/bin/edgeagent")
    hub.run("systemctl", "daemon-reload")


def configure(hub: Container, sections: str) -> None:
    """Write the agent's configuration."""
    hub_section = 'id = "venue-7"\nview_group = "edgeagent-view"\noperate_group = "edgeagent-operate"'
    hub.run(
        *("install", "-m", "640", "-o", "root", "-g", "edgeagent"),
        *("/dev/stdin", "/etc/edgeagent/config.toml"),
        given=f"[hub]\n{hub_section}\n{sections}",
    )


def checked(hub: Container, *well: str) -> dict[str, Check]:
    """What health says to root, by name of the check, as soon as these checks are well.

    Raises:
        TimeoutError: they are not.
    """
    look = "import json, sys; told = {c['name']: c['level'] for c in json.load(sys.stdin)['checks']}"
    judge = f"{look}; sys.exit(any(told.get(name) != 'ok' for name in sys.argv[1:]))"
    ask = 'said=$(edgeagent --json health); echo "$said"; echo "$said" | python3 -c "$0" "$@"'
    said = hub.eventually("sh", "-c", ask, judge, *well)
    report = decode(HealthReport, said.encode(), limit=1_000_000)
    return {check.name: check for check in report.checks}


def journal(hub: Container, unit: str) -> str:
    """What a unit has said until now, and what systemd says of it."""
    # What was said takes a moment to get there.
    hub.run("journalctl", "--sync")
    return hub.run("journalctl", "-u", unit, "-o", "cat", "--no-pager").stdout


def drop_in(hub: Container, unit: str, text: str) -> None:
    """Override some lines of a unit."""
    folder = hub.inside(f"/etc/systemd/system/{unit}.d")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "test.conf").write_text(text)
    hub.run("systemctl", "daemon-reload")


def shown(hub: Container, unit: str, *properties: str) -> dict[str, str]:
    """What systemd says of a unit."""
    said = hub.run("systemctl", "show", unit, *(f"--property={name}" for name in properties)).stdout
    return dict(line.split("=", 1) for line in said.splitlines() if "=" in line)
