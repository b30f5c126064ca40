"""A person at the hub calls off the update of one device: what has not begun ends, what runs is told once."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from edgeagent.contracts.command import Command
from edgeagent.contracts.mqtt import Outgoing, PublishResult
from edgeagent.contracts.policy import Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.contracts.reports.rollouts import CancelAnswer, CancelReport, CancelRequest
from edgeagent.contracts.update import Stage
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.work import Claim, StepName
from edgeagent.errors import AmbiguousError, LostRaceError, RejectedError, UnknownError
from edgeagent.ids import DeviceId, command_id, device_id
from edgeagent.ports.links import LinkError, Trouble
from edgeagent.store import updates
from tests.flows.commanding import Hub
from tests.flows.rolling import rollouts_of
from tests.flows.scripted_player import OLD, Player
from tests.flows.signing import PLAYER, POWER
from tests.flows.updating import IMAGE, INSTALL, install, updating_hub
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("F4")

ANNA: Final = "uid:1000 anna"
OTHER: Final = device_id("player-2")


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub that may install the new image."""
    async with updating_hub(tmp_path) as made:
        yield made


@pytest.fixture
async def player(hub: Hub) -> Player:
    """A player that begins and then takes its time; told to stop it says so, and that it has failed."""
    made = await hub.player()
    made.script = lambda _: made.says(begun=True, percent=10)

    def stops(message: Outgoing) -> None:
        made.says(stops=True, request=json.loads(message.payload)["request"])
        made.says(failed="Aborted")

    hub.bus.reacts(f"{PLAYER}/set/stop", stops)
    return made


async def called_off(hub: Hub, command: Command, device: DeviceId | None = None) -> CancelReport:
    """Call it off."""
    request = CancelRequest(device=device, reason="guests are here")
    return await rollouts_of(hub).cancel(command.id, request, ANNA)


async def running(hub: Hub, command: Command) -> Claim:
    """Work an update as far as to what the player says of it."""
    await hub.admits(command)
    claim = await hub.claims()
    desk = hub.now.desk
    await desk.serve(claim)
    await desk.publish(claim, StepName.INSTALL, 0)
    await hub.settles()
    await desk.await_progress(claim, within=timedelta(0))
    await desk.publish(claim, StepName.INSTALL, 1)
    await hub.settles()
    return claim


async def works_on(hub: Hub, claim: Claim) -> None:
    """Go on with an update where it stands, to its end."""
    update = await hub.store.read(partial(updates.of, run=claim.run))
    await hub.now.dispatch[Tier.LOW].work(replace(claim, update=update))


def told_to_stop(hub: Hub) -> int:
    """How often the player was."""
    return sum(message.topic == f"{PLAYER}/set/stop" for message in hub.bus.published)


async def refused(hub: Hub, command: Command, words: str) -> None:
    """Call it off in vain, which changes nothing."""
    look = "SELECT (SELECT count(*) FROM audit), (SELECT max(called_off) FROM updates)"
    before = hub.rows(look), told_to_stop(hub)
    with pytest.raises(RejectedError, match=words):
        await called_off(hub, command)
    assert (hub.rows(look), told_to_stop(hub)) == before


async def test_what_waits_for_its_turn_is_cancelled(hub: Hub, player: Player) -> None:
    command = install(hub)
    await hub.admits(command)

    report = await called_off(hub, command)

    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason) == (Outcome.CANCELLED, Reason.CALLED_OFF)
    assert (report.state, report.stage, report.answer) == ("cancelled", None, CancelAnswer.NOT_NEEDED)
    assert not await hub.has_work()
    assert (player.urls, player.begun) == ([], [])
    [row] = await hub.audited(AuditKind.UPDATE_CALLED_OFF)
    assert (row["actor"], row["reason"], row["device"]) == (ANNA, "guests are here", PLAYER)
    await refused(hub, command, "is over: cancelled")


async def test_what_somebody_works_that_has_set_nothing_off_is_refused_and_never_set_off(
    hub: Hub, player: Player
) -> None:
    command = install(hub)
    await hub.admits(command)
    claim = await hub.claims()
    await hub.now.desk.serve(claim)
    await hub.now.desk.publish(claim, StepName.INSTALL, 0)

    report = await called_off(hub, command)

    with pytest.raises(LostRaceError):
        await hub.now.desk.publish(claim, StepName.INSTALL, 1)
    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason) == (Outcome.REFUSED, Reason.CALLED_OFF)
    assert (report.state, report.stage) == ("refused", Stage.STAGING)
    assert (player.begun, hub.shelf.served, told_to_stop(hub)) == ([], {}, 0)
    power = hub.command(POWER, device=PLAYER, on=True)
    await hub.admits(power)
    await hub.works()
    assert (await hub.ended(power)).outcome is Outcome.SUCCEEDED


async def test_what_is_called_off_while_its_file_is_brought_is_not_served(hub: Hub, player: Player) -> None:
    command = install(hub)
    await hub.admits(command)
    claim = await hub.claims()
    hub.shelf.is_open.clear()
    serving = asyncio.create_task(hub.now.desk.serve(claim))
    await eventually(lambda: hub.shelf.tickets)

    await called_off(hub, command)
    hub.shelf.is_open.set()

    with pytest.raises(LostRaceError):
        await serving
    assert (hub.shelf.served, player.urls) == ({}, [])
    assert (await hub.ended(command)).outcome is Outcome.REFUSED
    assert hub.rows("SELECT stage FROM updates") == []


async def test_what_runs_is_told_once_and_ends_by_the_version_that_runs(hub: Hub, player: Player) -> None:
    command = install(hub)
    claim = await running(hub, command)

    report = await called_off(hub, command)
    await refused(hub, command, "called off before")
    await works_on(hub, claim)

    assert (report.answer, report.state) == (CancelAnswer.TAKEN, "running")
    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason) == (Outcome.FAILED, Reason.DEVICE_REFUSED)
    assert receipt.detail == f"it runs {OLD}, as before: Aborted"
    assert receipt.update is not None
    assert receipt.update.stage is Stage.KEPT
    assert told_to_stop(hub) == 1
    assert len(await hub.audited(AuditKind.UPDATE_CALLED_OFF)) == 1
    assert player.shows["firmware"] == OLD


async def test_a_device_that_does_not_stop_is_updated_and_that_is_a_success(hub: Hub, player: Player) -> None:
    hub.bus.reacts(
        f"{PLAYER}/set/stop",
        lambda message: player.says(stops=False, request=json.loads(message.payload)["request"], why="late"),
    )
    command = install(hub)
    claim = await running(hub, command)

    report = await called_off(hub, command)
    player.boots(IMAGE.version)
    await works_on(hub, claim)

    assert (report.answer, report.words) == (CancelAnswer.DENIED, "late")
    assert (await hub.ended(command)).outcome is Outcome.SUCCEEDED


async def test_what_runs_already_as_wanted_is_not_called_off(hub: Hub, player: Player) -> None:
    command = install(hub)
    claim = await running(hub, command)
    player.boots(IMAGE.version)
    player.tells()
    await hub.settles()
    sight = await hub.now.desk.await_progress(claim, within=timedelta(0))
    assert sight.runs == "wanted"
    await hub.now.desk.enter(claim, Stage.SOAKING)

    await refused(hub, command, "is soaking: it goes on to its end")


async def test_what_is_known_not_to_have_left_may_be_sent_again(hub: Hub, player: Player) -> None:
    command = install(hub)
    claim = await running(hub, command)
    for answer in (LinkError(Trouble.UNREACHABLE, "gone"), PublishResult.REFUSED):
        hub.bus.answers_publish_with(answer)
        with pytest.raises((LinkError, RejectedError)):
            await called_off(hub, command)
        assert hub.rows("SELECT called_off FROM updates") == [(0,)]

    assert (await called_off(hub, command)).answer is CancelAnswer.TAKEN
    await works_on(hub, claim)
    assert (await hub.ended(command)).outcome is Outcome.FAILED
    assert player.begun == [IMAGE.version]


async def test_an_agent_that_has_started_anew_knows_that_it_was_told(hub: Hub, player: Player) -> None:
    command = install(hub)
    await running(hub, command)
    await called_off(hub, command)
    await hub.starts_anew()
    player.comes_online()
    await hub.settles()

    await refused(hub, command, "called off before")
    await hub.works()

    assert (await hub.ended(command)).outcome is Outcome.FAILED
    assert told_to_stop(hub) == 1


async def test_who_is_not_meant_is_not_called_off(hub: Hub, player: Player) -> None:
    other = await hub.player(OTHER)
    power = hub.command(POWER, device=PLAYER, on=True)
    both = hub.command(
        INSTALL,
        device=[PLAYER, OTHER],
        artifact=str(IMAGE.artifact),
        digest=str(IMAGE.sha256),
    )
    await hub.admits(both, power)

    for command, device in ((power.id, None), (command_id("no-such"), None), (both.id, device_id("tv-9"))):
        with pytest.raises(UnknownError):
            await rollouts_of(hub).cancel(command, CancelRequest(device=device, reason="x"), ANNA)
    with pytest.raises(AmbiguousError, match="several devices"):
        await called_off(hub, both)
    assert await hub.audited(AuditKind.UPDATE_CALLED_OFF) == []

    await called_off(hub, both, PLAYER)
    await hub.works_all(Tier.LOW)

    assert ((await hub.row(both, PLAYER)).state, player.begun) == ("cancelled", [])
    assert ((await hub.row(both, OTHER)).state, other.begun) == ("succeeded", [IMAGE.version])
