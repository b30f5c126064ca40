"""An update of firmware: set off once, judged by the version that stays, taken back where neither stays."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.contracts.mqtt import Outgoing
from edgeagent.contracts.order import Verb
from edgeagent.contracts.policy import Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.contracts.update import Stage
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.lifecycle import State
from edgeagent.core.stops import Standing
from edgeagent.core.work import Claim, Ending, Later, StepName
from edgeagent.errors import RejectedError, SuspiciousError
from edgeagent.flows.wary import WaryDesk
from edgeagent.ids import device_id
from edgeagent.ports.crash import CrashPoint
from tests.flows.commanding import Hub
from tests.flows.points import KilledError
from tests.flows.scripted_player import NEW, OLD, Player
from tests.flows.signing import PLAYER, POWER
from tests.flows.updating import BEFORE, IMAGE, comes_to_its_end, install, updating_hub
from tests.support.waiting import eventually

pytestmark = [pytest.mark.requirement("F4"), pytest.mark.requirement("S1"), pytest.mark.requirement("S2")]


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """Such a hub."""
    async with updating_hub(tmp_path) as made:
        yield made


@pytest.fixture
async def player(hub: Hub) -> Player:
    """A player that runs the old version."""
    return await hub.player()


async def stages(hub: Hub) -> list[object]:
    """The stages that were recorded, oldest first; what sets something off among them."""
    told = [row.get("stage") for row in await hub.audited(AuditKind.UPDATE_MOVED, AuditKind.STEP_SENT)]
    return [stage for number, stage in enumerate(told) if not number or told[number - 1] != stage]


async def test_a_new_version_that_stays_is_a_success(hub: Hub, player: Player) -> None:
    command = install(hub)
    await hub.admits(command)

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.attempts) == (Outcome.SUCCEEDED, 1)
    assert receipt.update is not None
    assert (receipt.update.earlier, receipt.update.wanted, receipt.update.runs) == (OLD, NEW, NEW)
    assert receipt.update.sha256 == IMAGE.sha256
    assert player.begun == [NEW]
    assert await stages(hub) == ["staging", "triggered", "installing", "soaking", "done"]
    assert hub.shelf.served == {}


async def test_progress_that_goes_back_and_success_that_is_said_too_early_decide_nothing(
    hub: Hub, player: Player
) -> None:
    def script(version: str) -> None:
        player.says(begun=True)
        player.says(done=True)
        for percent in (10, 60, 20, 60, 20, 100):
            player.says(percent=percent)
        player.boots(version)

    player.script = script
    command = install(hub)
    await hub.admits(command)

    await hub.works()

    assert (await hub.ended(command)).outcome is Outcome.SUCCEEDED
    assert len(await hub.audited(AuditKind.UPDATE_MOVED)) <= 7


async def test_success_that_is_said_and_the_old_version_that_stays_is_a_failure(
    hub: Hub, player: Player
) -> None:
    def script(_: str) -> None:
        player.says(begun=True)
        player.says(done=True)
        player.boots(OLD)

    player.script = script
    command = install(hub)
    await hub.admits(command)

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason) == (Outcome.FAILED, Reason.OTHER_VALUE)
    assert receipt.update is not None
    assert (receipt.update.stage, receipt.update.runs) == (Stage.KEPT, OLD)
    assert player.begun == [NEW]


@pytest.mark.threat("T2")
async def test_nothing_is_believed_that_is_told_of_a_device_while_it_is_away(
    hub: Hub, player: Player
) -> None:
    """Whoever speaks then is somebody else: it said itself, by its last will, that it cannot."""

    def script(version: str) -> None:
        player.says(begun=True)
        player.goes_offline()
        player.shows["firmware"] = version

    player.script = script
    command = install(hub)
    await hub.admits(command)

    working = asyncio.create_task(hub.works())
    await eventually(lambda: player.begun)

    await comes_to_its_end(hub, working, player.tells)

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.update and receipt.update.stage) == (Outcome.UNKNOWN, Stage.SILENT)
    assert "soaking" not in await stages(hub)


async def test_what_the_device_says_of_its_failure_is_in_the_receipt(hub: Hub, player: Player) -> None:
    player.script = lambda _: player.says(failed="wrong checksum")
    command = install(hub)
    await hub.admits(command)

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason) == (Outcome.FAILED, Reason.DEVICE_REFUSED)
    assert receipt.detail == "it runs 1.0.0, as before: wrong checksum"


async def test_a_boot_by_way_of_a_loader_is_waited_out(hub: Hub, player: Player) -> None:
    def script(_: str) -> None:
        player.says(begun=True)
        player.boots("2.0.0(minimal)")

    def asked(times: int) -> None:
        if times == 4:
            player.boots(NEW)

    player.script, player.when_asked = script, asked
    command = install(hub)
    await hub.admits(command)

    await hub.works()

    assert (await hub.ended(command)).outcome is Outcome.SUCCEEDED


async def test_a_new_version_that_falls_back_while_it_is_watched_is_a_failure(
    hub: Hub, player: Player
) -> None:
    command = install(hub)
    await hub.admits(command)
    player.when_asked = lambda times: player.boots(OLD) if times == 3 else None

    await hub.works()

    receipt = await hub.ended(command)
    assert receipt.outcome is Outcome.FAILED
    assert await stages(hub) == ["staging", "triggered", "installing", "soaking", "kept"]


async def test_a_file_that_is_taken_back_is_served_no_more_to_who_is_in_the_middle_of_it(
    hub: Hub, player: Player
) -> None:
    def script(_: str) -> None:
        player.says(begun=True)
        player.says(percent=10)

    player.script = script
    command = install(hub)
    await hub.admits(command)
    working = asyncio.create_task(hub.works())
    await eventually(lambda: hub.rows("SELECT stage FROM updates") == [("installing",)])
    assert hub.shelf.served

    hub.shelf.images = [BEFORE]
    player.says(percent=20)
    await eventually(lambda: not hub.shelf.served)

    assert hub.rows("SELECT stage FROM updates") == [("installing",)]
    player.boots(OLD)

    await comes_to_its_end(hub, working, player.tells)
    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.update and receipt.update.stage) == (Outcome.FAILED, Stage.KEPT)


async def test_a_device_that_never_comes_back_ends_as_unknown(hub: Hub, player: Player) -> None:
    def script(_: str) -> None:
        player.says(begun=True)
        player.goes_offline()
        player.is_mute()

    player.script = script
    command = install(hub)
    await hub.admits(command)

    working = asyncio.create_task(hub.works())
    await eventually(lambda: player.begun)

    await comes_to_its_end(hub, working)

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason) == (Outcome.UNKNOWN, Reason.NO_CONFIRMATION)


async def test_a_version_that_nobody_wanted_is_taken_back_once(hub: Hub, player: Player) -> None:
    player.script = lambda version: player.installs("9.9.9" if version == NEW else version)
    command = install(hub)
    await hub.admits(command)

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.attempts) == (Outcome.ROLLED_BACK, 2)
    assert receipt.update is not None
    assert (receipt.update.stage, receipt.update.runs) == (Stage.REVERTED, OLD)
    assert player.begun == [NEW, OLD]
    assert [BEFORE.sha256[:8] in url for url in player.urls] == [False, True]
    assert (await stages(hub))[-3:] == ["astray", "reverting", "reverted"]


async def test_without_a_way_back_somebody_is_told_to_go_there(hub: Hub, player: Player) -> None:
    hub.shelf.images = [IMAGE]
    player.script = lambda _: player.installs("9.9.9")
    command = install(hub)
    await hub.admits(command)

    await hub.works()

    receipt = await hub.ended(command)
    assert receipt.outcome is Outcome.ROLLBACK_FAILED
    assert receipt.detail is not None
    assert receipt.detail.startswith("go to the device: it runs 9.9.9")
    assert player.begun == [NEW]


async def test_a_way_back_that_leads_elsewhere_is_stuck(hub: Hub, player: Player) -> None:
    player.script = lambda _: player.installs("9.9.9")
    command = install(hub)
    await hub.admits(command)

    await hub.works()

    assert (await hub.ended(command)).outcome is Outcome.ROLLBACK_FAILED
    assert player.begun == [NEW, OLD]


async def test_a_device_that_is_away_is_waited_for_without_an_attempt(hub: Hub, player: Player) -> None:
    player.goes_offline()
    await hub.settles()
    command = install(hub)
    await hub.admits(command)

    await hub.works()

    row = await hub.row(command)
    assert (row.state, row.reason, row.attempts) == (State.WAITING, Reason.DEVICE_OFFLINE, 0)
    assert (player.urls, hub.shelf.served) == ([], {})


async def test_a_file_that_is_not_here_yet_is_waited_for(hub: Hub) -> None:
    await hub.player()
    hub.shelf.is_empty = True
    command = install(hub)
    await hub.admits(command)

    await hub.works()
    waiting = await hub.row(command)
    hub.shelf.is_empty = False
    hub.passes(timedelta(seconds=1))
    await hub.works()

    assert (waiting.state, waiting.reason, waiting.attempts) == (State.WAITING, Reason.RETRYING, 0)
    assert (await hub.ended(command)).outcome is Outcome.SUCCEEDED


async def test_an_empty_battery_is_no_time_for_an_update(hub: Hub, player: Player) -> None:
    player.shows["battery"] = 30
    command = install(hub)
    await hub.admits(command)

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason) == (Outcome.REFUSED, Reason.UNFIT_STATE)
    assert receipt.detail == "battery is 30, at least 70 is needed"
    assert player.urls == []


async def test_a_battery_that_is_known_to_be_empty_is_refused_before_anything_is_sent(
    hub: Hub, player: Player
) -> None:
    player.shows["battery"] = 69
    player.tells()
    await hub.settles()
    command = install(hub)
    await hub.admits(command)

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason) == (Outcome.REFUSED, Reason.UNFIT_STATE)
    assert (player.asked, player.urls, hub.shelf.tickets) == (0, [], [])
    assert hub.rows("SELECT stage FROM updates") == []


async def test_an_address_that_the_device_does_not_take_sets_nothing_off(hub: Hub, player: Player) -> None:
    hub.bus.reacts(f"{PLAYER}/set/address", lambda _: player.says(address="http://192.0.2.1/cut"))
    command = install(hub)
    await hub.admits(command)

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.attempts) == (Outcome.FAILED, 0)
    assert player.begun == []


@pytest.mark.requirement("B3")
async def test_what_is_stopped_is_not_set_off(hub: Hub, player: Player) -> None:
    command = install(hub)
    await hub.admits(command)

    def stopped(message: Outgoing) -> None:
        word = Standing(kind="action:install", verb=Verb.STOP, sequence=1, by="uid:0 root", why="smoke", at=0)
        hub.now.worlds.stops.standings.append(word)
        player.says(address=json.loads(message.payload)["url"])

    hub.bus.reacts(f"{PLAYER}/set/address", stopped)

    await hub.works()

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason) == (Outcome.REFUSED, Reason.STOPPED)
    assert player.begun == []


@pytest.mark.requirement("L1")
async def test_nobody_else_has_the_device_in_the_middle_whoever_works_the_update(
    hub: Hub, player: Player
) -> None:
    command, power = install(hub), hub.command(POWER, device=PLAYER, on=True)
    await hub.admits(command)
    hub.points.dies_at(CrashPoint.STEP_SENT, nth=2)
    await hub.is_killed(CrashPoint.STEP_SENT, nth=2)
    await hub.starts_anew()
    player.comes_online()
    await hub.settles()
    await hub.admits(power)

    found = await hub.claims()

    assert found.asked.command.id == command.id
    await hub.now.dispatch[Tier.LOW].work(found)
    await hub.works()
    assert (await hub.ended(command)).outcome is Outcome.SUCCEEDED
    assert (await hub.ended(power)).outcome is Outcome.SUCCEEDED
    assert player.begun == [NEW]


@pytest.mark.requirement("F3", "R1")
async def test_a_hub_that_starts_anew_serves_the_file_where_the_device_was_told_and_tells_nobody_where(
    hub: Hub, player: Player
) -> None:
    command = install(hub)
    await hub.admits(command)
    await hub.is_killed(CrashPoint.STEP_SENT, nth=2)
    await hub.starts_anew()
    player.comes_online()
    await hub.settles()

    await hub.works()

    assert (await hub.ended(command)).outcome is Outcome.SUCCEEDED
    [ticket] = set(hub.shelf.tickets)
    assert len(hub.shelf.tickets) > 1
    assert len(ticket) == 22
    written = hub.rows("SELECT detail FROM audit") + hub.rows("SELECT data FROM outbox")
    assert not any(ticket in str(row) for row in written)


@pytest.mark.requirement("L6")
async def test_one_bridge_is_updated_through_at_a_time(hub: Hub) -> None:
    first, second = await hub.player(bridge="attic"), await hub.player(device_id("player-2"), bridge="attic")
    one, other = install(hub), install(hub, device=device_id("player-2"))
    await hub.admits(one, other)

    claim = await hub.claims()

    assert not await hub.has_work()
    await hub.now.dispatch[Tier.LOW].work(claim)
    await hub.works()
    assert (first.begun, second.begun) == ([NEW], [NEW])


async def wary(hub: Hub) -> tuple[WaryDesk, Claim]:
    """The desk of a worker that is not believed, and its claim of an update."""
    await hub.admits(install(hub))
    desk = WaryDesk(hub.now.desk, frozenset({Tier.LOW}), hub.clock, hub.now.around.metrics)
    return desk, await desk.claim(Tier.LOW, "w")


@pytest.mark.requirement("W1")
@pytest.mark.parametrize("stage", [stage for stage in Stage if stage is not Stage.STAGING], ids=str)
async def test_no_stage_is_believed_that_the_hub_has_not_seen(hub: Hub, player: Player, stage: Stage) -> None:
    desk, claim = await wary(hub)
    await desk.serve(claim)

    with pytest.raises(SuspiciousError):
        await desk.enter(claim, stage)

    assert hub.rows("SELECT stage FROM updates") == [("staging",)]
    assert player.begun == []


@pytest.mark.requirement("W1")
@pytest.mark.parametrize("outcome", Outcome, ids=str)
async def test_no_end_is_believed_to_which_the_update_has_not_come(
    hub: Hub, player: Player, outcome: Outcome
) -> None:
    player.script = lambda _: None
    desk, claim = await wary(hub)
    await desk.serve(claim)
    await desk.publish(claim, StepName.INSTALL, 0)
    await hub.settles()
    await desk.await_progress(claim, within=timedelta(0))
    await desk.publish(claim, StepName.INSTALL, 1)

    with pytest.raises(SuspiciousError):
        await desk.finish(claim, Ending(outcome=outcome))
    with pytest.raises(RejectedError):
        await desk.postpone(claim, Later(reason=Reason.RETRYING))

    assert hub.rows("SELECT state FROM inbox") == [("running",)]


@pytest.mark.requirement("W1", "I3")
async def test_a_worker_sets_nothing_off_twice_and_nothing_out_of_order(hub: Hub, player: Player) -> None:
    player.script = lambda _: None
    desk, claim = await wary(hub)

    with pytest.raises(RejectedError):
        await desk.publish(claim, StepName.INSTALL, 0)
    await desk.serve(claim)
    with pytest.raises(RejectedError):
        await desk.publish(claim, StepName.INSTALL, 1)
    await desk.publish(claim, StepName.INSTALL, 0)
    await hub.settles()
    await desk.await_progress(claim, within=timedelta(0))
    with pytest.raises(RejectedError):
        await desk.publish(claim, StepName.INSTALL, 2)
    await desk.publish(claim, StepName.INSTALL, 1)
    with pytest.raises(RejectedError):
        await desk.publish(claim, StepName.INSTALL, 1)
    await desk.serve(claim)
    with pytest.raises(RejectedError):
        await desk.publish(claim, StepName.INSTALL, 0)

    assert player.begun == [NEW]


@pytest.mark.parametrize("nth", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "point",
    [
        CrashPoint.COMMAND_CLAIMED,
        CrashPoint.STEP_RECORDED,
        CrashPoint.STEP_SENT,
        CrashPoint.STEP_CHECKPOINTED,
    ],
    ids=str,
)
@pytest.mark.requirement("R1")
async def test_a_hub_that_dies_anywhere_sets_an_update_off_at_most_once(
    hub: Hub, player: Player, point: CrashPoint, nth: int
) -> None:
    command = install(hub)
    await hub.admits(command)
    hub.points.dies_at(point, nth=nth)
    working = asyncio.create_task(hub.works())
    await asyncio.wait((working, hub.now.taking_in), return_when=asyncio.FIRST_COMPLETED)
    if not (working.done() and working.exception() is None):
        working.cancel()
        with suppress(asyncio.CancelledError, KilledError):
            await working
        await hub.starts_anew()
        player.comes_online()
        player.tells()
        await hub.settles()
        hub.passes(timedelta(milliseconds=1))
        await hub.works_all(Tier.LOW)

    receipt = await hub.ended(command)
    was_lost = not player.begun
    assert player.begun in ([NEW], [])
    assert receipt.outcome is (Outcome.FAILED if was_lost else Outcome.SUCCEEDED)
