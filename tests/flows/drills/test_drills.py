"""Drills: each passes on a sound engine, fails on one with a broken part, and leaves its record alone."""

import asyncio
import logging
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path

import pytest
from typing_extensions import override

from edgeagent.agent.drills import start
from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.reports.drills import DrillKind
from edgeagent.core.gate.verdict import Refuse
from edgeagent.errors import RejectedError
from edgeagent.flows.admission import Arrival
from edgeagent.flows.drills.appliance import APPLIANCE, Appliance
from edgeagent.flows.drills.drilling import LONGEST
from edgeagent.flows.drills.engine import Engine, Outside
from edgeagent.flows.drills.rig import Rig
from edgeagent.flows.drills.timepiece import Timepiece
from edgeagent.logs import JsonFormatter
from tests.flows.commanding import new_hub
from tests.flows.drills.holding import (
    ROOT,
    Forgetful,
    Frozen,
    Incurable,
    MakeAppliance,
    Thrice,
    drilled_hub,
    forgets_everything,
    is_wrong,
    keeps_its_fence,
)
from tests.flows.signing import POWER
from tests.support.stores import broken_log
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("O6")


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("kind", DrillKind, ids=str)
async def test_a_drill_on_a_sound_engine_passes_and_leaves_nothing_but_its_record(
    tmp_path: Path, kind: DrillKind
) -> None:
    async with drilled_hub(tmp_path, "dev-1") as hub:
        published = len(hub.hub.bus.published)
        before = names_in(tmp_path)
        drills = hub.drills()

        report = await drills.drill(kind, ROOT)

        assert report.passed, report.why
        assert report.recorded
        assert all(line.passed and line.seen == line.expected for line in report.lines)
        [standing] = (await drills.drills()).drills
        assert (standing.kind, standing.passed, standing.by) == (kind, True, ROOT)
        assert standing.good_at == standing.at == report.at
        assert hub.rows() == [(kind, ROOT)]
        assert await hub.told() == [(kind, "passed")]
        assert names_in(tmp_path) == before
        # And nothing of it is among what is real.
        assert len(hub.hub.bus.published) == published
        assert hub.hub.rows("SELECT device FROM devices") == [("dev-1",)]
        assert hub.hub.rows("SELECT count(*) FROM inbox") == [(0,)]
        assert hub.hub.counted("edgeagent_commands_admitted_total", {"verdict": "accept"}) == 0


@pytest.mark.parametrize(
    ("kind", "appliance", "seen"),
    [
        pytest.param(DrillKind.DUPLICATE, Thrice, "effects on the appliance: 3", id="done again"),
        pytest.param(DrillKind.CRASH, Thrice, "effects 3", id="done again after a cut"),
        pytest.param(
            DrillKind.CRASH,
            Forgetful,
            "rolled_back; steps done, each once: power, power",
            id="forgotten over a cut",
        ),
        pytest.param(DrillKind.DEAD_LETTER, Incurable, "run 2 waiting (retrying)", id="never well again"),
        pytest.param(
            DrillKind.LOCK, Thrice, "done in another order", id="done again by whoever has the lock"
        ),
    ],
)
async def test_a_drill_with_a_broken_appliance_fails_and_says_where(
    tmp_path: Path, kind: DrillKind, appliance: MakeAppliance, seen: str
) -> None:
    async with drilled_hub(tmp_path) as hub:
        drills = hub.drills(appliance=appliance)

        report = await drills.drill(kind, ROOT)

        assert not report.passed
        assert [line.passed for line in report.lines] == [True] * (len(report.lines) - 1) + [False]
        assert seen in report.lines[-1].seen
        assert report.lines[-1].seen in report.why
        [standing] = (await drills.drills()).drills
        assert (standing.passed, standing.good_at, standing.why) == (False, None, report.why)
        assert await hub.told() == [(kind, "failed")]
        assert not hub.folder.exists()


async def test_an_engine_that_forgets_over_a_cut_fails_the_drill(tmp_path: Path) -> None:
    async with drilled_hub(tmp_path) as hub:
        report = await hub.drills(begin=forgets_everything).drill(DrillKind.CRASH, ROOT)

        assert not report.passed
        assert "drill-1 is lost" in report.why
        assert await hub.told() == [(DrillKind.CRASH, "failed")]


async def test_a_fence_that_does_not_grow_fails_the_drill(tmp_path: Path) -> None:
    async with drilled_hub(tmp_path) as hub:
        report = await hub.drills(begin=keeps_its_fence).drill(DrillKind.LOCK, ROOT)

        assert not report.passed
        assert report.lines[-1].seen.startswith("taken over under a wrong fence")


async def test_a_mistake_of_ours_fails_the_drill_and_the_agent_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with drilled_hub(tmp_path) as hub:
        failed = await hub.drills(begin=is_wrong).drill(DrillKind.LOCK, ROOT)
        passed = await hub.drills().drill(DrillKind.LOCK, ROOT)

        assert failed.why == "the engine failed: ZeroDivisionError; the log has it all"
        assert "ZeroDivisionError" in caplog.text
        assert passed.passed
        assert await hub.told() == [(DrillKind.LOCK, "failed"), (DrillKind.LOCK, "passed")]


async def test_a_drill_that_hangs_is_ended(tmp_path: Path) -> None:
    async with drilled_hub(tmp_path) as hub:
        drills = hub.drills(appliance=Frozen)
        held = asyncio.create_task(drills.drill(DrillKind.LOCK, ROOT))
        await eventually((hub.folder / "hub.db").exists)

        hub.hub.loop_time.passes(LONGEST + timedelta(seconds=1))
        report = await held

        assert report.why == "not over within 60 s"
        assert not hub.folder.exists()


async def test_a_drill_that_failed_leaves_alone_when_the_last_good_one_was(tmp_path: Path) -> None:
    async with drilled_hub(tmp_path) as hub:
        good = await hub.drills().drill(DrillKind.DUPLICATE, ROOT)
        hub.hub.clock.passes(timedelta(hours=1))

        bad = await hub.drills(appliance=Thrice).drill(DrillKind.DUPLICATE, ROOT)

        [standing] = (await hub.drills().drills()).drills
        assert (standing.at, standing.good_at, standing.passed) == (bad.at, good.at, False)


async def test_two_drills_at_once_are_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    async with drilled_hub(tmp_path) as hub:
        drills = hub.drills()
        first = asyncio.create_task(drills.drill(DrillKind.CRASH, ROOT))
        await asyncio.sleep(0)

        with pytest.raises(RejectedError, match="another drill is being held"):
            await drills.drill(DrillKind.LOCK, ROOT)

        assert (await first).passed
        assert hub.rows() == [(DrillKind.CRASH, ROOT)]


async def test_what_an_earlier_drill_has_left_is_removed_before_the_next(tmp_path: Path) -> None:
    async with drilled_hub(tmp_path) as hub:
        hub.folder.mkdir()
        (hub.folder / "hub.db").write_bytes(b"half a database")
        (hub.folder / "hub.db-wal").write_bytes(b"and its log")

        report = await hub.drills().drill(DrillKind.DUPLICATE, ROOT)

        assert report.passed, report.why
        assert not hub.folder.exists()


async def test_whoever_loses_patience_while_room_is_made_leaves_nothing(tmp_path: Path) -> None:
    async with drilled_hub(tmp_path) as hub:
        for patience in range(12):
            hub.folder.mkdir()
            for number in range(200):
                (hub.folder / f"hub.db-{number}").touch()
            held = asyncio.create_task(hub.drills().drill(DrillKind.LOCK, ROOT))
            for _ in range(1 + patience):
                await asyncio.sleep(0)

            held.cancel()
            with suppress(asyncio.CancelledError):
                await held

            assert held.cancelled()
            assert not hub.folder.exists()
        assert hub.rows() == []


async def test_a_file_in_the_place_of_the_folder_fails_the_drill_and_is_left(tmp_path: Path) -> None:
    async with drilled_hub(tmp_path) as hub:
        hub.folder.write_text("somebody's")

        report = await hub.drills().drill(DrillKind.DUPLICATE, ROOT)

        assert "File exists" in report.why
        assert hub.folder.read_text() == "somebody's"


@pytest.mark.requirement("R2")
async def test_a_disk_that_fills_up_fails_the_drill_with_a_clear_word(tmp_path: Path) -> None:
    async def on_a_full_disk(outside: Outside) -> Engine:
        engine = await start(outside)
        full.enter_context(broken_log(outside.file, Path("/dev/full")))
        return engine

    async with drilled_hub(tmp_path) as hub:
        with ExitStack() as full:
            report = await hub.drills(begin=on_a_full_disk).drill(DrillKind.LOCK, ROOT)

        assert not report.passed
        assert "disk is full" in report.why
        assert not hub.folder.exists()
        assert await hub.told() == [(DrillKind.LOCK, "failed")]


@pytest.mark.requirement("R2")
async def test_a_disk_that_is_nearly_full_is_left_to_the_hub(tmp_path: Path) -> None:
    async with drilled_hub(tmp_path) as hub:
        report = await hub.drills(room=2**62).drill(DrillKind.LOCK, ROOT)

        assert "the disk is nearly full" in report.why
        assert report.lines == []
        assert not hub.folder.exists()
        assert await hub.told() == [(DrillKind.LOCK, "failed")]


@pytest.mark.requirement("R2")
async def test_a_drill_that_cannot_be_put_on_record_has_not_passed(tmp_path: Path) -> None:
    async with drilled_hub(tmp_path) as hub:
        drills = hub.drills()
        with broken_log(hub.hub.path, Path("/dev/full")):
            report = await drills.drill(DrillKind.DUPLICATE, ROOT)

        assert (report.passed, report.recorded) == (False, False)
        assert report.why.startswith("it is not on record: ")
        assert all(line.passed for line in report.lines)


@pytest.mark.requirement("T1")
async def test_what_a_drill_signs_is_nothing_to_the_hub(tmp_path: Path) -> None:
    async with new_hub(tmp_path) as hub:
        television = await hub.television()
        time = Timepiece(hub.clock.boot_id, hub.clock.boot(), hub.readings.wall())
        rig = Rig(tmp_path / "scratch.db", start, time, Appliance(time))
        _, envelope = rig.signed(ActionName.POWER, {"on": True})

        [admitted] = await hub.now.admission.admit([Arrival(envelope)])

        assert isinstance(admitted.verdict, Refuse)
        assert admitted.verdict.reason is Reason.BAD_SIGNATURE
        assert hub.rows("SELECT count(*) FROM inbox") == [(0,)]
        assert television.effects == []


async def test_what_the_hubs_issuers_sign_is_nothing_to_a_drill(tmp_path: Path) -> None:
    async with new_hub(tmp_path) as hub:
        time = Timepiece(hub.clock.boot_id, hub.clock.boot(), hub.readings.wall())
        appliance = Appliance(time)
        rig = Rig(tmp_path / "scratch.db", start, time, appliance)
        try:
            await rig.starts()

            [verdict] = await rig.admits(hub.signed(hub.command(POWER, device=APPLIANCE, on=True)))

            assert isinstance(verdict, Refuse)
            assert verdict.reason is Reason.BAD_SIGNATURE
            assert appliance.effects == []
        finally:
            await rig.ends()


async def test_log_lines_of_a_drill_name_it_and_those_of_the_hub_do_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines: list[str] = []

    class Kept(logging.Handler):
        @override
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(JsonFormatter().format(record))

    kept = Kept()
    caplog.set_level(logging.INFO, "edgeagent")
    logging.getLogger("edgeagent").addHandler(kept)
    try:
        async with drilled_hub(tmp_path) as hub:
            await hub.drills().drill(DrillKind.CRASH, ROOT)
            await hub.hub.admits("dev-1")
    finally:
        logging.getLogger("edgeagent").removeHandler(kept)

    admitted = [line for line in lines if '"device admitted"' in line]
    assert [('"drill": "crash"' in line, '"dev-1"' in line) for line in admitted] == [
        (True, False),
        (False, True),
    ]
    assert all('"drill": "crash"' in line for line in lines if "drill-appliance" in line)
