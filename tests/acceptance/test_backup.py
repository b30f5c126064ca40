"""A backup made while the hub works, and put in the place of the database later."""

import json
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.reports.status import StatusReport
from edgeagent.store.files import sole_owner
from tests.acceptance.disks import checked
from tests.support.agents import AgentProcess
from tests.support.agents_burst import Judgement
from tests.support.agents_venue import Venue
from tests.support.brokers import wait_until
from tests.support.notified import notified
from tests.support.stores import query

pytestmark = [pytest.mark.slow, pytest.mark.requirement("R2", "T8")]


@pytest.fixture
def venue(tmp_path: Path) -> Iterator[Venue]:
    with Venue(tmp_path) as running:
        running.open()
        yield running


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentProcess]:
    """One that does not run yet, without a broker."""
    alone = AgentProcess(tmp_path / "hub", "")
    yield alone
    alone.close()


def restored(venue: Venue, name: str) -> None:
    """Put a backup back by the command line, and start the agent."""
    running = venue.agent.run("backup", "restore", name, "--yes")
    assert running.returncode == 1
    assert "systemctl stop edgeagent" in running.stderr
    assert venue.agent.stop() == 0
    done = venue.agent.run("backup", "restore", name, "--yes")
    assert done.returncode == 0, done.stderr
    venue.agent.start()


def test_a_backup_made_in_a_burst_is_whole_and_restored_is_another_life(venue: Venue, tmp_path: Path) -> None:
    (tmp_path / "stick").mkdir(mode=0o700)
    device, epoch = venue.devices[0], venue.cloud.epoch
    done = venue.order(device, ActionName.TOGGLE)
    venue.end_of(done)
    burst = venue.burst(3000)

    made = venue.agent.run("backup", "create", "--to", str(tmp_path / "stick"), "--json")
    burst.finish()
    later = venue.order(device, ActionName.TOGGLE)
    venue.end_of(later)
    venue.catch_up()
    assert venue.judgement() == Judgement()
    assert made.returncode == 0, made.stderr
    report = json.loads(made.stdout)
    file = Path(report["path"]) / "hub.db"
    assert Path(report["path"]).parent == tmp_path / "stick"
    assert (report["hub"], report["epoch"], report["has_keys"]) == ("venue-7", epoch, True)
    assert checked(file) == "ok"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert report["name"] in venue.agent.run("backup", "list").stdout
    restored(venue, report["name"])

    status: StatusReport = venue.agent.status()
    assert status.epoch != epoch
    told = query(venue.agent.database, "SELECT detail FROM audit WHERE kind = 'epoch_begun'")
    assert '"reason":"restored"' in str(told[-1])
    # What was carried out after the backup is not carried out again.
    venue.agent.wait_for_broker()
    assert venue.effects(device, ActionName.TOGGLE) == 2
    [kept] = [path for path in venue.agent.state_dir.iterdir() if path.name.startswith("replaced-")]
    assert query(kept / "hub.db", "SELECT subject FROM audit WHERE kind = 'backed_up'") == [(report["name"],)]
    assert venue.agent.stop() == 0
    assert venue.audit_break() is None


@pytest.mark.threat("T4")
@pytest.mark.requirement("H1")
def test_a_backup_on_a_new_card_does_nothing_again_though_nothing_beside_it_remembers(
    venue: Venue, tmp_path: Path
) -> None:
    """Nor one that is put back before the hourly mark has told of what was done since."""
    (tmp_path / "stick").mkdir(mode=0o700)
    device, epoch = venue.devices[0], venue.cloud.epoch
    made = json.loads(venue.agent.run("backup", "create", "--to", str(tmp_path / "stick"), "--json").stdout)
    key = (venue.agent.state_dir / "hub.key").read_bytes()
    done = venue.sign(device, ActionName.TOGGLE)
    venue.cloud.send(done.envelope)
    venue.end_of(done)
    assert venue.effects(device, ActionName.TOGGLE) == 1
    venue.agent.kill()
    for path in list(venue.agent.state_dir.iterdir()):
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    put_back = venue.agent.run("backup", "restore", made["path"], "--yes")
    assert put_back.returncode == 0, put_back.stderr
    venue.agent.start()

    status: StatusReport = venue.agent.status()
    assert status.epoch != epoch
    assert (venue.agent.state_dir / "hub.key").read_bytes() == key
    assert [entry.device for entry in venue.agent.devices().devices] == [device]
    wait_until(lambda: venue.cloud.epoch == status.epoch, "the hello of the new epoch")
    with pytest.raises(Exception, match="wrong_epoch"):
        venue.cloud.send(done.envelope)
    venue.agent.wait_for_broker()
    assert venue.effects(device, ActionName.TOGGLE) == 1
    venue.end_of(venue.order(device, ActionName.TOGGLE))
    assert venue.effects(device, ActionName.TOGGLE) == 2


@pytest.mark.requirement("R6")
def test_an_agent_that_is_started_while_its_state_is_copied_comes_up_when_that_is_done(
    agent: AgentProcess, tmp_path: Path
) -> None:
    """Its unit takes 78 for the last word; nobody would start it again."""
    agent.state_dir.mkdir(mode=0o700)

    def waits() -> bool:
        assert agent.alive, agent.log
        return f"STATUS=waiting: another edgeagent is running on {agent.state_dir}" in systemd.heard()

    with notified(tmp_path, watchdog=None) as systemd:
        agent.environment = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
        with sole_owner(agent.state_dir / "agent.lock"):
            agent.launch()
            wait_until(waits, "the agent to wait")
        wait_until(lambda: "READY=1" in systemd.heard(), "the agent to be ready")
    assert agent.stop() == 0


@pytest.mark.requirement("H4")
def test_an_agent_that_is_typed_beside_another_says_so_at_once(agent: AgentProcess) -> None:
    agent.state_dir.mkdir(mode=0o700)
    with sole_owner(agent.state_dir / "agent.lock"):
        agent.launch()

        assert agent.wait_for_end() == 78
    assert f"another edgeagent is running on {agent.state_dir}" in agent.log
