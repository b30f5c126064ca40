"""Claiming: one command for each device at a time, the oldest first, whoever has gone taken over."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from edgeagent.contracts.policy import Tier, TierRule
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.lease import SHORTEST as LEASE
from edgeagent.core.lifecycle import State
from edgeagent.core.work import Claim, Ending, Later, StepName
from edgeagent.errors import LostRaceError
from edgeagent.ports.crash import CrashPoint
from tests.flows.commanding import Hub, new_hub
from tests.flows.points import KilledError
from tests.flows.signing import MILLISECOND, MINUTE, OTHER_TV, POWER, REBOOT, SECOND, TV, VOLUME
from tests.support.clocks import LoopTime
from tests.support.waiting import eventually

RENEWED = LEASE / 3


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub with two televisions."""
    async with new_hub(tmp_path) as made:
        await made.television()
        await made.television(OTHER_TV)
        yield made


def locks(hub: Hub) -> list[tuple[object, ...]]:
    """Each device with its fence and whether it is locked."""
    return hub.rows("SELECT device, fence, token IS NOT NULL FROM locks ORDER BY device")


async def waiting_claim(hub: Hub, lane: Tier = Tier.LOW) -> "asyncio.Task[Claim]":
    """A worker that has looked, found nothing, and waits."""
    task = asyncio.create_task(hub.now.desk.claim(lane, "worker-2"))
    commits = hub.now.store.commits
    await eventually(lambda: hub.now.store.commits > commits)
    # It may have been rung for before, and then looks once more.
    await hub.breathes()
    assert not task.done()
    return task


@pytest.mark.requirement("Q5", "L1")
async def test_the_oldest_is_claimed_first_and_its_device_is_locked(hub: Hub) -> None:
    older, newer = hub.command(POWER, device=OTHER_TV), hub.command(POWER)
    await hub.admits(older, newer)

    claim = await hub.claims(holder="worker-7")

    assert claim.asked.command == older
    assert (await hub.row(older)).state is State.RUNNING
    held = hub.rows("SELECT device, fence, holder, run, lease_until, boot, incarnation FROM locks")
    now = hub.lease_time()
    until = now.milliseconds + LEASE // MILLISECOND
    assert held == [(OTHER_TV, 1, "worker-7", claim.run, until, now.boot, 1)]


@pytest.mark.requirement("L4", "L6")
async def test_a_command_whose_device_is_busy_stays_queued_and_others_are_worked_beside(hub: Hub) -> None:
    first, second, beside = hub.command(POWER), hub.command(VOLUME, level=20), hub.command(device=OTHER_TV)
    await hub.admits(first, second, beside)

    claims = [await hub.claims(), await hub.claims()]

    assert [claim.asked.command for claim in claims] == [first, beside]
    row = await hub.row(second)
    assert (row.state, row.attempts) == (State.QUEUED, 0)
    assert not await hub.has_work()
    [report] = (await hub.now.local.one(second.id)).commands
    assert (report.state, report.reason) == (State.QUEUED, Reason.DEVICE_BUSY)
    assert [each.reason for each in (await hub.now.local.recent()).commands] == [
        None,
        Reason.DEVICE_BUSY,
        None,
    ]


@pytest.mark.requirement("L4", "Q9")
@pytest.mark.parametrize("lane", [Tier.LOW, Tier.MEDIUM], ids=["same lane", "another lane"])
async def test_whoever_waits_for_a_busy_device_is_woken_when_it_is_free(hub: Hub, lane: Tier) -> None:
    second = hub.command(VOLUME, level=20) if lane is Tier.LOW else hub.command(REBOOT)
    await hub.admits(hub.command(POWER), second)
    claim = await hub.claims()
    waiting = await waiting_claim(hub, lane)

    await hub.now.dispatch[Tier.LOW].work(claim)

    assert (await waiting).asked.command == second
    assert (await hub.row(second)).attempts == 0


@pytest.mark.requirement("L4", "Q9")
async def test_whoever_waits_for_a_busy_device_is_woken_when_its_command_is_put_off(hub: Hub) -> None:
    second = hub.command(VOLUME, level=20)
    await hub.admits(hub.command(POWER), second)
    claim = await hub.claims()
    waiting = await waiting_claim(hub)

    await hub.now.desk.postpone(claim, Later(reason=Reason.RETRYING, after=MINUTE))

    assert (await waiting).asked.command == second


@pytest.mark.requirement("Q8")
async def test_a_lane_works_no_more_at_once_than_the_policy_lets_it(hub: Hub) -> None:
    await hub.has_policy(version=2, tiers={Tier.LOW: TierRule(concurrency=1)})
    await hub.admits(hub.command(POWER), hub.command(POWER, device=OTHER_TV), hub.command(REBOOT))
    await hub.claims()

    assert not await hub.has_work(Tier.LOW)

    assert not await hub.has_work(Tier.MEDIUM)
    await hub.has_policy(version=3, tiers={Tier.LOW: TierRule(concurrency=2)})
    assert (await hub.claims()).device == OTHER_TV


@pytest.mark.requirement("Q9")
async def test_new_work_wakes_a_worker_that_waits(hub: Hub) -> None:
    waiting = await waiting_claim(hub)
    command = hub.command(POWER)

    await hub.admits(command)

    assert (await waiting).asked.command == command


# Leases.


@pytest.mark.requirement("Q5", "L3", "Q4")
async def test_a_lapsed_lease_is_taken_over_and_the_device_is_read_first(hub: Hub) -> None:
    command = hub.command(POWER)
    await hub.admits(command)
    first = await hub.claims()
    hub.passes(LEASE - MILLISECOND)
    assert not await hub.has_work()
    hub.passes(MILLISECOND)

    second = await hub.claims(holder="worker-2")

    assert second.asked.command == command
    assert (second.force_refresh, second.attempts, second.sent) == (True, 0, False)
    assert second.fence == first.fence + 1
    assert second.token != first.token
    [taken] = await hub.audited(AuditKind.COMMAND_TAKEN_OVER)
    assert (taken["subject"], taken["sent"]) == (command.id, False)


@pytest.mark.requirement("Q5", "Q9", "L3")
async def test_a_worker_that_waits_takes_over_by_itself_when_a_lease_lapses(hub: Hub) -> None:
    """Nobody rings when a holder is gone: whoever waits has to know when to look again."""
    timers = LoopTime()
    command = hub.command(POWER)
    await hub.admits(command)
    await hub.claims()
    waiting = await waiting_claim(hub)

    hub.passes(LEASE)
    timers.passes(LEASE)
    await eventually(waiting.done)

    assert (await waiting).asked.command == command


@pytest.mark.requirement("L1", "Q5")
async def test_a_lease_that_is_renewed_in_time_does_not_lapse(hub: Hub) -> None:
    await hub.admits(hub.command(POWER))
    claim = await hub.claims()

    for _ in range(6):
        hub.passes(RENEWED)
        await hub.now.desk.renew(claim)

    assert not await hub.has_work()
    await hub.now.dispatch[Tier.LOW].work(claim)
    assert (await hub.ended(claim.asked.command)).outcome is Outcome.SUCCEEDED


@pytest.mark.requirement("L1", "L2", "L3")
@pytest.mark.parametrize("since", ["lapsed", "queued again", "taken over"])
async def test_a_late_holder_can_do_nothing_any_more(hub: Hub, since: str) -> None:
    command = hub.command(POWER)
    await hub.admits(command, hub.command(REBOOT, device=OTHER_TV))
    late = await hub.claims()
    hub.passes(LEASE)
    if since == "queued again":
        await hub.claims(Tier.MEDIUM, holder="worker-2")
    elif since == "taken over":
        await hub.claims(holder="worker-2")
    before = hub.contents()
    desk = hub.now.desk

    with pytest.raises(LostRaceError):
        await desk.renew(late)
    with pytest.raises(LostRaceError):
        await desk.publish(late, StepName.ACT)
    if since != "lapsed":
        with pytest.raises(LostRaceError):
            await desk.publish(late, StepName.READ_BACK)
        with pytest.raises(LostRaceError):
            await desk.await_confirmation(late, level=late.rule.confirmation, within=SECOND)
        with pytest.raises(LostRaceError):
            await desk.postpone(late, Later(reason=Reason.RETRYING))
        with pytest.raises(LostRaceError):
            await desk.finish(late, Ending(outcome=Outcome.FAILED))

    assert hub.contents() == before
    assert hub.bus.published == []


@pytest.mark.requirement("L1", "L2")
async def test_a_late_holder_disturbs_its_successor_in_nothing(hub: Hub) -> None:
    """Both hold the same run. The late one wakes up while the other waits for the device."""
    command = hub.command(POWER, on=True)
    await hub.admits(command)
    late = await hub.claims()
    hub.passes(LEASE)
    successor = await hub.claims(holder="worker-2")
    hub.bus.reacts(f"{TV}/set/power", lambda _: hub.passes(MILLISECOND))
    await hub.now.desk.publish(successor, StepName.ACT)

    with pytest.raises(LostRaceError):
        await hub.now.dispatch[Tier.LOW].work(late)
    hub.bus.delivers(f"{TV}/state", b'{"power": true}')
    await hub.settles()

    answered = await hub.now.desk.await_confirmation(
        successor, level=successor.rule.confirmation, within=SECOND
    )
    assert answered.confirmed is not None
    assert len(hub.bus.published) == 1


@pytest.mark.requirement("L2", "L3")
async def test_the_fence_only_grows_through_every_start_and_boot(hub: Hub) -> None:
    await hub.admits(hub.command(POWER))
    fences = []

    for step in (hub.starts_anew, hub.reboots, hub.starts_anew):
        fences.append((await hub.claims()).fence)
        await step()
        hub.time_is_known()
    fences.append((await hub.claims()).fence)

    assert fences == [1, 2, 3, 4]


@pytest.mark.requirement("L3", "L5")
async def test_a_lease_of_another_boot_is_void_though_its_boot_time_lies_ahead(hub: Hub) -> None:
    """Boot time begins anew: the lease seems to hold for another hour."""
    command = hub.command(POWER)
    await hub.admits(command)
    first = await hub.claims()

    await hub.reboots()
    hub.time_is_known()
    second = await hub.claims()

    assert hub.lease_time().milliseconds * MILLISECOND < MINUTE
    assert (second.asked.command, second.force_refresh) == (command, True)
    assert second.fence == first.fence + 1


@pytest.mark.requirement("L5", "R4")
async def test_the_time_of_day_does_not_bend_a_lease(hub: Hub) -> None:
    await hub.admits(hub.command(POWER))
    claim = await hub.claims()

    for days in (400, -800, 400):
        hub.readings.is_set(hub.readings.wall() + days * 1440 * MINUTE)
        assert not await hub.has_work()
        await hub.now.desk.renew(claim)


@pytest.mark.requirement("L3", "Q4", "R5")
@pytest.mark.parametrize("crashes", [1, 5])
async def test_a_crash_between_claim_and_act_burns_no_attempt(hub: Hub, crashes: int) -> None:
    command = hub.command(REBOOT)
    await hub.admits(command)

    for _ in range(crashes):
        hub.points.dies_at(CrashPoint.COMMAND_CLAIMED)
        with pytest.raises(KilledError):
            await hub.claims(Tier.MEDIUM)
        await hub.starts_anew()

    row = await hub.row(command)
    assert (row.state, row.attempts, row.sent) == (State.RUNNING, 0, False)
    await hub.works(Tier.MEDIUM)
    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.attempts, receipt.fence) == (Outcome.SUCCEEDED, 1, crashes + 1)


@pytest.mark.requirement("L1", "Q4")
async def test_the_locks_are_free_when_all_is_done(hub: Hub) -> None:
    await hub.admits(hub.command(POWER), hub.command(VOLUME, level=3), hub.command(device=OTHER_TV))

    await hub.works_all()

    assert locks(hub) == [(TV, 2, 0), (OTHER_TV, 1, 0)]
    assert hub.rows("SELECT count(*) FROM locks WHERE run IS NOT NULL") == [(0,)]


@pytest.mark.requirement("L1", "L3")
async def test_nothing_stays_of_the_lock_of_a_dead_worker_whose_command_ends_unclaimed(hub: Hub) -> None:
    command = hub.command(POWER, on=True)
    await hub.admits(command, hub.command(REBOOT, device=OTHER_TV))
    await hub.claims()
    hub.passes(LEASE)
    await hub.claims(Tier.MEDIUM)
    assert (await hub.row(command)).reason is Reason.TAKEN_OVER

    await hub.admits(hub.command(POWER, on=False))

    assert (await hub.ended(command)).outcome is Outcome.SUPERSEDED
    assert locks(hub) == [(TV, 1, 0), (OTHER_TV, 1, 1)]


@pytest.mark.requirement("R7", "L7")
async def test_a_claim_that_nobody_brings_back_is_waited_for_no_longer_than_its_lease(hub: Hub) -> None:
    """While somebody waits for a device, each of its messages is committed alone."""
    hub.bus.reacts(f"{TV}/set/power", lambda _: None)
    await hub.admits(hub.command(POWER, on=True), hub.command(device=OTHER_TV))
    lost = await hub.claims()
    await hub.now.desk.publish(lost, StepName.ACT)
    assert hub.now.confirmations.expects(TV)
    hub.passes(LEASE)

    await hub.claims(holder="worker-2")

    assert not hub.now.confirmations.expects(TV)
