"""What is kept in memory serves no longer than it holds: policies, keys, devices (SPEC C5).

The process goes on all the time: nothing here is read anew from the disk.
"""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.contracts.policy import ActionRule, Tier, TierRule
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.gate.verdict import Accept, Refuse
from edgeagent.ids import label
from tests.flows.commanding import Hub, new_hub
from tests.flows.scripted import Television
from tests.flows.signing import MILLISECOND, MINUTE, POWER, REBOOT, TV
from tests.support.keys import MemoryKey

pytestmark = pytest.mark.requirement("C5")

HOUR = timedelta(hours=1)


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub that has just started."""
    async with new_hub(tmp_path) as made:
        yield made


@pytest.fixture
async def tv(hub: Hub) -> Television:
    """Its television, off."""
    return await hub.television()


async def verdict(hub: Hub, **changes: object) -> object:
    """What becomes of a new command."""
    [found] = await hub.admits(hub.command(POWER if not changes else REBOOT))
    return found.reason if isinstance(found, Refuse) else type(found)


@pytest.mark.requirement("T2")
async def test_a_policy_serves_to_its_end_and_the_grace_that_it_gives_the_tier_and_not_longer(
    hub: Hub, tv: Television
) -> None:
    low, medium = ActionRule(tier=Tier.LOW), ActionRule(tier=Tier.MEDIUM)
    await hub.has_policy(
        version=2,
        expires_at=hub.readings.wall() + MINUTE,
        actions={POWER: low, REBOOT: medium},
        tiers={Tier.LOW: TierRule(grace=HOUR), Tier.MEDIUM: TierRule()},
    )
    assert [await verdict(hub), await verdict(hub, reboot=True)] == [Accept, Accept]

    # A clock that may be a little behind does not take for over what may not be.
    hub.passes(MINUTE + 2 * MINUTE)
    hub.time_is_known()
    assert [await verdict(hub), await verdict(hub, reboot=True)] == [Accept, Reason.POLICY_EXPIRED]

    hub.passes(HOUR)
    hub.time_is_known()
    assert [await verdict(hub), await verdict(hub, reboot=True)] == [Reason.POLICY_EXPIRED] * 2
    assert tv.effects == []


@pytest.mark.requirement("T2")
async def test_what_came_while_the_policy_held_is_not_begun_after_its_grace(hub: Hub, tv: Television) -> None:
    await hub.has_policy(
        version=2, expires_at=hub.readings.wall() + MINUTE, tiers={Tier.LOW: TierRule(grace=MINUTE)}
    )
    in_time, late = hub.command(POWER, on=True), hub.command(POWER, on=False)
    await hub.admits(in_time)
    hub.passes(MINUTE + MINUTE / 2)
    await hub.works()
    await hub.admits(late)
    hub.passes(MINUTE)

    await hub.works()

    assert (await hub.ended(in_time)).outcome is Outcome.SUCCEEDED
    receipt = await hub.ended(late)
    assert (receipt.outcome, receipt.reason) == (Outcome.REFUSED, Reason.POLICY_EXPIRED)
    assert tv.effects == [("power", True)]


@pytest.mark.requirement("T2")
async def test_a_key_that_took_anothers_name_does_not_make_the_other_good(hub: Hub, tv: Television) -> None:
    """Keys are known by what they are: the name in the policy is for people."""
    newer = MemoryKey()
    before = hub.command(POWER, on=True)
    await hub.admits(before)
    await hub.works()
    keys = hub.keys.policy().keys | {"desk": newer.public.hex()}
    await hub.has_policy(version=2, keys=keys)

    old, new = hub.command(POWER, on=False), hub.command(POWER, on=False)
    [refused] = await hub.admits(hub.signed(old, hub.keys.desk))
    [accepted] = await hub.admits(hub.signed(new, newer))

    assert isinstance(refused, Refuse)
    assert refused.reason is Reason.BAD_SIGNATURE
    assert isinstance(accepted, Accept)
    assert tv.effects == [("power", True)]


@pytest.mark.requirement("M4")
async def test_a_device_that_was_admitted_anew_is_spoken_to_as_it_is_now(hub: Hub, tv: Television) -> None:
    command = hub.command(POWER, on=True)
    await hub.admits(command)
    devices = hub.now.devices
    await devices.forget(TV, actor="uid:0 root")
    await devices.admit(TV, "television", {"topic": "elsewhere"}, label("The same"), actor="uid:0 root")
    hub.bus.delivers("elsewhere/lwt", b"online")
    await hub.settles()
    hub.bus.reacts("elsewhere/set/power", lambda _: hub.passes(MILLISECOND))

    claim = await hub.claims()

    assert claim.plan is not None
    assert [step.topic for step in claim.plan.steps] == ["elsewhere/set/power"]
    assert tv.effects == []
