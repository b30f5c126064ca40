"""The line for ``systemctl status``: how the hub stands, and what is wrong worst."""

from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.agent.telling import StatusLine, worst
from edgeagent.contracts.mqtt import Session
from edgeagent.contracts.reports.health import Check, HealthReport, Level
from tests.flows.operating import operated_hub
from tests.support.clocks import NOON
from tests.support.notified import notified

pytestmark = pytest.mark.requirement("H2")


def report(*checks: tuple[str, Level]) -> HealthReport:
    return HealthReport(
        at=NOON, checks=[Check(name=name, level=level, summary=f"how {name} is") for name, level in checks]
    )


@pytest.mark.parametrize(
    ("checks", "words"),
    [
        ([], "all is well"),
        ([("disk", Level.OK), ("battery", Level.UNKNOWN)], "all is well"),
        ([("disk", Level.WARNING)], "WARNING disk: how disk is"),
        (
            [("disk", Level.WARNING), ("cloud", Level.CRITICAL), ("clock", Level.WARNING)],
            "CRITICAL cloud: how cloud is (and 2 more: edgeagent health)",
        ),
    ],
)
def test_the_worst_stands_there_and_how_much_more_there_is(
    checks: list[tuple[str, Level]], words: str
) -> None:
    assert worst(report(*checks)) == words


async def test_it_tells_devices_outbox_cloud_and_what_is_wrong(tmp_path: Path) -> None:
    with notified(tmp_path) as systemd:
        async with operated_hub(tmp_path, "dev-1") as desk:
            line = StatusLine(desk.health, systemd.manager)
            told = await line.line()
            assert told.startswith("1 device; ")
            assert "events wait; cloud ok; " in told

            # When a connection goes, that is told with the next line, without waiting for the whole look
            desk.hub.bus.goes_down(Session.CONTROL)
            await desk.hub.passes(timedelta(minutes=2))
            assert "broker-control: not connected" in await line.line()
