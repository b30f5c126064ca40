"""Updates of odd devices, by odd hubs: each comes to an end that is true, and costs nobody else anything."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.contracts.policy import Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.contracts.reports.health import Level
from edgeagent.contracts.update import Stage
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.lifecycle import State
from edgeagent.core.work import Later, StepName
from edgeagent.flows.watching.certificates import CertificateFiles
from edgeagent.flows.watching.lookout import Lookout
from edgeagent.ids import device_id
from edgeagent.ports.crash import CrashPoint
from tests.flows.commanding import Hub
from tests.flows.scripted_player import NEW, OLD, Player
from tests.flows.signing import PLAYER, POWER
from tests.flows.updating import IMAGE, comes_to_its_end, install, updating_hub
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("F4", "S2")


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub that may install the new image, and the old one again."""
    async with updating_hub(tmp_path) as made:
        yield made


@pytest.fixture
async def player(hub: Hub) -> Player:
    """A player that runs the old version."""
    return await hub.player()


async def test_a_file_that_is_damaged_as_it_is_served_is_waited_for(hub: Hub, player: Player) -> None:
    hub.shelf.is_damaged = True
    command = install(hub)
    await hub.admits(command)

    await hub.works()

    row = await hub.row(command)
    assert (row.state, row.reason, player.urls) == (State.WAITING, Reason.RETRYING, [])


@pytest.mark.requirement("L7")
async def test_a_mistake_in_one_update_costs_the_others_nothing(hub: Hub, player: Player) -> None:
    await hub.player(device_id("player-2"))
    command = install(hub, device=device_id("player-2"))
    await hub.admits(command)
    hub.now.trust.catalogue = hub.shelf.catalogue
    hub.shelf.is_mistaken = True
    working = asyncio.create_task(hub.now.dispatch[Tier.LOW].run("low-1"))
    await eventually(lambda: hub.shelf.is_mistaken is None)

    other = hub.command(POWER, device=PLAYER, on=True)
    await hub.admits(other)

    await eventually(lambda: player.shows["power"] is True)
    assert not working.done()
    working.cancel()
    assert (await hub.row(command)).state is State.RUNNING


@pytest.mark.slow
async def test_the_way_back_waits_for_a_broker_and_is_not_tried_all_the_time(
    hub: Hub, player: Player
) -> None:
    player.script = lambda version: player.installs("9.9.9" if version == NEW else version)
    command = install(hub)
    await hub.admits(command)
    working = asyncio.create_task(hub.works())
    down: list[timedelta] = []

    def is_over() -> bool:
        if not down and hub.rows("SELECT stage FROM updates") == [("astray",)]:
            hub.bus.goes_down()
            down.append(hub.clock.boot())
        elif down:
            hub.passes(timedelta(milliseconds=100))
            if len(down) == 1 and hub.clock.boot() - down[0] > timedelta(seconds=40):
                hub.bus.comes_up()
                player.comes_online()
                down.append(hub.clock.boot())
        return working.done()

    await eventually(is_over)

    assert (await hub.ended(command)).outcome is Outcome.ROLLED_BACK
    assert player.begun == [NEW, OLD]
    sent = [row["stage"] for row in await hub.audited(AuditKind.STEP_SENT) if "stage" in row]
    assert sent.count("reverting") <= 4


@pytest.mark.requirement("R7")
async def test_what_cannot_begin_is_tried_more_and_more_seldom(hub: Hub, player: Player) -> None:
    hub.shelf.is_empty, hub.chance = True, 1.0
    command = install(hub)
    await hub.admits(command)

    tries, begun = 0, hub.clock.boot()
    while hub.clock.boot() - begun < timedelta(minutes=4):
        if await hub.has_work():
            await hub.works()
            tries += 1
        hub.passes(timedelta(seconds=2))

    assert tries <= 8
    # It is no storm: what waits for its file counts for no breaker.
    assert hub.rows("SELECT count(*) FROM breaker_signals") == [(0,)]
    assert player.urls == []
    assert (await hub.row(command)).state is State.WAITING


@pytest.mark.requirement("M6")
@pytest.mark.parametrize("told", ["v" * 65, "neither one"])
async def test_a_version_that_nobody_can_compare_is_gone_back_to_by_nobody(
    hub: Hub, player: Player, told: str
) -> None:
    player.shows["firmware"] = told
    player.tells()
    await hub.settles()
    player.script = lambda _: player.installs("9.9.9")
    command = install(hub)
    await hub.admits(command)

    await hub.works()

    receipt = await hub.ended(command)
    assert receipt.outcome is Outcome.ROLLBACK_FAILED
    assert player.begun == [NEW]


@pytest.mark.requirement("M6")
async def test_a_version_of_many_words_that_stays_is_the_one_before(hub: Hub, player: Player) -> None:
    player.shows["firmware"] = "v" * 65
    player.tells()
    await hub.settles()
    player.script = lambda _: player.says(failed="wrong checksum")
    command = install(hub)
    await hub.admits(command)

    await hub.works()

    assert (await hub.ended(command)).outcome is Outcome.FAILED


@pytest.mark.requirement("M6")
async def test_a_device_that_calls_its_version_nothing_is_not_updated(hub: Hub, player: Player) -> None:
    player.shows["firmware"] = ""
    player.tells()
    await hub.settles()
    command = install(hub)
    await hub.admits(command)

    await hub.works()

    row = await hub.row(command)
    assert (row.state, row.reason, player.urls) == (State.WAITING, Reason.RETRYING, [])


@pytest.mark.parametrize(
    ("script", "nth", "outcome"),
    [(NEW, 3, Outcome.UNKNOWN), ("9.9.9", 5, Outcome.ROLLBACK_FAILED)],
    ids=["on its way", "on its way back"],
)
async def test_an_update_is_over_whose_device_is_let_go_in_the_middle(
    hub: Hub, player: Player, script: str, nth: int, outcome: Outcome
) -> None:
    player.script = lambda _: player.installs(script)
    command = install(hub)
    await hub.admits(command)
    point = CrashPoint.STEP_SENT if script == NEW else CrashPoint.STEP_CHECKPOINTED
    await hub.is_killed(point, nth=nth - 2 if script != NEW else nth)
    await hub.starts_anew()
    await hub.now.devices.forget(PLAYER, actor="uid:0 root")

    await hub.works()

    assert (await hub.ended(command)).outcome is outcome
    assert not await hub.has_work()


@pytest.mark.requirement("R7")
async def test_nothing_is_served_for_an_update_that_lost_all_who_worked_it(hub: Hub, player: Player) -> None:
    command = install(hub)
    await hub.admits(command)
    for _ in range(3):
        claim = await hub.claims()
        await hub.now.desk.serve(claim)
        await hub.now.desk.publish(claim, StepName.INSTALL, 0)
        hub.passes(claim.lease)

    looking = asyncio.create_task(hub.now.desk.claim(Tier.LOW, "worker-4"))
    await eventually(lambda: not hub.shelf.served)
    looking.cancel()

    assert (await hub.ended(command)).reason is Reason.LEASE_LOST
    assert player.begun == []


@pytest.mark.requirement("R2", "L7")
async def test_an_update_that_the_disk_has_stopped_goes_on_at_once_and_its_device_is_nobody_elses(
    hub: Hub, player: Player
) -> None:
    player.script = lambda _: player.says(begun=True)
    command = install(hub)
    await hub.admits(command)
    claim = await hub.claims()
    await hub.now.desk.serve(claim)
    for part in (0, 1):
        await hub.now.desk.publish(claim, StepName.INSTALL, part)
        await hub.settles()
    await hub.admits(hub.command(POWER, device=PLAYER, on=True))

    await hub.now.desk.postpone(claim, Later(reason=Reason.TAKEN_OVER, error="the disk is full"))

    again = await hub.claims()
    assert (again.run, again.force_refresh) == (claim.run, True)
    assert hub.shelf.served
    assert hub.rows("SELECT losses FROM inbox ORDER BY run")[0] == (0,)
    player.boots(NEW)
    player.tells()
    await hub.settles()
    hub.passes(again.lease)
    await comes_to_its_end(hub, asyncio.create_task(hub.works()), player.tells)
    assert (await hub.ended(command)).outcome is Outcome.SUCCEEDED


@pytest.mark.requirement("L4")
async def test_losses_between_which_an_update_goes_on_do_not_end_it(hub: Hub, player: Player) -> None:
    player.script = lambda _: player.says(begun=True)
    command = install(hub)
    await hub.admits(command)
    claim = await hub.claims()
    await hub.now.desk.serve(claim)
    for part in (0, 1):
        await hub.now.desk.publish(claim, StepName.INSTALL, part)
        await hub.settles()
        await hub.now.desk.await_progress(claim, within=timedelta(0))
    losses = []
    for stage, lost in ((Stage.INSTALLING, 2), (Stage.SOAKING, 1)):
        await hub.now.desk.enter(claim, stage)
        losses.append(hub.rows("SELECT losses FROM inbox"))
        for _ in range(lost):
            hub.passes(claim.lease)
            claim = await hub.claims()
        await hub.now.desk.serve(claim)
        player.boots(NEW)
        player.tells()
        await hub.settles()
        await hub.now.desk.await_progress(claim, within=timedelta(0))
    hub.passes(claim.lease)

    working = asyncio.create_task(hub.works())

    await comes_to_its_end(hub, working, player.tells)
    assert losses == [[(0,)], [(0,)]]
    assert (await hub.ended(command)).outcome is Outcome.SUCCEEDED
    assert len(player.begun) == 1


@pytest.mark.requirement("Q7")
async def test_an_update_that_takes_long_calls_for_nobody(hub: Hub, player: Player) -> None:
    player.script = lambda _: player.says(begun=True)
    lookout = Lookout(hub.store, hub.now.around, None, hub.now.tallies, CertificateFiles({}, {}))
    await hub.admits(install(hub))
    claim = await hub.claims()
    await hub.now.desk.serve(claim)
    for part in (0, 1):
        await hub.now.desk.publish(claim, StepName.INSTALL, part)
        await hub.settles()
        await hub.now.desk.await_progress(claim, within=timedelta(0))

    for _ in range(40):
        await lookout.checks()
        hub.passes(claim.lease * 0.9)
        await hub.now.desk.renew(claim)

    told = {each.name: each.level for each in await lookout.checks()}
    assert (told["stuck"], told["locks"]) == (Level.OK, Level.OK)
    assert hub.rows("SELECT stage FROM updates") == [("triggered",)]


async def test_what_ran_before_is_looked_at_again_when_an_update_begins_later(
    hub: Hub, player: Player
) -> None:
    command = install(hub)
    await hub.admits(command)
    await hub.is_killed(CrashPoint.STEP_SENT, nth=2)
    await hub.starts_anew()
    # Somebody has installed another version by hand meanwhile.
    player.shows["firmware"] = "1.5.0"
    player.comes_online()
    await hub.settles()
    player.script = lambda _: player.says(failed="wrong checksum")

    await hub.works()

    receipt = await hub.ended(command)
    assert receipt.outcome is Outcome.FAILED
    assert receipt.update is not None
    assert (receipt.update.stage, receipt.update.earlier) == (Stage.KEPT, "1.5.0")
    assert player.begun == [NEW]


@pytest.mark.slow
@pytest.mark.parametrize("outcome", [Outcome.UNKNOWN, Outcome.ROLLBACK_FAILED], ids=str)
async def test_a_device_that_somebody_went_to_is_updated_again(
    hub: Hub, player: Player, outcome: Outcome
) -> None:
    hub.shelf.images = [IMAGE]
    is_mute = outcome is Outcome.UNKNOWN
    player.script = lambda _: player.is_mute() if is_mute else player.installs("0.9.9")
    command = install(hub)
    await hub.admits(command)
    working = asyncio.create_task(hub.works())

    def is_over() -> bool:
        if player.begun:
            hub.passes(timedelta(milliseconds=100))
        return working.done()

    await eventually(is_over)
    assert (await hub.ended(command)).outcome is outcome

    mended = Player(hub.bus, PLAYER, hub.passes)
    mended.comes_online()
    mended.tells()
    await hub.settles()
    power, again = hub.command(POWER, device=PLAYER, on=True), install(hub)
    await hub.admits(power, again)
    await hub.works_all(Tier.LOW)

    assert [(await hub.ended(each)).outcome for each in (power, again)] == [Outcome.SUCCEEDED] * 2
    assert mended.begun == [NEW]
