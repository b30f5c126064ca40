"""A hub from the package to the power cut: installed, set up by a code, and everything goes wrong once.

A Debian that boots, with the package from its file; the cloud and two appliances run beside it. Whatever
fails is seen by ``edgeagent health`` with what to do, and is over, without a restart by hand, when its
cause is.
"""

import os
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.containers import needs_container
from tests.support.installed_venue import PLUG, RELAY, InstalledVenue, installed_venue

LIMITS = "max_queued_messages 100000"


@pytest.mark.slow
@pytest.mark.timeout(1200)
@needs_container
@pytest.mark.requirement("H1", "H3", "H4", "H5", "O5", "R3", "W3")
@pytest.mark.threat("T9", "T21", "T25", "T41")
def test_a_hub_is_set_up_and_comes_through_everything_that_fails_at_it(tmp_path: Path) -> None:
    """One machine and one story, since each beginning takes seconds."""
    with installed_venue(tmp_path / "hub") as venue:
        _set_up(venue)
        _without_its_broker(venue)
        _without_its_cloud(venue)
        _without_room(venue)
        _with_a_cloud_whose_certificate_has_ended(venue)
        _in_1970(venue)
        _with_a_database_of_zeros(venue)
        _without_power(venue)


def _set_up(venue: InstalledVenue) -> None:
    said = venue.set_up()

    assert "mosquitto is changed" in said
    # As whoever sets it up is told: two appliances, and the line that its broker lacks
    venue.machine.eventually("edgeagent", "devices", "list", says=PLUG)
    venue.machine.run("edgeagent", "devices", "admit", PLUG, "--label", "Bar plug")
    venue.machine.run("edgeagent", "devices", "admit", RELAY, "--profile", "shelly-gen2")
    venue.sees("broker-limits", "warning", LIMITS)
    venue.machine.inside("/etc/mosquitto/conf.d/limits.conf").write_text(f"{LIMITS}\n")
    venue.machine.run("systemctl", "restart", "mosquitto")

    venue.is_well()
    assert venue.machine.run("edgeagent", "setup", "check").returncode == 0
    venue.switches("yes")
    assert venue.effects() == 1
    for unit, user in (("edgeagent", "edgeagent"), ("edgeagent-worker", "edgeagent-worker")):
        pid = venue.machine.run("systemctl", "show", "--property", "MainPID", "--value", unit).stdout.strip()
        assert venue.machine.run("ps", "-o", "user:20=", "-p", pid).stdout.strip() == user


def _without_its_broker(venue: InstalledVenue) -> None:
    venue.machine.run("systemctl", "stop", "mosquitto")
    venue.sees("broker-control", "warning", "systemctl status mosquitto")
    venue.machine.run("systemctl", "start", "mosquitto")
    venue.is_well()


def _without_its_cloud(venue: InstalledVenue) -> None:
    venue.machine.run("systemctl", "stop", "cloud")
    venue.sees("cloud", "warning", "check the network")
    venue.machine.run("systemctl", "start", "cloud")
    venue.is_well()


def _without_room(venue: InstalledVenue) -> None:
    full = venue.machine.inside("/var/lib/edgeagent/full")
    with full.open("wb") as file:
        free = os.statvfs(file.fileno())
        # What is kept for root is no room for the agent. What it writes meanwhile may take some of the rest.
        with suppress(OSError):
            os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_frsize)
    venue.sees("disk", "critical", "0 MiB free")
    full.unlink()
    venue.is_well()


def _with_a_cloud_whose_certificate_has_ended(venue: InstalledVenue) -> None:
    venue.certify_cloud(timedelta(minutes=-5))
    venue.machine.run("systemctl", "restart", "cloud")
    venue.sees("cloud", "warning", "the cloud has to renew its certificate")
    venue.certify_cloud(timedelta(days=90))
    venue.is_well()


def _in_1970(venue: InstalledVenue) -> None:
    before = venue.effects()
    venue.clock_of_the_agent("1970-01-02 00:00:00")
    venue.sees("cloud", "warning", "timedatectl")
    venue.sees("clock", "warning", "start a time service")
    # Nothing is thrown away, and people at the hub go on
    venue.machine.eventually("edgeagent", "send", PLUG, "power", "on=no", says="succeeded")
    assert venue.effects() == before + 1
    venue.clock_of_the_agent(None)
    venue.is_well()


def _with_a_database_of_zeros(venue: InstalledVenue) -> None:
    venue.machine.run("systemctl", "kill", "--kill-who=main", "--signal=KILL", "edgeagent")
    venue.machine.run("systemctl", "stop", "edgeagent")
    database = venue.machine.inside("/var/lib/edgeagent/hub.db")
    for file in database.parent.glob("hub.db*"):
        file.write_bytes(bytes(file.stat().st_size))
    venue.machine.run("systemctl", "start", "edgeagent")

    venue.sees("epoch", "warning", "admit the devices again")
    assert list(database.parent.glob("hub.db.damaged-*"))
    venue.machine.eventually("edgeagent", "devices", "list", says=PLUG)
    venue.machine.run("edgeagent", "devices", "admit", PLUG)
    venue.is_known()
    # The first command that is signed for the new life of the database is the word that all is well
    venue.switches("yes")
    venue.is_well()


def _without_power(venue: InstalledVenue) -> None:
    before = venue.effects()
    venue.machine.kill()
    venue.machine.boot()

    venue.is_well()
    # One of them is not what it does already: the plug has been without power, too
    venue.switches("no")
    venue.switches("yes")
    assert venue.effects() > before
