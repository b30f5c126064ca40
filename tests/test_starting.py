"""A start asks for more time while it gets on or waits on purpose, and not when it is stuck (SPEC R6)."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.adapters.systemd import ServiceManager
from edgeagent.agent.starting import LONGEST, MORE, PATIENCE, Starting, starting
from tests.support.clocks import ManualReadings
from tests.support.notified import notified

pytestmark = pytest.mark.requirement("R6")

MORE_TIME = f"EXTEND_TIMEOUT_USEC={MORE // timedelta(microseconds=1)}"
LONG = 300_000


def work() -> None:
    """Take some of the processor, as a migration does."""
    for _ in range(20):
        sorted(range(LONG), key=lambda number: -number)


def test_each_stage_is_told_and_given_its_time(tmp_path: Path) -> None:
    with notified(tmp_path) as systemd:
        start = Starting(systemd.manager, ManualReadings().boot)

        start.at("the database")
        start.waits("the disk is full")

        assert systemd.heard() == [
            "STATUS=starting: the database",
            MORE_TIME,
            "STATUS=waiting: the disk is full",
            MORE_TIME,
        ]


def test_while_it_computes_it_is_given_more(tmp_path: Path) -> None:
    with notified(tmp_path) as systemd:
        start = Starting(systemd.manager, ManualReadings().boot)
        work()

        assert start.look()
        assert systemd.heard() == [MORE_TIME]


def test_one_that_does_nothing_is_given_up(tmp_path: Path) -> None:
    with notified(tmp_path) as systemd:
        start = Starting(systemd.manager, ManualReadings().boot)

        assert not start.look()
        assert systemd.heard() == []


def test_one_that_computes_for_hours_is_given_up_too(tmp_path: Path) -> None:
    readings = ManualReadings()
    with notified(tmp_path) as systemd:
        start = Starting(systemd.manager, readings.boot)
        readings.passes(LONGEST + timedelta(seconds=1))
        work()

        assert not start.look()
        assert systemd.heard() == []


@pytest.mark.threat("T22")
def test_one_that_waits_for_the_disk_is_never_given_up(tmp_path: Path) -> None:
    readings = ManualReadings()
    with notified(tmp_path) as systemd:
        start = Starting(systemd.manager, readings.boot)
        start.waits("the file system is read-only")
        systemd.heard()
        readings.passes(timedelta(days=3))

        assert start.look()
        assert systemd.heard() == [MORE_TIME]


@pytest.mark.threat("T22")
def test_now_and_then_it_is_started_anew_since_it_sees_no_disk_that_is_mounted_anew(tmp_path: Path) -> None:
    readings = ManualReadings()
    with notified(tmp_path) as systemd:
        start = Starting(systemd.manager, readings.boot)

        assert start.waits("the disk is gone")
        readings.passes(PATIENCE - timedelta(seconds=1))
        assert start.waits("the disk is gone")
        readings.passes(timedelta(seconds=1))
        assert not start.waits("the disk is gone")

    # Where nobody would start it anew, it waits on
    alone = Starting(ServiceManager(None, None), readings.boot)
    assert alone.waits("the disk is gone")
    readings.passes(2 * PATIENCE)
    assert alone.waits("the disk is gone")


async def test_nothing_is_asked_for_once_the_start_is_over(tmp_path: Path) -> None:
    with notified(tmp_path) as systemd:
        async with starting(systemd.manager, ManualReadings().boot) as start:
            start.at("the database")
        asked = [task for task in asyncio.all_tasks() if task.get_name() == "starting"]

        assert asked == []
