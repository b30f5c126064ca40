"""The floor of time: what is certainly past only grows, and no single word can raise it far."""

from datetime import UTC, datetime, timedelta

import pytest

from edgeagent.clock import BUILT_AT, ClockSource, FloorSource
from edgeagent.store import meta
from edgeagent.store.database import Database
from tests.flows.believing import HOUR, Believer, Statements, asked
from tests.support.clocks import NOON, ManualReadings
from tests.support.waiting import eventually

WEEK = timedelta(days=7)
SECOND = timedelta(seconds=1)
IN_1970 = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.fixture
def readings() -> ManualReadings:
    """The kernel's clocks, of which the kernel itself says nothing."""
    return ManualReadings()


@pytest.fixture
async def believer(store: Database, readings: ManualReadings) -> Believer:
    """A hub that was off since the day before yesterday."""
    return Believer(store, readings, floor=NOON - timedelta(days=2))


async def written_floor(store: Database) -> datetime | None:
    """The moment on the disk."""
    stored = await store.read(meta.time_floor)
    return None if stored is None else stored.moment


@pytest.mark.requirement("T6")
class TestWhatIsCertainlyPast:
    """The floor only rises, and no single word can raise it far."""

    async def test_one_word_raises_it_within_a_week(self, believer: Believer, store: Database) -> None:
        believer.asks(Statements(believer.readings))

        async with believer.believes():
            await eventually(lambda: believer.clock.floor > NOON - SECOND)
            await believer.breathes()

        assert await written_floor(store) == believer.clock.floor

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

    async def test_the_kernels_word_raises_it_when_it_was_given_twice_an_hour_apart(
        self, believer: Believer
    ) -> None:
        believer.readings.synchronises(NOON, SECOND)
        floor = believer.clock.floor
        async with believer.believes():
            await eventually(lambda: believer.clock.wall().source is ClockSource.KERNEL)
            await believer.breathes()
            assert believer.clock.floor == floor

            await believer.passes(HOUR)
            await eventually(lambda: believer.clock.floor > NOON)

        assert believer.floor.source is FloorSource.KERNEL

    async def test_a_kernel_that_was_set_in_between_has_to_say_it_again(self, believer: Believer) -> None:
        believer.readings.synchronises(NOON, SECOND)
        floor = believer.clock.floor
        async with believer.believes():
            await eventually(lambda: believer.clock.wall().source is ClockSource.KERNEL)
            await believer.breathes()
            believer.readings.is_set(NOON + HOUR)
            await believer.passes(HOUR)
            await eventually(lambda: believer.clock.wall().best > NOON + HOUR)
            await believer.breathes()
            assert believer.clock.floor == floor

            await believer.passes(HOUR)
            await eventually(lambda: believer.clock.floor > NOON + HOUR)

    async def test_a_policy_that_was_issued_lately_is_a_second_word(
        self, store: Database, readings: ManualReadings
    ) -> None:
        believer = Believer(store, readings, BUILT_AT, issued_at=NOON - timedelta(days=2))
        believer.asks(Statements(readings))

        async with believer.believes():
            await eventually(lambda: believer.clock.floor > NOON - SECOND)

    async def test_a_policy_alone_raises_it_within_a_week(
        self, store: Database, readings: ManualReadings
    ) -> None:
        near = Believer(store, readings, BUILT_AT, issued_at=BUILT_AT + timedelta(days=6))
        async with near.believes():
            await eventually(lambda: near.clock.floor == BUILT_AT + timedelta(days=6))
        assert near.floor.source is FloorSource.POLICY

    async def test_a_policy_alone_raises_it_no_further(
        self, store: Database, readings: ManualReadings
    ) -> None:
        far = Believer(store, readings, BUILT_AT, issued_at=NOON + timedelta(days=400))
        async with far.believes():
            await far.breathes()
        assert far.clock.floor == BUILT_AT

    async def test_starting_again_in_the_same_boot_gives_one_word_no_further_week(
        self, store: Database, readings: ManualReadings
    ) -> None:
        """Or somebody whose clock is wrong expires everything by restarting the agent."""
        floor = NOON
        for start in range(1, 5):
            believer = Believer(store, readings, floor=floor)
            believer.asks(Statements(readings, says=NOON + start * timedelta(days=6)))
            async with believer.believes():
                await eventually(lambda: believer.clock.wall().source is ClockSource.STATEMENT)  # noqa: B023 - called at once
                await believer.breathes()
            await believer.floor.keep(at_once=True)
            floor = believer.clock.floor

        assert NOON < floor <= NOON + WEEK

    async def test_in_another_boot_it_may_have_been_off_for_a_week(
        self, store: Database, readings: ManualReadings
    ) -> None:
        first = Believer(store, readings, floor=NOON)
        first.asks(Statements(readings, says=NOON + timedelta(days=6)))
        async with first.believes():
            await eventually(lambda: first.clock.floor > NOON)
            await first.breathes()

        readings.reboots()
        again = Believer(store, readings, floor=first.clock.floor)
        again.asks(Statements(readings, says=NOON + timedelta(days=12)))
        async with again.believes():
            await eventually(lambda: again.clock.floor > NOON + timedelta(days=11))

    async def test_what_is_past_by_then_is_written_when_the_agent_stops(
        self, store: Database, readings: ManualReadings
    ) -> None:
        believer = Believer(store, readings, floor=NOON - timedelta(days=1))
        believer.asks(Statements(readings))
        async with believer.believes():
            await eventually(lambda: believer.clock.floor > NOON - SECOND)
            await believer.breathes()
        readings.passes(timedelta(minutes=50))

        await believer.floor.keep(at_once=True)

        written = await written_floor(store)
        assert written is not None
        assert written > NOON + timedelta(minutes=49)

    async def test_suspend_counts_as_time(self, store: Database, readings: ManualReadings) -> None:
        """Boot time goes on while nothing runs: what was proven before holds, only wider."""
        believer = Believer(store, readings, floor=NOON - timedelta(days=1))
        believer.asks(Statements(readings))
        async with believer.believes():
            await eventually(lambda: believer.clock.wall().source is ClockSource.STATEMENT)
            readings.passes(timedelta(days=2))

            wall = believer.clock.wall()

        assert wall.best == NOON + timedelta(days=2)
        assert wall.error is not None
        assert timedelta(seconds=86) < wall.error < timedelta(seconds=88)

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
            written = await written_floor(store)

            for number in range(1, 60):
                statements.says = NOON + number * minute
                await believer.passes(minute)
                await asked(statements, number + 1)
                await believer.breathes()
            assert await written_floor(store) == written
            statements.says = NOON + HOUR
            await believer.passes(minute)
            await asked(statements, 61)
            await believer.breathes()

        assert await written_floor(store) == believer.clock.floor > NOON


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
