"""The time: what proves it, how far it may be off, and when it is proven again."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from edgeagent.clock import ClockSource, ProvenClock
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.retry import BackoffRule
from edgeagent.flows.timefloor import TimeFloor
from edgeagent.flows.timekeeping import Timekeeping, TimeSettings
from edgeagent.flows.trust import Trust, TrustSettings
from edgeagent.ids import hub_id
from edgeagent.store import audit
from edgeagent.store.database import Database
from tests.flows.believing import HOUR, TIME, VENUE, Believer, Statements, asked
from tests.flows.building import HUB, breathe, surroundings
from tests.flows.policies import signed_policy
from tests.support.clocks import NOON, ManualReadings
from tests.support.fake_cloud import FakeCloud
from tests.support.keys import MemoryKey
from tests.support.stores import full_disk, opened, query
from tests.support.waiting import eventually

SECOND = timedelta(seconds=1)
IN_1970 = datetime(1970, 1, 1, tzinfo=UTC)
LAST_DAY = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


@pytest.fixture
def readings() -> ManualReadings:
    """The kernel's clocks, of which the kernel itself says nothing."""
    return ManualReadings()


@pytest.fixture
async def believer(store: Database, readings: ManualReadings) -> Believer:
    """A hub that was off since the day before yesterday."""
    return Believer(store, readings, floor=NOON - timedelta(days=2))


@pytest.mark.requirement("T5")
class TestWhatProvesTheTime:
    """The kernel's word, or a statement over our own nonce."""

    async def test_nothing_does_where_nobody_says(self, believer: Believer) -> None:
        async with believer.believes():
            await believer.breathes()

        assert believer.clock.wall().source is ClockSource.NONE

    async def test_the_kernels_word(self, believer: Believer) -> None:
        believer.readings.synchronises(NOON, timedelta(milliseconds=30))

        async with believer.believes():
            await eventually(lambda: believer.clock.wall().source is ClockSource.KERNEL)

        assert believer.clock.wall().best == NOON
        assert believer.clock.wall().error == timedelta(milliseconds=30)

    async def test_a_statement_is_right_to_half_of_its_round_trip(self, believer: Believer) -> None:
        statements = Statements(believer.readings, takes=4 * SECOND)
        believer.asks(statements)

        async with believer.believes():
            await eventually(lambda: believer.clock.wall().source is ClockSource.STATEMENT)

        wall = believer.clock.wall()
        assert wall.best == NOON + 2 * SECOND
        assert wall.error == 2 * SECOND + timedelta(milliseconds=1)

    async def test_the_real_clouds_statement(self, believer: Believer) -> None:
        believer.asks(FakeCloud(HUB, believer.clock, time_key=TIME))

        async with believer.believes():
            await eventually(lambda: believer.clock.wall().source is ClockSource.STATEMENT)

    @pytest.mark.parametrize(
        "wrong",
        [
            pytest.param(lambda clocks: Statements(clocks, key=MemoryKey()), id="another key"),
            pytest.param(lambda clocks: Statements(clocks, key=VENUE), id="a key for other things"),
            pytest.param(lambda clocks: Statements(clocks, hub=hub_id("venue-8")), id="for another hub"),
            pytest.param(lambda clocks: Statements(clocks, kind="application/json"), id="of another kind"),
            pytest.param(lambda clocks: Statements(clocks, nonce="0" * 32), id="to an earlier question"),
            pytest.param(lambda clocks: Statements(clocks, says=LAST_DAY), id="the end of all days"),
            pytest.param(lambda clocks: Statements(clocks, says=IN_1970), id="before what is past"),
        ],
    )
    async def test_a_statement_that_is_not_the_answer_proves_nothing(
        self, believer: Believer, wrong: Callable[[ManualReadings], Statements]
    ) -> None:
        statements = wrong(believer.readings)
        believer.asks(statements)

        async with believer.believes():
            await eventually(lambda: statements.asked)
            await believer.breathes()

            assert believer.clock.wall().source is ClockSource.NONE
            assert believer.clock.floor == NOON - timedelta(days=2)

    async def test_without_a_key_of_the_time_nobody_is_asked(
        self, store: Database, readings: ManualReadings
    ) -> None:
        statements = Statements(readings)
        clock = ProvenClock(readings)
        around = surroundings(clock)
        trust = Trust(store, clock, around, TrustSettings(signer=VENUE.public))
        timekeeping = Timekeeping(store, TimeFloor(store, clock), statements, trust, around, TimeSettings())
        await trust.load(signed_policy(VENUE, 1))

        task = asyncio.create_task(timekeeping.run())
        await breathe(store)
        task.cancel()

        assert statements.asked == 0

    async def test_who_tells_it_is_asked_as_soon_as_a_policy_says_who_that_is(
        self, store: Database, readings: ManualReadings
    ) -> None:
        statements, clock = Statements(readings), ProvenClock(readings)
        around = surroundings(clock)
        trust = Trust(store, clock, around, TrustSettings(signer=VENUE.public))
        settings = TimeSettings(backoff=BackoffRule(first=HOUR, longest=HOUR))
        timekeeping = Timekeeping(store, TimeFloor(store, clock), statements, trust, around, settings)
        trust.when_proven(timekeeping.policy_came)
        task = asyncio.create_task(timekeeping.run())
        await breathe(store)

        await trust.load(signed_policy(VENUE, 1))
        await breathe(store)
        before = statements.asked
        await trust.load(signed_policy(VENUE, 2, time_key=TIME))
        await eventually(lambda: clock.wall().source is ClockSource.STATEMENT)
        await breathe(store)
        task.cancel()

        assert (before, statements.asked) == (0, 1)

    async def test_it_is_put_on_record_once_and_whoever_waits_is_told(
        self, believer: Believer, store: Database
    ) -> None:
        statements = Statements(believer.readings)
        believer.asks(statements)
        told: list[ClockSource] = []
        believer.trust.when_proven(lambda: told.append(believer.clock.wall().source))

        async with believer.believes():
            await eventually(lambda: ClockSource.STATEMENT in told)
            statements.says = NOON + HOUR
            await believer.passes(HOUR)
            await eventually(lambda: statements.asked == 2)
            await believer.breathes()

        rows = await store.read(lambda db: audit.rows(db, after=0, most=10))
        assert [row.actor for row, _ in rows if row.kind == AuditKind.CLOCK_PROVEN] == ["statement"]
        assert told == [ClockSource.NONE, ClockSource.STATEMENT, ClockSource.STATEMENT]


@pytest.mark.requirement("E4")
class TestAskingAgain:
    """An hour after a proof, and soon after none."""

    async def test_a_proven_time_is_proven_again_each_hour(self, believer: Believer) -> None:
        statements = Statements(believer.readings)
        believer.asks(statements)
        async with believer.believes():
            await eventually(lambda: believer.clock.wall().source is ClockSource.STATEMENT)
            await believer.passes(HOUR - SECOND * 60)
            await believer.breathes()
            assert statements.asked == 1

            await believer.passes(SECOND * 60)
            await eventually(lambda: statements.asked == 2)

    async def test_where_nobody_answers_it_waits_longer_and_longer_up_to_two_minutes(
        self, store: Database, readings: ManualReadings
    ) -> None:
        believer = Believer(store, readings, NOON, chance=0.999)
        statements = Statements(readings, says=None)
        believer.asks(statements)
        async with believer.believes():
            for tries in range(1, 12):
                await asked(statements, tries)
                await believer.passes(120 * SECOND)
            await eventually(lambda: statements.asked == 12)

            statements.says = NOON
            await believer.passes(120 * SECOND)
            await eventually(lambda: believer.clock.wall().source is ClockSource.STATEMENT)


@pytest.mark.requirement("R2")
async def test_a_full_disk_does_not_keep_the_time_from_being_known(
    tmp_path: Path, readings: ManualReadings
) -> None:
    """That it is goes on record when the disk takes it."""
    path = tmp_path / "hub.db"
    async with opened(path) as store:
        believer = Believer(store, readings, floor=NOON - timedelta(days=2))
        believer.asks(Statements(readings))
        await believer.trust.load(signed_policy(VENUE, 1, time_key=TIME))
        async with believer.believes():
            with full_disk(path):
                await eventually(lambda: believer.clock.wall().source is ClockSource.STATEMENT)
                await believer.breathes()
            assert query(path, "SELECT 1 FROM audit WHERE kind = 'clock_proven'") == []

            await believer.passes(120 * SECOND)
            await eventually(lambda: query(path, "SELECT 1 FROM meta WHERE name = 'time_floor'"))

        assert query(path, "SELECT actor FROM audit WHERE kind = 'clock_proven'") == [("statement",)]
