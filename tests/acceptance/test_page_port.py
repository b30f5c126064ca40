"""Somebody on this machine is at the page's port first: the hub works, says so, and opens the page later."""

import socket
from contextlib import closing, suppress
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from edgeagent.contracts.door import decode
from edgeagent.contracts.reports.health import Check, HealthReport, Level
from tests.support.agents import AgentProcess
from tests.support.agents_venue import PLUG, Venue
from tests.support.brokers import HOST, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.requirement("H6", "O5")]


def of_the_page(agent: AgentProcess) -> Check:
    """What health says of it."""
    said = agent.run("--json", "health")
    checks = decode(HealthReport, said.stdout.encode(), limit=1_000_000).checks
    [found] = [check for check in checks if check.name == "web"]
    return found


def answers(port: int) -> bool:
    """Whether the page is there."""
    with suppress(URLError), urlopen(f"http://{HOST}:{port}/healthz", timeout=20) as answer:
        return bool(answer.status == 200)
    return False


@pytest.mark.threat("T49")
def test_whoever_takes_the_pages_port_keeps_the_page_away_and_stops_no_hub(tmp_path: Path) -> None:
    taken = socket.create_server((HOST, 0))
    port = taken.getsockname()[1]
    with closing(taken), Venue(tmp_path) as venue:
        config = venue.agent.config
        config.write_text(config.read_text("utf-8").replace("127.0.0.1:0", f"{HOST}:{port}"), "utf-8")

        # Readings come and go up, which this waits for, and commands are done.
        venue.open()
        sent = venue.agent.run("send", PLUG, "power", "on=true")
        check = of_the_page(venue.agent)

        assert sent.returncode == 0, sent.stderr
        assert check.level is Level.WARNING
        assert f"[web] listen {HOST}:{port}: Address already in use" in check.summary
        assert f"sport = :{port}" in check.advice

        taken.close()

        wait_until(lambda: answers(port), "the page to come")
        assert of_the_page(venue.agent).level is Level.OK
        assert venue.agent.log.count("nothing is shown over HTTP") == 1
        assert venue.agent.stop() == 0
