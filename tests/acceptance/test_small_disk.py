"""A real file system that is full, and one that the kernel has made read-only (SPEC R2)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.receipt import Outcome
from edgeagent.contracts.reports.health import Check, HealthReport, Level
from tests.acceptance.disks import checked
from tests.acceptance.ext4 import Ext4
from tests.support.agents_burst import Judgement
from tests.support.agents_cloud import FIRST
from tests.support.agents_venue import Venue
from tests.support.brokers import wait_until

FOUR_MEBIBYTES: Final = 4 * 1024 * 1024
BURST: Final = 3000

pytestmark = [pytest.mark.slow, pytest.mark.requirement("R2", "Q1", "Q2")]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Ext4]:
    """A disk for the agent's state."""
    with Ext4(tmp_path / "ext4", size=FOUR_MEBIBYTES) as mounted:
        yield mounted


@pytest.fixture
def venue(disk: Ext4, tmp_path: Path) -> Iterator[Venue]:
    with Venue(tmp_path, state_dir=disk.root / "state") as there:
        there.open()
        yield there


@pytest.mark.threat("T21")
def test_a_disk_that_fills_up_and_has_room_again_costs_nothing_that_was_acknowledged(
    venue: Venue, disk: Ext4
) -> None:
    pid, device = venue.agent.pid, venue.devices[0]

    for first in (FIRST, FIRST + 2 * BURST):
        ballast = disk.fill()
        toggle = venue.order(device, ActionName.TOGGLE)
        # What comes has to be kept: as long as it goes up, the pages that it leaves are enough for the next.
        venue.server.kill()
        burst = venue.burst(2 * BURST, rate=600, first=first)
        wait_until(lambda: "the disk is full" in database(venue).summary, "health to name it")
        ballast.unlink()
        venue.server.start()
        assert venue.end_of(toggle).outcome in {Outcome.SUCCEEDED, Outcome.UNKNOWN}
        wait_until(lambda: database(venue).level is Level.OK, "the database to be well")
        burst.finish()
    venue.catch_up()

    assert venue.agent.pid == pid
    assert venue.judgement() == Judgement()
    assert venue.records_are_whole()
    assert venue.effects(device, ActionName.TOGGLE) <= 2
    assert venue.agent.stop() == 0
    assert venue.audit_break() is None
    assert checked(venue.agent.database) == "ok"


def test_on_a_file_system_that_has_become_read_only_the_agent_lives_and_does_nothing(
    venue: Venue, disk: Ext4
) -> None:
    pid, device = venue.agent.pid, venue.devices[0]

    disk.becomes_read_only()
    burst = venue.burst(BURST)
    toggle = venue.order(device, ActionName.TOGGLE)
    wait_until(lambda: "read-only" in database(venue).summary, "health to name it")

    assert database(venue).level is Level.CRITICAL
    assert venue.agent.pid == pid
    assert venue.effects(device, ActionName.TOGGLE) == 0
    assert venue.agent.stop() == 0

    disk.come_back()
    venue.agent.start()
    assert venue.end_of(toggle).outcome is Outcome.SUCCEEDED
    burst.finish()
    venue.catch_up()
    assert venue.judgement() == Judgement()
    assert venue.effects(device, ActionName.TOGGLE) == 1


def database(venue: Venue) -> Check:
    """How the agent says that its database stands."""
    answer = venue.agent.run("health", "--json")
    report = HealthReport.model_validate_json(answer.stdout)
    return next(check for check in report.checks if check.name == "database")
