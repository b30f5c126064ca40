"""Lanes at work: what devices share, how long leases are, and what is told of tries that come to nothing."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from edgeagent.contracts.event import EventType
from edgeagent.contracts.policy import Tier, TierRule
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.contracts.reports.health import Level
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.lease import SHORTEST as LEASE
from edgeagent.core.lifecycle import State
from edgeagent.core.work import Ending, StepName
from edgeagent.ids import device_id
from tests.flows.commanding import Hub, new_hub
from tests.flows.signing import MINUTE, OTHER_TV, POWER, REBOOT, SECOND, TV, VOLUME


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub that has just started."""
    async with new_hub(tmp_path) as made:
        yield made


def measured(hub: Hub, name: str, **labels: str) -> float:
    """What an instrument shows."""
    value = hub.now.around.metrics.registry.get_sample_value(f"edgeagent_{name}", labels)
    assert value is not None, name
    return value


async def alerts(hub: Hub) -> list[object]:
    """Why alerts were told."""
    return [data["reason"] for _, data in await hub.records(EventType.ALERT)]


# What devices share.


@pytest.mark.requirement("L6")
async def test_two_devices_on_one_bridge_are_worked_one_after_the_other(hub: Hub) -> None:
    first = await hub.television(bridge="attic")
    second = await hub.television(OTHER_TV, bridge="attic")
    await hub.admits(hub.command(POWER, on=True), hub.command(POWER, device=OTHER_TV, on=True))

    claim = await hub.claims()

    assert hub.rows("SELECT device, parent, parent_most FROM locks") == [(TV, "bridge/attic", 1)]
    assert not await hub.has_work()
    await hub.now.dispatch[Tier.LOW].work(claim)
    assert hub.rows("SELECT parent FROM locks") == [(None,)]
    await hub.works()
    assert (first.shows["power"], second.shows["power"]) == (True, True)


@pytest.mark.requirement("L6")
@pytest.mark.parametrize("bridge", ["cellar", None], ids=["another bridge", "no bridge"])
async def test_a_device_elsewhere_is_worked_beside(hub: Hub, bridge: str | None) -> None:
    await hub.television(bridge="attic")
    await hub.television(OTHER_TV, **({} if bridge is None else {"bridge": bridge}))
    await hub.admits(hub.command(POWER), hub.command(POWER, device=OTHER_TV))

    claims = [await hub.claims(), await hub.claims()]

    assert [claim.device for claim in claims] == [TV, OTHER_TV]


@pytest.mark.requirement("L6")
async def test_an_action_that_occupies_nothing_does_not_wait_for_the_bridge(hub: Hub) -> None:
    await hub.television(bridge="attic")
    await hub.television(OTHER_TV, bridge="attic")
    await hub.admits(hub.command(POWER), hub.command(REBOOT, device=OTHER_TV))
    await hub.claims()

    assert (await hub.claims(Tier.MEDIUM)).device == OTHER_TV


@pytest.mark.requirement("L6", "L3")
async def test_a_bridge_is_free_again_when_its_holder_is_gone(hub: Hub) -> None:
    await hub.television(bridge="attic")
    await hub.television(OTHER_TV, bridge="attic")
    await hub.admits(hub.command(POWER), hub.command(POWER, device=OTHER_TV))
    await hub.claims()
    hub.passes(LEASE)

    assert (await hub.claims()).fence == 1
    assert len(hub.rows("SELECT 1 FROM locks WHERE parent IS NOT NULL")) == 1


# How long leases are.


@pytest.mark.requirement("L7", "L1")
async def test_a_lease_grows_with_how_long_the_work_was_seen_to_take(hub: Hub) -> None:
    await hub.television()
    for level in range(5):
        await hub.admits(hub.command(VOLUME, level=level))
        claim = await hub.claims()
        assert claim.lease == LEASE
        await hub.now.desk.publish(claim, StepName.ACT)
        for _ in range(4):
            hub.passes(10 * SECOND)
            await hub.now.desk.renew(claim)
        await hub.now.desk.finish(claim, Ending(outcome=Outcome.SUCCEEDED))
    await hub.admits(hub.command(VOLUME, level=99))

    claim = await hub.claims()

    assert claim.lease // SECOND == 80
    hub.passes(79 * SECOND)
    await hub.now.desk.renew(claim)
    hub.passes(79 * SECOND)
    await hub.now.desk.renew(claim)
    check = hub.now.worlds.holds.check()
    assert (check.level, "volume of television takes 40 s" in check.summary) == (Level.WARNING, True)
    assert measured(hub, "lock_hold_seconds_count", lane="low") == 5
    assert 200 <= measured(hub, "lock_hold_seconds_sum", lane="low") < 201


@pytest.mark.requirement("L7")
async def test_what_was_given_back_unsent_says_nothing_of_how_long_the_work_takes(hub: Hub) -> None:
    tv = await hub.television()
    tv.goes_offline()
    await hub.settles()
    for _ in range(6):
        await hub.admits(hub.command(POWER, on=True))
        await hub.works()

    check = hub.now.worlds.holds.check()

    assert check.level is Level.OK
    assert measured(hub, "lock_hold_seconds_count", lane="low") == 6


@pytest.mark.requirement("Q5", "L1")
async def test_nobody_renews_for_who_has_stopped_working(hub: Hub) -> None:
    """The heartbeat is part of the work: it has no timer of its own that could outlive it."""
    tv = await hub.television()
    await hub.admits(command := hub.command(POWER, on=True))
    stopped = await hub.claims(holder="stopped")
    hub.passes(LEASE)
    await hub.breathes()

    claim = await hub.claims(holder="next")

    assert (claim.run, claim.fence, claim.force_refresh) == (stopped.run, 2, True)
    await hub.now.dispatch[Tier.LOW].work(claim)
    assert (await hub.ended(command)).outcome is Outcome.SUCCEEDED
    assert [what for what, _ in tv.effects] == ["power"]


@pytest.mark.requirement("Q5", "L3", "L7")
async def test_what_waits_for_its_turn_has_no_lease_that_could_lapse(hub: Hub) -> None:
    """Five are fetched ahead for what is occupied for longer than all of their leases together."""
    names = [device_id(f"tv-{number}") for number in range(1, 7)]
    televisions = [await hub.television(name, bridge="attic") for name in names]
    first, *waiting = [hub.command(POWER, device=name, valid_for=10 * MINUTE, on=True) for name in names]
    await hub.admits(first, *waiting)
    claim = await hub.claims()

    for _ in range(20):
        hub.passes(LEASE / 2)
        await hub.now.desk.renew(claim)
        await hub.now.upkeep.look()
        assert not await hub.has_work()
    untouched = hub.rows("SELECT DISTINCT state, attempts, losses FROM inbox WHERE state <> 'running'")
    await hub.now.dispatch[Tier.LOW].work(claim)
    await hub.works_all()

    assert untouched == [("queued", 0, 0)]
    assert [(await hub.ended(command)).attempts for command in waiting] == [1] * 5
    assert all(television.effects == [("power", True)] for television in televisions)
    assert measured(hub, "lease_losses_total", lane="low") == 0


# Tries that come to nothing.


@pytest.mark.requirement("E3", "O4", "Q8")
async def test_a_command_that_is_tried_too_often_is_told_once_and_blocks_nobody(hub: Hub) -> None:
    tv = await hub.television()
    await hub.has_policy(version=2, tiers={Tier.LOW: TierRule(attempts=4, alert_after=2)})
    tv.is_deaf()
    await hub.admits(command := hub.command(POWER, on=True))

    told = []
    for _ in range(3):
        await hub.works()
        told.append(await alerts(hub))
        hub.passes(SECOND)

    assert told == [[], [Reason.RETRY_THRESHOLD], [Reason.RETRY_THRESHOLD]]
    assert (await hub.row(command)).state is State.WAITING
    tries = await hub.audited(AuditKind.COMMAND_WAITING)
    assert [(each["attempts"], each["reason"], each["blame"]) for each in tries] == [
        (number, Reason.RETRYING, "transient") for number in (1, 2, 3)
    ]
    assert all(each["error"] for each in tries)
    assert measured(hub, "command_retries_total", lane="low") == 2
    assert measured(hub, "command_retry_alerts_total", lane="low") == 1
    await hub.admits(other := hub.command(VOLUME, level=3))
    tv.obeys()
    await hub.works()
    assert (await hub.row(other)).state in {State.SUCCEEDED, State.QUEUED}


@pytest.mark.requirement("E2", "E3")
async def test_waiting_for_a_device_that_is_away_is_no_failure_and_alerts_nobody(hub: Hub) -> None:
    tv = await hub.television()
    tv.goes_offline()
    await hub.settles()
    await hub.admits(command := hub.command(POWER, on=True))

    await hub.works()

    row = await hub.row(command)
    assert (row.state, row.reason, row.attempts) == (State.WAITING, Reason.DEVICE_OFFLINE, 0)
    [waits] = await hub.audited(AuditKind.COMMAND_WAITING)
    assert waits["blame"] is None
    assert await alerts(hub) == []
    assert hub.rows("SELECT token FROM locks") == [(None,)]


@pytest.mark.requirement("O1")
async def test_how_long_a_command_has_waited_to_be_begun_is_measured_once(hub: Hub) -> None:
    tv = await hub.television()
    tv.is_deaf()
    await hub.admits(hub.command(POWER, on=True))
    hub.passes(3 * SECOND)

    await hub.works()
    hub.passes(MINUTE)
    await hub.works()

    assert measured(hub, "lock_wait_seconds_count", lane="low") == 1
    assert 3 <= measured(hub, "lock_wait_seconds_sum", lane="low") < 4
