"""The machine's clock in 1970, 400 days ahead, 400 days behind, and back, under the real agent (SPEC R4).

libfaketime moves CLOCK_REALTIME of the agent's process while it runs and leaves CLOCK_BOOTTIME and
CLOCK_MONOTONIC alone, as a bad time server does. Nothing expires by it, nothing is done early, no timer
stalls, no row is lost; what is not proven waits.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import libfaketime
import pytest

from edgeagent.clock import ClockSource, SystemTime
from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.event import Stream, TimeQuality
from edgeagent.contracts.policy import Tier
from edgeagent.contracts.receipt import Outcome
from edgeagent.ids import DeviceId
from tests.acceptance.replaying_queue import ReplayingQueue
from tests.support.agents_keys import Keys
from tests.support.agents_venue import PLUG, Venue
from tests.support.brokers import free_port, wait_until
from tests.support.clocks import ManualClock
from tests.support.stores import query

IN_1970: Final = "@1970-01-01 00:05:00"
AHEAD: Final = "+400d"
BEHIND: Final = "-400d"
RIGHT: Final = "+0"
JUMPS: Final = (AHEAD, RIGHT, BEHIND, "+1h", "-1h", IN_1970)
"""An hour on and back again is what a wrong zone or the end of summer time looks like."""
ROWS: Final = 100
PLUGS: Final = 4
HOUR: Final = timedelta(hours=1)
VALID: Final = timedelta(minutes=5)

pytestmark = [pytest.mark.slow, pytest.mark.requirement("R4", "T5", "T6"), pytest.mark.threat("T9", "T10")]


class FakedClock:
    """The wall clock of an agent's process, moved by hand while it runs."""

    def __init__(self, venue: Venue, folder: Path, first: str) -> None:
        self._file = folder / "faketime"
        self.jumps(first)
        vendor = Path(libfaketime.__file__).parent / "vendor" / "libfaketime" / "src"
        venue.agent.environment |= {
            "LD_PRELOAD": str(vendor / "libfaketime.so.1"),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }

    def jumps(self, to: str) -> None:
        """Set it; whole at once, since every reading of the clock reads the file."""
        half = self._file.with_suffix(".new")
        half.write_text(f"{to}\n", "ascii")
        half.replace(self._file)


@contextmanager
def jumping(
    folder: Path, first: str, keys: Keys, *, plugs: int = 1
) -> Iterator[tuple[Venue, ReplayingQueue, FakedClock]]:
    """A venue, a queue that lends what it is given, and a clock that is moved by hand."""
    port = free_port()
    with (
        Venue(folder, plugs=plugs, cloud_port=port, keys=keys) as venue,
        ReplayingQueue(venue.server, port) as queue,
    ):
        clock = FakedClock(venue, folder, first)
        venue.open()
        yield venue, queue, clock


def states(venue: Venue) -> dict[str, int]:
    """How many commands from elsewhere stand in each state."""
    rows = query(
        venue.agent.database, "SELECT state, count(*) FROM inbox WHERE local_boot IS NULL GROUP BY state"
    )
    return {str(state): int(str(count)) for state, count in rows}


def lend(venue: Venue, queue: ReplayingQueue, devices: Iterable[DeviceId]) -> None:
    """Have a command taken in for each of these, each another one."""
    for device in devices:
        queue.lend(venue.sign(device, ActionName.TOGGLE, valid_for=VALID).envelope)
    queue.wait_until_taken()


def effects(venue: Venue) -> int:
    """How often any plug was toggled for a command."""
    return sum(venue.effects(device, ActionName.TOGGLE) for device in venue.devices)


def acts_at_once(venue: Venue) -> None:
    """What is typed at the hub needs no clock of the day."""
    report = venue.agent.send(PLUG, ActionName.TOGGLE)
    assert report.command is not None
    assert report.command.receipt is not None
    assert report.command.receipt.outcome is Outcome.SUCCEEDED


def now() -> datetime:
    """What this machine's clock says, which nobody moves."""
    return SystemTime().wall()


@pytest.mark.skipif(
    SystemTime().synchronised() is not None, reason="the kernel's word on its clock cannot be moved with it"
)
def test_what_waits_for_the_time_outlives_every_jump_and_is_done_when_a_person_says_what_it_is(
    tmp_path: Path,
) -> None:
    keys = Keys(tier=Tier.MEDIUM, names_time=False)
    with jumping(tmp_path, IN_1970, keys) as (venue, queue, clock):
        lend(venue, queue, [PLUG] * ROWS)
        assert states(venue) == {"held": ROWS}

        for jump in JUMPS:
            clock.jumps(jump)
            acts_at_once(venue)
            assert states(venue) == {"held": ROWS}
        assert venue.effects(PLUG, ActionName.TOGGLE) == len(JUMPS)
        venue.catch_up()
        told = venue.cloud.events(Stream.STATE)
        assert len(told) >= len(JUMPS)
        assert {event.timequality for event in told} == {TimeQuality.UNKNOWN}
        assert "commands of tiers medium and high wait" in venue.agent.run("health").stdout
        assert f"{ROWS} commands wait for the time" in venue.agent.run("clock", "show").stdout

        clock.jumps(RIGHT)
        assert venue.agent.run("clock", "confirm", "--yes").returncode == 0

        # All of one issuer for one slot: the last of them is done, the others make way for it.
        wait_until(
            lambda: states(venue) == {"succeeded": 1, "superseded": ROWS - 1},
            "what waited to be done",
        )
        assert venue.effects(PLUG, ActionName.TOGGLE) == len(JUMPS) + 1
        venue.catch_up()
        assert venue.records_are_whole()
        assert venue.agent.stop() == 0
        assert venue.audit_break() is None


def test_once_the_time_is_proven_a_jump_changes_nothing(tmp_path: Path) -> None:
    with jumping(tmp_path, RIGHT, Keys(), plugs=PLUGS) as (venue, queue, clock):
        wait_until(
            lambda: venue.agent.status().clock.source is ClockSource.STATEMENT, "the time to be proven"
        )
        venue.unplug()
        wait_until(
            lambda: not any(each.online for each in venue.agent.devices().devices), "the plugs to be gone"
        )
        lend(venue, queue, venue.devices)
        wait_until(lambda: states(venue) == {"waiting": PLUGS}, "all to wait for the plug")
        recorded = venue.sign(PLUG, ActionName.REBOOT, clock=ManualClock(now() - 2 * HOUR), valid_for=VALID)

        for jump in JUMPS:
            clock.jumps(jump)
            assert abs(venue.agent.status().clock.best - now()) < timedelta(seconds=30)
            assert states(venue) == {"waiting": PLUGS}
        clock.jumps(BEHIND)
        queue.lend(recorded.envelope)
        queue.wait_until_taken()
        assert states(venue) == {"waiting": PLUGS, "refused": 1}
        # A start with the clock so far behind: what is past stays past, whoever is asked for the time.
        assert venue.agent.stop() == 0
        venue.agent.start()
        assert venue.agent.status().clock.floor > now() - HOUR
        queue.lend(recorded.envelope, times=3)
        queue.wait_until_taken()
        assert effects(venue) == venue.effects(PLUG, ActionName.REBOOT) == 0
        venue.plug_in()

        wait_until(lambda: states(venue) == {"succeeded": PLUGS, "refused": 1}, "what waited to be done")
        assert effects(venue) == PLUGS
        assert query(venue.agent.database, "SELECT reason FROM inbox WHERE state = 'refused'") == [
            ("expired",)
        ]
