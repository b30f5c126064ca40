"""Who works which device, and taking a device from whoever does."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from edgeagent.contracts.policy import Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.contracts.reports.locks import ReleaseRequest
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.lifecycle import State
from edgeagent.core.work import Ending, StepName
from edgeagent.errors import LostRaceError, RejectedError
from edgeagent.flows.lockdesk import Locks
from edgeagent.ports.crash import CrashPoint
from tests.flows.commanding import Hub, new_hub
from tests.flows.scripted import Television
from tests.flows.signing import OTHER_TV, POWER, SECOND, TV

pytestmark = pytest.mark.requirement("Q5", "L3")

WHY = ReleaseRequest(reason="the worker hangs")


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub that has just started."""
    async with new_hub(tmp_path) as made:
        yield made


@pytest.fixture
async def tv(hub: Hub) -> Television:
    """Its television, off."""
    return await hub.television()


@pytest.fixture
def desk(hub: Hub, tv: Television) -> Locks:
    """Where a person asks."""
    assert not tv.shows["power"]
    return Locks(hub.now.store, hub.now.desk, hub.now.around)


async def test_a_lock_is_shown_with_its_holder_and_what_is_left(hub: Hub, desk: Locks) -> None:
    command = hub.command(POWER, on=True)
    await hub.admits(command)
    await hub.claims(holder="low-3")
    hub.passes(7 * SECOND)

    [lock] = (await desk.locks()).locks

    assert (lock.device, lock.command, lock.holder, lock.lane) == (TV, command.id, "low-3", "low")
    assert (lock.fence, lock.held, lock.left, lock.parent) == (1, 7.0, 23.0, None)


@pytest.mark.requirement("L2", "A1")
async def test_a_released_device_is_read_before_its_command_goes_on(
    hub: Hub, tv: Television, desk: Locks
) -> None:
    command = hub.command(POWER, on=True)
    await hub.admits(command)
    late = await hub.claims()

    was = await desk.release(TV, WHY, "uid:1000 anna")

    assert (was.command, was.fence) == (command.id, 1)
    row = await hub.row(command)
    assert (row.state, row.reason, row.force_refresh) == (State.QUEUED, Reason.TAKEN_OVER, True)
    assert (row.attempts, row.losses) == (0, 0)
    [detail] = await hub.audited(AuditKind.LOCK_RELEASED)
    assert (detail["actor"], detail["reason"], detail["holder"]) == (
        "uid:1000 anna",
        "the worker hangs",
        "worker-1",
    )
    with pytest.raises(LostRaceError):
        await hub.now.desk.publish(late, StepName.ACT)
    with pytest.raises(LostRaceError):
        await hub.now.desk.finish(late, Ending(outcome=Outcome.SUCCEEDED))
    assert tv.effects == []

    claim = await hub.works()
    assert claim.fence == 2
    assert (await hub.ended(command)).outcome is Outcome.SUCCEEDED


async def test_what_is_released_while_a_step_is_recorded_is_not_sent(hub: Hub, tv: Television) -> None:
    await hub.admits(hub.command(POWER, on=True))
    claim = await hub.claims()
    token = claim.token
    hub.points.happens_at(CrashPoint.STEP_RECORDED, lambda: hub.now.desk.forget(token, TV))

    with pytest.raises(LostRaceError):
        await hub.now.desk.publish(claim, StepName.ACT)

    assert (hub.bus.published, tv.effects) == ([], [])


async def test_nobody_is_taken_from_a_device_that_nobody_works(hub: Hub, desk: Locks) -> None:
    before = hub.rows("SELECT count(*) FROM audit")
    for device in (TV, OTHER_TV):
        with pytest.raises(RejectedError, match="nobody works"):
            await desk.release(device, WHY, "uid:0 root")

    assert hub.rows("SELECT count(*) FROM audit") == before
    assert (await desk.locks()).locks == []


@pytest.mark.requirement("L4", "Q9")
async def test_whoever_waits_for_a_device_is_woken_when_it_is_released(hub: Hub, desk: Locks) -> None:
    await hub.admits(hub.command(POWER, on=True))
    await hub.claims()
    waiting = asyncio.create_task(hub.now.desk.claim(Tier.LOW, "low-2"))
    await hub.breathes()
    assert not waiting.done()

    await desk.release(TV, WHY, "uid:0 root")

    assert (await waiting).fence == 2
