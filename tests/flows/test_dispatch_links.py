"""Working a command while the device, the broker or its listeners are not there."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from edgeagent.contracts.mqtt import PublishResult
from edgeagent.contracts.policy import Level, Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.lifecycle import State
from edgeagent.errors import RejectedError
from edgeagent.flows.losing import MOST_LOSSES
from edgeagent.ports.crash import CrashPoint
from tests.flows.commanding import Hub, new_hub
from tests.flows.scripted import Television
from tests.flows.signing import MINUTE, POWER, REBOOT, SECOND, TOGGLE, TV
from tests.support.clocks import LoopTime
from tests.support.stores import full_disk
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


@pytest.mark.requirement("E2", "L4")
async def test_a_device_that_is_away_is_waited_for_and_its_coming_wakes_the_command(
    hub: Hub, tv: Television
) -> None:
    tv.goes_offline()
    await hub.settles()
    command = hub.command(POWER, on=True)
    await hub.admits(command)
    await hub.works()
    row = await hub.row(command)
    assert (row.state, row.reason, row.attempts, row.sent) == (
        State.WAITING,
        Reason.DEVICE_OFFLINE,
        0,
        False,
    )
    await hub.now.upkeep.look()
    assert not await hub.has_work()

    tv.comes_online()
    await hub.settles()
    await hub.now.upkeep.look()
    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.attempts) == (Outcome.SUCCEEDED, 1)
    assert receipt.fence == 2


@pytest.mark.requirement("E2", "I2")
async def test_a_device_that_stays_away_lets_the_command_expire_and_nothing_was_sent(
    hub: Hub, tv: Television
) -> None:
    tv.goes_offline()
    await hub.settles()
    command = hub.command(POWER, on=True, valid_for=MINUTE)
    await hub.admits(command)
    await hub.works()
    hub.passes(2 * MINUTE)

    await hub.now.upkeep.look()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason, receipt.attempts) == (Outcome.EXPIRED, Reason.EXPIRED, 0)
    assert receipt.detail == Reason.DEVICE_OFFLINE
    assert (hub.bus.published, hub.rows("SELECT state FROM operations")) == ([], [("failed",)])


@pytest.mark.requirement("E2", "M2")
async def test_where_nobody_listens_nothing_was_sent_and_it_is_tried_again_soon(
    hub: Hub, tv: Television
) -> None:
    hub.bus.answers_publish_with(PublishResult.NOBODY_LISTENS)
    command = hub.command(REBOOT)
    await hub.admits(command)

    await hub.works(Tier.MEDIUM)

    row = await hub.row(command)
    assert (row.state, row.reason, row.attempts, row.sent) == (
        State.WAITING,
        Reason.DEVICE_OFFLINE,
        0,
        False,
    )
    assert not await hub.has_work(Tier.MEDIUM)
    hub.passes(5 * SECOND)
    await hub.works(Tier.MEDIUM)
    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.attempts, tv.effects) == (Outcome.SUCCEEDED, 1, [("reboot", True)])


@pytest.mark.requirement("E2", "H3")
async def test_a_broker_that_is_away_is_waited_for_without_a_try_or_a_word(hub: Hub, tv: Television) -> None:
    command = hub.command(TOGGLE)
    await hub.admits(command)
    hub.bus.goes_down()
    await hub.settles()

    await hub.works(Tier.MEDIUM)
    said = len(hub.rows("SELECT number FROM audit"))
    for _ in range(5):
        hub.passes(timedelta(seconds=10))
        await hub.now.upkeep.look()
        row = await hub.row(command)
        assert (row.state, row.reason, row.available) == (State.WAITING, Reason.BROKER_AWAY, None)
        assert (row.attempts, row.sent) == (0, False)
    assert len(hub.rows("SELECT number FROM audit")) == said

    hub.bus.comes_up()
    await hub.settles()
    await hub.now.upkeep.look()
    await hub.works(Tier.MEDIUM)
    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.attempts, tv.effects) == (Outcome.SUCCEEDED, 1, [("toggle", True)])


@pytest.mark.requirement("E2", "M2")
async def test_a_connection_that_breaks_before_the_command_leaves_burns_no_attempt(
    hub: Hub, tv: Television
) -> None:
    command = hub.command(REBOOT)
    await hub.admits(command)
    hub.bus.goes_down()

    await hub.works(Tier.MEDIUM)

    row = await hub.row(command)
    assert (row.state, row.attempts, row.sent) == (State.WAITING, 0, False)
    assert tv.effects == []


@pytest.mark.requirement("I3", "M2")
async def test_a_connection_that_breaks_before_the_brokers_answer_counts_as_sent(
    hub: Hub, tv: Television
) -> None:
    hub.bus.answers_publish_with(PublishResult.NO_ANSWER)
    hub.points.happens_at(CrashPoint.STEP_SENT, lambda: hub.passes(5 * SECOND))
    command = hub.command(REBOOT)
    await hub.admits(command)

    await hub.works(Tier.MEDIUM)

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.attempts) == (Outcome.UNKNOWN, 1)
    assert not await hub.has_work(Tier.MEDIUM)
    assert tv.effects == []


@pytest.mark.requirement("M2", "H3")
async def test_what_cannot_be_asked_while_the_broker_is_away_is_found_out_when_it_is_back(
    hub: Hub, tv: Television
) -> None:
    tv.is_silent()
    command = hub.command(POWER, on=True, valid_for=MINUTE)
    await hub.admits(command)
    tv.is_mute()
    await hub.works()
    hub.passes(2 * MINUTE)
    hub.bus.goes_down()
    await hub.settles()

    await hub.works()
    row = await hub.row(command)
    assert (row.state, row.reason, row.attempts) == (State.WAITING, Reason.BROKER_AWAY, 1)
    await hub.now.upkeep.look()
    assert (await hub.row(command)).state is State.WAITING
    hub.bus.comes_up()
    await hub.settles()
    tv.obeys()
    await hub.now.upkeep.look()
    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.level, receipt.attempts) == (Outcome.SUCCEEDED, Level.VERIFIED, 1)


@pytest.mark.requirement("M2", "E1")
@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        pytest.param(RejectedError("300 bytes, where the broker takes 200"), "300 bytes", id="oversize"),
        pytest.param(PublishResult.REFUSED, None, id="refused"),
    ],
)
async def test_what_the_broker_does_not_take_has_failed_and_is_not_tried_again(
    hub: Hub, tv: Television, answer: RejectedError | PublishResult, detail: str | None
) -> None:
    hub.bus.answers_publish_with(answer)
    command = hub.command(POWER, on=True)
    await hub.admits(command)

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason) == (Outcome.FAILED, Reason.BROKER_REFUSED)
    assert (receipt.detail or "").startswith(detail or "")
    assert tv.effects == []
    assert not await hub.has_work()


@pytest.mark.requirement("E2", "M2")
async def test_where_nobody_listens_to_a_question_nobody_waits_for_its_answer(
    hub: Hub, tv: Television
) -> None:
    tv.is_deaf()
    hub.bus.answers_publish_with(PublishResult.TAKEN, PublishResult.NOBODY_LISTENS)
    command = hub.command(POWER, on=True)
    await hub.admits(command)

    await hub.works()

    row = await hub.row(command)
    assert (row.state, row.reason, row.attempts) == (State.WAITING, Reason.RETRYING, 1)
    assert tv.asked == 0


@pytest.mark.requirement("T5", "V4")
@pytest.mark.parametrize("is_local", [False, True], ids=["from elsewhere", "typed here"])
async def test_one_that_expires_while_its_step_is_recorded_is_not_sent(
    hub: Hub, tv: Television, *, is_local: bool
) -> None:
    """A disk that stalls between the last judgement and the message."""
    command = hub.command(POWER, on=True, valid_for=10 * SECOND)
    if is_local:
        await hub.admits_local(command, valid_for=10 * SECOND)
    else:
        await hub.admits(command)
    hub.points.happens_at(CrashPoint.STEP_RECORDED, lambda: hub.passes(11 * SECOND))

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason, receipt.attempts) == (Outcome.EXPIRED, Reason.EXPIRED, 0)
    assert (hub.bus.published, tv.effects) == ([], [])
    assert hub.rows("SELECT 1 FROM dead_letters") == []


@pytest.mark.requirement("T5", "M2")
async def test_a_second_try_that_expires_while_it_is_recorded_is_not_sent_and_found_out(
    hub: Hub, tv: Television
) -> None:
    command = hub.command(POWER, on=True, valid_for=20 * SECOND)
    tv.is_deaf()
    await hub.admits(command)
    await hub.works()
    assert (await hub.row(command)).reason is Reason.RETRYING
    sent = len(tv.effects)
    hub.points.happens_at(CrashPoint.STEP_RECORDED, lambda: hub.passes(21 * SECOND))
    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason) == (Outcome.FAILED, Reason.OTHER_VALUE)
    assert len(tv.effects) == sent


@pytest.mark.requirement("L3", "H3")
async def test_a_worker_that_has_lost_its_lock_goes_on_with_the_next_command(
    hub: Hub, tv: Television
) -> None:
    lost, following = hub.command(POWER, on=True), hub.command(REBOOT)
    await hub.admits(lost)
    hub.points.happens_at(CrashPoint.STEP_RECORDED, lambda: hub.passes(MINUTE))

    await hub.works_until(lambda: hub.receipt(lost))

    receipt = await hub.ended(lost)
    assert (receipt.outcome, receipt.attempts, receipt.fence) == (Outcome.SUCCEEDED, 2, 2)
    await hub.admits(following)
    await hub.works(Tier.MEDIUM)
    assert tv.effects == [("power", True), ("reboot", True)]


@asynccontextmanager
async def working(hub: Hub) -> AsyncIterator[None]:
    """Its lane of low risk is worked, as an agent does, until the end of this."""
    task = asyncio.create_task(hub.now.dispatch[Tier.LOW].run("worker-1"))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.mark.requirement("R2", "H3")
async def test_a_worker_whose_disk_fails_goes_on_when_it_takes_writes_again(
    hub: Hub, tv: Television, caplog: pytest.LogCaptureFixture
) -> None:
    timers = LoopTime()
    await hub.admits(hub.command(POWER, on=True))
    async with working(hub):
        with full_disk(hub.path):
            await eventually(lambda: "command left" in caplog.messages)
            assert tv.effects == []

        timers.passes(MINUTE)
        hub.passes(MINUTE)
        await eventually(lambda: hub.rows("SELECT state FROM inbox") == [("succeeded",)])

    assert tv.effects == [("power", True)]


@pytest.mark.requirement("R2", "L7")
async def test_a_command_that_the_disk_has_stopped_is_given_back_without_a_loss(
    hub: Hub, tv: Television, caplog: pytest.LogCaptureFixture
) -> None:
    """Its lease need not lapse, and a disk that fails three times is no reason to end or to stop anything."""
    timers = LoopTime()
    await hub.admits(hub.command(POWER, on=True))
    async with working(hub):
        for _ in range(MOST_LOSSES):
            caplog.clear()
            with ExitStack() as trouble:
                fills = partial(trouble.enter_context, full_disk(hub.path))
                hub.points.happens_at(CrashPoint.COMMAND_CLAIMED, fills)
                timers.passes(SECOND)
                await eventually(lambda: "command left" in caplog.messages)
            timers.passes(SECOND)
        await eventually(lambda: hub.rows("SELECT state FROM inbox") == [("succeeded",)])

    assert tv.effects == [("power", True)]
    assert hub.rows("SELECT losses FROM inbox") == [(0,)]


@pytest.mark.requirement("L6", "E2")
async def test_a_device_that_is_away_keeps_no_other_from_being_worked(hub: Hub, tv: Television) -> None:
    tv.goes_offline()
    await hub.settles()
    command = hub.command(POWER, on=True)
    await hub.admits(command)

    await hub.works()

    assert hub.rows("SELECT device, token FROM locks") == [(TV, None)]
