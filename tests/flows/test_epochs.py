"""What becomes of commands when a new epoch begins, and when the floor of time is set back."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.clock import BUILT_AT
from edgeagent.contracts.policy import Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.gate.verdict import Accept, Duplicate, Refuse
from edgeagent.core.lifecycle import State
from edgeagent.flows.breakers import Breakers
from edgeagent.flows.epochs import end_other_epochs
from edgeagent.flows.settling import Settling
from edgeagent.ids import new_epoch
from edgeagent.ports.crash import CrashPoint
from tests.flows.commanding import Hub, new_hub
from tests.flows.signing import POWER, REBOOT, TOGGLE

LATER = new_epoch(9, 9)
HOUR = timedelta(hours=1)


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub that has just started."""
    async with new_hub(tmp_path) as made:
        yield made


async def begins_anew(hub: Hub) -> int:
    """Let the process end and another begin in a new epoch; how many commands end by that."""
    if hub.is_running:
        await hub.dies()
    hub.epoch = LATER
    await hub.starts()
    settling = Settling(
        hub.now.devices, hub.now.around, hub.keys.hub, Breakers(hub.now.around, hub.now.trust)
    )
    return await end_other_epochs(hub.store, settling, hub.lease_time())


@pytest.mark.requirement("T8")
class TestANewEpoch:
    """What was signed for another one is not begun any more."""

    async def test_what_is_open_ends_refused_and_is_never_sent(self, hub: Hub) -> None:
        tv = await hub.television()
        queued, waiting = hub.command(POWER), hub.command(REBOOT)
        await hub.admits(queued, waiting)
        tv.goes_offline()
        await hub.settles()
        await hub.works(Tier.MEDIUM)
        assert (await hub.row(waiting)).state is State.WAITING

        count = await begins_anew(hub)
        tv.comes_online()
        await hub.settles()

        assert count == 2
        for command in (queued, waiting):
            receipt = await hub.ended(command)
            assert (receipt.outcome, receipt.reason) == (Outcome.REFUSED, Reason.WRONG_EPOCH)
        assert not await hub.has_work()
        assert not await hub.has_work(Tier.MEDIUM)

    async def test_what_is_held_ends_too(self, hub: Hub) -> None:
        await hub.television()
        await hub.reboots()
        held = hub.command(REBOOT)
        await hub.admits(held)

        assert await begins_anew(hub) == 1
        assert (await hub.ended(held)).reason is Reason.WRONG_EPOCH

    async def test_what_was_claimed_and_not_sent_ends_and_its_device_is_free(self, hub: Hub) -> None:
        await hub.television()
        old = hub.command(POWER)
        await hub.admits(old)
        await hub.is_killed(CrashPoint.COMMAND_CLAIMED)

        assert await begins_anew(hub) == 1

        assert (await hub.ended(old)).reason is Reason.WRONG_EPOCH
        [verdict] = await hub.admits(hub.command(POWER, epoch=LATER))
        assert isinstance(verdict, Accept)
        await hub.works()

    async def test_what_was_sent_is_found_out_and_not_sent_again(self, hub: Hub) -> None:
        """That nothing was done is not true of it any more."""
        tv = await hub.television()
        sent = hub.command(TOGGLE)
        await hub.admits(sent)
        await hub.is_killed(CrashPoint.STEP_SENT, Tier.MEDIUM)
        before = list(tv.effects)

        assert await begins_anew(hub) == 0
        await hub.works(Tier.MEDIUM)

        assert (await hub.ended(sent)).outcome in {Outcome.SUCCEEDED, Outcome.UNKNOWN}
        assert tv.effects == before

    async def test_what_is_of_the_present_one_goes_on(self, hub: Hub) -> None:
        await hub.television()
        await begins_anew(hub)
        await hub.admits(hub.command(POWER, epoch=LATER))

        assert await begins_anew(hub) == 0

        await hub.works()

    async def test_a_known_command_of_the_old_one_is_answered_with_its_receipt(self, hub: Hub) -> None:
        await hub.television()
        done, unknown = hub.command(POWER), hub.command(POWER)
        await hub.admits(done)
        await hub.works()
        await begins_anew(hub)

        [again] = await hub.admits(done)
        [refused] = await hub.admits(unknown)

        assert isinstance(again, Duplicate)
        assert isinstance(refused, Refuse)
        assert refused.reason is Reason.WRONG_EPOCH
        assert not await hub.has_work()


@pytest.mark.requirement("T4", "T6")
async def test_setting_the_floor_back_lets_no_command_run_again(hub: Hub) -> None:
    """By then its time may not be over any more, as far as the hub can tell; it is known all the same."""
    await hub.television()
    done, expired = hub.command(POWER), hub.command(REBOOT, valid_for=timedelta(minutes=1))
    await hub.admits(done)
    await hub.works()
    hub.passes(HOUR)
    hub.clock.raise_floor(hub.clock.wall().earliest)
    [late] = await hub.admits(expired)
    assert isinstance(late, Refuse)
    assert late.reason is Reason.EXPIRED

    hub.clock.reset_floor(BUILT_AT)
    again = await hub.admits(done, expired)

    assert [type(verdict) for verdict in again] == [Duplicate, Duplicate]
    for lane in Tier:
        assert not await hub.has_work(lane)
