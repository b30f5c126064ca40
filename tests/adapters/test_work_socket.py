"""The work socket: commands are worked beside the agent as they are inside it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from edgeagent.contracts.policy import Level, Tier
from edgeagent.contracts.receipt import Outcome
from tests.adapters.working import Bench, new_bench
from tests.flows.scripted import Television
from tests.flows.signing import POWER


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    """A hub with a work socket."""
    async with new_bench(tmp_path) as made:
        yield made


@pytest.fixture
async def tv(bench: Bench) -> Television:
    """Its television, off."""
    return await bench.hub.television()


@pytest.mark.requirement("W1")
async def test_a_command_is_worked_over_the_socket_to_its_end(bench: Bench, tv: Television) -> None:
    hub = bench.hub
    command = hub.command(POWER, on=True)
    await hub.admits(command)
    desk = bench.worker()

    claim = await desk.claim(Tier.LOW, "low-1")
    await bench.dispatch(desk).work(claim)

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.level, receipt.attempts) == (Outcome.SUCCEEDED, Level.APPLIED, 1)
    assert tv.effects == [("power", True)]
