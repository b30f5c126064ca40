"""A person pauses, resumes and calls off the update of a list."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest

from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.reports.health import Level
from edgeagent.contracts.reports.rollouts import PlanRequest, SteerRequest
from edgeagent.contracts.rollout import Day, Window
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.catalogue import Catalogue
from edgeagent.core.lifecycle import State
from edgeagent.errors import RejectedError, UnknownError
from edgeagent.flows.rollout_desk import HubRollouts
from edgeagent.flows.rollout_health import rollout_check
from edgeagent.ids import command_id, device_id, label
from tests.core.test_catalogue import artifact
from tests.flows.rolling import Rolling, new_rollout, rollouts_of
from tests.flows.signing import TV

pytestmark = pytest.mark.requirement("F5")

FILE: Final = artifact(models="*")
APPROVED: Final = {FILE.id: frozenset({FILE.sha256})}
ANNA: Final = "uid:1000 anna"
SEEN: Final = SteerRequest(reason="seen")


def desk(rolling: Rolling) -> HubRollouts:
    """What answers at the hub that runs."""
    return rollouts_of(rolling.hub)


async def test_a_paused_list_begins_nothing_more_until_it_is_resumed_over_a_restart(tmp_path: Path) -> None:
    async with new_rollout(tmp_path, parallel=2) as rolling:
        command = await rolling.lists(4)
        begun = await rolling.begins()

        paused = await desk(rolling).pause(command.id, SEEN, ANNA)
        await rolling.ends(command, begun, State.SUCCEEDED)
        await rolling.hub.starts_anew()

        assert (paused.course, paused.by, paused.why, paused.under_way) == ("paused", ANNA, "seen", 2)
        assert await rolling.begins() == []
        assert await rolling.stands(command) == {"succeeded": 2, "waiting rollout_paused": 2}
        resumed = await desk(rolling).resume(command.id, SEEN, ANNA)
        assert (resumed.course, resumed.waits) == ("going", None)
        assert await rolling.begins() == list(command.devices[2:])
        told = await rolling.hub.audited(AuditKind.ROLLOUT_PAUSED, AuditKind.ROLLOUT_RESUMED)
        assert [each["reason"] for each in told] == ["seen", "seen"]


async def test_a_list_that_waits_for_approval_can_be_paused_before_it_begins(tmp_path: Path) -> None:
    async with new_rollout(tmp_path) as rolling:
        command = await rolling.lists(2, held=True)

        paused = await desk(rolling).pause(command.id, SEEN, ANNA)

        assert (paused.course, paused.left) == ("paused", 2)


async def test_a_stopped_list_goes_on_once_a_person_has_seen_what_ended_badly(tmp_path: Path) -> None:
    async with new_rollout(tmp_path, parallel=1, stop_after=1) as rolling:
        command = await rolling.lists(3)
        [one] = await rolling.begins()
        await rolling.ends(command, [one], State.UNKNOWN)
        assert await rolling.begins() == []
        check = await rolling.hub.store.read(rollout_check)
        assert (check.level, command.id in check.summary) == (Level.WARNING, True)
        assert (await desk(rolling).one(command.id)).waits is Reason.ROLLOUT_STOPPED

        await desk(rolling).resume(command.id, SEEN, ANNA)

        [another] = await rolling.begins()
        assert (await rolling.hub.store.read(rollout_check)).level is Level.OK
        # A further one stops it again.
        await rolling.ends(command, [another], State.FAILED)
        assert await rolling.begins() == []


async def test_what_is_called_off_is_cancelled_but_for_what_is_under_way(tmp_path: Path) -> None:
    async with new_rollout(tmp_path, parallel=1) as rolling:
        command = await rolling.lists(3)
        [one] = await rolling.begins()

        report = await desk(rolling).abort(command.id, SEEN, ANNA)

        assert await rolling.stands(command) == {"running": 1, "cancelled": 2}
        assert (report.under_way, report.left, report.never) == (1, 0, 2)
        receipt = await rolling.hub.receipt(command, command.devices[1])
        assert receipt is not None
        assert (receipt.outcome, receipt.reason) == ("cancelled", Reason.ROLLOUT_ABORTED)
        await rolling.ends(command, [one], State.SUCCEEDED)
        assert await rolling.begins() == []


async def test_what_cannot_be_steered_is_refused_and_nothing_is_changed(tmp_path: Path) -> None:
    async with new_rollout(tmp_path) as rolling:
        command = await rolling.lists(1)
        power = rolling.hub.command()
        await rolling.hub.television()
        await rolling.hub.admits(power)
        before = rolling.hub.rows("SELECT * FROM rollouts"), rolling.hub.rows("SELECT count(*) FROM audit")

        with pytest.raises(RejectedError, match="neither paused nor stopped"):
            await desk(rolling).resume(command.id, SEEN, ANNA)
        for unknown in (power.id, command_id("no-such-command")):
            with pytest.raises(UnknownError, match="no update"):
                await desk(rolling).pause(unknown, SEEN, ANNA)
            with pytest.raises(UnknownError, match="no update"):
                await desk(rolling).abort(unknown, SEEN, ANNA)
        after = rolling.hub.rows("SELECT * FROM rollouts"), rolling.hub.rows("SELECT count(*) FROM audit")
        assert after == before

        await rolling.begins()
        await rolling.ends(command, command.devices, State.SUCCEEDED)
        for steer in (desk(rolling).pause, desk(rolling).abort):
            with pytest.raises(RejectedError, match="left to begin"):
                await steer(command.id, SEEN, ANNA)


async def test_a_plan_goes_from_window_to_window_and_tells_who_is_first_and_who_is_refused(
    tmp_path: Path,
) -> None:
    night = Window(days=frozenset(Day), opens="22:00", closes="23:30")
    rule = {"zone": "Europe/Berlin", "windows": (night,), "longest": timedelta(hours=1), "parallel": 2}
    async with new_rollout(tmp_path, **rule, canary=1, artifacts=APPROVED) as rolling:
        plugs = [device_id(f"A1B2C3D4E5F{each}") for each in range(4)]
        for plug in plugs:
            await rolling.hub.now.devices.admit(plug, "tasmota", {"topic": plug}, label("Plug"), actor=ANNA)
        await rolling.hub.television()
        rolling.hub.now.trust.catalogue = Catalogue({FILE.id: FILE}, {}, ())
        before = rolling.hub.rows("SELECT count(*) FROM audit")

        plan = await desk(rolling).plan(
            PlanRequest(artifact=FILE.id, devices=[TV, *plugs, device_id("plug-9")])
        )

        assert [(each.device, each.canary, each.refused) for each in plan.devices] == [
            (plugs[0], True, None),
            *((each, False, None) for each in plugs[1:]),
            (TV, False, Reason.UNSUPPORTED_ACTION),
            (device_id("plug-9"), False, Reason.DEVICE_UNKNOWN),
        ]
        # It is noon on 1 March: the first one that night, two in the next, the last in the one after it.
        assert plan.begins == datetime(2027, 3, 1, 21, tzinfo=UTC)
        assert plan.ends == datetime(2027, 3, 3, 22, tzinfo=UTC)
        assert (plan.version, plan.parallel, plan.canary) == (FILE.facts.version, 2, 1)
        assert rolling.hub.rows("SELECT count(*) FROM audit") == before


async def test_a_plan_of_a_list_is_of_what_is_left_of_it(tmp_path: Path) -> None:
    async with new_rollout(tmp_path, parallel=1, canary=2) as rolling:
        command = await rolling.lists(4)
        [one] = await rolling.begins()
        await rolling.ends(command, [one], State.SUCCEEDED)

        plan = await desk(rolling).plan_of(command.id)

        assert [each.device for each in plan.devices] == list(command.devices[1:])
        assert {each.refused for each in plan.devices} == {Reason.DEVICE_UNKNOWN}
        assert (plan.begins, plan.ends) == (None, None)
