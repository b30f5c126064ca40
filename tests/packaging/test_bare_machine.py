"""The README's first lines on a machine with git and Python only: what is missing is fetched, or named."""

from pathlib import Path

import pytest

from tests.support.bare import BareMachine
from tests.support.containers import needs_container

pytestmark = [needs_container, pytest.mark.requirement("H1")]


@pytest.mark.slow(weight=60)
@pytest.mark.timeout(1200)
def test_the_venue_plays_on_a_machine_with_git_and_python_only(tmp_path: Path) -> None:
    machine = BareMachine(tmp_path / "machine")
    machine.clone_into("/root/edgeagent")

    played = machine.run("./run", "--once", at="/root/edgeagent", within=1100)

    assert played.returncode == 0, played.stdout[-4000:]
    assert "run: fetching with apt: mosquitto" in played.stdout
    assert "run: fetching with apt: python3.11-venv" in played.stdout
    assert "run: fetching Python packages into .venv" in played.stdout
    assert "statements are true" in played.stdout


@pytest.mark.slow
def test_who_may_not_install_is_told_the_exact_line(tmp_path: Path) -> None:
    machine = BareMachine(tmp_path / "machine")
    machine.run("useradd", "--create-home", "venue")
    machine.clone_into("/home/venue/edgeagent")
    machine.run("chown", "-R", "venue:", "/home/venue")

    for script, line in {
        "./run": "run: please run: sudo apt-get install -y python3.11-venv\n",
        "./test": "test: please run: sudo apt-get install -y mosquitto ",
        "packaging/build": "build: please run: sudo apt-get install -y python3.11-venv\n",
    }.items():
        refused = machine.run(script, at="/home/venue/edgeagent", user="venue")

        assert refused.returncode == 2, refused.stdout
        assert line in refused.stdout
        # All of it in one line
        assert refused.stdout.count("apt-get") == 1
        assert "python3.11-venv" in refused.stdout
    assert machine.run("test", "-e", "/home/venue/edgeagent/.venv").returncode == 1
