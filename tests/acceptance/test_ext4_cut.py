"""The power is cut in the middle of a burst, again and again, and at last the disk's alone (SPEC R1).

The file system is a real one, with a journal of its own. The broker goes on: whatever it was told to forget
has to come from the disk.

Power takes the agent with its disk. So it stands still first: Linux 6.18 may answer a sync that is under way
when ext4 is shut down with success although nothing was written (5 of 400 cuts), and an agent that lived on
would pass that on to the broker, as none does whose machine is dark.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.receipt import Outcome
from tests.acceptance.ext4 import Ext4
from tests.support.agents_burst import Judgement
from tests.support.agents_venue import Venue
from tests.support.brokers import wait_until

BURST: Final = 20_000
CUTS: Final = 4

pytestmark = [pytest.mark.slow, pytest.mark.requirement("R1", "R2", "Q1", "Q2")]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Ext4]:
    """A disk for the agent's state."""
    with Ext4(tmp_path / "ext4") as mounted:
        yield mounted


def test_a_disk_that_loses_its_power_keeps_everything_that_was_acknowledged(
    disk: Ext4, tmp_path: Path
) -> None:
    with Venue(tmp_path, plugs=4, state_dir=disk.root / "state") as venue:
        venue.open()
        epoch = venue.cloud.epoch

        burst = venue.burst(BURST)
        toggles = []
        for cut in range(1, CUTS + 1):
            toggles.append(venue.order(venue.devices[0], ActionName.TOGGLE))
            venue.progress(cut * BURST // (CUTS + 2))
            if cut < CUTS:
                venue.agent.stops()
                disk.cut()
            else:
                venue.agent.stops_between_calls()
                disk.cut()
                venue.agent.goes_on()
                wait_until(lambda: "does not take readings" in venue.agent.log, "the agent to notice")
            venue.agent.kill()
            disk.come_back()
            venue.agent.start()
        burst.finish()
        venue.catch_up()

        assert venue.judgement() == Judgement()
        assert venue.records_are_whole()
        assert venue.cloud.epoch == epoch
        outcomes = [venue.end_of(toggle).outcome for toggle in toggles]
        assert set(outcomes) <= {Outcome.SUCCEEDED, Outcome.UNKNOWN, Outcome.REFUSED, Outcome.SUPERSEDED}
        assert venue.effects(venue.devices[0], ActionName.TOGGLE) <= CUTS
        assert venue.agent.stop() == 0
        assert venue.audit_break() is None
