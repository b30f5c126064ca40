"""Waiting for what devices answer: who is told of what, and for how long."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from edgeagent.contracts.mqtt import Inbound, Session
from edgeagent.contracts.policy import Level
from edgeagent.core.confirmation import (
    Answer,
    Confirmed,
    Contradicted,
    Denied,
    Echo,
    Expectation,
    Refusal,
    Wish,
)
from edgeagent.core.profile.decode import Decoded
from edgeagent.flows.confirmations import Confirmations, Waiter
from edgeagent.ids import DeviceId, ReadingName, Topic
from tests.support.clocks import ManualClock
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("M2")

LAMP, OTHER = DeviceId("lamp-1"), DeviceId("lamp-2")
POWER = ReadingName("power")
COMMANDS, STATE, SAID = Topic("lamp-1/set"), Topic("lamp-1/state"), Topic("lamp-1/said")
ON = Wish(POWER, value=True)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)

ECHO = Echo(reading=POWER, topics=frozenset({STATE}), wish=ON, level=Level.APPLIED)
YES = Answer(topic=SAID, tests=(), correlate=None, number=7)
NUMBERED = Answer(
    topic=SAID,
    tests=(),
    correlate=lambda document: document["id"] if isinstance(document, dict) else None,
    number=7,
    level=Level.APPLIED,
)
SWITCH_ON = Expectation(published=COMMANDS, answers=(YES,), echoes=(ECHO,), within=4 * SECOND)
READ = Expectation(published=Topic("lamp-1/get"), answers=(replace(YES, topic=STATE),), within=4 * SECOND)


@pytest.fixture
def clock() -> ManualClock:
    """Time that stands still."""
    return ManualClock()


@pytest.fixture
def confirmations(clock: ManualClock) -> Confirmations:
    """Nobody waits yet."""
    return Confirmations(clock)


def says(
    clock: ManualClock, topic: str, *, on: bool | None = None, number: int | None = None, retain: bool = False
) -> tuple[Inbound, Decoded]:
    """A message of the lamp that is heard a little later."""
    clock.passes(timedelta(milliseconds=5))
    heard = clock.boot() // timedelta(microseconds=1) * 1000
    message = Inbound(Session.CONTROL, 1, topic, b"", 1, retain, dup=False, packet_id=1, heard=heard)
    readings = [] if on is None else [(POWER, on)]
    return message, Decoded(readings=list(readings), document={"id": number})


def waiting(confirmations: Confirmations, clock: ManualClock, expectation: Expectation = SWITCH_ON) -> Waiter:
    """Somebody who waits, its message just sent."""
    waiter = confirmations.open(LAMP, expectation)
    waiter.sending(clock.boot())
    return waiter


def late(confirmations: Confirmations, waiter: Waiter, needed: Level = Level.APPLIED) -> list[Confirmed]:
    """What is told of a command that has ended as unknown."""
    told: list[Confirmed] = []
    confirmations.close(waiter)
    confirmations.keep_late(1, waiter, needed, told.append)
    return told


# In time.


async def test_each_who_waits_for_a_device_is_told_of_its_messages_and_nobody_else(
    confirmations: Confirmations, clock: ManualClock
) -> None:
    one, two = waiting(confirmations, clock), waiting(confirmations, clock)
    other = confirmations.open(OTHER, SWITCH_ON)
    other.sending(clock.boot())

    confirmations.offer(LAMP, *says(clock, STATE, on=True))

    assert one.progress.confirmed == two.progress.confirmed == Confirmed(Level.APPLIED, value=True)
    assert other.progress.confirmed is None


async def test_when_nothing_better_can_come_the_effect_is_waited_for_and_no_answer(
    confirmations: Confirmations, clock: ManualClock
) -> None:
    hopes = replace(SWITCH_ON, echoes=(replace(ECHO, level=Level.ACCEPTED),), within=MINUTE, settles=SECOND)
    waiter = waiting(confirmations, clock, hopes)
    assert (waiter.is_settling, waiter.left(clock.boot())) == (False, MINUTE)

    confirmations.offer(LAMP, *says(clock, STATE, on=True))

    assert (waiter.is_settling, waiter.left(clock.boot())) == (True, SECOND)
    clock.passes(SECOND)
    assert waiter.left(clock.boot()) == timedelta(0)


async def test_while_something_better_can_come_the_whole_time_is_waited(
    confirmations: Confirmations, clock: ManualClock
) -> None:
    waiter = waiting(confirmations, clock, replace(SWITCH_ON, within=MINUTE, settles=SECOND))

    confirmations.offer(LAMP, *says(clock, SAID, number=7))

    assert waiter.progress.confirmed == Confirmed(Level.ACCEPTED)
    assert not waiter.is_settling
    assert waiter.left(clock.boot()) > 50 * SECOND


async def test_what_was_heard_before_the_message_left_is_no_answer(
    confirmations: Confirmations, clock: ManualClock
) -> None:
    waiter = confirmations.open(LAMP, SWITCH_ON)
    waiter.know({})
    before = says(clock, STATE, on=True)
    confirmations.offer(LAMP, *before)
    waiter.sending(clock.boot())

    confirmations.offer(LAMP, *before)

    assert waiter.progress.confirmed is None
    assert waiter.progress.before == {POWER: True}
    assert not waiter.is_answered


@pytest.mark.parametrize(
    ("topic", "retain"),
    [pytest.param(STATE, True, id="retained"), pytest.param(COMMANDS, False, id="our own")],
)
async def test_a_retained_message_or_our_own_is_no_answer(
    confirmations: Confirmations,
    clock: ManualClock,
    topic: str,
    retain: bool,  # noqa: FBT001 - a column of the table
) -> None:
    waiter = waiting(confirmations, clock)

    confirmations.offer(LAMP, *says(clock, topic, on=True, retain=retain))

    assert waiter.progress.confirmed is None


async def test_an_answer_stirs_who_waits_and_another_message_does_not_end_the_wait(
    confirmations: Confirmations, clock: ManualClock
) -> None:
    waiter = waiting(confirmations, clock)
    wait = asyncio.create_task(waiter.until(lambda: waiter.progress.confirmed is not None, MINUTE))
    confirmations.offer(LAMP, *says(clock, STATE, on=False))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not wait.done()

    confirmations.offer(LAMP, *says(clock, STATE, on=True))
    await eventually(wait.done)

    assert await wait is True


async def test_a_wait_that_is_over_says_whether_it_was_enough(
    confirmations: Confirmations, clock: ManualClock
) -> None:
    waiter = waiting(confirmations, clock)

    assert await waiter.until(lambda: False, timedelta(0)) is False
    assert await waiter.until(lambda: True, timedelta(0)) is True
    assert await waiter.until(lambda: False, -SECOND) is False


async def test_the_time_of_a_step_counts_from_when_it_was_sent(
    confirmations: Confirmations, clock: ManualClock
) -> None:
    waiter = confirmations.open(LAMP, SWITCH_ON)
    clock.passes(MINUTE)
    assert waiter.left(clock.boot()) == 4 * SECOND
    waiter.sending(clock.boot())

    clock.passes(3 * SECOND)
    assert waiter.left(clock.boot()) == SECOND
    clock.passes(MINUTE)
    assert waiter.left(clock.boot()) == timedelta(0)


@pytest.mark.parametrize(("shows", "expected"), [(True, Confirmed), (False, Contradicted)])
async def test_reading_back_takes_the_first_answer_that_holds_the_reading(
    confirmations: Confirmations,
    clock: ManualClock,
    shows: bool,  # noqa: FBT001 - a column of the table
    expected: type[Confirmed | Contradicted],
) -> None:
    waiter = confirmations.open(LAMP, READ, ON)
    waiter.sending(clock.boot())
    confirmations.offer(LAMP, *says(clock, STATE))
    assert waiter.seen is None
    assert waiter.is_answered

    confirmations.offer(LAMP, *says(clock, STATE, on=shows))
    confirmations.offer(LAMP, *says(clock, STATE, on=not shows))

    assert isinstance(waiter.seen, expected)


async def test_a_device_that_says_no_is_believed_unless_its_effect_was_seen(
    confirmations: Confirmations, clock: ManualClock
) -> None:
    refusing = replace(SWITCH_ON, answers=(), refusals=(Refusal(answer=YES),))
    nothing_seen = waiting(confirmations, clock, refusing)
    confirmations.offer(LAMP, *says(clock, SAID))
    effect_seen = waiting(confirmations, clock, refusing)
    confirmations.offer(LAMP, *says(clock, STATE, on=True))
    confirmations.offer(LAMP, *says(clock, SAID))

    assert isinstance(nothing_seen.progress.denied, Denied)
    assert effect_seen.progress.denied is None


async def test_somebody_is_expected_until_the_last_one_has_gone(
    confirmations: Confirmations, clock: ManualClock
) -> None:
    one, two = waiting(confirmations, clock), waiting(confirmations, clock)

    confirmations.close(one)
    confirmations.close(one)
    assert confirmations.expects(LAMP)
    confirmations.close(two)

    assert not confirmations.expects(LAMP)
    assert not confirmations.expects(OTHER)


# Late.


async def test_a_late_proof_is_told_once(confirmations: Confirmations, clock: ManualClock) -> None:
    told = late(confirmations, waiting(confirmations, clock))
    assert confirmations.expects(LAMP)

    confirmations.offer(LAMP, *says(clock, SAID))
    assert told == []
    for _ in range(3):
        confirmations.offer(LAMP, *says(clock, STATE, on=True))

    assert told == [Confirmed(Level.APPLIED, value=True)]
    assert not confirmations.expects(LAMP)


async def test_a_proof_that_came_while_the_end_was_written_is_told_at_once(
    confirmations: Confirmations, clock: ManualClock
) -> None:
    waiter = waiting(confirmations, clock)
    confirmations.offer(LAMP, *says(clock, STATE, on=True))

    assert late(confirmations, waiter) == [Confirmed(Level.APPLIED, value=True)]
    assert not confirmations.expects(LAMP)


async def test_less_than_was_needed_is_not_told(confirmations: Confirmations, clock: ManualClock) -> None:
    told = late(confirmations, waiting(confirmations, clock), Level.VERIFIED)

    confirmations.offer(LAMP, *says(clock, STATE, on=True))

    assert told == []


async def test_after_a_quarter_of_an_hour_nobody_listens(
    confirmations: Confirmations, clock: ManualClock
) -> None:
    told = late(confirmations, waiting(confirmations, clock))
    clock.passes(15 * MINUTE)

    confirmations.offer(LAMP, *says(clock, STATE, on=True))

    assert told == []
    assert not confirmations.expects(LAMP)


async def test_once_another_command_is_sent_only_what_carries_the_number_is_a_late_proof(
    confirmations: Confirmations, clock: ManualClock
) -> None:
    expectation = replace(SWITCH_ON, answers=(YES, NUMBERED))
    told = late(confirmations, waiting(confirmations, clock, expectation))
    confirmations.narrow_late(OTHER)
    confirmations.narrow_late(LAMP)

    confirmations.offer(LAMP, *says(clock, STATE, on=True))
    confirmations.offer(LAMP, *says(clock, SAID, number=8))
    assert told == []
    confirmations.offer(LAMP, *says(clock, SAID, number=7))

    assert told == [Confirmed(Level.APPLIED)]


@pytest.mark.requirement("R7")
async def test_of_many_that_are_late_the_oldest_are_given_up(
    confirmations: Confirmations, clock: ManualClock
) -> None:
    told: list[int] = []
    for run in range(100):
        waiter = waiting(confirmations, clock)
        confirmations.close(waiter)
        confirmations.keep_late(run, waiter, Level.APPLIED, lambda _, run=run: told.append(run))  # type: ignore[misc]

    confirmations.offer(LAMP, *says(clock, STATE, on=True))

    assert told == list(range(36, 100))


async def test_who_wants_to_know_of_comings_is_told(confirmations: Confirmations) -> None:
    told: list[str] = []
    confirmations.when_online(told.append)
    confirmations.when_back(lambda: told.append("back"))

    confirmations.came_online(LAMP)
    confirmations.link_is_up()

    assert told == [LAMP, "back"]
