"""The process ends at each named point on a command's way, and another one starts on the same database."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.command import Command
from edgeagent.contracts.event import EventType
from edgeagent.contracts.policy import Level, Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.gate.verdict import Duplicate
from edgeagent.core.lifecycle import State
from edgeagent.ports.crash import CrashPoint
from tests.flows.commanding import Hub, new_hub
from tests.flows.points import KilledError
from tests.flows.scripted import Television
from tests.flows.signing import POWER, REBOOT, TOGGLE

pytestmark = pytest.mark.requirement("R5", "I3", "Q4", "S3")

BEFORE_SENDING = CrashPoint.COMMAND_CLAIMED, CrashPoint.STEP_RECORDED
AFTER_SENDING = CrashPoint.STEP_SENT, CrashPoint.EVENTS_COMMITTED, CrashPoint.EFFECT_CONFIRMED
LANE = {POWER: Tier.LOW, TOGGLE: Tier.MEDIUM, REBOOT: Tier.MEDIUM}

# What a reboot is answered with is no reading, so that nothing is committed.
EVERY_DEATH = [
    (action, point)
    for action in LANE
    for point in (*BEFORE_SENDING, *AFTER_SENDING, CrashPoint.COMMAND_SETTLED)
    if (action, point) != (REBOOT, CrashPoint.EVENTS_COMMITTED)
]


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub that has just started."""
    async with new_hub(tmp_path) as made:
        yield made


@pytest.fixture
async def tv(hub: Hub) -> Television:
    """Its television, off."""
    return await hub.television()


async def killed_and_started(hub: Hub, action: ActionName, point: CrashPoint) -> Command:
    """A command during which the process died; the next one runs and has worked what was left."""
    command = hub.command(action)
    await hub.admits(command)
    await hub.is_killed(point, LANE[action])
    await hub.starts_anew()
    await hub.works_all()
    return command


@pytest.mark.parametrize(("action", "point"), EVERY_DEATH)
async def test_nothing_is_lost_and_there_is_one_end_and_one_receipt(
    hub: Hub, tv: Television, action: ActionName, point: CrashPoint
) -> None:
    command = await killed_and_started(hub, action, point)

    receipt = await hub.ended(command)
    assert [told["command"] for _, told in await hub.records(EventType.RECEIPT)] == [command.id]
    assert [act["subject"] for act in await hub.audited(AuditKind.COMMAND_SETTLED)] == [command.id]
    assert hub.rows("SELECT count(*) FROM locks WHERE token IS NOT NULL") == [(0,)]
    assert len(tv.effects) == (0 if receipt.outcome is Outcome.UNKNOWN and point in BEFORE_SENDING else 1)


@pytest.mark.parametrize(("action", "point"), [case for case in EVERY_DEATH if case[0] is not POWER])
async def test_a_one_shot_acts_at_most_once_and_is_unknown_where_nobody_can_tell(
    hub: Hub, tv: Television, action: ActionName, point: CrashPoint
) -> None:
    command = await killed_and_started(hub, action, point)

    receipt = await hub.ended(command)
    is_certain = point in {CrashPoint.COMMAND_CLAIMED, CrashPoint.COMMAND_SETTLED}
    assert receipt.outcome is (Outcome.SUCCEEDED if is_certain else Outcome.UNKNOWN)
    assert receipt.attempts == 1
    assert len(tv.effects) == (0 if point is CrashPoint.STEP_RECORDED else 1)
    assert sum(sent.topic.endswith(f"/{action}") for sent in hub.bus.published) == len(tv.effects)


@pytest.mark.parametrize("point", AFTER_SENDING, ids=str)
async def test_an_absolute_that_was_sent_is_read_and_not_sent_again(
    hub: Hub, tv: Television, point: CrashPoint
) -> None:
    command = await killed_and_started(hub, POWER, point)

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.level, receipt.reason) == (Outcome.SUCCEEDED, Level.VERIFIED, None)
    assert (receipt.attempts, tv.effects) == (1, [("power", True)])


async def test_an_absolute_that_was_not_sent_yet_is_sent(hub: Hub, tv: Television) -> None:
    command = await killed_and_started(hub, POWER, CrashPoint.STEP_RECORDED)

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.attempts, tv.effects) == (Outcome.SUCCEEDED, 2, [("power", True)])


async def test_who_dies_at_every_try_spends_no_more_than_the_tries_there_are(
    hub: Hub, tv: Television
) -> None:
    """Each try was recorded before it left: a crash loop must not become a flood."""
    command = hub.command(POWER, on=True)
    await hub.admits(command)

    for tried in (1, 2, 3):
        await hub.is_killed(CrashPoint.STEP_RECORDED)
        await hub.starts_anew()
        assert (await hub.row(command)).attempts == tried
    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason, receipt.attempts) == (Outcome.FAILED, Reason.OTHER_VALUE, 3)
    assert tv.effects == []


@pytest.mark.requirement("Q3", "T4")
async def test_one_that_was_let_in_before_the_death_is_known_when_the_cloud_sends_it_again(
    hub: Hub, tv: Television
) -> None:
    envelope = hub.signed(command := hub.command(POWER, on=True))
    hub.points.dies_at(CrashPoint.COMMAND_ADMITTED)
    with pytest.raises(KilledError):
        await hub.admits(envelope)
    await hub.starts_anew()

    [verdict] = await hub.admits(envelope)

    assert isinstance(verdict, Duplicate)
    assert (await hub.row(command)).state is State.QUEUED
    await hub.works_all()
    assert tv.effects == [("power", True)]


@pytest.mark.parametrize("action", LANE)
async def test_deaths_at_one_point_after_the_other_lead_to_one_end(
    hub: Hub, tv: Television, action: ActionName
) -> None:
    command = hub.command(action)
    await hub.admits(command)

    for point in (CrashPoint.COMMAND_CLAIMED, CrashPoint.STEP_RECORDED, CrashPoint.COMMAND_SETTLED):
        if await hub.receipt(command) is None:
            await hub.is_killed(point, LANE[action])
            await hub.starts_anew()
    await hub.works_all()

    assert (await hub.ended(command)).fence == 3
    assert len(tv.effects) == (1 if action is POWER else 0)
    assert len(await hub.records(EventType.RECEIPT)) == 1


async def test_a_boot_later_everything_goes_on_as_well(hub: Hub, tv: Television) -> None:
    command = hub.command(POWER, on=True)
    await hub.admits(command)
    await hub.is_killed(CrashPoint.STEP_SENT)

    await hub.reboots()
    hub.time_is_known()
    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.level, tv.effects) == (
        Outcome.SUCCEEDED,
        Level.VERIFIED,
        [("power", True)],
    )
