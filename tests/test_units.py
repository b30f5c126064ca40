"""The units of systemd: what they allow is little, and the worker's next to nothing (SPEC H2, W1)."""

import configparser
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

UNITS: Final = Path(__file__).parents[1] / "systemd"
ANALYZE: Final = shutil.which("systemd-analyze")


def service(name: str) -> set[tuple[str, str]]:
    """What stands in the ``[Service]`` section of a unit; of a repeated key the last."""
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # keys as they are written
    parser.read(UNITS / name, "utf-8")
    return set(parser.items("Service"))


@pytest.mark.requirement("W1", "H2")
@pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not here")
@pytest.mark.parametrize(("unit", "most"), [("edgeagent.service", 1.5), ("edgeagent-worker.service", 0.5)])
def test_a_unit_is_exposed_as_little_as_is_promised(unit: str, most: float) -> None:
    assert ANALYZE is not None
    words = ["security", "--offline=yes", "--no-pager", f"--threshold={round(most * 10)}", str(UNITS / unit)]

    said = subprocess.run([ANALYZE, *words], capture_output=True, text=True, timeout=60, check=False)

    assert said.returncode == 0, said.stdout[-300:] + said.stderr
    assert "Unknown key name" not in said.stderr


@pytest.mark.requirement("W1")
def test_the_worker_has_no_network_no_privilege_and_no_file_of_the_agent() -> None:
    assert service("edgeagent-worker.service") >= {
        ("PrivateNetwork", "yes"),
        ("RestrictAddressFamilies", "AF_UNIX"),
        ("CapabilityBoundingSet", ""),
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("LimitFSIZE", "0"),
        ("User", "edgeagent-worker"),
    }
    assert "/var/lib/edgeagent" in dict(service("edgeagent-worker.service"))["InaccessiblePaths"]


@pytest.mark.requirement("H2")
def test_the_agent_sees_who_asks_and_may_ask_for_the_time_but_not_set_it() -> None:
    assert service("edgeagent.service") >= {
        ("PrivateUsers", "no"),
        ("ProtectClock", "no"),
        ("CapabilityBoundingSet", ""),
        ("RestartPreventExitStatus", "78"),
        ("StateDirectoryMode", "0700"),
    }
