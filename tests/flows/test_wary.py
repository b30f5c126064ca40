"""The wary desk asks the gate once more: what it says right before the act is done, whoever works."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from edgeagent.contracts.policy import Bans, Level, Tier, TierRule
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.work import Ending, Later, StepName
from edgeagent.errors import LostRaceError, SuspiciousError
from edgeagent.flows.wary import WaryDesk
from tests.flows.commanding import Hub, new_hub
from tests.flows.scripted import Television
from tests.flows.signing import MINUTE, POWER, SECOND

pytestmark = pytest.mark.requirement("W1")


@dataclass(frozen=True, slots=True)
class Shop:
    """A hub with a television, and the wary desk."""

    hub: Hub
    tv: Television
    desk: WaryDesk

    def counted(self, name: str) -> float:
        """What an instrument shows."""
        registry = self.hub.now.around.metrics.registry
        labels = {"lane": "low"} if name == "command_retries_total" else {}
        return registry.get_sample_value(f"edgeagent_{name}", labels) or 0.0


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    """A hub whose low lane is worked by somebody who is not believed."""
    async with new_hub(tmp_path) as hub:
        tv = await hub.television()
        metrics = hub.now.around.metrics
        yield Shop(hub, tv, WaryDesk(hub.now.desk, frozenset({Tier.LOW}), hub.clock, metrics))


@pytest.mark.requirement("B3", "T3")
async def test_what_the_policy_bans_meanwhile_is_refused_by_the_agent_itself(shop: Shop) -> None:
    command = shop.hub.command(POWER, on=True)
    await shop.hub.admits(command)
    claim = await shop.desk.claim(Tier.LOW, "w")
    await shop.hub.has_policy(version=2, bans=Bans(actions=frozenset({POWER})))

    with pytest.raises(LostRaceError):
        await shop.desk.publish(claim, StepName.ACT)

    receipt = await shop.hub.ended(command)
    assert (receipt.outcome, receipt.attempts) == (Outcome.REFUSED, 0)
    assert (shop.hub.bus.published, shop.tv.effects) == ([], [])
    with pytest.raises(LostRaceError):
        await shop.desk.finish(claim, Ending(outcome=Outcome.UNKNOWN))
    assert await shop.hub.ended(command) == receipt


@pytest.mark.requirement("T5")
async def test_what_is_over_meanwhile_expires(shop: Shop) -> None:
    command = shop.hub.command(POWER, on=True, valid_for=10 * SECOND)
    await shop.hub.admits(command)
    claim = await shop.desk.claim(Tier.LOW, "w")
    shop.hub.passes(15 * SECOND)

    with pytest.raises(LostRaceError):
        await shop.desk.publish(claim, StepName.ACT)

    assert (await shop.hub.ended(command)).outcome is Outcome.EXPIRED
    assert shop.tv.effects == []


async def test_what_was_sent_before_and_may_not_be_sent_now_is_left_for_who_finds_out(shop: Shop) -> None:
    shop.tv.is_silent()
    command = shop.hub.command(POWER, on=True)
    await shop.hub.admits(command)
    first = await shop.desk.claim(Tier.LOW, "w")
    await shop.desk.publish(first, StepName.ACT)
    await shop.desk.postpone(first, Later(reason=Reason.RETRYING, after=SECOND))
    shop.hub.passes(2 * SECOND)
    again = await shop.desk.claim(Tier.LOW, "w")
    await shop.hub.has_policy(version=2, bans=Bans(actions=frozenset({POWER})))

    with pytest.raises(LostRaceError):
        await shop.desk.publish(again, StepName.ACT)

    row = await shop.hub.row(command)
    assert (row.sent, row.attempts) == (True, 1)
    assert await shop.hub.receipt(command) is None
    assert len(shop.tv.effects) == 1
    assert (await shop.desk.claim(Tier.LOW, "w")).force_refresh


async def test_attempts_that_are_spent_are_spent_for_a_worker_too(shop: Shop) -> None:
    await shop.hub.has_policy(version=2, tiers={Tier.LOW: TierRule(attempts=1)})
    shop.tv.is_silent()
    command = shop.hub.command(POWER, on=True)
    await shop.hub.admits(command)
    first = await shop.desk.claim(Tier.LOW, "w")
    await shop.desk.publish(first, StepName.ACT)
    await shop.desk.postpone(first, Later(reason=Reason.RETRYING, after=SECOND))
    shop.hub.passes(2 * SECOND)
    again = await shop.desk.claim(Tier.LOW, "w")

    with pytest.raises(SuspiciousError):
        await shop.desk.publish(again, StepName.ACT)

    assert len(shop.tv.effects) == 1
    assert (await shop.hub.row(command)).attempts == 1


@pytest.mark.requirement("O1", "E1")
async def test_tries_and_what_was_not_believed_are_counted_here(shop: Shop) -> None:
    shop.tv.is_silent()
    await shop.hub.admits(shop.hub.command(POWER, on=True))
    first = await shop.desk.claim(Tier.LOW, "w")
    await shop.desk.publish(first, StepName.ACT)
    await shop.desk.postpone(first, Later(reason=Reason.RETRYING, after=SECOND))
    shop.hub.passes(2 * SECOND)
    again = await shop.desk.claim(Tier.LOW, "w")
    await shop.desk.publish(again, StepName.ACT)

    with pytest.raises(SuspiciousError):
        await shop.desk.finish(again, Ending(outcome=Outcome.SUCCEEDED, level=Level.VERIFIED))

    assert (shop.counted("command_retries_total"), shop.counted("workers_disbelieved_total")) == (1, 1)
    assert shop.counted("workers_waiting") == 0
    assert shop.desk.presence.seen == shop.hub.clock.boot()


async def test_a_lane_that_is_not_its_own_is_not_lent(shop: Shop) -> None:
    with pytest.raises(SuspiciousError):
        await shop.desk.claim(Tier.HIGH, "w")

    assert shop.hub.rows("SELECT count(*) FROM locks WHERE token IS NOT NULL") == [(0,)]
    shop.hub.passes(MINUTE)
    assert shop.desk.presence.seen is None
