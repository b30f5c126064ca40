"""Working a claimed command that the device answers: what counts as its effect, and what does not."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from edgeagent.contracts.mqtt import Outgoing
from edgeagent.contracts.policy import ActionRule, Level, Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.lifecycle import State
from tests.flows.commanding import Hub, new_hub
from tests.flows.signing import INPUT, MILLISECOND, MINUTE, POWER, REBOOT, SECOND, TOGGLE, TV, VOLUME


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub that has just started."""
    async with new_hub(tmp_path) as made:
        yield made


def confirming(level: Level) -> dict[str, object]:
    """A policy that asks for a level of confirmation."""
    rule = ActionRule(tier=Tier.LOW, confirmation=level)
    return {"version": 2, "actions": {POWER: rule, VOLUME: rule}}


@pytest.mark.requirement("M2", "Q4", "A1")
async def test_a_command_is_sent_once_and_its_echo_ends_it(hub: Hub) -> None:
    tv = await hub.television()
    command = hub.command(POWER, on=True)
    await hub.admits(command)

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.level, receipt.reason) == (Outcome.SUCCEEDED, Level.APPLIED, None)
    assert (receipt.attempts, receipt.fence) == (1, 1)
    assert receipt.before is not None
    assert receipt.after is not None
    assert receipt.after.version == receipt.before.version + 1
    assert tv.effects == [("power", True)]
    told = [
        AuditKind.COMMAND_ACCEPTED, AuditKind.COMMAND_CLAIMED, AuditKind.STEP_SENT, AuditKind.COMMAND_SETTLED
    ]  # fmt: skip
    assert [row["subject"] for row in await hub.audited(*told)] == [command.id] * 4


@pytest.mark.requirement("M3")
async def test_what_is_sent_expires_at_the_broker_when_nobody_waits_for_it_any_more(hub: Hub) -> None:
    await hub.television()
    await hub.admits(hub.command(POWER, on=True))

    await hub.works()

    [sent] = hub.bus.published
    assert sent.topic == f"{TV}/set/power"
    assert sent.expires_in == 4


@pytest.mark.requirement("M2")
async def test_an_echo_of_another_value_that_was_on_its_way_is_no_answer(hub: Hub) -> None:
    tv = await hub.television()
    tv.shows_first(volume=11)
    command = hub.command(VOLUME, level=20)
    await hub.admits(command)

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.level) == (Outcome.SUCCEEDED, Level.APPLIED)
    assert tv.asked == 0


@pytest.mark.requirement("M2")
async def test_less_than_the_needed_level_is_read_back_and_then_verified(hub: Hub) -> None:
    await hub.has_policy(**confirming(Level.VERIFIED))
    tv = await hub.television()
    tv.is_silent()
    command = hub.command(POWER, on=True)
    await hub.admits(command)

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.level) == (Outcome.SUCCEEDED, Level.VERIFIED)
    assert (tv.effects, tv.asked) == ([("power", True)], 1)


@pytest.mark.requirement("M2")
async def test_where_the_policy_asks_only_that_it_is_sent_nobody_waits_for_the_device(hub: Hub) -> None:
    await hub.has_policy(**confirming(Level.SENT))
    tv = await hub.television()
    tv.is_deaf()
    command = hub.command(POWER, on=True)
    await hub.admits(command)

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.level) == (Outcome.SUCCEEDED, Level.SENT)
    assert tv.asked == 0


@pytest.mark.requirement("M2")
async def test_where_the_policy_asks_only_for_a_yes_the_yes_is_enough(hub: Hub) -> None:
    await hub.has_policy(**confirming(Level.ACCEPTED))
    tv = await hub.television()

    def says_yes(_: Outgoing) -> None:
        hub.passes(MILLISECOND)
        tv.says(ok=True)

    hub.bus.reacts(f"{TV}/set/power", says_yes)
    command = hub.command(POWER, on=True)
    await hub.admits(command)

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.level) == (Outcome.SUCCEEDED, Level.ACCEPTED)


@pytest.mark.requirement("M2", "A2")
async def test_a_device_that_says_no_ends_the_command_with_its_words_cleaned(hub: Hub) -> None:
    tv = await hub.television()
    tv.refuses("child lock\x1b[2J")
    command = hub.command(POWER, on=True)
    await hub.admits(command)

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason) == (Outcome.FAILED, Reason.DEVICE_REFUSED)
    assert receipt.detail is not None
    assert "child lock" in receipt.detail
    assert receipt.detail.isprintable()
    assert tv.effects == []
    assert not await hub.has_work()


@pytest.mark.requirement("M2", "C6")
async def test_what_is_already_so_by_a_live_reading_is_not_sent(hub: Hub) -> None:
    tv = await hub.television()
    tv.reports(power=True)
    await hub.settles()
    command = hub.command(POWER, on=True)
    await hub.admits(command)

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason) == (Outcome.SUCCEEDED, Reason.ALREADY_SO)
    assert (receipt.attempts, receipt.level) == (0, Level.APPLIED)
    assert (hub.bus.published, tv.effects) == ([], [])


@pytest.mark.requirement("M2")
async def test_already_so_proves_no_more_than_a_reading_does(hub: Hub) -> None:
    """Where the policy asks for proof, a reading that nobody asked for is none: it is read afresh."""
    await hub.has_policy(**confirming(Level.VERIFIED))
    tv = await hub.television()
    tv.reports(power=True)
    await hub.settles()
    command = hub.command(POWER, on=True)
    await hub.admits(command)

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.reason, receipt.level) == (Reason.ALREADY_SO, Level.VERIFIED)
    assert (tv.asked, tv.effects) == (1, [])


@pytest.mark.requirement("M2")
@pytest.mark.parametrize("shows", [True, False])
async def test_what_was_known_before_the_device_came_online_is_read_afresh(
    hub: Hub,
    shows: bool,  # noqa: FBT001 - a column of the table
) -> None:
    tv = await hub.television()
    tv.reports(power=True)
    await hub.settles()
    tv.goes_offline()
    tv.comes_online()
    await hub.settles()
    tv.shows["power"] = shows
    command = hub.command(POWER, on=True)
    await hub.admits(command)

    await hub.works()

    assert (await hub.ended(command)).outcome is Outcome.SUCCEEDED
    assert tv.asked == 1
    assert tv.effects == ([] if shows else [("power", True)])


@pytest.mark.requirement("M2", "M3")
async def test_a_retained_message_never_confirms(hub: Hub) -> None:
    """The broker loses the session right after the command, and hands out its stored copy of another day."""
    tv = await hub.television()
    hub.bus.delivers(f"{TV}/state", b'{"power": true}', retain=True)
    tv.reports(power=False)
    await hub.settles()
    tv.is_mute()

    def loses_session(_: Outgoing) -> None:
        hub.passes(MILLISECOND)
        hub.bus.goes_down()
        hub.bus.comes_up(session_present=False)
        hub.passes(5 * SECOND)

    hub.bus.reacts(f"{TV}/set/power", loses_session)
    command = hub.command(POWER, on=True)
    await hub.admits(command)

    await hub.works()
    await hub.settles()

    assert (await hub.row(command)).state is State.WAITING
    assert await hub.receipt(command) is None


@pytest.mark.requirement("M2", "L3")
@pytest.mark.parametrize("is_on", [True, False])
async def test_a_toggle_is_known_by_the_change_that_it_makes(
    hub: Hub,
    is_on: bool,  # noqa: FBT001 - a column of the table
) -> None:
    tv = await hub.television()
    tv.reports(power=is_on)
    await hub.settles()
    command = hub.command(TOGGLE)
    await hub.admits(command)

    await hub.works(Tier.MEDIUM)

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.level) == (Outcome.SUCCEEDED, Level.APPLIED)
    assert tv.shows["power"] is not is_on


@pytest.mark.requirement("M2", "I3")
async def test_a_toggle_reads_what_it_has_to_know_when_that_is_old(hub: Hub) -> None:
    tv = await hub.television()
    hub.passes(MINUTE)
    command = hub.command(TOGGLE)
    await hub.admits(command)

    await hub.works(Tier.MEDIUM)

    assert (await hub.ended(command)).outcome is Outcome.SUCCEEDED
    assert (tv.asked, tv.effects) == (1, [("toggle", True)])


@pytest.mark.requirement("M2", "I3")
async def test_a_toggle_of_a_device_that_does_not_tell_its_state_is_not_sent_blindly(hub: Hub) -> None:
    """Sent all the same, it would end as unknown: what was not known cannot be seen to change."""
    tv = await hub.television()
    tv.is_mute()
    hub.passes(MINUTE)
    command = hub.command(TOGGLE)
    await hub.admits(command)

    await hub.works(Tier.MEDIUM)

    row = await hub.row(command)
    assert (row.state, row.reason, row.sent, row.attempts) == (State.WAITING, Reason.RETRYING, False, 0)
    assert tv.effects == []
    tv.obeys()
    await hub.works(Tier.MEDIUM)
    assert (await hub.ended(command)).outcome is Outcome.SUCCEEDED


@pytest.mark.requirement("V2", "V4")
async def test_an_action_for_which_the_device_is_in_no_fit_state_is_refused(hub: Hub) -> None:
    tv = await hub.television()
    command = hub.command(INPUT, name="HDMI 2")
    await hub.admits(command)

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason) == (Outcome.REFUSED, Reason.UNFIT_STATE)
    assert tv.effects == []


@pytest.mark.requirement("M2", "I3")
async def test_a_one_shot_that_no_reading_shows_is_known_by_what_the_device_says(hub: Hub) -> None:
    tv = await hub.television()
    command = hub.command(REBOOT)
    await hub.admits(command)

    await hub.works(Tier.MEDIUM)

    assert (await hub.ended(command)).outcome is Outcome.SUCCEEDED
    assert tv.effects == [("reboot", True)]


@pytest.mark.requirement("M2")
async def test_what_the_device_shows_by_itself_before_the_command_leaves_does_not_confirm_it(
    hub: Hub,
) -> None:
    tv = await hub.television()
    command = hub.command(VOLUME, level=20)
    await hub.admits(command)
    claim = await hub.claims()
    tv.reports(volume=20)
    await hub.settles()
    tv.shows["volume"] = 10
    tv.is_deaf()

    await hub.now.dispatch[Tier.LOW].work(claim)

    assert (await hub.row(command)).state is State.WAITING
