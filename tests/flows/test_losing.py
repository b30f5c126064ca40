"""Commands whose holder is gone: counted, and ended when that happens again and again."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from edgeagent.contracts.event import EventType
from edgeagent.contracts.policy import Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.lease import SHORTEST as LEASE
from edgeagent.core.lifecycle import State
from edgeagent.core.work import StepName
from edgeagent.errors import LostRaceError
from edgeagent.flows.losing import MOST_LOSSES
from tests.flows.commanding import Hub, new_hub
from tests.flows.scripted import Television
from tests.flows.signing import POWER, REBOOT

pytestmark = pytest.mark.requirement("L7")


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub that has just started."""
    async with new_hub(tmp_path) as made:
        yield made


@pytest.fixture
async def tv(hub: Hub) -> Television:
    """Its television, off."""
    return await hub.television()


async def alerts(hub: Hub) -> list[object]:
    """Why alerts were told."""
    return [data["reason"] for _, data in await hub.records(EventType.ALERT)]


@pytest.mark.requirement("Q4", "E3", "O4")
async def test_one_that_loses_its_holder_three_times_before_it_is_sent_has_failed(
    hub: Hub, tv: Television
) -> None:
    command = hub.command(POWER, on=True)
    await hub.admits(command)

    for number in range(1, MOST_LOSSES + 1):
        await hub.claims(holder=f"worker-{number}")
        hub.passes(LEASE)

    assert not await hub.has_work()
    assert (await hub.row(command)).state is State.RUNNING  # nobody has looked yet
    await hub.admits(other := hub.command(REBOOT))
    await hub.works(Tier.MEDIUM)
    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason) == (Outcome.FAILED, Reason.LEASE_LOST)
    assert (receipt.attempts, receipt.fence) == (0, MOST_LOSSES)
    assert await alerts(hub) == [Reason.LEASE_LOST]
    assert (await hub.ended(other)).outcome is Outcome.SUCCEEDED
    assert tv.shows["power"] is False


async def test_one_that_may_have_been_sent_ends_as_unknown(hub: Hub, tv: Television) -> None:
    command = hub.command(REBOOT)
    await hub.admits(command)
    claim = await hub.claims(Tier.MEDIUM)
    await hub.now.desk.publish(claim, StepName.ACT)
    hub.passes(LEASE)
    for _ in range(MOST_LOSSES - 1):
        await hub.claims(Tier.MEDIUM)
        hub.passes(LEASE)

    await hub.admits(hub.command(POWER))
    await hub.claims()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason) == (Outcome.UNKNOWN, Reason.LEASE_LOST)
    assert [what for what, _ in tv.effects] == ["reboot"]
    with pytest.raises(LostRaceError):
        await hub.now.desk.publish(claim, StepName.ACT)
    assert [what for what, _ in tv.effects] == ["reboot"]


async def test_what_a_restart_has_left_is_not_held_against_a_command(hub: Hub, tv: Television) -> None:
    command = hub.command(POWER, on=True)
    await hub.admits(command)
    for _ in range(MOST_LOSSES + 2):
        await hub.claims()
        await hub.starts_anew()

    await hub.works()

    assert (await hub.ended(command)).outcome is Outcome.SUCCEEDED
    assert await alerts(hub) == []
    assert tv.shows["power"] is True


@pytest.mark.requirement("O1", "B1")
async def test_each_loss_is_counted_and_counts_for_the_breaker(hub: Hub, tv: Television) -> None:
    await hub.admits(hub.command(POWER, on=True))
    await hub.claims()
    hub.passes(LEASE)

    await hub.claims()

    assert hub.rows("SELECT signal, count(*) FROM breaker_signals GROUP BY signal") == [("lease_lost", 1)]
    assert hub.now.around.metrics.lease_losses.labels(Tier.LOW)._value.get() == 1
    assert hub.rows("SELECT losses FROM inbox") == [(1,)]
    kinds = [kind for (kind,) in hub.rows("SELECT kind FROM audit ORDER BY number")]
    assert kinds[-2:] == [AuditKind.COMMAND_TAKEN_OVER, AuditKind.COMMAND_CLAIMED]
    assert tv.effects == []
