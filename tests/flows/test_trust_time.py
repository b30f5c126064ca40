"""The time: what proves it, how far it may be off, and how far one word may move what is certainly past."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from edgeagent.clock import BUILT_AT, ClockSource, ProvenClock
from edgeagent.contracts.door import encode
from edgeagent.contracts.timestatement import TIME_TYPE, TimeStatement
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.envelope import sign
from edgeagent.flows.trust import Trust, TrustSettings
from edgeagent.ids import HubId, hub_id
from edgeagent.ports import LinkError, TimeSource, Trouble
from edgeagent.store import audit, meta
from edgeagent.store.database import Database
from tests.flows.building import HUB, breathe, surroundings
from tests.flows.policies import signed_policy
from tests.support.clocks import NOON, LoopTime, ManualReadings
from tests.support.fake_cloud import FakeCloud
from tests.support.keys import MemoryKey
from tests.support.stores import full_disk, opened, query
from tests.support.waiting import eventually

VENUE, TIME = MemoryKey(), MemoryKey()
HOUR = timedelta(hours=1)
WEEK = timedelta(days=7)
SECOND = timedelta(seconds=1)
IN_1970 = datetime(1970, 1, 1, tzinfo=UTC)
LAST_DAY = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


@dataclass(slots=True)
class Statements:
    """Somebody who answers as the test says.

    Attributes:
        readings: the clocks that go on while an answer is on its way.
        key: who signs.
        hub: for whom.
        kind: of document.
        nonce: which question is answered; None for the one that was asked.
        says: the time that is signed; None for no answer.
        takes: how long an answer takes.
        asked: how often it was asked.
    """

    readings: ManualReadings
    key: MemoryKey = TIME
    hub: HubId = HUB
    kind: str = TIME_TYPE
    nonce: str | None = None
    says: datetime | None = NOON
    takes: timedelta = timedelta(0)
    asked: int = 0

    async def statement(self, nonce: str) -> bytes:
        """See ``TimeSource``."""
        self.asked += 1
        self.readings.passes(self.takes)
        if self.says is None:
            raise LinkError(Trouble.UNREACHABLE, "nobody answers")
        statement = TimeStatement(hub=self.hub, nonce=self.nonce or nonce, time=self.says)
        return sign(encode(statement), self.kind, [self.key])


class Believer:
    """A hub that wants to know the time: its clock, and a policy that names the key of the time.

    Attributes:
        readings: the kernel's clocks.
        clock: what it makes of them.
        trust: what it believes.
    """

    def __init__(
        self,
        store: Database,
        readings: ManualReadings,
        floor: datetime,
        *,
        chance: float = 0.5,
        refresh: timedelta = HOUR,
    ) -> None:
        self._store = store
        self._settings = TrustSettings(signer=VENUE.public, refresh=refresh)
        self._loop_time = LoopTime()
        self._chance = chance
        self._source: TimeSource | None = None
        self.readings = readings
        self.clock = ProvenClock(readings, floor=floor)
        self.trust = self._made()

    def asks(self, source: TimeSource) -> None:
        """Have it ask somebody."""
        self._source = source
        self.trust = self._made()

    @asynccontextmanager
    async def believes(self) -> AsyncIterator[None]:
        """Let it find out the time, and keep it proven."""
        await self.trust.load(signed_policy(VENUE, 1, time_key=TIME))
        task = asyncio.create_task(self.trust.run())
        try:
            yield
            assert not task.done(), task.result()
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def passes(self, length: timedelta) -> None:
        """Let time go on, when all that is due is done."""
        await self.breathes()
        self.readings.passes(length)
        self._loop_time.passes(length)

    async def breathes(self) -> None:
        """Let it do what is due."""
        await breathe(self._store)

    def _made(self) -> Trust:
        around = surroundings(self.clock, chance=lambda: self._chance)
        return Trust(self._store, self.clock, self._source, around, self._settings)


async def asked(statements: Statements, times: int) -> None:
    """Wait until the time was asked for so often."""
    await eventually(lambda: statements.asked == times)


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
        trust = Trust(store, clock, statements, surroundings(clock), TrustSettings(signer=VENUE.public))
        await trust.load(signed_policy(VENUE, 1))

        task = asyncio.create_task(trust.run())
        await breathe(store)
        task.cancel()

        assert statements.asked == 0

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


@pytest.mark.requirement("T6")
class TestWhatIsCertainlyPast:
    """The floor only rises, and no single word can raise it far."""

    async def test_one_word_raises_it_within_a_week(self, believer: Believer, store: Database) -> None:
        believer.asks(Statements(believer.readings))

        async with believer.believes():
            await eventually(lambda: believer.clock.floor > NOON - SECOND)
            await believer.breathes()

        assert await store.read(meta.time_floor) == believer.clock.floor

    async def test_one_word_does_not_raise_it_further(
        self, store: Database, readings: ManualReadings
    ) -> None:
        believer = Believer(store, readings, floor=NOON - WEEK - timedelta(days=1))
        believer.asks(Statements(readings))

        async with believer.believes():
            await eventually(lambda: believer.clock.wall().source is ClockSource.STATEMENT)
            await believer.breathes()

        assert believer.clock.floor == NOON - WEEK - timedelta(days=1)
        assert await store.read(meta.time_floor) is None

    async def test_two_words_that_agree_raise_it_as_far_as_they_say(
        self, store: Database, readings: ManualReadings
    ) -> None:
        believer = Believer(store, readings, floor=BUILT_AT)
        believer.asks(Statements(readings))
        readings.synchronises(NOON, timedelta(milliseconds=500))

        async with believer.believes():
            await eventually(lambda: believer.clock.floor > NOON - SECOND)

    @pytest.mark.parametrize("first", ["kernel", "statement"])
    async def test_two_words_that_disagree_do_not(
        self, store: Database, readings: ManualReadings, first: str
    ) -> None:
        """One of them lies, or its clock is wrong: what it says must not be past for good."""
        lie = datetime(2099, 1, 1, tzinfo=UTC)
        believer = Believer(store, readings, floor=BUILT_AT)
        statements = Statements(readings)
        believer.asks(statements)
        if first == "kernel":
            readings.synchronises(NOON, timedelta(milliseconds=500))
            statements.says = lie
        else:
            readings.synchronises(lie, timedelta(milliseconds=500))

        async with believer.believes():
            await eventually(lambda: statements.asked == 1)
            await believer.breathes()
            await believer.passes(HOUR)
            await eventually(lambda: statements.asked == 2)
            await believer.breathes()

        assert believer.clock.floor < NOON + WEEK

    async def test_one_word_does_not_raise_it_week_by_week(
        self, store: Database, readings: ManualReadings
    ) -> None:
        believer = Believer(store, readings, floor=NOON)
        statements = Statements(readings)
        believer.asks(statements)

        async with believer.believes():
            for week in range(1, 6):
                statements.says = NOON + week * timedelta(days=6)
                await asked(statements, week)
                await believer.breathes()
                await believer.passes(HOUR)

        assert believer.clock.floor <= NOON + WEEK

    async def test_it_is_written_once_an_hour_at_most(
        self, store: Database, readings: ManualReadings
    ) -> None:
        minute = timedelta(minutes=1)
        believer = Believer(store, readings, floor=NOON - timedelta(days=1), refresh=minute)
        statements = Statements(readings)
        believer.asks(statements)
        async with believer.believes():
            await asked(statements, 1)
            await believer.breathes()
            written = await store.read(meta.time_floor)

            for number in range(1, 60):
                statements.says = NOON + number * minute
                await believer.passes(minute)
                await asked(statements, number + 1)
                await believer.breathes()
            assert await store.read(meta.time_floor) == written
            statements.says = NOON + HOUR
            await believer.passes(minute)
            await asked(statements, 61)
            await believer.breathes()

        assert await store.read(meta.time_floor) == believer.clock.floor > NOON


@pytest.mark.requirement("R4", "T6")
@pytest.mark.parametrize("moment", [IN_1970, NOON - timedelta(days=400), NOON + timedelta(days=400)])
async def test_a_clock_that_somebody_sets_moves_nothing_once_the_time_is_proven(
    believer: Believer, moment: datetime
) -> None:
    statements = Statements(believer.readings)
    believer.asks(statements)
    async with believer.believes():
        await eventually(lambda: believer.clock.wall().source is ClockSource.STATEMENT)
        floor = believer.clock.floor
        statements.says = None

        believer.readings.is_set(moment)
        await believer.passes(HOUR)
        await believer.breathes()

        assert believer.clock.wall().best == NOON + HOUR
        assert floor <= believer.clock.floor <= NOON + HOUR


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
