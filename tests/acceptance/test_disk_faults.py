"""The disk under the running agent fails at one write or sync after the other, once and for longer (SPEC R2).

Whatever fails: what the broker was told is taken reaches the cloud, once; no one-shot acts without being on
record first, and none twice; the agent lives, says what is wrong and goes on by itself.
"""

import errno
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.receipt import Outcome
from edgeagent.contracts.reports.health import Check, HealthReport, Level
from edgeagent.issuer.commands import SignedCommand
from tests.acceptance.disks import checked
from tests.support.agents_burst import Judgement
from tests.support.agents_venue import Venue
from tests.support.brokers import wait_until
from tests.support.faults import Calls, FaultyDisk

BURST: Final = 150
# As many as two commits of readings and a command make, and some.
PLACES: Final = range(1, 10)

pytestmark = [pytest.mark.slow, pytest.mark.requirement("R2", "R5", "Q1", "Q2")]


@dataclass(frozen=True, slots=True)
class Fault:
    """A way to fail, and the name that health has for it."""

    why: int
    calls: Calls
    word: str


FAULTS: Final = {
    "a write without room": Fault(errno.ENOSPC, Calls.WRITES, "the disk is full"),
    "a write that fails": Fault(errno.EIO, Calls.WRITES, "cannot be read or written"),
    "a sync that fails": Fault(errno.EIO, Calls.SYNCS, "has lost what it had taken"),
    "a read-only file system": Fault(errno.EROFS, Calls.WRITES | Calls.NAMES, "is read-only"),
}


@pytest.fixture
def venue(tmp_path: Path) -> Iterator[Venue]:
    with Venue(tmp_path) as there:
        yield there


@pytest.fixture
def disk(venue: Venue, tmp_path: Path) -> FaultyDisk:
    """The agent's, whole at first; the agent runs on it."""
    faulty = FaultyDisk(tmp_path / "faults", venue.agent.state_dir)
    venue.agent.environment = faulty.environment
    venue.open()
    return faulty


@pytest.mark.threat("T21", "T23")
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_one_call_that_fails_anywhere_costs_nothing_that_was_promised(
    venue: Venue, disk: FaultyDisk, fault: Fault
) -> None:
    pid, toggles = venue.agent.pid, []

    burst = venue.burst(12 * BURST, rate=100)
    for place in PLACES:
        disk.fails(fault.why, fault.calls, first=place, most=1)
        toggles.append(venue.order(venue.devices[0], ActionName.TOGGLE))
        wait_until(lambda: disk.failures > 0, "the call to fail")
    disk.is_well()
    burst.finish()
    venue.catch_up()

    assert venue.agent.pid == pid
    promises_are_kept(venue, toggles)


@pytest.mark.threat("T21", "T23", "T44")
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_while_every_call_fails_nothing_is_taken_and_health_says_why(
    venue: Venue, disk: FaultyDisk, fault: Fault
) -> None:
    pid, device = venue.agent.pid, venue.devices[0]

    disk.fails(fault.why, fault.calls)
    burst = venue.burst(BURST)
    toggle = venue.order(device, ActionName.TOGGLE)
    wait_until(lambda: fault.word in database(venue).summary, f"health to say that {fault.word}")
    bad, answer = database(venue), venue.agent.run("send", str(device), "toggle")
    stored_while_bad = set(venue.cloud.numbers())
    disk.is_well()
    end = venue.end_of(toggle)
    burst.finish()
    venue.catch_up()

    # It is refused to who types it, and not carried out.
    assert answer.returncode == 1
    assert "edgeagent health" in answer.stderr
    assert bad.level is Level.CRITICAL
    assert "no command is taken or run" in bad.summary
    assert bad.advice
    assert not stored_while_bad
    assert end.outcome is Outcome.SUCCEEDED
    assert venue.effects(device, ActionName.TOGGLE) == 1
    wait_until(lambda: database(venue).level is Level.OK, "the database to be well")
    wait_until(lambda: recoveries(venue) > 0, "the trail to tell of it")
    assert venue.agent.pid == pid
    promises_are_kept(venue, [toggle])


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_an_agent_that_is_stopped_on_a_bad_disk_stops_and_starts_again(
    venue: Venue, disk: FaultyDisk, fault: Fault
) -> None:
    burst = venue.burst(BURST)
    burst.finish()
    venue.catch_up()

    disk.fails(fault.why, fault.calls)
    status = venue.agent.stop()
    disk.is_well()
    venue.agent.start()
    venue.catch_up()

    assert status == 0
    promises_are_kept(venue, [])


@pytest.mark.requirement("T8")
def test_a_backup_of_which_a_sync_fails_is_whole_or_not_there(venue: Venue, disk: FaultyDisk) -> None:
    folder = venue.agent.state_dir / "backups"
    disk.counts(Calls.SYNCS)
    assert venue.agent.run("backup", "create").returncode == 0
    ends = []

    for place in range(1, disk.calls + 1):
        before = set(folder.iterdir())
        disk.fails(errno.EIO, Calls.SYNCS, first=place, most=1)
        made = venue.agent.run("backup", "create", "--json")
        ends.append((disk.failures, made.returncode))
        disk.is_well()
        if made.returncode == 0:
            assert checked(Path(json.loads(made.stdout)["path"]) / "hub.db") == "ok"
        else:
            assert set(folder.iterdir()) <= before
        wait_until(lambda: database(venue).level is Level.OK, "the database to be well")

    assert ends.count((1, 1)) >= 3, "its files, its folder, its name"


def test_a_start_on_a_full_disk_waits_until_there_is_room(venue: Venue, disk: FaultyDisk) -> None:
    epoch = venue.cloud.epoch
    venue.agent.kill()

    disk.is_full()
    venue.agent.launch()
    wait_until(lambda: "does not let us start" in venue.agent.log, "the agent to say so")
    disk.is_well()
    wait_until(lambda: venue.agent.run("status").returncode == 0, "the agent to start")

    assert venue.agent.status().epoch == epoch
    promises_are_kept(venue, [])


def promises_are_kept(venue: Venue, toggles: list[SignedCommand]) -> None:
    """What was acknowledged is stored, once; each toggle acted as its receipt says; the records are whole."""
    assert venue.judgement() == Judgement()
    assert venue.records_are_whole()
    ends = [venue.end_of(toggle, within=120).outcome for toggle in toggles]
    sure, possible = (
        ends.count(Outcome.SUCCEEDED),
        ends.count(Outcome.SUCCEEDED) + ends.count(Outcome.UNKNOWN),
    )
    assert sure <= venue.effects(venue.devices[0], ActionName.TOGGLE) <= possible
    assert venue.agent.stop() == 0
    assert venue.audit_break() is None
    assert checked(venue.agent.database) == "ok"


def database(venue: Venue) -> Check:
    """How the agent says that its database stands."""
    answer = venue.agent.run("health", "--json")
    report = HealthReport.model_validate_json(answer.stdout)
    return next(check for check in report.checks if check.name == "database")


def recoveries(venue: Venue) -> int:
    """How often the trail says that the disk takes writes again."""
    return venue.agent.run("audit", "list", "--json").stdout.count("store_recovered")
