"""The check of the isolated worker: whether somebody comes for the commands of the high tier."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.contracts.policy import ApprovalRule
from edgeagent.contracts.reports.health import Check, Level
from edgeagent.flows.wary import Presence
from edgeagent.flows.worker_health import PATIENCE, worker_check
from tests.flows.approvals import have_a_say
from tests.flows.commanding import Hub, new_hub
from tests.flows.signing import REBOOT, SECOND

pytestmark = pytest.mark.requirement("Q7", "O5", "W1")

STARTED = timedelta(hours=1)


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub whose reboots are of the high tier."""
    async with new_hub(tmp_path) as made:
        await made.television()
        yield made


async def look(hub: Hub, presence: Presence | None, after: timedelta) -> list[Check]:
    """The check so long after the agent's start."""
    return await worker_check(hub.store, presence, STARTED + after, STARTED)


async def waits_for_a_worker(hub: Hub) -> None:
    """A reboot is approved and queued."""
    others = await have_a_say(hub, ApprovalRule(signatures=1))
    command = hub.command(REBOOT)
    await hub.admits(hub.signed(command, hub.keys.desk, others.chief))


async def test_an_agent_that_works_by_itself_says_nothing_of_workers(hub: Hub) -> None:
    await waits_for_a_worker(hub)

    assert await look(hub, None, 10 * PATIENCE) == []


@pytest.mark.parametrize("after", [SECOND, 10 * PATIENCE])
async def test_a_worker_that_waits_is_all_that_is_wanted(hub: Hub, after: timedelta) -> None:
    [check] = await look(hub, Presence(waiting=1, seen=STARTED), after)

    assert check.level is Level.OK


async def test_a_worker_that_does_not_come_is_warned_of_and_critical_while_commands_wait(hub: Hub) -> None:
    [soon] = await look(hub, Presence(), PATIENCE)
    [late] = await look(hub, Presence(), PATIENCE + SECOND)
    await waits_for_a_worker(hub)
    [waiting] = await look(hub, Presence(seen=STARTED + SECOND), 3 * PATIENCE)
    [again] = await look(hub, Presence(seen=STARTED + 3 * PATIENCE), 3 * PATIENCE)

    assert (soon.level, late.level, waiting.level) == (Level.OK, Level.WARNING, Level.CRITICAL)
    assert waiting.summary == "1 commands of the high tier wait, and no worker has come for 2 min"
    assert "edgeagent-worker" in waiting.advice
    assert again.level is Level.OK
