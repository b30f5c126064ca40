"""The units of systemd as they are written: what they allow is little (SPEC H2, W1, W3).

What they do is tried in ``test_units_at_work.py``, on a machine that runs them.
"""

import re
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
UNITS: Final = ROOT / "systemd"
ANALYZE: Final = shutil.which("systemd-analyze")
SERVICES: Final = ("edgeagent.service", "edgeagent-worker.service", "edgeagent-fetch@.service")

needs_analyze = pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not here")


def settings(name: str) -> dict[str, list[str]]:
    """What a unit says: for each key its values, in order."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in (UNITS / name).read_text("utf-8").splitlines():
        key, is_setting, value = line.partition("=")
        if is_setting and not line.startswith(("#", "[")):
            found[key].append(value)
    return found


def analyze(*words: str) -> subprocess.CompletedProcess[str]:
    """Ask systemd what it makes of them."""
    assert ANALYZE is not None
    return subprocess.run([ANALYZE, *words], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.requirement("W1", "H2")
@needs_analyze
@pytest.mark.parametrize(("unit", "most"), [*zip(SERVICES, (1.5, 0.5, 1.5), strict=True)])
def test_a_unit_is_exposed_as_little_as_is_promised(unit: str, most: float) -> None:
    """And as the page for operators says."""
    page = (UNITS.parent / "docs" / "operating.md").read_text("utf-8")
    [row] = [line for line in page.splitlines() if line.startswith(f"| `{unit}`")]
    told = float(row.rstrip("| ").rsplit("|", 1)[-1])
    assert told <= most
    most = told
    words = ["security", "--offline=yes", "--no-pager", f"--threshold={round(most * 10)}", str(UNITS / unit)]

    said = analyze(*words)

    assert said.returncode == 0, said.stdout[-300:] + said.stderr
    assert "Unknown key name" not in said.stderr


@pytest.mark.requirement("H2")
@needs_analyze
def test_systemd_finds_nothing_wrong_with_them(tmp_path: Path) -> None:
    """With a program that is there."""
    for unit in UNITS.glob("edgeagent*.s*"):
        text = unit.read_text("utf-8").replace("/opt/edgeagent/bin/edgeagent", "/bin/true")
        (tmp_path / unit.name).write_text(text, "utf-8")

    said = analyze("verify", "--man=no", *map(str, sorted(tmp_path.iterdir())))

    assert (said.returncode, said.stdout + said.stderr) == (0, "")


@pytest.mark.requirement("W1", "W3")
@pytest.mark.parametrize("unit", SERVICES)
def test_no_unit_runs_as_root_or_can_become_it(unit: str) -> None:
    said = settings(unit)

    assert said["User"] == [unit.removesuffix(".service").removesuffix("@")]
    assert said["CapabilityBoundingSet"] == said["AmbientCapabilities"] == [""]
    assert said["NoNewPrivileges"] == ["yes"]
    assert said["LimitCORE"] == ["0"]


@pytest.mark.requirement("W1", "W2")
@pytest.mark.parametrize("unit", SERVICES[1:])
def test_worker_and_fetcher_have_no_secret_and_no_file_of_the_agent_or_the_broker(unit: str) -> None:
    said = settings(unit)

    hidden = " ".join(said["InaccessiblePaths"]).split()
    assert {"-/var/lib/edgeagent", "-/etc/edgeagent", "-/etc/mosquitto", "-/var/lib/mosquitto"} <= set(hidden)
    assert said["ProtectSystem"] == ["strict"]
    credentials = {"LoadCredential", "LoadCredentialEncrypted", "SetCredential", "EnvironmentFile"}
    assert not credentials & said.keys()


@pytest.mark.requirement("H1", "W1")
def test_what_is_said_of_the_environment_names_the_units_that_read_it() -> None:
    readers = {unit.name for unit in UNITS.glob("*.service") if "EnvironmentFile" in settings(unit.name)}

    [head] = re.findall("^# Environment of .*", (ROOT / "packaging/debian/default").read_text("utf-8"))
    [row] = re.findall(
        "^.*`/etc/default/edgeagent`.*$", (ROOT / "docs/installing.md").read_text("utf-8"), re.MULTILINE
    )
    for said in (head, row):
        assert set(re.findall(r"edgeagent[a-z@-]*\.(?:service|socket)", said)) == readers


@pytest.mark.requirement("W1")
def test_the_worker_has_no_network_and_the_fetcher_no_way_to_this_machine() -> None:
    worker, fetcher = settings("edgeagent-worker.service"), settings("edgeagent-fetch@.service")

    assert worker["PrivateNetwork"] == ["yes"]
    assert worker["RestrictAddressFamilies"] == ["AF_UNIX"]
    assert worker["LimitFSIZE"] == ["0"]
    assert fetcher["RestrictAddressFamilies"] == ["AF_INET AF_INET6"]
    assert fetcher["IPAddressDeny"] == ["localhost link-local multicast"]
    assert "~bind listen accept accept4" in fetcher["SystemCallFilter"]


@pytest.mark.requirement("H2")
def test_the_agent_sees_who_asks_and_may_ask_for_the_time_but_not_set_it() -> None:
    said = settings("edgeagent.service")

    assert said["PrivateUsers"] == ["no"]
    assert said["ProtectClock"] == ["no"]
    assert said["StateDirectoryMode"] == ["0700"]


@pytest.mark.requirement("H2")
def test_the_agent_starts_without_network_and_time_and_is_never_given_up() -> None:
    said = settings("edgeagent.service")

    # None of these waits for anything: neither network-online.target nor time-sync.target.
    assert said["After"] == ["network.target time-set.target mosquitto.service"]
    assert not {"Wants", "Requires", "BindsTo"} & said.keys()
    assert said["StartLimitIntervalSec"] == ["0"]
    assert said["RestartPreventExitStatus"] == ["78"]


@pytest.mark.requirement("H2")
@pytest.mark.threat("T56")
@pytest.mark.parametrize(("unit", "most"), [*zip(SERVICES, ("256M", "96M", "128M"), strict=True)])
def test_what_grows_without_end_is_ended_before_the_machine_suffers(unit: str, most: str) -> None:
    said = settings(unit)

    assert said["MemoryMax"] == [most]
    assert said["OOMPolicy"] == ["stop"]
    assert {"TasksMax", "LimitNOFILE"} <= said.keys()
