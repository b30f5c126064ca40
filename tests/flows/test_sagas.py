"""Working a command that is made of several parts: one after the other, confirmed, or all undone."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.command import Command, Precondition
from edgeagent.contracts.mqtt import PublishResult
from edgeagent.contracts.order import Verb
from edgeagent.contracts.policy import ActionRule, Level, Tier, TierRule
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.lifecycle import State
from edgeagent.core.saga import Mark, Phase
from edgeagent.core.stops import Standing
from edgeagent.core.work import Claim, StepName
from edgeagent.errors import LostRaceError, RejectedError
from edgeagent.ports.crash import CrashPoint
from tests.flows.commanding import Hub, new_hub
from tests.flows.signing import INPUT, MINUTE, POWER, SECOND, TV, VOLUME

PRESENT = ActionName.PRESENT
WAITS = 2 * MINUTE

pytestmark = pytest.mark.requirement("S1", "S2")


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub that has just started, whose policy lets screens present."""
    async with new_hub(tmp_path) as made:
        await made.has_policy(**presenting())
        yield made


def presenting(level: Level = Level.APPLIED, *, attempts: int = 2, version: int = 2) -> dict[str, object]:
    """A policy that asks for a level of confirmation of each part."""
    rule = ActionRule(tier=Tier.LOW, confirmation=level)
    tiers = {Tier.LOW: TierRule(attempts=attempts), Tier.MEDIUM: TierRule(attempts=attempts)}
    actions = {PRESENT: rule, POWER: rule, INPUT: rule, VOLUME: rule}
    return {"version": version, "actions": actions, "tiers": tiers}


def present(hub: Hub, **more: object) -> Command:
    """Show what is on the second input, a little louder."""
    fields: dict[str, object] = {"input": "HDMI 2", "volume": 30} | more
    return hub.command(PRESENT, **fields)  # type: ignore[arg-type]  # checked as it is built


def steps(hub: Hub) -> list[tuple[object, ...]]:
    """What is recorded of the steps."""
    return hub.rows("SELECT name, phase, tries FROM steps ORDER BY run, part")


def acts(hub: Hub) -> list[str]:
    """What was sent to change the television, oldest first."""
    sent = [f"{each.topic.rpartition('/')[2]} {each.payload.decode()}" for each in hub.bus.published]
    return [each for each in sent if not each.startswith("get")]


async def is_worked(hub: Hub, command: Command) -> None:
    """Until it has ended, with time going on between its tries."""
    for _ in range(12):
        if await hub.receipt(command) is not None:
            return
        await hub.now.upkeep.look()
        await hub.works_all()
        hub.passes(WAITS)
    raise AssertionError(f"it stands at {(await hub.row(command)).state}, {steps(hub)}")


async def test_the_parts_are_done_in_order_each_confirmed_before_the_next(hub: Hub) -> None:
    tv = await hub.television()
    command = present(hub)
    await hub.admits(command)

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.level, receipt.reason) == (Outcome.SUCCEEDED, Level.APPLIED, None)
    assert (receipt.attempts, receipt.fence) == (3, 1)
    assert tv.effects == [("power", True), ("input", "HDMI 2"), ("volume", 30)]
    assert steps(hub) == [("power", "done", 1), ("input", "done", 1), ("volume", "done", 1)]
    told = await hub.audited(AuditKind.STEP_SENT, AuditKind.STEP_ENDED)
    assert [(row["step"], row["phase"]) for row in told] == [
        ("power", "begun"), ("power", "done"), ("input", "begun"),
        ("input", "done"), ("volume", "begun"), ("volume", "done"),
    ]  # fmt: skip


async def test_the_receipt_shows_the_steps(hub: Hub) -> None:
    tv = await hub.television()
    tv.reports(power=True)
    await hub.settles()
    command = present(hub)
    await hub.admits(command)

    await hub.works()

    shown = (await hub.ended(command)).steps
    assert shown is not None
    assert [(each.action, each.phase, each.level) for each in shown] == [
        (POWER, Phase.FOUND, Level.APPLIED),
        (INPUT, Phase.DONE, Level.APPLIED),
        (VOLUME, Phase.DONE, Level.APPLIED),
    ]


async def test_a_receipt_of_a_single_action_has_no_steps(hub: Hub) -> None:
    await hub.television()
    command = hub.command(POWER, on=True)
    await hub.admits(command)

    await hub.works()

    assert (await hub.ended(command)).steps is None
    assert steps(hub) == []


async def test_a_part_whose_argument_is_left_out_is_left_out(hub: Hub) -> None:
    tv = await hub.television()
    command = hub.command(PRESENT, input="HDMI 2")
    await hub.admits(command)

    await hub.works()

    assert (await hub.ended(command)).outcome is Outcome.SUCCEEDED
    assert tv.effects == [("power", True), ("input", "HDMI 2")]


async def test_a_device_that_is_so_already_is_told_nothing(hub: Hub) -> None:
    tv = await hub.television()
    tv.reports(power=True, input="HDMI 2", volume=30)
    await hub.settles()
    command = present(hub)
    await hub.admits(command)

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason) == (Outcome.SUCCEEDED, Reason.ALREADY_SO)
    assert (tv.effects, receipt.attempts) == ([], 0)


async def test_where_more_is_asked_for_than_an_echo_each_part_is_read_back(hub: Hub) -> None:
    await hub.has_policy(**presenting(Level.VERIFIED, version=3))
    tv = await hub.television()
    command = present(hub)
    await hub.admits(command)

    await is_worked(hub, command)

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.level) == (Outcome.SUCCEEDED, Level.VERIFIED)
    assert tv.effects == [("power", True), ("input", "HDMI 2"), ("volume", 30)]


async def test_a_part_that_is_refused_takes_the_earlier_ones_back_the_last_first(hub: Hub) -> None:
    tv = await hub.television()
    tv.refuses("not now", of="volume")
    command = present(hub)
    await hub.admits(command)

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason) == (Outcome.ROLLED_BACK, Reason.DEVICE_REFUSED)
    assert receipt.detail == "volume: not now"
    assert tv.effects == [("power", True), ("input", "HDMI 2"), ("input", "HDMI 1"), ("power", False)]
    assert tv.shows == {"power": False, "volume": 10, "input": "HDMI 1"}
    assert steps(hub) == [("power", "undone", 1), ("input", "undone", 1), ("volume", "failed", 1)]


async def test_what_was_so_already_is_not_undone(hub: Hub) -> None:
    tv = await hub.television()
    tv.reports(power=True)
    await hub.settles()
    tv.refuses("not now", of="volume")
    command = present(hub)
    await hub.admits(command)

    await hub.works()

    assert (await hub.ended(command)).outcome is Outcome.ROLLED_BACK
    assert tv.effects == [("input", "HDMI 2"), ("input", "HDMI 1")]
    assert tv.shows["power"] is True


async def test_a_first_part_that_is_refused_leaves_nothing_to_undo(hub: Hub) -> None:
    tv = await hub.television()
    tv.refuses("child lock")
    command = present(hub)
    await hub.admits(command)

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason) == (Outcome.FAILED, Reason.DEVICE_REFUSED)
    assert tv.effects == []
    assert acts(hub) == ['power {"value":true}']


async def test_a_part_that_stays_silent_is_tried_again_and_then_undone(hub: Hub) -> None:
    tv = await hub.television()
    tv.is_deaf(to="input")
    command = present(hub)
    await hub.admits(command)

    await is_worked(hub, command)

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason) == (Outcome.ROLLED_BACK, Reason.OTHER_VALUE)
    # Read back as it was before: there is nothing of it to be undone.
    assert [each.split()[0] for each in acts(hub)] == ["power", "input", "input", "power"]
    assert tv.shows["power"] is False


async def test_a_part_of_which_nothing_is_known_is_undone_too(hub: Hub) -> None:
    await hub.has_policy(**presenting(attempts=1, version=3))
    tv = await hub.television()
    command = present(hub)
    await hub.admits(command)
    tv.meanwhile_at("input", tv.is_mute)
    tv.is_silent(1, to="input")

    await is_worked(hub, command)

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason) == (Outcome.ROLLED_BACK, Reason.NO_CONFIRMATION)
    assert tv.shows == {"power": False, "volume": 10, "input": "HDMI 1"}


async def test_a_part_that_cannot_be_undone_keeps_no_other_from_it(hub: Hub) -> None:
    tv = await hub.television()
    tv.refuses("not now", of="volume")
    command = present(hub)
    await hub.admits(command)
    tv.meanwhile_at("volume", lambda: tv.refuses("no signal", of="input"))

    await is_worked(hub, command)

    receipt = await hub.ended(command)
    assert receipt.outcome is Outcome.ROLLBACK_FAILED
    assert receipt.detail == "not undone: input; volume: not now"
    assert tv.shows == {"power": False, "volume": 10, "input": "HDMI 2"}
    assert [row[1] for row in steps(hub)] == ["undone", "stuck", "failed"]


async def test_a_device_that_goes_in_the_middle_and_never_comes_back_ends_it_all_the_same(hub: Hub) -> None:
    tv = await hub.television()
    command = present(hub)
    await hub.admits(command)
    tv.meanwhile_at("power", tv.goes_offline)
    tv.is_deaf(to="input")

    await hub.works()
    tv.is_mute()
    tv.is_deaf()
    assert (await hub.row(command)).state is State.WAITING

    hub.passes(timedelta(minutes=6))
    await is_worked(hub, command)

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason) == (Outcome.ROLLBACK_FAILED, Reason.EXPIRED)


async def test_a_stop_between_two_parts_lets_nothing_more_leave(hub: Hub) -> None:
    tv = await hub.television()
    command = present(hub)
    await hub.admits(command)
    hub.points.happens_at(CrashPoint.STEP_CHECKPOINTED, lambda: stops(hub, "action:input"))

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason) == (Outcome.ROLLBACK_FAILED, Reason.STOPPED)
    assert tv.effects == [("power", True)]
    assert steps(hub) == [("power", "stuck", 1), ("input", "barred", 0)]


def stops(hub: Hub, kind: str) -> None:
    """Throw the kill switch as it stands in memory."""
    word = Standing(kind=kind, verb=Verb.STOP, sequence=1, by="uid:0 root", why="smoke", at=0)
    hub.now.worlds.stops.standings.append(word)


async def test_a_stop_while_a_part_is_recorded_keeps_it_from_leaving(hub: Hub) -> None:
    tv = await hub.television()
    command = present(hub)
    await hub.admits(command)
    hub.points.happens_at(
        CrashPoint.STEP_CHECKPOINTED,
        lambda: hub.points.happens_at(CrashPoint.STEP_RECORDED, lambda: stops(hub, "action:input")),
    )

    await hub.works()

    assert tv.effects == [("power", True)]
    assert (await hub.ended(command)).attempts == 1
    assert steps(hub) == [("power", "stuck", 1), ("input", "barred", 0)]


@pytest.mark.requirement("T5", "S2")
async def test_a_part_that_expires_while_it_is_recorded_does_not_leave_and_what_was_done_is_undone(
    hub: Hub,
) -> None:
    tv = await hub.television()
    command = present(hub, valid_for=20 * SECOND)
    await hub.admits(command)
    hub.points.happens_at(
        CrashPoint.STEP_CHECKPOINTED,
        lambda: hub.points.happens_at(CrashPoint.STEP_RECORDED, lambda: hub.passes(21 * SECOND)),
    )

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason) == (Outcome.ROLLED_BACK, Reason.EXPIRED)
    assert tv.effects == [("power", True), ("power", False)]
    assert steps(hub) == [("power", "undone", 1), ("input", "barred", 0)]


async def test_what_expires_in_the_middle_is_undone(hub: Hub) -> None:
    tv = await hub.television()
    command = present(hub)
    await hub.admits(command)
    tv.meanwhile_at("power", lambda: hub.passes(timedelta(minutes=6)))

    claim = await hub.claims()
    # The lease would lapse with the time that passes: what is left is taken over.
    with pytest.raises(LostRaceError):
        await hub.now.dispatch[Tier.LOW].work(claim)
    await is_worked(hub, command)

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason) == (Outcome.ROLLED_BACK, Reason.EXPIRED)
    assert tv.shows == {"power": False, "volume": 10, "input": "HDMI 1"}


async def test_a_precondition_counts_until_the_first_part_is_sent(hub: Hub) -> None:
    tv = await hub.television()
    device = hub.now.devices.get(TV)
    assert device is not None
    command = present(hub, precondition=Precondition(version=device.shadow.version))
    await hub.admits(command)

    await is_worked(hub, command)

    assert (await hub.ended(command)).outcome is Outcome.SUCCEEDED
    assert len(tv.effects) == 3


async def test_what_the_issuer_did_not_decide_on_is_refused_before_anything_is_sent(hub: Hub) -> None:
    tv = await hub.television()
    device = hub.now.devices.get(TV)
    assert device is not None
    command = present(hub, precondition=Precondition(version=device.shadow.version))
    await hub.admits(command)
    tv.reports(volume=11)
    await hub.settles()

    await hub.works()

    assert (await hub.ended(command)).reason is Reason.STALE
    assert (acts(hub), steps(hub)) == ([], [])


# Each, and how often it is passed on the way.
POINTS = {
    CrashPoint.COMMAND_CLAIMED: 1,
    CrashPoint.STEP_RECORDED: 3,
    CrashPoint.STEP_SENT: 3,
    CrashPoint.STEP_CHECKPOINTED: 3,
    CrashPoint.EFFECT_CONFIRMED: 1,
}


@pytest.mark.parametrize(
    ("point", "nth"), [(point, nth) for point, passed in POINTS.items() for nth in range(1, passed + 1)]
)
@pytest.mark.requirement("R5")
async def test_whatever_point_it_dies_at_it_goes_on_and_repeats_no_finished_part(
    hub: Hub, point: CrashPoint, nth: int
) -> None:
    tv = await hub.television()
    command = present(hub)
    await hub.admits(command)

    await hub.is_killed(point, nth=nth)
    await hub.starts_anew()
    tv.reports()
    await hub.settles()
    await is_worked(hub, command)

    assert (await hub.ended(command)).outcome is Outcome.SUCCEEDED
    assert tv.effects == [("power", True), ("input", "HDMI 2"), ("volume", 30)]


# What the desk lets no worker do.


async def begun(hub: Hub) -> Claim:
    """A claim of which nothing was sent."""
    await hub.admits(present(hub))
    return await hub.claims()


@pytest.mark.requirement("W1")
@pytest.mark.parametrize(
    ("step", "part"),
    [
        (StepName.ACT, 1),
        (StepName.ACT, 3),
        (StepName.ACT, -1),
        (StepName.UNDO, 0),
        (StepName.UNDO_READ_BACK, 0),
        (StepName.READ_BACK, 7),
    ],
)
async def test_a_step_that_is_not_the_next_of_the_plan_is_refused(
    hub: Hub, step: StepName, part: int
) -> None:
    await hub.television()
    claim = await begun(hub)
    before = hub.contents()

    with pytest.raises(RejectedError):
        await hub.now.desk.publish(claim, step, part)

    assert (hub.contents(), steps(hub), hub.bus.published) == (before, [], [])


@pytest.mark.requirement("W1")
@pytest.mark.parametrize("phase", list(Phase), ids=str)
async def test_a_part_that_was_not_sent_is_not_said_to_be_done(hub: Hub, phase: Phase) -> None:
    await hub.television()
    claim = await begun(hub)

    for part in (0, 1, 9):
        if part == 0 and phase in {Phase.FOUND, Phase.BARRED}:
            continue
        with pytest.raises(RejectedError):
            await hub.now.desk.checkpoint(claim, Mark(part=part, name="power", phase=phase))

    assert steps(hub) == []


@pytest.mark.requirement("W1")
async def test_of_what_is_said_of_a_part_the_desk_believes_no_more_than_it_must(hub: Hub) -> None:
    await hub.television()
    claim = await begun(hub)
    await hub.now.desk.publish(claim, StepName.ACT, 0)

    lie = Mark(part=0, name="reboot", phase=Phase.DONE, tries=99, before="on fire", detail="x" * 5000)
    await hub.now.desk.checkpoint(claim, lie)

    assert hub.rows("SELECT name, tries, before, length(detail) FROM steps") == [("power", 1, "false", 200)]


@pytest.mark.requirement("L2")
async def test_a_holder_whose_lease_has_lapsed_records_nothing(hub: Hub) -> None:
    await hub.television()
    claim = await begun(hub)
    await hub.now.desk.publish(claim, StepName.ACT, 0)
    hub.passes(claim.lease)

    with pytest.raises(LostRaceError):
        await hub.now.desk.checkpoint(claim, Mark(part=0, name="power", phase=Phase.DONE))
    with pytest.raises(LostRaceError):
        await hub.now.desk.publish(claim, StepName.ACT, 0)

    assert steps(hub) == [("power", "begun", 1)]


async def test_what_the_broker_does_not_take_has_not_begun(hub: Hub) -> None:
    tv = await hub.television()
    command = present(hub)
    await hub.admits(command)
    hub.points.happens_at(
        CrashPoint.STEP_CHECKPOINTED,
        lambda: hub.points.happens_at(CrashPoint.STEP_RECORDED, hub.bus.goes_down),
    )

    await hub.works()

    assert (await hub.row(command)).reason is Reason.BROKER_AWAY
    assert steps(hub)[-1] == ("input", "begun", 0)
    hub.bus.comes_up()
    tv.comes_online()
    tv.reports()
    await hub.settles()
    await is_worked(hub, command)
    assert tv.effects == [("power", True), ("input", "HDMI 2"), ("volume", 30)]


async def test_a_single_action_has_one_step_and_no_checkpoints(hub: Hub) -> None:
    await hub.television()
    await hub.admits(hub.command(POWER, on=True))
    claim = await hub.claims()

    for attempt in (
        hub.now.desk.publish(claim, StepName.UNDO, 0),
        hub.now.desk.publish(claim, StepName.ACT, 1),
        hub.now.desk.checkpoint(claim, Mark(part=0, name="power", phase=Phase.FOUND)),
    ):
        with pytest.raises(RejectedError):
            await attempt

    assert hub.bus.published == []
    assert await hub.now.desk.publish(claim, StepName.ACT) is PublishResult.TAKEN
