"""A database of zeros, under a running agent and while it is down: health says so, with what to do."""

from contextlib import closing
from pathlib import Path

import pytest

from edgeagent.contracts.reports.health import Check, HealthReport, Level
from tests.cli.building import typed
from tests.support.agents import AgentProcess
from tests.support.brokers import free_port

pytestmark = [pytest.mark.slow, pytest.mark.requirement("O5", "R3"), pytest.mark.threat("T25")]


def checks(agent: AgentProcess) -> dict[str, Check]:
    """What health finds, by name."""
    said = typed("--config", str(agent.config), "--json", "health")
    return {check.name: check for check in said.report(HealthReport).checks}


def fill_with_zeros(file: Path) -> None:
    """As a card does that has lost its pages: the size stays."""
    with file.open("r+b") as opened:
        opened.write(bytes(file.stat().st_size))


def test_zeros_are_told_and_a_start_sets_them_aside(tmp_path: Path) -> None:
    with closing(AgentProcess(tmp_path / "hub", f"[broker]\nport = {free_port()}\n")) as agent:
        agent.start()
        well = checks(agent)
        assert agent.stop() == 0
        before = checks(agent)["database"]

        fill_with_zeros(agent.database)
        down = checks(agent)
        assert agent.database.read_bytes().strip(b"\0") == b""
        agent.start()
        after = checks(agent)
        kept = [path for path in agent.state_dir.iterdir() if ".damaged-" in path.name]

        # And once more, under the running agent, whose own pages are in its memory.
        fill_with_zeros(agent.database)
        agent.kill()
        killed = checks(agent)["database"]
        agent.start()
        at_last = checks(agent)

    assert well["pages"].level is Level.OK
    assert before.level is Level.OK
    assert down["agent"].level is Level.CRITICAL
    for seen in (down["database"], killed):
        assert seen.level is Level.CRITICAL
        assert "damaged" in seen.summary
        assert "set aside" in seen.advice
        assert "backup" in seen.advice
    assert len(kept) >= 1
    assert after["epoch"].level is Level.WARNING
    assert after["database"].level is Level.OK
    assert at_last["database"].level is Level.OK
