"""The desk: what is sent is recorded before it leaves, under a lock that is ours at that very moment."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from edgeagent.contracts.mqtt import Outgoing
from edgeagent.contracts.policy import Level, Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.lease import SHORTEST as LEASE
from edgeagent.core.lifecycle import State
from edgeagent.core.work import Ending, Later, StepName
from edgeagent.errors import BrokenInvariantError, LostRaceError, RejectedError, StorageError
from edgeagent.ids import DeviceId, device_id, label
from edgeagent.ports.crash import CrashPoint
from tests.flows.commanding import Hub, new_hub
from tests.flows.scripted import Television
from tests.flows.signing import MILLISECOND, MINUTE, OTHER_TV, POWER, REBOOT, SECOND, TV, VOLUME
from tests.support.clocks import LoopTime
from tests.support.stores import full_disk
from tests.support.waiting import eventually

PLUG: DeviceId = device_id("AABBCCDDEEFF")


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub that has just started."""
    async with new_hub(tmp_path) as made:
        yield made


@pytest.fixture
async def tv(hub: Hub) -> Television:
    """Its television, off."""
    return await hub.television()


@pytest.mark.requirement("S1", "I3", "A1")
async def test_that_a_step_is_sent_is_on_the_disk_before_it_leaves(hub: Hub, tv: Television) -> None:
    seen: list[tuple[object, ...]] = []

    def look(_: Outgoing) -> None:
        seen.extend(hub.rows("SELECT state, sent, attempts FROM inbox"))
        seen.extend(hub.rows("SELECT kind FROM audit ORDER BY number DESC LIMIT 1"))

    hub.bus.reacts(f"{TV}/set/reboot", look)
    await hub.admits(hub.command(REBOOT))
    claim = await hub.claims(Tier.MEDIUM)

    await hub.now.desk.publish(claim, StepName.ACT)

    assert seen == [(State.RUNNING, 1, 1), (AuditKind.STEP_SENT,)]
    assert tv.effects == []


@pytest.mark.requirement("L1", "L2", "L5")
async def test_a_lease_that_lapses_while_the_step_is_being_recorded_sends_nothing(
    hub: Hub, tv: Television
) -> None:
    """A disk that stalls for half a minute: by then another may work the device."""
    await hub.admits(hub.command(POWER, on=True))
    claim = await hub.claims()
    hub.points.happens_at(CrashPoint.STEP_RECORDED, lambda: hub.passes(LEASE))

    with pytest.raises(LostRaceError):
        await hub.now.desk.publish(claim, StepName.ACT)

    assert (hub.bus.published, tv.effects) == ([], [])


@pytest.mark.requirement("R2", "L7")
async def test_who_cannot_give_a_command_back_for_want_of_a_disk_is_not_counted_as_lost(
    hub: Hub, tv: Television
) -> None:
    """The disk is full for longer than the lease: another claims before the holder can give back."""
    await hub.admits(hub.command(POWER, on=True))
    claim = await hub.claims()
    left = Later(reason=Reason.TAKEN_OVER, error="the disk is full")
    with full_disk(hub.path), pytest.raises(StorageError):
        await hub.now.desk.postpone(claim, left)
    hub.passes(MINUTE)

    other = await hub.claims()

    assert other.force_refresh
    assert hub.rows("SELECT losses FROM inbox") == [(0,)]
    assert hub.rows("SELECT signal FROM breaker_signals") == []
    with pytest.raises(LostRaceError):
        await hub.now.desk.postpone(claim, left)
    # What is lost afterwards counts as ever
    hub.passes(MINUTE)
    await hub.claims()
    assert hub.rows("SELECT losses FROM inbox") == [(1,)]
    assert tv.effects == []


@pytest.mark.requirement("L1", "L5")
async def test_a_lease_counts_from_when_it_was_asked_for_and_not_from_when_it_was_granted(
    hub: Hub, tv: Television
) -> None:
    await hub.admits(hub.command(POWER, on=True))
    hub.points.happens_at(CrashPoint.COMMAND_CLAIMED, lambda: hub.passes(LEASE - SECOND))
    claim = await hub.claims()
    hub.passes(SECOND)

    with pytest.raises(LostRaceError):
        await hub.now.desk.publish(claim, StepName.READ_BACK)

    assert hub.bus.published == []
    assert await hub.has_work()
    assert tv.asked == 0


@pytest.mark.requirement("T2", "G3")
async def test_without_a_policy_nobody_gets_work_and_its_coming_wakes_who_waits(tmp_path: Path) -> None:
    hub = Hub(tmp_path)
    await hub.starts()
    waiting = asyncio.create_task(hub.now.desk.claim(Tier.LOW, "worker-1"))
    await hub.breathes()
    assert not waiting.done()

    await hub.has_policy()
    await hub.television()
    command = hub.command(POWER)
    await hub.admits(command)

    await eventually(waiting.done)
    assert (await waiting).asked.command == command
    await hub.dies()


@pytest.mark.requirement("W1")
@pytest.mark.parametrize("step", StepName)
async def test_a_step_that_the_device_does_not_have_is_refused_and_nothing_is_sent(
    hub: Hub, step: StepName
) -> None:
    tv = await hub.television(OTHER_TV, mute=True)
    command = hub.command(POWER, device=OTHER_TV)
    await hub.admits(command)
    claim = await hub.claims()
    if step is StepName.ACT:
        await hub.now.devices.forget(OTHER_TV, actor="uid:0 root")

    with pytest.raises(RejectedError):
        await hub.now.desk.publish(claim, step)

    assert (hub.bus.published, tv.effects) == ([], [])
    assert (await hub.row(command)).sent is False


async def test_waiting_for_an_answer_to_nothing_is_a_mistake_of_ours(hub: Hub, tv: Television) -> None:
    await hub.admits(hub.command(POWER))
    claim = await hub.claims()

    with pytest.raises(BrokenInvariantError):
        await hub.now.desk.await_confirmation(claim, level=Level.APPLIED, within=SECOND)

    assert tv.effects == []


@pytest.mark.requirement("M2")
async def test_who_waits_is_told_at_once_and_no_sooner_than_the_answer_is_stored(
    hub: Hub, tv: Television
) -> None:
    await hub.admits(hub.command(VOLUME, level=20))
    claim = await hub.claims()
    hub.bus.reacts(f"{TV}/set/volume", lambda _: hub.passes(MILLISECOND))
    await hub.now.desk.publish(claim, StepName.ACT)
    waiting = asyncio.create_task(
        hub.now.desk.await_confirmation(claim, level=Level.APPLIED, within=10 * SECOND)
    )
    await hub.breathes()
    assert not waiting.done()

    tv.reports(volume=20)
    await eventually(waiting.done)

    answered = await waiting
    assert answered.confirmed is not None
    assert (answered.confirmed.level, answered.is_over) == (Level.APPLIED, True)
    assert hub.rows("SELECT value FROM shadow_readings WHERE reading = 'volume'") == [("20",)]


@pytest.mark.requirement("L1", "Q5")
async def test_a_long_wait_renews_the_lease_before_it_lapses(hub: Hub, tv: Television) -> None:
    """The device takes a minute to answer; the lease would not have held so long."""
    await hub.now.devices.admit(PLUG, "tasmota", {"topic": "plug-a"}, label("Plug"), actor="uid:0 root")
    hub.bus.delivers("tele/plug-a/LWT", b"Online")
    await hub.settles()
    command = hub.command(REBOOT, device=PLUG)
    await hub.admits(command)
    claim = await hub.claims(Tier.MEDIUM)
    working = asyncio.create_task(hub.now.dispatch[Tier.MEDIUM].work(claim))
    timers = LoopTime()
    await eventually(lambda: hub.bus.published)

    for _ in range(6):
        hub.passes(LEASE / 3)
        timers.passes(LEASE / 3)
        await hub.breathes()
        assert not await hub.has_work(Tier.MEDIUM)
    hub.bus.delivers("tele/plug-a/INFO1", b'{"Info1": {"Version": "14.1.0"}}')
    await eventually(working.done)

    await working
    assert (await hub.ended(command)).outcome is Outcome.SUCCEEDED
    assert tv.effects == []


@pytest.mark.requirement("A1", "Q6", "E3")
async def test_a_command_that_is_put_off_says_why_and_until_when(hub: Hub, tv: Television) -> None:
    command = hub.command(POWER)
    await hub.admits(command)
    claim = await hub.claims()
    later = Later(reason=Reason.RETRYING, after=7 * SECOND, error="it shows False")

    await hub.now.desk.postpone(claim, later)

    row = await hub.row(command)
    due = hub.lease_time().milliseconds + 7000
    assert (row.state, row.reason, row.last_error) == (State.WAITING, Reason.RETRYING, "it shows False")
    assert row.available == (due, hub.clock.boot_id)
    [act] = await hub.audited(AuditKind.COMMAND_WAITING)
    assert (act["subject"], act["due_in"], act["error"]) == (command.id, 7.0, "it shows False")
    [shown] = (await hub.now.local.one(command.id)).commands
    assert shown.last_error == "it shows False"
    assert tv.effects == []


@pytest.mark.requirement("Q9", "U3")
async def test_an_end_wakes_the_uplink(hub: Hub, tv: Television) -> None:
    await hub.admits(hub.command(POWER))
    claim = await hub.claims()
    await hub.now.around.outbox.wait(MILLISECOND)
    waiting = asyncio.create_task(hub.now.around.outbox.wait(MINUTE))

    await hub.now.desk.finish(claim, Ending(outcome=Outcome.FAILED))

    await eventually(waiting.done)
    assert hub.rows("SELECT count(*) FROM outbox WHERE type LIKE '%receipt'") == [(1,)]
    assert tv.effects == []


@pytest.mark.requirement("O1")
async def test_ends_are_counted_by_outcome(hub: Hub, tv: Television) -> None:
    await hub.admits(hub.command(POWER), hub.command(REBOOT))
    await hub.works_all()

    counted = hub.now.around.metrics.registry.get_sample_value(
        "edgeagent_commands_settled_total", {"outcome": "succeeded"}
    )

    assert counted == 2
    assert len(tv.effects) == 2
