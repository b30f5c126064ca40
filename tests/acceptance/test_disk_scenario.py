"""The disk fails at a write or sync anywhere in all that a hub does, once and for longer (SPEC R2).

Readings go up, a command comes down, one fails and becomes a dead letter that is replayed, a command of
several steps is worked, upkeep ends one whose device stays away, a backup is made. The places at which the
disk fails are spread over the writes that this takes on a disk that is well.
"""

import errno
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.contracts.reports.health import HealthReport, Level
from edgeagent.issuer.commands import SignedCommand
from tests.acceptance.disks import checked
from tests.support.agents_burst import Judgement
from tests.support.agents_cloud import FIRST
from tests.support.agents_venue import LAMP, PLUG, Venue
from tests.support.brokers import wait_until
from tests.support.faults import Calls, FaultyDisk
from tests.support.stores import query
from tests.support.stubborn_lamps import StubbornLamps

BURST: Final = 50
STAYS_AWAY: Final = timedelta(seconds=3)
SCENES: Final = ({"level": 35, "kelvin": 2703}, {"level": 60, "kelvin": 4000})
SCENE_ENDS: Final = frozenset({Outcome.SUCCEEDED, Outcome.UNKNOWN, Outcome.FAILED, Outcome.ROLLED_BACK})
"""How a command of several steps may end when the disk fails between them."""
FAULTS: Final = {
    "a write without room": (errno.ENOSPC, Calls.WRITES),
    "a write that fails": (errno.EIO, Calls.WRITES),
    "a sync that fails": (errno.EIO, Calls.SYNCS),
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.threat("T21", "T23", "T44"),
    pytest.mark.requirement("R2", "R5", "Q1", "Q3", "D1", "D2", "S1", "S3", "I3"),
]


@dataclass(slots=True)
class Scenario:
    """All that a hub does, again and again.

    Attributes:
        venue: a hub with a plug, a lamp, and one lamp that says no.
        disk: of its agent.
        stubborn: that lamp, and another that is not there.
        toggles: what was ordered of the plug.
        failing: what was ordered of the lamp that says no.
    """

    venue: Venue
    disk: FaultyDisk
    stubborn: StubbornLamps
    toggles: list[SignedCommand] = field(default_factory=list)
    failing: list[SignedCommand] = field(default_factory=list)
    _turn: int = 0

    def begins(self) -> list[SignedCommand]:
        """Let everything begin; what was ordered."""
        venue, turn = self.venue, self._turn
        self._turn += 1
        burst = venue.burst(BURST, first=FIRST + turn * BURST)
        self.toggles.append(venue.order(PLUG, ActionName.TOGGLE))
        refuses, is_away = self.stubborn.devices
        self.failing.append(venue.order(refuses, ActionName.POWER, {"on": True}))
        scene = venue.order(LAMP, ActionName.SCENE, SCENES[turn % 2])
        away = venue.sign(is_away, ActionName.POWER, {"on": True}, valid_for=STAYS_AWAY)
        venue.cloud.send(away.envelope)
        self._backs_up()
        venue.agent.run("dead-letters", "replay", "--action", "power")
        burst.finish()
        return [self.toggles[-1], self.failing[-1], scene, away]

    def ends(self, orders: list[SignedCommand]) -> None:
        """Wait until all of it is over, on a disk that is well."""
        toggle, failing, scene, away = orders
        told = self.venue.cloud.receipts
        wait_until(lambda: bool(told(failing.command.id)), "what fails to be over", within=120)
        # One for each run: it may have been replayed.
        outcomes = {event.data["outcome"] for event in told(failing.command.id)}
        assert outcomes <= {Outcome.FAILED, Outcome.UNKNOWN}
        toggled, shown, left = (self.venue.end_of(order, within=120) for order in (toggle, scene, away))
        assert toggled.outcome in {Outcome.SUCCEEDED, Outcome.UNKNOWN}, toggled
        assert shown.outcome in SCENE_ENDS, shown
        # Expired here, or before the disk took it.
        assert left.outcome in {Outcome.EXPIRED, Outcome.REFUSED}, left
        assert left.reason is Reason.EXPIRED
        self.venue.catch_up()

    def _backs_up(self) -> None:
        """Make a backup on the same disk: it is whole, or it is not there and somebody is told."""
        folder = self.venue.agent.state_dir / "backups"
        before = set(folder.iterdir()) if folder.exists() else set()
        made = self.venue.agent.run("backup", "create", "--json")
        told = json.loads(made.stdout)
        if made.returncode == 0:
            assert checked(Path(told["path"]) / "hub.db") == "ok"
        else:
            assert told["error"]["message"]
            assert {path for path in folder.iterdir() if path.name != ".making"} <= before


@pytest.fixture
def scenario(tmp_path: Path) -> Iterator[Scenario]:
    """A hub that runs on a disk which is well at first."""
    with Venue(tmp_path, lamp=True) as venue, StubbornLamps(venue.broker, 2) as stubborn:
        disk = FaultyDisk(tmp_path / "faults", venue.agent.state_dir)
        venue.agent.environment = disk.environment
        venue.open()
        stubborn.are_admitted(venue.agent)
        stubborn.leaves(stubborn.devices[1])
        wait_until(lambda: not venue.agent.device(stubborn.devices[1]).online, "one to be away")
        yield Scenario(venue, disk, stubborn)


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "for longer"])
def test_whatever_the_hub_does_when_its_disk_fails_nothing_that_was_promised_is_lost(
    scenario: Scenario, fault: tuple[int, Calls], *, lasting: bool
) -> None:
    (why, calls), disk, agent = fault, scenario.disk, scenario.venue.agent
    pid = agent.pid
    disk.counts(calls)
    scenario.ends(scenario.begins())
    count = disk.calls

    # Once in the first half of it, for longer in the second; tests of each call alone try every place.
    first = 1 + count * (1 + 2 * lasting) // 4
    disk.fails(why, calls, first=first, most=None if lasting else 1)
    orders = scenario.begins()
    wait_until(lambda: disk.failures > 0, "the call to fail")
    if lasting:
        wait_until(lambda: is_told(scenario.venue), "health to tell of the disk")
    disk.is_well()
    scenario.ends(orders)

    assert agent.pid == pid
    promises_are_kept(scenario)


def is_told(venue: Venue) -> bool:
    """Whether health says that the database takes nothing."""
    report = HealthReport.model_validate_json(venue.agent.run("health", "--json").stdout)
    return any(check.name == "database" and check.level is Level.CRITICAL for check in report.checks)


def promises_are_kept(scenario: Scenario) -> None:
    """Nothing acknowledged is lost, nothing acted twice, and each failure left one dead letter."""
    venue = scenario.venue
    assert venue.judgement() == Judgement()
    assert venue.records_are_whole()
    ends = [venue.end_of(toggle).outcome for toggle in scenario.toggles]
    assert ends.count(Outcome.SUCCEEDED) <= venue.effects(PLUG, ActionName.TOGGLE) <= len(ends)
    assert venue.agent.stop() == 0
    letters = query(venue.agent.database, "SELECT run FROM dead_letters")
    buried = query(
        venue.agent.database,
        "SELECT run FROM inbox WHERE state IN ('failed', 'unknown') ORDER BY run",
    )
    assert sorted(letters) == buried
    assert len(buried) >= len(scenario.failing)
    assert venue.audit_break() is None
    assert checked(venue.agent.database) == "ok"
