"""Each benchmark, on a small scale: it runs, and what it says of losses is true.

No figure is judged here: how fast a machine is proves nothing.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.commands import CommandRig, measured
from bench.days import marks
from bench.engine import Size as EngineSize
from bench.engine import engine_costs, rows
from bench.fetch import MEBIBYTE
from bench.fetch import measured as measured_fetch
from bench.footprint import ROWS as FOOTPRINT
from bench.footprint import agent as footprint_of_the_agent
from bench.footprint import gateway as footprint_of_the_gateway
from bench.gate import gate_costs, rates
from bench.native import Tools, compiled
from bench.rig import Rig
from bench.scenarios import Size, full_speed, kill_in_burst
from bench.storm import ROWS as STORM_ROWS
from bench.storm import STORMS, Place, calm, placed
from bench.storm import measured as measured_storm
from bench.systems import AgentUnderTest, Lingers, ReferenceUnderTest
from bench.thingsboard import CACHE
from bench.upkeep import TASKS, upkeep_costs
from tests.support.stores import query

pytestmark = pytest.mark.slow

SMALL = Size(messages=600)


@pytest.fixture
def tools(tmp_path: Path) -> Tools:
    """The compiled instruments."""
    try:
        return compiled(tmp_path / "tools")
    except RuntimeError as why:
        pytest.skip(str(why))


@pytest.mark.requirement("Q1", "R5")
@pytest.mark.parametrize("kind", [AgentUnderTest, ReferenceUnderTest])
def test_readings_are_measured_and_none_is_lost_in_a_kill(
    kind: type[AgentUnderTest | ReferenceUnderTest], tmp_path: Path, tools: Tools
) -> None:
    folders = iter(range(9))

    def rigged(lingers: Lingers, window: int) -> Rig:
        return Rig(kind, tmp_path / f"{next(folders)}", tools, lingers, window=window)

    figures = full_speed(rigged, SMALL) | kill_in_burst(rigged, SMALL)

    assert figures["full.durable"] > 0
    assert figures["full.written"] > 1
    assert figures["full.syncs"] > 0
    assert figures["kill.burst.lost"] == 0


@pytest.mark.parametrize("is_agent", [True, False])
def test_commands_are_measured(*, is_agent: bool, tmp_path: Path, tools: Tools) -> None:
    with CommandRig(is_agent=is_agent, folder=tmp_path / "run", tools=tools, lamps=100) as rig:
        figures = asyncio.run(measured(rig, 4))

    assert figures["one.p50"] > 0
    assert figures["many.rate"] > 0


def test_the_gate_has_its_price() -> None:
    assert all(cost > 0 for cost in gate_costs().values())


def test_verdicts_are_measured_beside_the_bare_verification() -> None:
    verdicts, bare = rates(times=5, rounds=1)

    assert verdicts.keys() == bare.keys() == {"accept", "bad_signature", "unknown_key", "replay", "oversize"}
    assert all(rate > 0 for rate in (*verdicts.values(), *bare.values()))


@pytest.mark.requirement("R2")
def test_what_upkeep_costs_who_commits_is_measured_for_every_task() -> None:
    figures = asyncio.run(upkeep_costs(20_000))

    assert {name.rpartition(".")[0] for name in figures} == set(TASKS)
    assert all(value > 0 for value in figures.values())


@pytest.mark.slow
@pytest.mark.requirement("B1", "R7")
@pytest.mark.parametrize("storm", [calm, *STORMS], ids=lambda storm: storm.__name__)
def test_what_a_storm_costs_is_measured_beside_the_calm(
    tmp_path: Path, storm: Callable[[Place, int], None]
) -> None:
    with placed(tmp_path / "venue", compiled(tmp_path / "tools"), 5) as place:
        figures = measured_storm(storm, place, 5)

    assert figures.keys() == {row.name for row in STORM_ROWS}
    assert figures["cpu"] > 0
    assert (figures["sent"] > 0) == (storm.__name__ not in {"off_target", "forged"})


@pytest.mark.requirement("Q8", "Q9")
async def test_the_engine_is_measured_with_and_without_a_past(tmp_path: Path) -> None:
    size = EngineSize(appliances=(1, 20), finished=(0, 60), commands=20, wakes=3, idle=0.1)

    figures = await engine_costs(size, tmp_path)

    assert {row.name for row in rows(size)} == figures.keys()
    assert all(figures[f"{past}.{count}.rate"] > 0 for past in (0, 60) for count in (1, 20))
    assert all(figures[f"{past}.wake.p99"] > 0 for past in (0, 60))
    [[over]] = query(
        tmp_path / "hub.db",
        "SELECT count(*) FROM inbox i JOIN receipts r ON r.run = i.run"
        "  JOIN operations o ON o.run = i.run WHERE i.state = 'succeeded' AND i.command LIKE 'past-%'",
    )
    assert over == 60


@pytest.mark.requirement("F2")
def test_fetching_is_measured(tmp_path: Path) -> None:
    told = measured_fetch(tmp_path, size=2 * MEBIBYTE, runs=1)

    assert "fetched and verified, MiB/s" in told


@pytest.mark.requirement("H7")
def test_what_the_agent_takes_is_measured(tmp_path: Path, tools: Tools) -> None:
    figures = footprint_of_the_agent(tmp_path / "run", tools, 1)

    assert figures.keys() == {row.name for row in FOOTPRINT} - {"package", "installed"}
    assert figures["idle.resident"] >= figures["idle.proportional"] > 0
    assert figures["calm.resident"] >= figures["calm.proportional"] > 0


@pytest.mark.requirement("H7")
def test_the_outbox_is_empty_at_each_mark_of_many_messages(tmp_path: Path, tools: Tools) -> None:
    first, last = marks(tmp_path / "run", tools, 600, 2, 300)

    assert (first.messages, last.messages) == (300, 600)
    assert first.waiting == last.waiting == 0
    assert last.resident >= last.private > 0


@pytest.mark.skipif(not (CACHE / "complete").exists(), reason="python -m bench.footprint fetches it")
def test_what_another_gateway_takes_is_measured_by_the_same_rule(tmp_path: Path, tools: Tools) -> None:
    tmp_path.chmod(0o755)

    figures = footprint_of_the_gateway(tmp_path, tools, 1)

    assert figures.keys() == {row.name for row in FOOTPRINT} - {"package", "start.ready"}
