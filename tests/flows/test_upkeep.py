"""Looking after commands that nobody works: waking them, and ending those whose time is over."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.contracts.event import EventType
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.lifecycle import State
from edgeagent.core.work import Later
from edgeagent.errors import StorageError
from tests.flows.commanding import Hub, new_hub
from tests.flows.scripted import Television
from tests.flows.signing import MINUTE, OTHER_TV, POWER, REBOOT, SECOND, TV, VOLUME
from tests.support.clocks import LoopTime
from tests.support.stores import broken_log, full_disk
from tests.support.waiting import eventually


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub that has just started."""
    async with new_hub(tmp_path) as made:
        yield made


@pytest.fixture
async def tv(hub: Hub) -> Television:
    """Its television, off."""
    return await hub.television()


@asynccontextmanager
async def looking(hub: Hub) -> AsyncIterator[LoopTime]:
    """Upkeep that looks by itself, and the time of its timers."""
    timers = LoopTime()
    task = asyncio.create_task(hub.now.upkeep.run())
    await hub.breathes()
    try:
        yield timers
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def states(hub: Hub) -> list[object]:
    """Where the commands stand, in the order in which they came."""
    return [state for (state,) in hub.rows("SELECT state FROM inbox ORDER BY run")]


@pytest.mark.requirement("Q9")
async def test_with_nothing_open_it_does_not_look_again_by_itself(hub: Hub, tv: Television) -> None:
    assert await hub.now.upkeep.look() is None

    await hub.admits(hub.command(POWER, on=True))
    await hub.works()

    assert await hub.now.upkeep.look() is None
    assert len(tv.effects) == 1


@pytest.mark.requirement("T5")
async def test_it_looks_again_when_the_first_is_certainly_over(hub: Hub, tv: Television) -> None:
    await hub.admits(
        hub.command(POWER, on=True, valid_for=5 * MINUTE), hub.command(VOLUME, level=3, valid_for=3 * MINUTE)
    )

    wait = await hub.now.upkeep.look()

    assert wait is not None
    assert timedelta(0) <= wait - 3 * MINUTE <= SECOND
    assert tv.effects == []


@pytest.mark.requirement("T5", "R4")
async def test_what_may_still_be_good_is_not_ended(hub: Hub, tv: Television) -> None:
    tv.goes_offline()
    await hub.settles()
    command = hub.command(POWER, on=True, valid_for=MINUTE)
    await hub.admits(command)
    await hub.works()
    hub.readings.passes(MINUTE)

    await hub.now.upkeep.look()
    assert states(hub) == ["waiting"]
    hub.passes(SECOND)
    await hub.now.upkeep.look()

    assert states(hub) == ["expired"]


@pytest.mark.requirement("T5", "R4", "L5")
@pytest.mark.parametrize("days", [400, -400, -20000], ids=["ahead", "behind", "before 1970"])
async def test_a_wall_clock_that_somebody_sets_ends_nothing_and_revives_nothing(
    hub: Hub, tv: Television, days: int
) -> None:
    tv.goes_offline()
    await hub.settles()
    waits, is_over = hub.command(POWER, on=True), hub.command(VOLUME, level=3, valid_for=SECOND)
    await hub.admits(waits, is_over)
    await hub.works_all()
    hub.passes(2 * SECOND)
    await hub.now.upkeep.look()

    hub.readings.is_set(hub.readings.wall() + timedelta(days=days))
    await hub.now.upkeep.look()

    assert states(hub) == ["waiting", "expired"]


@pytest.mark.requirement("T5", "R4")
async def test_while_the_time_is_not_known_nothing_is_taken_for_over(hub: Hub, tv: Television) -> None:
    tv.goes_offline()
    await hub.settles()
    await hub.admits(hub.command(POWER, on=True), hub.command(VOLUME, level=3))
    await hub.works_all()

    await hub.reboots()
    hub.passes(60 * MINUTE)
    await hub.now.upkeep.look()

    assert states(hub) == ["waiting", "waiting"]


@pytest.mark.requirement("V6", "L5")
async def test_what_was_typed_is_over_after_a_minute_of_boot_time_whatever_the_clock_says(
    hub: Hub, tv: Television
) -> None:
    tv.goes_offline()
    await hub.settles()
    command = hub.command(POWER, on=True)
    await hub.admits_local(command)
    await hub.works()
    hub.readings.is_set(hub.readings.wall() - timedelta(days=400))
    hub.passes(MINUTE - SECOND)
    await hub.now.upkeep.look()
    assert states(hub) == ["waiting"]

    hub.passes(SECOND)
    await hub.now.upkeep.look()

    assert (await hub.ended(command)).outcome is Outcome.EXPIRED


@pytest.mark.requirement("V6", "L5")
async def test_what_was_typed_before_a_power_cut_is_over(hub: Hub, tv: Television) -> None:
    command = hub.command(POWER, on=True)
    await hub.admits_local(command)

    await hub.reboots()
    await hub.now.upkeep.look()

    assert (await hub.ended(command)).outcome is Outcome.EXPIRED
    assert tv.effects == []


@pytest.mark.requirement("E2", "Q9", "L4")
async def test_by_itself_it_wakes_what_waits_for_a_device_and_ends_what_waited_too_long(
    hub: Hub, tv: Television
) -> None:
    tv.goes_offline()
    await hub.settles()
    short, long = hub.command(VOLUME, level=3, valid_for=MINUTE), hub.command(POWER, on=True)
    await hub.admits(short, long)
    async with looking(hub) as timers:
        await hub.works_all()
        await hub.breathes()
        hub.passes(MINUTE + SECOND)
        timers.passes(MINUTE + SECOND)
        await eventually(lambda: states(hub) == ["expired", "waiting"])

        tv.comes_online()
        await eventually(lambda: states(hub) == ["expired", "queued"])

    await hub.works()
    assert tv.effects == [("power", True)]


@pytest.mark.requirement("E2")
async def test_one_device_that_comes_wakes_only_its_own(hub: Hub, tv: Television) -> None:
    other = await hub.television(OTHER_TV)
    for device in (tv, other):
        device.goes_offline()
    await hub.settles()
    await hub.admits(hub.command(POWER, on=True), hub.command(POWER, on=True, device=OTHER_TV))
    await hub.works_all()

    other.comes_online()
    await hub.settles()
    await hub.now.upkeep.look()

    assert states(hub) == ["waiting", "queued"]


@pytest.mark.requirement("E2", "V2")
async def test_what_waits_for_a_device_that_was_let_go_is_told_so(hub: Hub, tv: Television) -> None:
    tv.goes_offline()
    await hub.settles()
    command = hub.command(POWER, on=True)
    await hub.admits(command)
    await hub.works()
    await hub.now.devices.forget(TV, actor="uid:0 root")

    await hub.now.upkeep.look()
    await hub.works()

    assert (await hub.ended(command)).reason is Reason.DEVICE_UNKNOWN


@pytest.mark.requirement("E2", "L4")
async def test_a_device_that_comes_while_its_command_is_put_off_wakes_it_all_the_same(
    hub: Hub, tv: Television
) -> None:
    """It is online again before the command is written down as waiting: nobody tells of it any more."""
    command = hub.command(POWER, on=True)
    await hub.admits(command)
    async with looking(hub):
        claim = await hub.claims()

        await hub.now.desk.postpone(claim, Later(reason=Reason.DEVICE_OFFLINE))

        await eventually(lambda: states(hub) == ["queued"])
    assert tv.effects == []


@pytest.mark.requirement("M2", "I3")
async def test_what_was_sent_and_is_over_is_found_out_and_not_ended_here(hub: Hub, tv: Television) -> None:
    tv.is_deaf()
    tv.is_mute()
    command = hub.command(POWER, on=True, valid_for=30 * SECOND)
    await hub.admits(command)
    await hub.works()
    tv.goes_offline()
    await hub.settles()
    await hub.works()
    assert (await hub.row(command)).reason is Reason.DEVICE_OFFLINE
    hub.passes(MINUTE)

    await hub.now.upkeep.look()

    row = await hub.row(command)
    assert (row.state, row.force_refresh, await hub.receipt(command)) == (State.QUEUED, True, None)
    await hub.works()
    assert (await hub.ended(command)).outcome is Outcome.UNKNOWN


@pytest.mark.requirement("L3")
async def test_what_was_taken_over_and_has_to_wait_is_still_read_first(hub: Hub, tv: Television) -> None:
    command = hub.command(POWER, on=True)
    await hub.admits(command)
    await hub.claims()
    tv.goes_offline()
    await hub.settles()
    hub.passes(MINUTE)
    await hub.works()
    tv.comes_online()
    await hub.settles()
    await hub.now.upkeep.look()

    claim = await hub.claims()

    assert claim.force_refresh


@pytest.mark.requirement("R2")
async def test_a_disk_that_fails_while_it_looks_loses_nothing_of_what_it_was_told(
    hub: Hub, tv: Television
) -> None:
    await hub.reboots()
    command = hub.command(REBOOT)
    await hub.admits(command)
    assert states(hub) == ["held"]
    await hub.now.upkeep.look()
    hub.time_is_known()

    with broken_log(hub.path, Path("/dev/full")), pytest.raises(StorageError):
        await hub.now.upkeep.look()
    assert states(hub) == ["held"]
    await hub.now.upkeep.look()

    assert states(hub) == ["queued"]
    assert tv.effects == []


@pytest.mark.requirement("R2", "H3")
async def test_it_goes_on_by_itself_when_the_disk_takes_writes_again(
    hub: Hub, tv: Television, caplog: pytest.LogCaptureFixture
) -> None:
    command = hub.command(POWER, on=True, valid_for=MINUTE)
    tv.goes_offline()
    await hub.settles()
    await hub.admits(command)
    await hub.works()
    async with looking(hub) as timers:
        with full_disk(hub.path):
            hub.passes(2 * MINUTE)
            hub.now.upkeep.bell.ring()
            await eventually(lambda: "upkeep fails" in caplog.messages)
            assert states(hub) == ["waiting"]

        timers.passes(2 * SECOND)
        await eventually(lambda: states(hub) == ["expired"])


@pytest.mark.requirement("Q9", "T4")
async def test_what_has_moved_on_while_it_looked_is_left_alone(hub: Hub, tv: Television) -> None:
    command = hub.command(POWER, on=True, valid_for=MINUTE)
    await hub.admits(command)
    claim = await hub.claims()
    hub.passes(2 * MINUTE)

    await hub.now.upkeep.look()

    assert states(hub) == ["running"]
    assert (claim.asked.command, tv.effects) == (command, [])
    assert await hub.records(EventType.RECEIPT) == []
