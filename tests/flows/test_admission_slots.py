"""Order: a later command takes the place of earlier ones of its issuer, device and slot, and of no other."""

from collections.abc import AsyncIterator
from itertools import permutations
from pathlib import Path

import pytest

from edgeagent.contracts.command import Command
from edgeagent.contracts.event import EventType
from edgeagent.contracts.policy import Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.gate.verdict import Accept, Refuse
from edgeagent.core.lifecycle import State
from edgeagent.ports.crash import CrashPoint
from tests.flows.commanding import Hub, new_hub
from tests.flows.scripted import Television
from tests.flows.signing import MINUTE, OTHER_TV, POWER, SECOND, TOGGLE, VOLUME

pytestmark = pytest.mark.requirement("T4")


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub that has just started."""
    async with new_hub(tmp_path) as made:
        yield made


@pytest.fixture
async def tv(hub: Hub) -> Television:
    """Its television, off."""
    return await hub.television()


async def outcome(hub: Hub, command: Command) -> Outcome:
    """How a command has ended."""
    return (await hub.ended(command)).outcome


@pytest.mark.parametrize("at_once", [True, False], ids=["worked when all are there", "worked as they come"])
async def test_four_commands_of_two_issuers_lead_to_one_end_in_whatever_order_they_come(
    hub: Hub,
    tv: Television,
    at_once: bool,  # noqa: FBT001 - a column of the table
) -> None:
    """A queue may deliver in any order: all 24, each with commands of its own."""
    for order in permutations(range(4)):
        tv.reports(power=True, volume=10)
        await hub.settles()
        hub.passes(SECOND)
        off, soft, loud, on = (
            hub.command(POWER, on=False),
            hub.command(VOLUME, level=20),
            hub.command(VOLUME, level=40),
            hub.command(POWER, on=True),
        )
        desk, night = hub.keys.desk, hub.keys.night
        sent = [hub.signed(off, desk), hub.signed(soft, night), hub.signed(loud, night), hub.signed(on, desk)]
        tv.effects.clear()

        for place in order:
            await hub.admits(sent[place])
            if not at_once:
                await hub.works_all()
        await hub.works_all()

        assert (tv.shows["power"], tv.shows["volume"]) == (True, 40), order
        assert len(set(tv.effects)) == len(tv.effects), order
        assert await outcome(hub, on) is await outcome(hub, loud) is Outcome.SUCCEEDED
        passed_over = {Outcome.SUPERSEDED, Outcome.REFUSED}
        for earlier, later in ((off, on), (soft, loud)):
            comes_first = order.index([off, soft, loud, on].index(earlier)) < order.index(
                [off, soft, loud, on].index(later)
            )
            ended = await outcome(hub, earlier)
            assert ended is Outcome.SUCCEEDED if comes_first and not at_once else ended in passed_over, order


async def test_an_earlier_one_that_comes_later_is_refused_and_names_the_later(
    hub: Hub, tv: Television
) -> None:
    on, off = hub.command(POWER, on=True), hub.command(POWER, on=False)
    await hub.admits(off)

    [verdict] = await hub.admits(on)

    assert isinstance(verdict, Refuse)
    assert verdict.reason is Reason.SUPERSEDED
    assert off.id in verdict.detail
    assert await outcome(hub, on) is Outcome.REFUSED
    assert tv.effects == []


async def test_one_that_waits_in_the_queue_gives_way_in_the_commit_that_lets_the_later_in(
    hub: Hub, tv: Television
) -> None:
    on, off = hub.command(POWER, on=True), hub.command(POWER, on=False)
    await hub.admits(on)
    commits = hub.now.store.commits

    await hub.admits(off)

    assert hub.now.store.commits == commits + 1
    receipt = await hub.ended(on)
    assert (receipt.outcome, receipt.reason, receipt.attempts) == (Outcome.SUPERSEDED, Reason.SUPERSEDED, 0)
    assert receipt.detail == f"by {off.id}"
    assert hub.rows("SELECT state FROM operations ORDER BY run") == [("failed",), ("processing",)]
    assert tv.effects == []


async def test_one_that_waits_for_its_device_gives_way(hub: Hub, tv: Television) -> None:
    tv.goes_offline()
    await hub.settles()
    on, off = hub.command(POWER, on=True), hub.command(POWER, on=False)
    await hub.admits(on)
    await hub.works()
    assert (await hub.row(on)).state is State.WAITING

    await hub.admits(off)

    assert await outcome(hub, on) is Outcome.SUPERSEDED


async def test_one_that_is_held_gives_way(hub: Hub, tv: Television) -> None:
    held = hub.command(POWER, on=True, issued=MINUTE)
    await hub.admits(held)

    await hub.admits(hub.command(POWER, on=False))

    assert (await outcome(hub, held), tv.effects) == (Outcome.SUPERSEDED, [])


async def test_one_that_comes_out_of_being_held_takes_the_place_of_earlier_ones(
    hub: Hub, tv: Television
) -> None:
    on, off = hub.command(POWER, on=True), hub.command(POWER, on=False, issued=MINUTE)
    await hub.admits(on, off)
    hub.passes(MINUTE)

    await hub.now.upkeep.look()

    assert await outcome(hub, on) is Outcome.SUPERSEDED
    assert (await hub.row(off)).state is State.QUEUED
    assert tv.effects == []


async def test_one_that_is_being_worked_has_begun_and_is_brought_to_its_end(hub: Hub, tv: Television) -> None:
    on, off = hub.command(POWER, on=True), hub.command(POWER, on=False)
    await hub.admits(on)
    claim = await hub.claims()

    await hub.admits(off)
    await hub.now.dispatch[Tier.LOW].work(claim)
    await hub.works()

    assert await outcome(hub, on) is await outcome(hub, off) is Outcome.SUCCEEDED
    assert tv.effects == [("power", True), ("power", False)]


@pytest.mark.requirement("I2", "M2")
async def test_one_that_was_sent_and_waits_for_its_next_try_has_begun_and_is_found_out(
    hub: Hub, tv: Television
) -> None:
    """It may have worked: nobody may say that nothing was done."""
    tv.is_deaf()
    on, off = hub.command(POWER, on=True), hub.command(POWER, on=False)
    await hub.admits(on)
    await hub.works()
    assert (await hub.row(on)).sent
    tv.obeys()

    await hub.admits(off)

    assert (await hub.row(on)).state is State.WAITING
    await hub.works_all()
    receipt = await hub.ended(on)
    assert (receipt.outcome, receipt.reason, receipt.attempts) == (Outcome.FAILED, Reason.OTHER_VALUE, 1)
    assert await outcome(hub, off) is Outcome.SUCCEEDED
    assert tv.effects == []


@pytest.mark.requirement("I2", "I3", "L3")
async def test_a_one_shot_that_a_dead_worker_may_have_sent_does_not_give_way(
    hub: Hub, tv: Television
) -> None:
    tv.is_silent()
    first, second = hub.command(TOGGLE), hub.command(TOGGLE)
    await hub.admits(first)
    await hub.is_killed(CrashPoint.STEP_SENT, Tier.MEDIUM)
    await hub.starts_anew()

    await hub.admits(second)
    await hub.works_all(Tier.MEDIUM)

    assert await outcome(hub, first) is Outcome.UNKNOWN
    assert hub.rows("SELECT state FROM operations ORDER BY run")[0] == ("unknown",)


@pytest.mark.parametrize("case", ["slot", "device", "issuer"])
async def test_another_slot_device_or_issuer_is_left_alone(hub: Hub, tv: Television, case: str) -> None:
    await hub.television(OTHER_TV)
    earlier = hub.command(POWER, on=True)
    later = {
        "slot": hub.command(VOLUME, level=20),
        "device": hub.command(POWER, on=False, device=OTHER_TV),
        "issuer": hub.command(POWER, on=False),
    }[case]
    key = hub.keys.night if case == "issuer" else hub.keys.desk
    await hub.admits(earlier)

    [verdict] = await hub.admits(hub.signed(later, key))

    assert isinstance(verdict, Accept)
    assert (await hub.row(earlier)).state is (await hub.row(later)).state is State.QUEUED
    assert tv.effects == []


async def test_one_that_was_refused_takes_nobodys_place(hub: Hub, tv: Television) -> None:
    on = hub.command(POWER, on=True)
    refused = hub.command(POWER, on=False, valid_for=100 * MINUTE)
    await hub.admits(on, refused)
    assert await outcome(hub, refused) is Outcome.REFUSED

    await hub.works()

    assert await outcome(hub, on) is Outcome.SUCCEEDED
    assert tv.effects == [("power", True)]


@pytest.mark.requirement("T4")
async def test_a_sequence_of_a_far_future_locks_nobody_out(hub: Hub, tv: Television) -> None:
    """Whoever has stolen a key signs the largest sequence there is; the issuer goes on as before."""
    stolen = hub.command(POWER, on=False, sequence=2**63 - 1, valid_for=2 * MINUTE)
    honest = hub.command(POWER, on=True)
    await hub.admits(stolen)
    assert (await hub.row(stolen)).reason is Reason.NOT_YET_VALID

    await hub.admits(honest)
    await hub.works()
    assert await outcome(hub, honest) is Outcome.SUCCEEDED
    hub.passes(3 * MINUTE)
    await hub.now.upkeep.look()
    again = hub.command(POWER, on=False)
    await hub.admits(again)
    await hub.works()

    assert await outcome(hub, stolen) is Outcome.EXPIRED
    assert await outcome(hub, again) is Outcome.SUCCEEDED
    assert tv.effects == [("power", True), ("power", False)]


async def test_each_that_gives_way_has_one_receipt(hub: Hub, tv: Television) -> None:
    commands = [hub.command(VOLUME, level=level) for level in range(1, 6)]

    await hub.admits(*commands)
    await hub.works_all()

    told = [data["command"] for _, data in await hub.records(EventType.RECEIPT)]
    assert sorted(map(str, told)) == sorted(command.id for command in commands)
    assert tv.effects == [("volume", 5)]
