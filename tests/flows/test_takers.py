"""Who waits for work: one asks for all, nobody is forgotten, and nobody asks for nothing."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from edgeagent.contracts.policy import Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.work import Claim, Ending
from tests.flows.commanding import Hub, new_hub
from tests.flows.signing import OTHER_TV, POWER, TOGGLE, TV
from tests.support.waiting import DEADLINE, eventually

REFUSED = Ending(outcome=Outcome.REFUSED, reason=Reason.STOPPED)


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub with two televisions."""
    async with new_hub(tmp_path) as made:
        await made.television()
        await made.television(OTHER_TV)
        yield made


async def waiting(hub: Hub, *holders: str, lane: Tier = Tier.LOW) -> "list[asyncio.Task[Claim]]":
    """Workers that have looked, found nothing, and wait."""
    commits = hub.now.store.commits
    tasks = [asyncio.create_task(hub.now.desk.claim(lane, holder)) for holder in holders]
    await eventually(lambda: hub.now.store.commits > commits)
    await hub.breathes()
    assert not any(task.done() for task in tasks)
    return tasks


async def ended(tasks: "Sequence[asyncio.Task[Claim]]") -> None:
    """End those that wait."""
    for task in tasks:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def claims_of(tasks: "Sequence[asyncio.Task[Claim]]") -> list[Claim]:
    """What they have got."""
    async with asyncio.timeout(DEADLINE):
        return [await task for task in tasks]


@pytest.mark.requirement("Q5", "Q8")
async def test_all_who_wait_are_served_by_one_transaction(hub: Hub) -> None:
    # Given two that wait, and the commits until then.
    tasks = await waiting(hub, "worker-1", "worker-2")
    before = hub.now.store.commits

    # When two commands come together.
    await hub.admits(hub.command(POWER), hub.command(POWER, device=OTHER_TV))
    claims = await claims_of(tasks)

    # Then each has one, under a token and name of its own, by one commit more than their admission's.
    assert {claim.device for claim in claims} == {TV, OTHER_TV}
    assert claims[0].token != claims[1].token
    assert hub.rows("SELECT DISTINCT holder FROM locks ORDER BY holder") == [("worker-1",), ("worker-2",)]
    assert hub.now.store.commits == before + 2


@pytest.mark.requirement("Q8")
async def test_whoever_asks_for_all_may_go_and_another_asks(hub: Hub) -> None:
    # Given two that wait, of which the first that came asks.
    first, second = await waiting(hub, "worker-1", "worker-2")

    # When that one is gone, and then a command comes.
    await ended([first])
    await hub.admits(hub.command(POWER))

    # Then the other has it.
    [claim] = await claims_of([second])
    assert claim.device == TV


@pytest.mark.requirement("Q8", "L3")
async def test_what_was_asked_for_all_reaches_the_others_when_whoever_asked_is_gone(hub: Hub) -> None:
    # Given two commands, and a database that is busy.
    await hub.admits(hub.command(POWER), hub.command(POWER, device=OTHER_TV))
    free = threading.Event()
    busy = asyncio.create_task(hub.now.store.write(lambda _: free.wait(DEADLINE)))
    await asyncio.sleep(0)

    # When two ask, and the one that does it for both is gone before there is an answer.
    first, second = (asyncio.create_task(hub.now.desk.claim(Tier.LOW, f"worker-{n}")) for n in (1, 2))
    for _ in range(5):
        await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    free.set()
    await busy

    # Then the other has the command that was claimed for it, and nothing was claimed twice.
    [claim] = await claims_of([second])
    assert [(claim.device, "worker-2")] == hub.rows(
        "SELECT device, holder FROM locks WHERE holder = 'worker-2'"
    )
    assert hub.rows("SELECT count(*) FROM inbox WHERE state = 'running'") == [(2,)]


@pytest.mark.requirement("Q8")
async def test_all_who_wait_may_go_at_once_and_whoever_comes_later_asks(hub: Hub) -> None:
    tasks = await waiting(hub, "worker-1", "worker-2", "worker-3")
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    await hub.admits(hub.command(POWER))

    assert (await hub.claims(holder="worker-4")).device == TV


@pytest.mark.requirement("Q8")
async def test_a_device_that_is_free_again_wakes_the_other_lane_that_waits_for_it(
    hub: Hub,
) -> None:
    # Given a device that is worked, and a command of another lane for it, for which somebody waits.
    await hub.admits(hub.command(POWER))
    claim = await hub.claims()
    await hub.admits(hub.command(TOGGLE))
    tasks = await waiting(hub, "worker-2", lane=Tier.MEDIUM)

    # When it is worked no more.
    await hub.now.desk.finish(claim, REFUSED)

    # Then that one has it.
    [other] = await claims_of(tasks)
    assert other.device == TV


@pytest.mark.requirement("Q8")
async def test_a_device_that_is_free_again_wakes_nobody_for_whom_nothing_was_left(hub: Hub) -> None:
    # Given a device that is worked, and somebody who waits in a lane where nothing is queued.
    await hub.admits(hub.command(POWER))
    claim = await hub.claims()
    tasks = await waiting(hub, "worker-2", lane=Tier.MEDIUM)
    before = hub.now.store.commits
    await hub.breathes()
    breath = hub.now.store.commits - before

    # When the device is free again.
    await hub.now.desk.finish(claim, REFUSED)
    await hub.breathes()

    # Then nobody has asked the database again: there is the final commit, and what a breath takes.
    assert hub.now.store.commits == before + 2 * breath + 1
    await ended(tasks)
