"""A backup made while the hub works, and put in the place of the database later."""

import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.reports.status import StatusReport
from tests.acceptance.disks import checked
from tests.support.agents_burst import Judgement
from tests.support.agents_venue import Venue
from tests.support.stores import query

pytestmark = [pytest.mark.slow, pytest.mark.requirement("R2", "T8")]


@pytest.fixture
def venue(tmp_path: Path) -> Iterator[Venue]:
    with Venue(tmp_path) as running:
        running.open()
        yield running


def test_a_backup_made_in_a_burst_is_whole_and_restored_is_another_life(venue: Venue, tmp_path: Path) -> None:
    (tmp_path / "safe").mkdir(mode=0o700)
    file, device, epoch = tmp_path / "safe" / "hub.db", venue.devices[0], venue.cloud.epoch
    done = venue.order(device, ActionName.TOGGLE)
    venue.end_of(done)
    burst = venue.burst(3000)

    made = venue.agent.run("backup", str(file))
    again = venue.agent.run("backup", str(file))
    burst.finish()
    later = venue.order(device, ActionName.TOGGLE)
    venue.end_of(later)
    venue.catch_up()
    assert venue.judgement() == Judgement()
    assert venue.agent.stop() == 0
    assert made.returncode == 0, made.stderr
    assert "whole" in made.stdout
    assert again.returncode == 1
    assert "is there already" in again.stderr
    assert checked(file) == "ok"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert query(venue.agent.database, "SELECT subject FROM audit WHERE kind = 'backed_up'") == [("hub.db",)]

    for suffix in ("-wal", "-shm"):
        venue.agent.database.with_name(f"hub.db{suffix}").unlink(missing_ok=True)
    shutil.copy2(file, venue.agent.database)
    venue.agent.start()

    status: StatusReport = venue.agent.status()
    assert status.epoch != epoch
    told = query(venue.agent.database, "SELECT detail FROM audit WHERE kind = 'epoch_begun'")
    assert '"reason":"restored"' in str(told[-1])
    # What was carried out after the backup is not carried out again.
    venue.agent.wait_for_broker()
    assert venue.effects(device, ActionName.TOGGLE) == 2
    assert venue.agent.stop() == 0
    assert venue.audit_break() is None
