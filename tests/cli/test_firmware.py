"""``edgeagent firmware``: typed, over the real socket."""

from pathlib import Path

import pytest

from edgeagent.contracts.reports.rollouts import PlanReport, RolloutReport, RolloutsReport
from edgeagent.contracts.rollout import Day, Window
from edgeagent.core.audit_chain import AuditKind
from tests.cli.commanded import commanded
from tests.flows.rolling import Rolling

pytestmark = pytest.mark.requirement("F5")

# It is Monday here.
TUESDAYS = Window(days=frozenset({Day.TUESDAY}), opens="02:00", closes="04:00")


async def test_a_list_is_seen_paused_resumed_and_called_off(tmp_path: Path) -> None:
    async with commanded(tmp_path) as terminal:
        none = await terminal.types("firmware", "status")
        rolling = Rolling(terminal.hub)
        await rolling.rules(windows=(TUESDAYS,))
        command = await rolling.lists(3)

        listed = (await terminal.types("--json", "firmware", "status")).report(RolloutsReport)
        # A short id is enough to look.
        shown = await terminal.types("firmware", "status", command.id[:-1])
        paused = await terminal.types("firmware", "pause", command.id, "--reason", "guests are here")
        resumed = await terminal.types("--json", "firmware", "resume", command.id, "--reason", "gone")
        ended = await terminal.types("--json", "firmware", "abort", command.id, "--reason", "wrong file")

        assert (none.status, none.out) == (0, "no update of devices has come\n")
        [one] = listed.rollouts
        assert (one.command, one.artifact, one.under_way, one.left) == (command.id, "plug-2", 0, 3)
        assert one.waits == "rollout_window"
        assert "plug-3" in shown.out
        assert "paused" in paused.out
        assert "guests are here" in paused.out
        assert resumed.report(RolloutReport).course == "going"
        # Why a device waits is as it is now, and not as it was when work was asked for last.
        assert {each.reason for each in resumed.report(RolloutReport).devices} == {"rollout_window"}
        assert "stands    over" in (await terminal.types("firmware", "status", command.id)).out
        assert [each.state for each in ended.report(RolloutReport).devices] == ["cancelled"] * 3
        kinds = (AuditKind.ROLLOUT_PAUSED, AuditKind.ROLLOUT_RESUMED, AuditKind.ROLLOUT_ABORTED)
        told = [row["reason"] for row in await terminal.hub.audited(*kinds)]
        assert told == ["guests are here", "gone", "wrong file"]


@pytest.mark.requirement("F4")
async def test_the_update_of_one_device_of_a_list_is_called_off(tmp_path: Path) -> None:
    async with commanded(tmp_path) as terminal:
        rolling = Rolling(terminal.hub)
        await rolling.rules(windows=(TUESDAYS,))
        command = await rolling.lists(2)
        words = ("firmware", "cancel", command.id)

        of_whom = await terminal.types(*words, "--reason", "x")
        ended = await terminal.types(*words, "plug-1", "--reason", "guests are here")
        again = await terminal.types("--json", *words, "plug-1", "--reason", "x")

        assert (of_whom.status, ended.status, again.status) == (1, 0, 1)
        assert "several devices" in of_whom.err
        assert ended.out == f"{command.id} on plug-1: cancelled, nothing was set off\n"
        assert "is over" in again.out + again.err
        told = await terminal.hub.audited(AuditKind.UPDATE_CALLED_OFF)
        assert [(row["device"], row["reason"]) for row in told] == [("plug-1", "guests are here")]
        assert (await rolling.stands(command))["cancelled"] == 1


async def test_a_plan_is_told_of_a_list_and_of_devices_and_does_nothing(tmp_path: Path) -> None:
    async with commanded(tmp_path) as terminal:
        rolling = Rolling(terminal.hub)
        await rolling.rules(windows=(TUESDAYS,), parallel=1, canary=1, stop_after=2)
        command = await rolling.lists(2)
        # Whoever works this lane may find at any moment that they have to wait.
        before = terminal.hub.rows("SELECT run, sent, attempts FROM inbox")

        of_list = await terminal.types("firmware", "plan", command.id)
        of_devices = await terminal.types(
            "--json", "firmware", "plan", "--artifact", "plug-2", "--device", "tv-1", "--device", "tv-2"
        )

        assert of_list.status == 0, of_list.err
        assert "device_unknown" in of_list.out
        assert "after 2 bad ends" in of_list.out
        assert [each.device for each in of_devices.report(PlanReport).devices] == ["tv-1", "tv-2"]
        assert terminal.hub.rows("SELECT run, sent, attempts FROM inbox") == before


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("status", "c-none"), 1),
        (("pause", "c-none", "--reason", "x"), 1),
        (("resume", "c-none", "--reason", "x"), 1),
        (("abort", "c-none", "--reason", "x"), 1),
        (("cancel", "c-none", "--reason", "x"), 1),
        (("pause", "c-none"), 2),
        (("pause", "c-none", "--reason", "x\x1b[31m"), 1),
        (("plan",), 1),
        (("plan", "--artifact", "plug-2"), 1),
        (("plan", "c-none", "--artifact", "plug-2", "--device", "tv-1"), 1),
        (("plan", "--artifact", "no such/artifact", "--device", "tv-1"), 2),
    ],
)
async def test_what_cannot_be_done_is_refused_and_changes_nothing(
    tmp_path: Path, words: tuple[str, ...], status: int
) -> None:
    async with commanded(tmp_path) as terminal:
        before = terminal.hub.rows("SELECT count(*) FROM audit")

        said = await terminal.types("firmware", *words)

        assert said.status == status
        assert said.err
        assert terminal.hub.rows("SELECT count(*) FROM audit") == before
        assert terminal.hub.rows("SELECT * FROM rollouts") == []
