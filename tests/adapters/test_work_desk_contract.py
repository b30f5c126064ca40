"""Every ``WorkDesk`` is the same to who works: the desk itself, with a watchdog, wary, behind a socket."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import pytest

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.command import Command
from edgeagent.contracts.order import Verb
from edgeagent.contracts.policy import ActionRule, Level, Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.contracts.reports.switch import SwitchRequest
from edgeagent.contracts.work import WorldRecord
from edgeagent.core.confirmation import Confirmed
from edgeagent.core.gate.judging import judge
from edgeagent.core.gate.verdict import Accept, Moment
from edgeagent.core.gate.world import World
from edgeagent.core.lease import SHORTEST as LEASE
from edgeagent.core.lifecycle import State
from edgeagent.core.saga import Mark, Phase
from edgeagent.core.work import Claim, Ending, Later, StepName
from edgeagent.errors import LostRaceError, RejectedError
from edgeagent.flows.dispatch import Dispatch
from edgeagent.flows.pulsing import PulsingDesk
from edgeagent.ids import ReadingName, device_id, label
from edgeagent.ports.crash import CrashPoint
from edgeagent.ports.desk import ExpiredError, StoppedError, WorkDesk
from edgeagent.ports.links import LinkError
from tests.adapters.working import Bench, new_bench
from tests.flows.commanding import Hub
from tests.flows.scripted import Television
from tests.flows.signing import MINUTE, POWER, REBOOT, SECOND, TV, VOLUME
from tests.support.waiting import DEADLINE, eventually

pytestmark = pytest.mark.requirement("W1")


class Way(StrEnum):
    """How whoever works comes to the desk."""

    INSIDE = "inside"
    SEEN = "seen"
    WARY = "wary"
    SOCKET = "socket"


@dataclass(frozen=True, slots=True)
class Shop:
    """A hub with a television, and the desk that is looked at."""

    bench: Bench
    tv: Television
    way: Way

    @property
    def hub(self) -> Hub:
        """The hub."""
        return self.bench.hub

    def desk(self) -> WorkDesk:
        """One more who works there."""
        match self.way:
            case Way.INSIDE:
                return self.hub.now.desk
            case Way.SEEN:
                return PulsingDesk(self.hub.now.desk, self.hub.now.around.pulses, self.hub.clock)
            case Way.WARY:
                return self.bench.desk
            case Way.SOCKET:
                return self.bench.worker()

    async def claims(self, desk: WorkDesk, lane: Tier = Tier.LOW) -> Claim:
        """Claim what is due."""
        async with asyncio.timeout(DEADLINE):
            return await desk.claim(lane, "worker-1")

    async def works(self, lane: Tier = Tier.LOW) -> None:
        """Claim what is due, and work it as far as it goes."""
        desk, around = self.desk(), self.hub.now.around
        claim = await self.claims(desk, lane)
        await Dispatch(desk, lane, around.clock, around.chance, around.metrics).work(claim)


@pytest.fixture(params=Way, ids=str)
async def shop(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shop]:
    """A hub, and each way to its desk."""
    async with new_bench(tmp_path) as bench:
        yield Shop(bench, await bench.hub.television(), request.param)


async def test_a_claim_carries_what_the_gate_judges_by(shop: Shop) -> None:
    command = shop.hub.command(POWER, on=True)
    await shop.hub.admits(command)
    desk = shop.desk()

    claim = await shop.claims(desk)

    inside = shop.hub.now.worlds.around_device(TV, None)
    assert (claim.asked.command, claim.device, claim.fence) == (command, TV, 1)
    assert claim.lease == LEASE
    assert isinstance(judge(claim.asked, claim.world, Moment.ACT), Accept)
    assert (claim.world.policy, claim.world.hub, claim.world.epoch) == (
        inside.policy,
        inside.hub,
        inside.epoch,
    )
    assert claim.world.shadow is not None
    assert inside.shadow is not None
    assert claim.world.shadow.etag == inside.shadow.etag
    assert claim.world.shadow.state.keys() == inside.shadow.state.keys()
    assert claim.plan is not None
    assert claim.plan.wish is not None
    assert claim.plan.wish.reading == "power"


async def test_a_command_is_worked_to_its_end(shop: Shop) -> None:
    command = shop.hub.command(POWER, on=True)
    await shop.hub.admits(command)

    await shop.works()

    receipt = await shop.hub.ended(command)
    assert (receipt.outcome, receipt.level, receipt.attempts) == (Outcome.SUCCEEDED, Level.APPLIED, 1)
    assert shop.tv.effects == [("power", True)]


async def test_a_claim_waits_until_there_is_something_to_do(shop: Shop) -> None:
    waiting = asyncio.create_task(shop.desk().claim(Tier.LOW, "worker-1"))
    await shop.hub.breathes()
    assert not waiting.done()

    command = shop.hub.command(POWER)
    await shop.hub.admits(command)

    await eventually(waiting.done)
    assert (await waiting).asked.command == command


async def test_a_one_shot_is_sent_once_and_ends_as_unknown_where_nothing_is_heard(shop: Shop) -> None:
    shop.tv.is_deaf()
    command = shop.hub.command(REBOOT)
    await shop.hub.admits(command)

    await shop.works(Tier.MEDIUM)

    receipt = await shop.hub.ended(command)
    assert (receipt.outcome, receipt.attempts) == (Outcome.UNKNOWN, 1)


async def test_what_shows_already_is_not_sent(shop: Shop) -> None:
    shop.tv.reports(power=True)
    await shop.hub.settles()
    command = shop.hub.command(POWER, on=True)
    await shop.hub.admits(command)

    await shop.works()

    receipt = await shop.hub.ended(command)
    assert (receipt.outcome, receipt.reason) == (Outcome.SUCCEEDED, Reason.ALREADY_SO)
    assert shop.tv.effects == []


async def test_what_the_device_refuses_has_failed_in_its_words(shop: Shop) -> None:
    shop.tv.refuses("standby \x1b[31m only")
    command = shop.hub.command(VOLUME, level=20)
    await shop.hub.admits(command)

    await shop.works()

    receipt = await shop.hub.ended(command)
    assert (receipt.outcome, receipt.reason) == (Outcome.FAILED, Reason.DEVICE_REFUSED)
    assert receipt.detail is not None
    assert "standby" in receipt.detail
    assert "\x1b" not in receipt.detail


async def test_what_shows_another_value_is_tried_again_later(shop: Shop) -> None:
    shop.tv.is_deaf()
    command = shop.hub.command(POWER, on=True)
    await shop.hub.admits(command)

    await shop.works()

    row = await shop.hub.row(command)
    assert (row.state, row.reason, row.attempts) == (State.WAITING, Reason.RETRYING, 1)
    assert row.last_error is not None


async def test_what_is_heard_is_told_as_it_was_heard(shop: Shop) -> None:
    await shop.hub.admits(shop.hub.command(VOLUME, level=20))
    desk = shop.desk()
    claim = await shop.claims(desk)
    await desk.publish(claim, StepName.ACT)

    answered = await desk.await_confirmation(claim, level=Level.APPLIED, within=10 * MINUTE)

    assert answered.confirmed == Confirmed(Level.APPLIED, 20)
    assert answered.denied is None


async def test_a_device_is_read_as_it_is_now(shop: Shop) -> None:
    await shop.hub.admits(shop.hub.command(POWER))
    desk = shop.desk()
    claim = await shop.claims(desk)
    shop.tv.reports(volume=33)
    await shop.hub.settles()

    world = await desk.read_device(claim)

    assert world.shadow is not None
    assert {name: held.value for name, held in world.shadow.state.items()}[ReadingName("volume")] == 33
    assert world.policy == claim.world.policy


@pytest.mark.requirement("L1", "L2", "Q5")
async def test_after_its_lease_nothing_of_it_is_taken_and_nothing_sent(shop: Shop) -> None:
    command = shop.hub.command(POWER, on=True)
    await shop.hub.admits(command)
    late, other = shop.desk(), shop.desk()
    lost = await shop.claims(late)
    shop.hub.passes(LEASE)
    held = await shop.claims(other)
    before = shop.hub.contents()

    for asked in (
        late.renew(lost),
        late.publish(lost, StepName.ACT),
        late.finish(lost, Ending(outcome=Outcome.UNKNOWN)),
        late.postpone(lost, Later(reason=Reason.RETRYING)),
    ):
        with pytest.raises(LostRaceError):
            await asked

    assert (held.fence, held.force_refresh) == (lost.fence + 1, True)
    assert shop.hub.contents() == before
    assert (shop.hub.bus.published, shop.tv.effects) == ([], [])


@pytest.mark.requirement("L1")
async def test_a_lease_that_is_renewed_holds(shop: Shop) -> None:
    await shop.hub.admits(shop.hub.command(POWER))
    desk = shop.desk()
    claim = await shop.claims(desk)
    shop.hub.passes(LEASE - SECOND)

    await desk.renew(claim)
    shop.hub.passes(LEASE - SECOND)

    assert not await shop.hub.has_work()
    await desk.finish(claim, Ending(outcome=Outcome.UNKNOWN))


@pytest.mark.requirement("B3")
async def test_what_is_stopped_after_the_claim_is_refused_and_not_sent(shop: Shop) -> None:
    command = shop.hub.command(POWER, on=True)
    await shop.hub.admits(command)
    desk = shop.desk()
    claim = await shop.claims(desk)
    await shop.hub.now.switch.throw(SwitchRequest(kind="all", why="smoke"), Verb.STOP, "uid:0 root")

    with pytest.raises((StoppedError, LostRaceError)):
        await desk.publish(claim, StepName.ACT)

    assert (shop.hub.bus.published, shop.tv.effects) == ([], [])


@pytest.mark.requirement("T5", "W1")
async def test_what_expires_while_its_step_is_recorded_is_refused_and_not_sent(shop: Shop) -> None:
    await shop.hub.admits(shop.hub.command(POWER, on=True, valid_for=10 * SECOND))
    desk = shop.desk()
    claim = await shop.claims(desk)
    shop.hub.points.happens_at(CrashPoint.STEP_RECORDED, lambda: shop.hub.passes(11 * SECOND))

    with pytest.raises(ExpiredError):
        await desk.publish(claim, StepName.ACT)

    assert (shop.hub.bus.published, shop.tv.effects) == ([], [])


async def test_a_broker_that_is_away_is_told_and_the_command_waits_as_unsent(shop: Shop) -> None:
    command = shop.hub.command(POWER, on=True)
    await shop.hub.admits(command)
    desk = shop.desk()
    claim = await shop.claims(desk)
    shop.hub.bus.goes_down()

    with pytest.raises(LinkError):
        await desk.publish(claim, StepName.ACT)
    await desk.postpone(claim, Later(reason=Reason.BROKER_AWAY, after=MINUTE, unsent=True))

    row = await shop.hub.row(command)
    assert (row.state, row.sent, row.attempts) == (State.WAITING, False, 0)


async def test_a_device_of_a_shipped_family_is_known_as_well(shop: Shop) -> None:
    plug = device_id("AABBCCDDEEFF")
    await shop.hub.now.devices.admit(plug, "tasmota", {"topic": "plug-a"}, label("Plug"), actor="uid:0 root")
    shop.hub.bus.delivers("tele/plug-a/LWT", b"Online")
    await shop.hub.settles()
    await shop.hub.admits(shop.hub.command(POWER, device=plug, on=True))

    claim = await shop.claims(shop.desk())

    assert claim.plan is not None
    assert isinstance(judge(claim.asked, claim.world, Moment.ACT), Accept)


# Commands that are made of several parts.


async def presents(shop: Shop) -> Command:
    """Have a command come that wakes the television, selects its input and sets its volume."""
    rule = ActionRule(tier=Tier.LOW)
    await shop.hub.has_policy(version=2, actions={ActionName.PRESENT: rule, POWER: rule})
    command = shop.hub.command(ActionName.PRESENT, input="HDMI 2", volume=30)
    await shop.hub.admits(command)
    return command


@pytest.mark.requirement("S1")
async def test_the_parts_of_a_command_are_worked_to_the_end(shop: Shop) -> None:
    command = await presents(shop)

    await shop.works()

    receipt = await shop.hub.ended(command)
    assert (receipt.outcome, receipt.level, receipt.attempts) == (Outcome.SUCCEEDED, Level.APPLIED, 3)
    assert shop.tv.effects == [("power", True), ("input", "HDMI 2"), ("volume", 30)]


@pytest.mark.requirement("S1", "S2")
async def test_the_parts_of_a_command_are_undone_where_a_later_one_fails(shop: Shop) -> None:
    shop.tv.refuses("not now", of="volume")
    command = await presents(shop)

    await shop.works()

    receipt = await shop.hub.ended(command)
    assert (receipt.outcome, receipt.reason) == (Outcome.ROLLED_BACK, Reason.DEVICE_REFUSED)
    assert shop.tv.shows == {"power": False, "volume": 10, "input": "HDMI 1"}


@pytest.mark.requirement("S1", "R5")
async def test_who_takes_a_command_over_goes_on_where_its_parts_stand(shop: Shop) -> None:
    command = await presents(shop)
    gone = shop.desk()
    claim = await shop.claims(gone)
    await gone.publish(claim, StepName.ACT, 0)
    await gone.await_confirmation(claim, level=Level.APPLIED, within=SECOND)
    await gone.checkpoint(claim, Mark(part=0, name="power", phase=Phase.DONE, level=Level.APPLIED))
    await gone.publish(claim, StepName.ACT, 1)
    shop.hub.passes(3 * LEASE)

    await shop.works()

    assert (await shop.hub.ended(command)).outcome is Outcome.SUCCEEDED
    assert shop.tv.effects == [("power", True), ("input", "HDMI 2"), ("volume", 30)]


@pytest.mark.requirement("S1")
async def test_a_part_that_is_not_next_is_neither_sent_nor_recorded(shop: Shop) -> None:
    await presents(shop)
    desk = shop.desk()
    claim = await shop.claims(desk)
    before = shop.hub.contents()

    with pytest.raises(RejectedError):
        await desk.publish(claim, StepName.ACT, 2)
    with pytest.raises(RejectedError):
        await desk.publish(claim, StepName.UNDO, 0)
    with pytest.raises(RejectedError):
        await desk.checkpoint(claim, Mark(part=1, name="input", phase=Phase.BARRED))

    assert (shop.hub.contents(), shop.hub.bus.published) == (before, [])


@pytest.mark.requirement("S1", "S2")
@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.ROLLED_BACK, Outcome.FAILED], ids=str)
async def test_an_end_to_which_the_parts_have_not_come_is_not_taken(shop: Shop, outcome: Outcome) -> None:
    command = await presents(shop)
    desk = shop.desk()
    claim = await shop.claims(desk)
    await desk.publish(claim, StepName.ACT, 0)
    # What the television shows is taken in beside us.
    await shop.hub.settles()
    await shop.hub.breathes()
    before = shop.hub.contents()

    with pytest.raises(RejectedError):
        await desk.finish(claim, Ending(outcome=outcome, level=Level.APPLIED))

    assert shop.hub.contents() == before
    assert (await shop.hub.row(command)).state is State.RUNNING


def test_all_that_the_gate_judges_by_goes_over_the_socket() -> None:
    """A field that is added to the world and not to its record would be judged here and not there."""
    fields = {each.name for each in dataclasses.fields(World)}

    # What a breaker has against a command counts when it comes, not at the act. What is signed of files, and
    # whether the hub serves any, the daemon judges by right before the act; a worker could not tell.
    assert fields - {"shut", "catalogue", "appliance", "serves_files"} <= set(WorldRecord.model_fields)
    assert set(WorldRecord.model_fields) - fields == {"policy_sha256"}
