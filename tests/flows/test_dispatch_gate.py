"""The gate right before the act: what has changed since a command came in."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
from pydantic import JsonValue

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.command import Precondition
from edgeagent.contracts.policy import Role, RoleKind, Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.lifecycle import State
from edgeagent.ids import label, reading_name
from edgeagent.ports.crash import CrashPoint
from tests.flows.commanding import Hub, new_hub
from tests.flows.scripted import Television
from tests.flows.signing import MINUTE, POWER, REBOOT, SECOND, TOGGLE, TV, VOLUME


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub that has just started."""
    async with new_hub(tmp_path) as made:
        yield made


@pytest.fixture
async def tv(hub: Hub) -> Television:
    """Its television, off."""
    return await hub.television()


def deciding_on(hub: Hub) -> Precondition:
    """The state of the television as it is now."""
    device = hub.now.devices.get(TV)
    assert device is not None
    return Precondition(version=device.shadow.version, etag=device.shadow.etag)


@pytest.mark.requirement("C2", "V4", "C6")
async def test_a_state_that_has_changed_since_it_was_decided_on_is_stale_and_nothing_is_touched(
    hub: Hub, tv: Television
) -> None:
    command = hub.command(POWER, on=True, precondition=deciding_on(hub))
    await hub.admits(command)
    tv.reports(volume=30)
    await hub.settles()

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason, receipt.attempts) == (Outcome.REFUSED, Reason.STALE, 0)
    assert receipt.detail is not None
    assert "version" in receipt.detail
    assert (tv.effects, hub.bus.published) == ([], [])
    assert not await hub.has_work()


@pytest.mark.requirement("C2")
async def test_the_state_that_was_decided_on_is_acted_on(hub: Hub, tv: Television) -> None:
    command = hub.command(POWER, on=True, precondition=deciding_on(hub))
    await hub.admits(command)

    await hub.works()

    assert (await hub.ended(command)).outcome is Outcome.SUCCEEDED
    assert tv.effects == [("power", True)]


@pytest.mark.requirement("C2", "V4")
async def test_what_is_read_right_before_the_act_can_make_it_stale(hub: Hub, tv: Television) -> None:
    """The toggle has to know the power; asked, the device shows that somebody was quicker."""
    command = hub.command(TOGGLE, precondition=deciding_on(hub))
    await hub.admits(command)
    hub.passes(MINUTE)
    tv.shows["power"] = True

    await hub.works(Tier.MEDIUM)

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason) == (Outcome.REFUSED, Reason.STALE)
    assert (tv.asked, tv.effects) == (1, [])


@pytest.mark.requirement("C2", "M2")
async def test_its_own_effect_does_not_make_a_second_try_stale(hub: Hub, tv: Television) -> None:
    command = hub.command(VOLUME, level=20, precondition=deciding_on(hub))
    await hub.admits(command)
    tv.is_silent()
    tv.is_mute()
    await hub.works()
    tv.reports()
    await hub.settles()
    tv.obeys()

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.attempts) == (Outcome.SUCCEEDED, 1)


@pytest.mark.requirement("T2", "V4")
@pytest.mark.parametrize(
    ("roles", "expected"),
    [
        pytest.param(
            {"nobody": Role(kind=RoleKind.COMMAND, keys=frozenset({"desk"}))},
            Reason.NOT_ALLOWED,
            id="the role is narrower",
        ),
        pytest.param({}, Reason.BAD_SIGNATURE, id="the key is in no role"),
    ],
)
async def test_what_a_newer_policy_does_not_allow_is_not_done_though_it_was_let_in(
    hub: Hub, tv: Television, roles: dict[str, Role], expected: Reason
) -> None:
    command = hub.command(POWER, on=True)
    await hub.admits(command)
    await hub.has_policy(version=2, roles=roles)

    await hub.works_until(partial(hub.receipt, command))

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason, receipt.attempts) == (Outcome.REFUSED, expected, 0)
    assert tv.effects == []
    assert hub.rows("SELECT token FROM locks") == [(None,)]


@pytest.mark.requirement("T2", "I3")
async def test_what_was_sent_before_its_key_was_revoked_ends_as_unknown(hub: Hub, tv: Television) -> None:
    tv.is_deaf()
    tv.is_mute()
    command = hub.command(POWER, on=True)
    await hub.admits(command)
    await hub.works()
    await hub.has_policy(version=2, roles={})

    await hub.works_until(partial(hub.receipt, command))

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.attempts) == (Outcome.UNKNOWN, 1)


@pytest.mark.requirement("C5", "T2")
async def test_a_policy_that_has_run_out_lets_nothing_begin(hub: Hub, tv: Television) -> None:
    await hub.has_policy(version=2, expires_at=hub.readings.wall() + MINUTE)
    command = hub.command(POWER, on=True)
    await hub.admits(command)
    hub.passes(2 * MINUTE)

    await hub.works()

    assert (await hub.ended(command)).reason is Reason.POLICY_EXPIRED
    assert tv.effects == []


@pytest.mark.requirement("V2", "V4")
async def test_a_device_that_was_let_go_meanwhile_is_not_acted_on(hub: Hub, tv: Television) -> None:
    command = hub.command(POWER, on=True)
    await hub.admits(command)
    await hub.now.devices.forget(TV, actor="uid:0 root")

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason) == (Outcome.REFUSED, Reason.DEVICE_UNKNOWN)
    assert tv.effects == []


@pytest.mark.requirement("V2", "V4")
async def test_a_device_that_is_let_go_between_claim_and_act_is_not_acted_on(
    hub: Hub, tv: Television
) -> None:
    command = hub.command(POWER, on=True)
    await hub.admits(command)
    claim = await hub.claims()
    await hub.now.devices.forget(TV, actor="uid:0 root")

    await hub.now.dispatch[Tier.LOW].work(claim)

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason, receipt.attempts) == (Outcome.FAILED, Reason.DEVICE_UNKNOWN, 0)
    assert (tv.effects, hub.bus.published) == ([], [])


@pytest.mark.requirement("V2", "V4")
@pytest.mark.parametrize(
    ("profile", "parameters", "expected"),
    [
        pytest.param("shelly-gen2", {"covers": [0]}, Reason.UNSUPPORTED_ACTION, id="cannot do it"),
        pytest.param("shelly-gen2", {"switches": [0, 1]}, Reason.BAD_ARGUMENTS, id="has two of it"),
    ],
)
async def test_a_device_that_became_another_meanwhile_is_asked_for_what_it_can_do(
    hub: Hub, tv: Television, profile: str, parameters: dict[str, JsonValue], expected: Reason
) -> None:
    command = hub.command(POWER, on=True)
    await hub.admits(command)
    await hub.now.devices.forget(TV, actor="uid:0 root")
    await hub.now.devices.admit(TV, profile, parameters, label("Another"), actor="uid:0 root")

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason) == (Outcome.REFUSED, expected)
    assert (tv.effects, hub.bus.published) == ([], [])


@pytest.mark.requirement("T5")
async def test_what_has_run_out_when_it_is_claimed_is_expired(hub: Hub, tv: Television) -> None:
    command = hub.command(POWER, on=True, valid_for=MINUTE)
    await hub.admits(command)
    hub.passes(2 * MINUTE)

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason, receipt.attempts) == (Outcome.EXPIRED, Reason.EXPIRED, 0)
    assert tv.effects == []


@pytest.mark.requirement("T5")
async def test_what_is_sent_in_time_runs_to_its_end_beyond_its_validity(hub: Hub, tv: Television) -> None:
    tv.is_silent()
    command = hub.command(POWER, on=True, valid_for=3 * SECOND)
    await hub.admits(command)

    await hub.works()

    receipt = await hub.ended(command)
    assert receipt.finished_at > command.expires_at
    assert (receipt.outcome, tv.effects) == (Outcome.SUCCEEDED, [("power", True)])


@pytest.mark.requirement("T5", "R4")
async def test_what_cannot_be_told_any_more_waits_for_the_time_and_then_goes_on(
    hub: Hub, tv: Television
) -> None:
    command = hub.command(REBOOT)
    await hub.admits(command)
    await hub.reboots()
    tv.comes_online()
    tv.reports()
    await hub.settles()
    await hub.now.upkeep.look()

    await hub.works(Tier.MEDIUM)
    row = await hub.row(command)
    assert (row.state, row.reason) == (State.WAITING, Reason.CLOCK_UNSURE)
    await hub.now.upkeep.look()
    assert not await hub.has_work(Tier.MEDIUM)
    hub.time_is_known()
    await hub.now.upkeep.look()
    await hub.works(Tier.MEDIUM)

    assert (await hub.ended(command)).outcome is Outcome.SUCCEEDED
    assert tv.effects == [("reboot", True)]


@pytest.mark.requirement("T4")
async def test_one_that_was_overtaken_while_it_was_being_claimed_is_not_done(
    hub: Hub, tv: Television
) -> None:
    """The later one is held, so that it does not take the place of the earlier one by itself."""
    earlier, later = hub.command(POWER, on=True), hub.command(POWER, on=False, issued=MINUTE)
    await hub.admits(earlier, later)
    assert (await hub.row(later)).state is State.HELD

    await hub.works()

    receipt = await hub.ended(earlier)
    assert (receipt.outcome, receipt.reason) == (Outcome.REFUSED, Reason.SUPERSEDED)
    assert tv.effects == []


# What was decided on has to be known live.


@pytest.mark.requirement("C2", "C6", "L3")
async def test_after_a_restart_what_was_decided_on_is_read_before_it_is_believed(
    hub: Hub, tv: Television
) -> None:
    command = hub.command(POWER, on=True, precondition=deciding_on(hub))
    await hub.admits(command)
    await hub.starts_anew()

    await hub.works()

    assert (await hub.ended(command)).outcome is Outcome.SUCCEEDED
    assert (tv.asked, tv.effects) == (1, [("power", True)])


@pytest.mark.requirement("C2", "C3")
async def test_what_has_changed_while_we_were_away_makes_it_stale_though_nobody_has_told_us(
    hub: Hub, tv: Television
) -> None:
    command = hub.command(POWER, on=True, precondition=deciding_on(hub))
    await hub.admits(command)
    await hub.starts_anew()
    tv.shows["volume"] = 30

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason) == (Outcome.REFUSED, Reason.STALE)
    assert (tv.asked, tv.effects) == (1, [])


@pytest.mark.requirement("C2", "M2")
async def test_what_is_known_from_a_retained_message_only_is_read_before_it_is_believed(hub: Hub) -> None:
    tv = await hub.television()
    hub.bus.delivers(f"{TV}/state", b'{"power": false, "volume": 10, "input": "HDMI 1"}', retain=True)
    await hub.settles()
    await hub.starts_anew()
    command = hub.command(POWER, on=True, precondition=deciding_on(hub))
    tv.shows["power"] = True
    await hub.admits(command)

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason) == (Outcome.REFUSED, Reason.STALE)
    assert (tv.asked, tv.effects) == (1, [])


@pytest.mark.requirement("C2")
async def test_a_device_that_does_not_tell_what_was_decided_on_is_not_acted_on(
    hub: Hub, tv: Television
) -> None:
    command = hub.command(POWER, on=True, precondition=deciding_on(hub))
    await hub.admits(command)
    await hub.starts_anew()
    tv.is_mute()

    await hub.works()

    row = await hub.row(command)
    assert (row.state, row.reason) == (State.WAITING, Reason.RETRYING)
    assert tv.effects == []


@pytest.mark.requirement("C2")
async def test_only_the_readings_that_were_decided_on_have_to_be_live(hub: Hub, tv: Television) -> None:
    device = hub.now.devices.get(TV)
    assert device is not None
    power = device.shadow.state[reading_name("power")]
    decided = Precondition(readings={reading_name("power"): power.version})
    await hub.starts_anew()
    hub.bus.delivers(f"{TV}/state", b'{"power": false}')
    await hub.settles()
    command = hub.command(VOLUME, level=20, precondition=decided)
    await hub.admits(command)

    await hub.works()

    assert (await hub.ended(command)).outcome is Outcome.SUCCEEDED
    assert tv.asked == 0


# What was left by a holder that is gone.


@pytest.mark.requirement("L3")
@pytest.mark.parametrize("action", [POWER, REBOOT])
async def test_whatever_is_taken_over_has_its_device_read_before_anything_is_sent(
    hub: Hub, tv: Television, action: ActionName
) -> None:
    lane = Tier.LOW if action is POWER else Tier.MEDIUM
    command = hub.command(action)
    await hub.admits(command)
    await hub.is_killed(CrashPoint.COMMAND_CLAIMED, lane)
    await hub.starts_anew()
    seen_before: list[list[object]] = []
    tv.meanwhile(lambda: seen_before.append(list(tv.effects)))

    await hub.works_until(partial(hub.receipt, command), lane)

    assert seen_before[0] == []
    assert (await hub.ended(command)).outcome is Outcome.SUCCEEDED


@pytest.mark.requirement("L3")
async def test_what_is_to_be_read_first_is_still_to_be_after_another_restart(
    hub: Hub, tv: Television
) -> None:
    command = hub.command(POWER, on=False)
    await hub.admits(command)
    await hub.is_killed(CrashPoint.COMMAND_CLAIMED)
    await hub.starts_anew()
    claim = await hub.claims()
    assert claim.force_refresh
    await hub.starts_anew()
    tv.shows["power"] = True
    hub.bus.delivers(f"{TV}/state", b'{"power": false}', retain=True)
    await hub.settles()

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason, tv.effects) == (Outcome.SUCCEEDED, None, [("power", False)])
    assert tv.asked == 1
