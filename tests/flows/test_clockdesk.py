"""What a person at the hub may do about the time: say what it is, and set its floor back."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from edgeagent.clock import BUILT_AT, ClockSource, FloorSource, Proof
from edgeagent.contracts.reports.clock import ConfirmRequest, ResetFloorRequest
from edgeagent.core.audit_chain import AuditKind
from edgeagent.errors import RejectedError, StorageError
from edgeagent.store import meta
from edgeagent.store.floorfile import FloorFile
from tests.flows.building import HUB
from tests.flows.operating import OperatorDesk, operated_hub
from tests.support.clocks import NOON
from tests.support.stores import full_disk

DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)
SAYS = "uid:1000 ada"


def recorded(desk: OperatorDesk, kind: AuditKind) -> list[tuple[object, ...]]:
    """Who has done something of this kind, as the audit trail has it."""
    return desk.hub.rows(f"SELECT actor FROM audit WHERE kind = '{kind}'")  # noqa: S608 - constant text


def unproven(desk: OperatorDesk) -> None:
    """Let the time be unknown, the floor as it was."""
    desk.clock.reset_floor(desk.clock.floor)


@pytest.mark.requirement("T5")
class TestConfirming:
    """A person's word proves the time, within an error that is said with it."""

    async def test_a_typed_time_counts_within_its_error_and_is_on_record(self, tmp_path: Path) -> None:
        async with operated_hub(tmp_path) as desk:
            unproven(desk)
            told: list[ClockSource] = []
            desk.trust.when_proven(lambda: told.append(desk.clock.wall().source))

            clock = await desk.time.desk.confirm(ConfirmRequest(time=NOON + DAY, within=2 * MINUTE), SAYS)

            assert (clock.source, clock.best, clock.error) == (ClockSource.OPERATOR, NOON + DAY, 120.0)
            assert recorded(desk, AuditKind.CLOCK_CONFIRMED) == [(SAYS,)]
            assert told == [ClockSource.OPERATOR]

    async def test_without_a_time_the_kernels_clock_is_confirmed(self, tmp_path: Path) -> None:
        async with operated_hub(tmp_path) as desk:
            unproven(desk)

            clock = await desk.time.desk.confirm(ConfirmRequest(), SAYS)

            assert clock.best == clock.kernel == desk.clock.readings.wall()
            assert clock.error == 60.0

    @pytest.mark.parametrize("within", [timedelta(0), timedelta(milliseconds=1), timedelta(days=2)])
    def test_an_error_that_no_honest_person_makes_is_no_request(self, within: timedelta) -> None:
        with pytest.raises(ValueError, match="within 1s"):
            ConfirmRequest(time=NOON, within=within)

    @pytest.mark.parametrize(
        "moment",
        [
            pytest.param(NOON - 2 * DAY, id="certainly past"),
            pytest.param(datetime(1970, 1, 1, tzinfo=UTC), id="1970"),
            pytest.param(datetime(9999, 12, 31, tzinfo=UTC), id="the end of all days"),
        ],
    )
    async def test_a_time_that_cannot_be_is_refused_and_nothing_changes(
        self, tmp_path: Path, moment: datetime
    ) -> None:
        async with operated_hub(tmp_path) as desk:
            unproven(desk)
            floor = desk.clock.floor

            with pytest.raises(RejectedError):
                await desk.time.desk.confirm(ConfirmRequest(time=moment), SAYS)

            assert desk.clock.wall().source is ClockSource.NONE
            assert desk.clock.floor == floor
            assert recorded(desk, AuditKind.CLOCK_CONFIRMED) == []

    async def test_it_says_nothing_against_a_better_source(self, tmp_path: Path) -> None:
        async with operated_hub(tmp_path) as desk:
            with pytest.raises(RejectedError, match=r"known better.*statement"):
                await desk.time.desk.confirm(ConfirmRequest(time=NOON + DAY), SAYS)

            assert desk.clock.wall().best == desk.clock.readings.wall()
            assert recorded(desk, AuditKind.CLOCK_CONFIRMED) == []

    @pytest.mark.parametrize("differs", [timedelta(0), 30 * MINUTE], ids=["agrees", "contradicts"])
    async def test_a_better_source_wins_later_however_wide(self, tmp_path: Path, differs: timedelta) -> None:
        async with operated_hub(tmp_path) as desk:
            unproven(desk)
            await desk.time.desk.confirm(ConfirmRequest(time=NOON, within=timedelta(seconds=1)), SAYS)

            kernel = Proof(
                source=ClockSource.KERNEL,
                wall=NOON + differs,
                error=timedelta(seconds=5),
                at=desk.clock.boot(),
            )
            assert desk.time.timekeeping.heard(kernel)

            assert desk.clock.wall().source is ClockSource.KERNEL
            assert desk.clock.wall().best == NOON + differs

    @pytest.mark.requirement("T6")
    async def test_alone_it_raises_the_floor_by_a_week_at_most(self, tmp_path: Path) -> None:
        async with operated_hub(tmp_path) as desk:
            unproven(desk)
            floor = desk.clock.floor

            await desk.time.desk.confirm(ConfirmRequest(time=NOON + 30 * DAY), SAYS)
            far = desk.clock.floor
            unproven(desk)
            await desk.time.desk.confirm(ConfirmRequest(time=NOON + 5 * DAY), SAYS)

            assert far == floor
            assert desk.clock.floor == NOON + 5 * DAY - MINUTE
            assert desk.time.floor.source is FloorSource.OPERATOR

    async def test_what_cannot_be_put_on_record_does_not_count(self, tmp_path: Path) -> None:
        async with operated_hub(tmp_path) as desk:
            unproven(desk)
            with full_disk(tmp_path / "hub.db"), pytest.raises(StorageError):
                await desk.time.desk.confirm(ConfirmRequest(time=NOON), SAYS)

            assert desk.clock.wall().source is ClockSource.NONE


@pytest.mark.requirement("T6", "R4")
class TestSettingTheFloorBack:
    """After a clock was far ahead: a person sets it back, and it is on record."""

    async def test_it_goes_back_and_what_rested_on_it_is_forgotten(self, tmp_path: Path) -> None:
        async with operated_hub(tmp_path) as desk:
            before = desk.clock.floor

            clock = await desk.time.desk.reset_floor(ResetFloorRequest(), SAYS)

            assert (clock.floor, clock.floor_source) == (BUILT_AT, FloorSource.RESET)
            assert clock.source is ClockSource.NONE
            [(detail,)] = desk.hub.rows("SELECT detail FROM audit WHERE kind = 'floor_reset'")
            assert before.isoformat().replace("+00:00", "Z") in str(detail)
            assert recorded(desk, AuditKind.FLOOR_RESET) == [(SAYS,)]
            stored = await desk.hub.store.read(meta.time_floor)
            assert stored == meta.StoredFloor(BUILT_AT, FloorSource.RESET, 1)

    async def test_the_floor_file_knows_of_it_at_once(self, tmp_path: Path) -> None:
        """Or the next start would take the old floor from there."""
        async with operated_hub(tmp_path) as desk:
            await desk.time.desk.reset_floor(ResetFloorRequest(time=BUILT_AT + DAY), SAYS)

            mark = FloorFile(tmp_path, HUB).read()

            assert mark is not None
            assert (mark.time_floor, mark.floor_resets) == (BUILT_AT + DAY, 1)

    @pytest.mark.parametrize(
        "moment",
        [
            pytest.param(BUILT_AT - DAY, id="before the software was made"),
            pytest.param(NOON - DAY, id="where it is"),
            pytest.param(NOON + DAY, id="ahead"),
        ],
    )
    async def test_it_is_not_set_elsewhere_and_nothing_changes(
        self, tmp_path: Path, moment: datetime
    ) -> None:
        async with operated_hub(tmp_path) as desk:
            before, wall = desk.clock.floor, desk.clock.wall()

            with pytest.raises(RejectedError):
                await desk.time.desk.reset_floor(ResetFloorRequest(time=moment), SAYS)

            assert (desk.clock.floor, desk.clock.wall()) == (before, wall)
            assert recorded(desk, AuditKind.FLOOR_RESET) == []

    async def test_where_it_cannot_be_put_on_record_it_stays(self, tmp_path: Path) -> None:
        async with operated_hub(tmp_path) as desk:
            before = desk.clock.floor
            with full_disk(tmp_path / "hub.db"), pytest.raises(StorageError):
                await desk.time.desk.reset_floor(ResetFloorRequest(), SAYS)

            assert desk.clock.floor == before
            assert desk.clock.wall().source is ClockSource.STATEMENT

    async def test_a_kernel_that_is_right_and_behind_is_told_until_then(self, tmp_path: Path) -> None:
        async with operated_hub(tmp_path) as desk:
            desk.clock.raise_floor(NOON + 400 * DAY)
            right = Proof(
                source=ClockSource.KERNEL, wall=NOON, error=timedelta(seconds=1), at=desk.clock.boot()
            )

            assert not desk.time.timekeeping.heard(right)
            told = await desk.check("clock")
            shown = await desk.time.desk.clock()
            await desk.time.desk.reset_floor(ResetFloorRequest(), SAYS)

            assert "is past" in told.summary
            assert "reset-floor" in told.advice
            assert shown.kernel_is_behind
            assert desk.time.timekeeping.heard(right)
            assert (await desk.check("clock")).summary.startswith("known from kernel")
