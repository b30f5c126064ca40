"""``edgeagent drill``: typed, over the real socket; and at a real agent with a real broker."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from edgeagent.adapters.admin.drill_routes import drill_routes
from edgeagent.adapters.admin.route import Role
from edgeagent.adapters.admin.socket import AdminSocket
from edgeagent.cli.asking import Agent
from edgeagent.cli.failing import AskingRefusedError
from edgeagent.contracts.door import decode
from edgeagent.contracts.reports.drills import DrillKind, DrillReport, DrillRequest, DrillsReport
from edgeagent.contracts.reports.health import HealthReport, Level
from edgeagent.contracts.reports.locks import ReleaseRequest
from edgeagent.flows.drills.appliance import Appliance
from edgeagent.flows.drills.rig import beside
from edgeagent.ports.drill_desk import DrillDesk
from tests.cli.building import Terminal, lonely_terminal
from tests.flows.drills.holding import ROOT, Frozen, MakeAppliance, Thrice, drilled_hub
from tests.support.agents import ROOT as CHECKOUT
from tests.support.agents import AgentProcess
from tests.support.brokers import Mosquitto, wait_until
from tests.support.device import Device
from tests.support.faults import FaultyDisk

pytestmark = pytest.mark.requirement("O6")


@asynccontextmanager
async def terminal(tmp_path: Path, appliance: MakeAppliance = Appliance) -> AsyncIterator[Terminal]:
    """Where somebody types, at a hub that holds drills."""
    async with lonely_terminal(tmp_path) as lonely, drilled_hub(tmp_path / "hub") as hub:
        desk: DrillDesk = hub.drills(appliance=appliance)
        admin = AdminSocket(lonely.run_dir / "admin.sock", drill_routes(desk))
        await admin.open()
        try:
            yield lonely
        finally:
            await admin.close()


async def test_a_drill_is_told_line_by_line(tmp_path: Path) -> None:
    async with terminal(tmp_path) as typing:
        said = await typing.types("drill", "duplicate")

        lines = said.out.splitlines()
        assert (said.status, said.err) == (0, "")
        assert lines[:3] == [
            "ok     50 copies of one signed command came at once",
            "       expected: 1 accepted, 49 known as repeats",
            "       seen:     1 accepted, 49 known as repeats",
        ]
        assert lines[-1].startswith("drill duplicate passed in ")


async def test_a_drill_that_fails_says_what_was_seen_and_exits_with_1(tmp_path: Path) -> None:
    async with terminal(tmp_path, Thrice) as typing:
        said = await typing.types("drill", "duplicate")
        again = await typing.types("--json", "drill", "duplicate")

        assert said.status == again.status == 1
        assert "FAILED it was worked" in said.out
        assert "effects on the appliance: 1\n       seen:     " in said.out
        assert "effects on the appliance: 3" in said.out
        assert "drill duplicate failed after" in said.out
        assert "next: edgeagent health" in said.out
        report = again.report(DrillReport)
        assert (report.kind, report.passed, report.recorded) == (DrillKind.DUPLICATE, False, True)
        assert [line.passed for line in report.lines] == [True, True, False]


@pytest.mark.parametrize(
    "words", [("drill",), ("drill", "fire"), ("drill", "lock", "crash"), ("drill", "loc")]
)
async def test_words_that_name_no_drill_are_refused(tmp_path: Path, words: tuple[str, ...]) -> None:
    async with terminal(tmp_path) as typing:
        said = await typing.types(*words)

        assert said.status == 2
        assert not (tmp_path / "hub" / "drill").exists()


async def test_a_request_that_names_no_drill_is_refused_at_the_door(tmp_path: Path) -> None:
    async with terminal(tmp_path) as typing:
        agent = Agent(typing.run_dir / "admin.sock")

        with pytest.raises(AskingRefusedError, match="kind"):
            await asyncio.to_thread(agent.post, "/v1/drills", ReleaseRequest(reason="x"), DrillReport)

        held = await asyncio.to_thread(agent.get, "/v1/drills", DrillsReport)
        assert held.drills == []


async def test_without_an_agent_there_is_no_drill(tmp_path: Path) -> None:
    async with lonely_terminal(tmp_path) as typing:
        said = await typing.types("drill", "lock")

        assert (said.status, said.out) == (69, "")
        assert "no agent answers" in said.err


async def test_while_another_drill_is_held_there_is_none(tmp_path: Path) -> None:
    async with lonely_terminal(tmp_path) as typing, drilled_hub(tmp_path / "hub") as hub:
        drills = hub.drills(appliance=Frozen)
        admin = AdminSocket(typing.run_dir / "admin.sock", drill_routes(drills))
        await admin.open()
        async with beside(drills.drill(DrillKind.LOCK, ROOT)):
            said = await typing.types("drill", "crash")
        await admin.close()

        assert (said.status, said.out) == (1, "")
        assert "another drill is being held: try again when it is over" in said.err
        assert hub.rows() == []
        assert not hub.folder.exists()


async def test_only_who_may_have_things_done_may_hold_a_drill(tmp_path: Path) -> None:
    async with drilled_hub(tmp_path) as hub:
        roles = {(route.method, route.path): route.role for route in drill_routes(hub.drills())}

    assert roles == {("GET", "/v1/drills"): Role.VIEW, ("POST", "/v1/drills"): Role.OPERATE}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    with Mosquitto(tmp_path / "broker") as running:
        yield running


@pytest.fixture
def agent(tmp_path: Path, broker: Mosquitto) -> Iterator[AgentProcess]:
    """A real agent that does not run yet."""
    with closing(AgentProcess(tmp_path / "hub", f"[broker]\nport = {broker.port}\n")) as process:
        yield process


def typed_beside(agent: AgentProcess, *words: str) -> subprocess.Popen[str]:
    """A command that is typed while something else happens."""
    return subprocess.Popen(
        [sys.executable, "-m", "edgeagent", "--config", str(agent.config), *words],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def drills(agent: AgentProcess) -> subprocess.Popen[str]:
    """A drill of a running agent that is typed, and is in its middle."""
    # It is soon over: whoever is to come before that has to be the quicker one.
    os.setpriority(os.PRIO_PROCESS, agent.pid, 19)
    drilling = typed_beside(agent, "drill", "crash")
    wait_until((agent.state_dir / "drill" / "hub.db").exists, "the drill's file", longest_step=0.001)
    return drilling


def health_of(agent: AgentProcess) -> HealthReport:
    return decode(HealthReport, agent.run("--json", "health").stdout.encode(), limit=100_000)


@pytest.mark.slow
def test_all_drills_pass_in_a_working_agent_and_touch_no_real_device(
    broker: Mosquitto, agent: AgentProcess
) -> None:
    with Device(broker.port) as plug, Device(broker.port) as ear:
        ear.listens("#")
        agent.start()
        agent.wait_for_broker()
        agent.admit_by_hand("plug-a", "tasmota", topic="plug-a")
        plug.says("tele/plug-a/LWT", b"Online", retain=True)
        plug.says("stat/plug-a/POWER", b"ON")
        wait_until(lambda: agent.device("plug-a").online is True, "the plug to be there")

        ended = {}
        for number, kind in enumerate(DrillKind):
            drilling = typed_beside(agent, "drill", kind)
            for watt in range(20):
                plug.says("tele/plug-a/SENSOR", b'{"ENERGY": {"Power": %d}}' % (100 * number + watt))
            ended[kind] = (drilling.wait(60), *drilling.communicate())
        wait_until(lambda: agent.device("plug-a").readings["active_power"].value == 319, "the last reading")

        assert {kind: status for kind, (status, *_) in ended.items()} == dict.fromkeys(DrillKind, 0), ended
        topics = [heard.topic for heard in ear.hears_out("last")]
        assert [topic for topic in topics if "drill" in topic] == []
        # The agent asks a plug that comes online how it is, and has it do nothing.
        assert {topic for topic in topics if topic.startswith("cmnd/")} <= {"cmnd/plug-a/Status"}
        assert {device.device for device in agent.devices().devices} == {"plug-a"}
        report = health_of(agent)
        assert {each.kind: each.passed for each in report.drills} == dict.fromkeys(DrillKind, True)
        assert not (agent.state_dir / "drill").exists()


@pytest.mark.slow
def test_an_agent_that_is_killed_in_mid_drill_leaves_nothing_behind_at_its_next_start(
    agent: AgentProcess,
) -> None:
    scratch = agent.state_dir / "drill" / "hub.db"
    agent.start()
    drilling = drills(agent)

    agent.kill()
    drilling.communicate()
    was_left = scratch.exists()
    agent.start()

    assert drilling.returncode == 69
    assert was_left
    assert not scratch.parent.exists()
    assert health_of(agent).drills == []
    assert agent.run("drill", "crash").returncode == 0


@pytest.mark.slow
@pytest.mark.requirement("R2")
def test_a_full_disk_under_a_drill_fails_it_and_the_agent_goes_on(
    agent: AgentProcess, tmp_path: Path
) -> None:
    disk = FaultyDisk(tmp_path / "faults", agent.state_dir / "drill")
    agent.environment = disk.environment
    agent.start()
    disk.is_full()

    failed = agent.run("drill", "lock")
    health = {check.name: check for check in health_of(agent).checks}
    disk.is_well()
    passed = agent.run("drill", "lock")
    healed = {check.name for check in health_of(agent).checks}

    assert failed.returncode == 1
    assert "disk is full" in failed.stdout
    assert health["drills"].level is Level.WARNING
    assert "disk is full" in health["drills"].summary
    assert health["database"].level is Level.OK
    assert passed.returncode == 0, passed.stdout
    assert "drills" not in healed
    assert not (agent.state_dir / "drill").exists()


@pytest.mark.slow
def test_of_two_drills_at_once_one_is_held(agent: AgentProcess) -> None:
    agent.start()
    first = drills(agent)

    with pytest.raises(AskingRefusedError, match="another drill is being held"):
        Agent(agent.socket).post("/v1/drills", DrillRequest(kind=DrillKind.LOCK), DrillReport)
    first.communicate()

    assert first.returncode == 0
    held = Agent(agent.socket).get("/v1/drills", DrillsReport).drills
    assert [each.kind for each in held] == [DrillKind.CRASH]


@pytest.mark.slow
def test_an_agent_that_is_told_to_stop_in_mid_drill_ends_the_drill_first(agent: AgentProcess) -> None:
    agent.start()
    drilling = drills(agent)

    status = agent.stop()
    drilling.communicate()

    assert (status, drilling.returncode) == (0, 0)
    assert not (agent.state_dir / "drill").exists()
    agent.start()
    assert [(each.kind, each.passed) for each in health_of(agent).drills] == [(DrillKind.CRASH, True)]
