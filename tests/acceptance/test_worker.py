"""The isolated worker as a process: what it is for, and what comes of it when it is killed or stopped."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.receipt import Outcome
from edgeagent.ports.crash import CrashPoint
from tests.support.agents_venue import PLUG
from tests.support.agents_worker import WorkedVenue
from tests.support.brokers import wait_until
from tests.support.device import Device

pytestmark = [pytest.mark.slow, pytest.mark.requirement("W1")]

LEASE = 60.0
"""Seconds within which a lease has lapsed for certain."""


@pytest.fixture
def venue(tmp_path: Path) -> Iterator[WorkedVenue]:
    """A venue with one plug, whose agent runs; no worker does."""
    with WorkedVenue(tmp_path) as running:
        running.open()
        yield running


@pytest.fixture
def onlooker(venue: WorkedVenue) -> Iterator[Device]:
    """Somebody at the broker who counts what leaves for the plug."""
    with Device(venue.broker.port) as looking:
        yield looking


def toggles(onlooker: Device) -> int:
    """How often the broker was given the toggle."""
    return sum(heard.payload == b"TOGGLE" for heard in onlooker.hears_out("cmnd/nobody/mark"))


def holders(venue: WorkedVenue) -> list[str]:
    """Who holds locks."""
    with closing(sqlite3.connect(f"{venue.agent.database.as_uri()}?mode=ro", uri=True)) as connection:
        found = connection.execute("SELECT holder FROM locks WHERE token IS NOT NULL").fetchall()
    return [str(holder) for (holder,) in found]


def links_of(pid: int) -> list[str]:
    """What a process has open."""
    return [str(handle.readlink()) for handle in Path(f"/proc/{pid}/fd").iterdir()]


def families_of(pid: int) -> set[str]:
    """The tables of the kernel in which the sockets of a process stand."""
    inodes = {link.removeprefix("socket:[").removesuffix("]") for link in links_of(pid)}
    return {
        table
        for table in ("unix", "tcp", "tcp6", "udp", "udp6", "raw", "raw6", "packet", "netlink")
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
        if inodes & set(line.split())
    }


@pytest.mark.requirement("Q8", "T7")
def test_a_reboot_is_approved_at_the_hub_and_worked_beside_the_agent(venue: WorkedVenue) -> None:
    reboot = venue.approved(PLUG, ActionName.REBOOT)
    power = venue.end_of(venue.order(PLUG, ActionName.POWER, {"on": True}))
    assert venue.effects(PLUG, ActionName.REBOOT) == 0
    worker = venue.new_worker()
    worker.start()

    receipt = venue.end_of(reboot)

    assert power.outcome is Outcome.SUCCEEDED
    assert receipt.outcome is Outcome.SUCCEEDED, receipt
    assert venue.effects(PLUG, ActionName.REBOOT) == 1
    assert f":{worker.pid}" in venue.agent.run("--json", "audit", "list").stdout
    assert worker.end() == 0
    assert venue.agent.stop() == 0
    assert venue.audit_break() is None


@pytest.mark.threat("T55")
@pytest.mark.skipif(os.geteuid() != 0, reason="the worker lets nobody but root look into it")
def test_the_worker_has_nothing_open_but_its_work_socket(venue: WorkedVenue) -> None:
    worker = venue.new_worker()
    worker.start()
    toggle = venue.approved(PLUG, ActionName.TOGGLE)
    venue.end_of(toggle)

    assert families_of(worker.pid) == {"unix"}
    assert not [name for name in links_of(worker.pid) if str(venue.agent.state_dir) in name]
    assert "NoNewPrivs:\t1" in Path(f"/proc/{worker.pid}/status").read_text()


@pytest.mark.requirement("L1", "L2", "L3", "Q5")
@pytest.mark.threat("T18", "T19")
def test_a_worker_that_was_stopped_past_its_lease_finds_the_work_ended_and_changes_nothing(
    venue: WorkedVenue, onlooker: Device
) -> None:
    """It stands still while it waits for the plug; then its own patience is over, or it is refused."""
    first, second = venue.new_worker(), venue.new_worker()
    first.start()
    onlooker.listens("cmnd/#")
    venue.fleet.does("fault", PLUG, fault={"fault": "silent", "way": "said"})
    toggle = venue.approved(PLUG, ActionName.TOGGLE)
    wait_until(lambda: venue.effects(PLUG, ActionName.TOGGLE) == 1, "the plug to act")
    first.stops()
    second.start()

    receipt = venue.end_of(toggle, within=LEASE)
    first.goes_on()
    wait_until(
        lambda: "lock lost" in first.log or "command left" in first.log, "the first worker to let go of it"
    )

    assert (receipt.outcome, receipt.attempts) == (Outcome.UNKNOWN, 1)
    assert receipt.fence > 1
    assert venue.effects(PLUG, ActionName.TOGGLE) == 1
    assert toggles(onlooker) == 1
    assert len(venue.cloud.receipts(toggle.command.id)) == 1
    assert venue.agent.stop() == 0
    assert venue.audit_break() is None


@pytest.mark.threat("T18")
@pytest.mark.requirement("L2", "L3", "Q4", "Q5")
def test_a_worker_that_is_stopped_before_it_has_begun_is_followed_soon_and_sends_nothing_when_it_wakes(
    venue: WorkedVenue, onlooker: Device
) -> None:
    first, second = venue.new_worker(), venue.new_worker()
    first.start()
    onlooker.listens("cmnd/#")
    venue.awaits_work()
    first.stops()
    toggle = venue.approved(PLUG, ActionName.TOGGLE)
    wait_until(lambda: bool(holders(venue)), "the stopped worker to be lent the command")
    second.start()

    receipt = venue.end_of(toggle, within=20)
    first.goes_on()
    wait_until(lambda: "lock lost" in first.log, "the first worker to be refused")

    assert (receipt.outcome, receipt.attempts, receipt.fence) == (Outcome.SUCCEEDED, 1, 2)
    assert venue.effects(PLUG, ActionName.TOGGLE) == 1
    assert toggles(onlooker) == 1
    assert len(venue.cloud.receipts(toggle.command.id)) == 1


@pytest.mark.threat("T19")
@pytest.mark.requirement("L1", "L2", "L3")
def test_who_wakes_when_another_has_the_lock_does_not_free_it(venue: WorkedVenue) -> None:
    """The second waits for a plug that says nothing, with the lock; the first lets go of what it once had."""
    first, second = venue.new_worker(), venue.new_worker()
    first.start()
    venue.awaits_work()
    first.stops()
    toggle = venue.approved(PLUG, ActionName.TOGGLE)
    wait_until(lambda: bool(holders(venue)), "the stopped worker to be lent the command")
    venue.fleet.does("fault", PLUG, fault={"fault": "silent", "way": "said"})
    second.start()
    wait_until(lambda: venue.effects(PLUG, ActionName.TOGGLE) == 1, "the second to act")
    [holder] = holders(venue)
    assert holder.endswith(f":{second.pid}")

    first.goes_on()
    wait_until(lambda: "lock lost" in first.log, "the first worker to be refused")

    assert holders(venue) == [holder]
    receipt = venue.end_of(toggle, within=LEASE)
    assert (receipt.outcome, receipt.attempts, receipt.fence) == (Outcome.UNKNOWN, 1, 2)
    assert holders(venue) == []
    assert venue.effects(PLUG, ActionName.TOGGLE) == 1
    assert venue.agent.stop() == 0
    assert venue.audit_break() is None


@pytest.mark.requirement("L3", "Q4", "R5")
def test_a_worker_that_is_killed_before_it_sends_burns_no_attempt_and_is_followed_at_once(
    venue: WorkedVenue,
) -> None:
    """No lease has to lapse: the kernel tells at once that its connection is over."""
    first, second = venue.new_worker(), venue.new_worker()
    first.start()
    venue.awaits_work()
    first.stops()
    toggle = venue.approved(PLUG, ActionName.TOGGLE)
    wait_until(lambda: bool(holders(venue)), "the stopped worker to be lent the command")
    second.start()

    first.kill()
    receipt = venue.end_of(toggle, within=20)

    assert (receipt.outcome, receipt.attempts) == (Outcome.SUCCEEDED, 1)
    # One of its connections may be lent it before that one's end is heard, too.
    assert receipt.fence > 1
    assert venue.effects(PLUG, ActionName.TOGGLE) == 1


@pytest.mark.threat("T17")
@pytest.mark.requirement("I3", "M2", "R5")
def test_a_worker_that_is_killed_after_the_effect_does_not_let_it_happen_twice(venue: WorkedVenue) -> None:
    first, second = venue.new_worker(), venue.new_worker()
    first.start()
    reboot = venue.approved(PLUG, ActionName.REBOOT)
    wait_until(lambda: venue.effects(PLUG, ActionName.REBOOT) == 1, "the plug to reboot")

    first.kill()
    second.start()

    assert venue.end_of(reboot).outcome in {Outcome.UNKNOWN, Outcome.SUCCEEDED}
    assert venue.effects(PLUG, ActionName.REBOOT) == 1


@pytest.mark.requirement("L3", "R5")
def test_an_agent_that_is_killed_finds_its_worker_again(venue: WorkedVenue) -> None:
    worker = venue.new_worker()
    worker.start()
    venue.agent.kill()
    venue.agent.start()
    venue.agent.wait_for_broker()

    toggle = venue.end_of(venue.approved(PLUG, ActionName.TOGGLE))

    assert toggle.outcome is Outcome.SUCCEEDED
    assert venue.effects(PLUG, ActionName.TOGGLE) == 1
    assert worker.end() == 0


@dataclass(frozen=True, slots=True)
class Death:
    """What becomes of a one-shot command when the agent dies, and how often the plug acts on it."""

    outcome: Outcome
    effects: int


DEATHS: Final = {
    CrashPoint.COMMAND_CLAIMED: Death(Outcome.SUCCEEDED, 1),
    CrashPoint.STEP_RECORDED: Death(Outcome.UNKNOWN, 0),
    CrashPoint.STEP_SENT: Death(Outcome.UNKNOWN, 1),
    CrashPoint.COMMAND_SETTLED: Death(Outcome.SUCCEEDED, 1),
}


@pytest.mark.threat("T17")
@pytest.mark.requirement("I3", "L3", "Q4", "R5")
@pytest.mark.parametrize("point", DEATHS, ids=str)
def test_an_agent_that_dies_under_its_worker_does_nothing_twice(
    venue: WorkedVenue, point: CrashPoint
) -> None:
    """The worker lives on, and works for the next start of the agent."""
    worker = venue.new_worker()
    assert venue.agent.stop() == 0
    venue.agent.start(crash=(point, 1))
    venue.agent.wait_for_broker()
    worker.start()
    venue.awaits_work()

    toggle = venue.order(PLUG, ActionName.TOGGLE)
    wait_until(lambda: venue.approve(toggle, PLUG) or not venue.agent.alive, "the approval", within=LEASE)
    assert venue.agent.wait_for_end() == -9
    venue.agent.start()

    receipt = venue.end_of(toggle)
    assert (receipt.outcome, receipt.attempts) == (DEATHS[point].outcome, 1)
    assert venue.effects(PLUG, ActionName.TOGGLE) == DEATHS[point].effects
    assert worker.end() == 0
    assert venue.agent.stop() == 0
    assert venue.audit_break() is None
