"""Working a command whose effect is not shown: reading back, trying again, and what it ends as."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from edgeagent.contracts.mqtt import PublishResult
from edgeagent.contracts.policy import Level, Tier, TierRule
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.lifecycle import State
from edgeagent.core.operation import OperationState
from tests.flows.commanding import Hub, new_hub
from tests.flows.scripted import Television
from tests.flows.signing import MINUTE, OTHER_TV, POWER, REBOOT, SECOND, TOGGLE


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub that has just started."""
    async with new_hub(tmp_path) as made:
        yield made


@pytest.fixture
async def tv(hub: Hub) -> Television:
    """Its television, off."""
    return await hub.television()


@pytest.mark.requirement("M2", "C6")
async def test_silence_is_read_back_and_the_wished_value_is_proof(hub: Hub, tv: Television) -> None:
    tv.is_silent()
    command = hub.command(POWER, on=True)
    await hub.admits(command)

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.level, receipt.reason) == (Outcome.SUCCEEDED, Level.VERIFIED, None)
    assert tv.effects == [("power", True)]


@pytest.mark.requirement("M2", "E2", "Q6", "Q8")
async def test_an_absolute_is_tried_three_times_in_all_and_fails_where_another_value_is_seen(
    hub: Hub, tv: Television
) -> None:
    tv.is_deaf()
    command = hub.command(POWER, on=True)
    await hub.admits(command)

    for tried in (1, 2):
        await hub.works()
        row = await hub.row(command)
        assert (row.state, row.reason, row.attempts) == (State.WAITING, Reason.RETRYING, tried)
        assert row.last_error == "it shows False"
    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason, receipt.attempts) == (Outcome.FAILED, Reason.OTHER_VALUE, 3)
    assert receipt.detail == "it shows False"
    assert not await hub.has_work()


@pytest.mark.requirement("M2", "E2")
async def test_an_absolute_of_which_nothing_is_heard_ends_as_unknown_after_its_tries(
    hub: Hub, tv: Television
) -> None:
    tv.is_deaf()
    tv.is_mute()
    command = hub.command(POWER, on=True)
    await hub.admits(command)

    for _ in range(3):
        await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason, receipt.attempts) == (
        Outcome.UNKNOWN,
        Reason.NO_CONFIRMATION,
        3,
    )
    assert not await hub.has_work()


@pytest.mark.requirement("E2", "E3", "E4")
@pytest.mark.parametrize(
    ("chance", "due"),
    [
        pytest.param(0.5, [0.5, 1.0], id="half of the cap"),
        pytest.param(0.999, [0.999, 1.998], id="nearly the cap, which doubles"),
    ],
)
async def test_a_try_waits_for_a_chance_part_of_a_cap_that_doubles(
    hub: Hub, tv: Television, chance: float, due: list[float]
) -> None:
    tv.is_deaf()
    hub.chance = chance
    command = hub.command(POWER, on=True)
    await hub.admits(command)

    for seconds in due:
        await hub.works()
        available = (await hub.row(command)).available
        assert available is not None
        left = available[0] - hub.lease_time().milliseconds
        assert left == int(seconds * 1000)
        hub.passes((left - 1) * SECOND / 1000)
        assert not await hub.has_work()
        hub.passes(SECOND / 1000)

    [first, second] = await hub.audited(AuditKind.COMMAND_WAITING)
    assert [first["due_in"], second["due_in"]] == due
    assert first["reason"] == Reason.RETRYING


@pytest.mark.requirement("M2", "E2")
async def test_a_try_that_comes_through_ends_it(hub: Hub, tv: Television) -> None:
    tv.is_deaf()
    command = hub.command(POWER, on=True)
    await hub.admits(command)
    await hub.works()
    tv.obeys()

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.attempts) == (Outcome.SUCCEEDED, 2)


@pytest.mark.requirement("M2")
async def test_an_effect_that_shows_while_the_next_try_waits_is_no_state_that_was_so_by_itself(
    hub: Hub, tv: Television
) -> None:
    tv.is_deaf()
    tv.is_mute()
    command = hub.command(POWER, on=True)
    await hub.admits(command)
    await hub.works()
    tv.reports(power=True)
    await hub.settles()

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason, receipt.attempts) == (Outcome.SUCCEEDED, None, 1)


@pytest.mark.requirement("M2")
async def test_an_effect_that_is_read_at_the_next_try_is_no_state_that_was_so_by_itself(
    hub: Hub, tv: Television
) -> None:
    tv.is_deaf()
    tv.is_mute()
    command = hub.command(POWER, on=True)
    await hub.admits(command)
    await hub.works()
    tv.reports(power=True)
    tv.goes_offline()
    tv.comes_online()
    await hub.settles()
    tv.obeys()

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason, receipt.level) == (Outcome.SUCCEEDED, None, Level.VERIFIED)
    assert tv.effects == []


@pytest.mark.requirement("I3", "M2")
@pytest.mark.parametrize("is_deaf", [True, False])
async def test_a_one_shot_of_which_nothing_is_heard_is_unknown_at_once_and_never_sent_again(
    hub: Hub,
    tv: Television,
    is_deaf: bool,  # noqa: FBT001 - a column of the table
) -> None:
    tv.is_silent()
    if is_deaf:
        tv.is_deaf()
    command = hub.command(REBOOT)
    await hub.admits(command)

    await hub.works(Tier.MEDIUM)

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason, receipt.attempts) == (
        Outcome.UNKNOWN,
        Reason.NO_CONFIRMATION,
        1,
    )
    assert len(tv.effects) == (0 if is_deaf else 1)
    assert not await hub.has_work(Tier.MEDIUM)
    assert len(hub.bus.published) == 1


@pytest.mark.requirement("I2", "I3")
async def test_the_same_one_shot_said_anew_is_held_while_its_outcome_is_unknown(
    hub: Hub, tv: Television
) -> None:
    tv.is_silent()
    await hub.admits(hub.command(TOGGLE, operation="night-off"))
    await hub.works(Tier.MEDIUM)
    again = hub.command(TOGGLE, operation="night-off")

    await hub.admits(again)

    row = await hub.row(again)
    assert (row.state, row.reason) == (State.HELD, Reason.OUTCOME_UNKNOWN)
    assert tv.effects == [("toggle", True)]


@pytest.mark.requirement("I2")
async def test_the_same_absolute_said_anew_runs_whatever_became_of_the_first(
    hub: Hub, tv: Television
) -> None:
    tv.is_deaf()
    tv.is_mute()
    await hub.admits(hub.command(POWER, on=True, operation="night-on"))
    for _ in range(3):
        await hub.works()
    tv.obeys()
    again = hub.command(POWER, on=True, operation="night-on")

    await hub.admits(again)
    await hub.works()

    assert (await hub.ended(again)).outcome is Outcome.SUCCEEDED
    assert hub.rows("SELECT state FROM operations") == [(OperationState.COMPLETED,)]


@pytest.mark.requirement("M2", "T5")
async def test_what_was_sent_and_has_expired_since_is_found_out_and_never_called_expired(
    hub: Hub, tv: Television
) -> None:
    tv.is_silent()
    tv.is_mute()
    command = hub.command(POWER, on=True, valid_for=MINUTE)
    await hub.admits(command)
    await hub.works()
    hub.passes(2 * MINUTE)
    tv.obeys()

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.level, receipt.attempts) == (Outcome.SUCCEEDED, Level.VERIFIED, 1)
    assert tv.effects == [("power", True)]


@pytest.mark.requirement("M2", "T5")
async def test_what_expires_while_the_device_is_read_before_its_next_try_is_not_sent_again(
    hub: Hub, tv: Television
) -> None:
    tv.is_deaf()
    tv.is_mute()
    command = hub.command(POWER, on=True, valid_for=30 * SECOND)
    await hub.admits(command)
    await hub.works()
    tv.reports(power=True)
    tv.goes_offline()
    tv.comes_online()
    await hub.settles()
    tv.shows["power"] = False
    tv.obeys()
    hub.passes(command.expires_at - hub.readings.wall() - SECOND)
    tv.meanwhile(lambda: hub.passes(2 * SECOND))

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason, receipt.attempts) == (Outcome.FAILED, Reason.OTHER_VALUE, 1)
    assert tv.effects == []


@pytest.mark.requirement("Q8", "E2")
async def test_fewer_tries_by_a_newer_policy_count_from_then_on(hub: Hub, tv: Television) -> None:
    tv.is_deaf()
    command = hub.command(POWER, on=True)
    await hub.admits(command)
    await hub.works()
    await hub.has_policy(version=2, tiers={Tier.LOW: TierRule(attempts=1)})

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.attempts) == (Outcome.FAILED, 1)


@pytest.mark.requirement("M2")
async def test_a_device_that_cannot_be_asked_is_tried_again_and_then_unknown(hub: Hub) -> None:
    tv = await hub.television(OTHER_TV, mute=True)
    tv.is_deaf()
    command = hub.command(POWER, on=True, device=OTHER_TV)
    await hub.admits(command)

    for _ in range(3):
        await hub.works()

    assert (await hub.ended(command)).outcome is Outcome.UNKNOWN
    assert (tv.asked, len(hub.bus.published)) == (0, 3)


@pytest.mark.requirement("M2")
async def test_a_refusal_by_the_broker_of_a_later_try_does_not_undo_an_earlier_one(
    hub: Hub, tv: Television
) -> None:
    """The first try may have worked: what is known of it is found out, not guessed from the second."""
    tv.is_silent()
    tv.is_mute()
    command = hub.command(POWER, on=True)
    await hub.admits(command)
    await hub.works()
    tv.obeys()
    hub.bus.answers_publish_with(PublishResult.REFUSED)

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.level) == (Outcome.SUCCEEDED, Level.VERIFIED)
