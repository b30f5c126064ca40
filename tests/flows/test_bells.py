"""Waking whoever waits for work: no ring is lost, nobody is woken for nothing (SPEC Q9)."""

import asyncio
from datetime import timedelta

import pytest

from edgeagent.contracts.event import Stream
from edgeagent.flows.bells import Bell, OutboxBell
from tests.support.clocks import LoopTime

pytestmark = pytest.mark.requirement("Q9")

HOUR = timedelta(hours=1)


async def turns() -> None:
    """Let everybody who is awake go on."""
    for _ in range(5):
        await asyncio.sleep(0)


class TestBell:
    """One ring wakes one waiter."""

    async def test_a_ring_that_nobody_waits_for_is_kept(self) -> None:
        bell = Bell()
        bell.ring()
        bell.ring()

        await bell.wait(None)
        second = asyncio.create_task(bell.wait(None))
        await turns()

        assert not second.done()
        second.cancel()

    async def test_each_ring_wakes_one_of_those_who_wait(self) -> None:
        bell = Bell()
        waiters = [asyncio.create_task(bell.wait(None)) for _ in range(3)]
        await turns()

        bell.ring()
        await turns()
        assert [waiter.done() for waiter in waiters].count(True) == 1
        bell.ring()
        await turns()

        assert [waiter.done() for waiter in waiters].count(True) == 2
        for waiter in waiters:
            waiter.cancel()

    async def test_it_is_waited_for_no_longer_than_allowed(self) -> None:
        bell, time = Bell(), LoopTime()
        waiter = asyncio.create_task(bell.wait(HOUR))
        await turns()

        time.passes(HOUR)
        await waiter

    async def test_a_time_that_is_over_is_no_time(self) -> None:
        await Bell().wait(-HOUR)


class TestOutboxBell:
    """Enough of them, or one that does not wait."""

    async def test_nothing_stored_wakes_nobody_however_long(self) -> None:
        bell, time = OutboxBell(), LoopTime()
        waiter = asyncio.create_task(bell.wait(HOUR))
        await turns()

        time.passes(10 * HOUR)
        await turns()

        assert not waiter.done()
        waiter.cancel()

    async def test_an_event_waits_for_the_linger(self) -> None:
        bell, time = OutboxBell(), LoopTime()
        waiter = asyncio.create_task(bell.wait(HOUR))
        bell.stored({Stream.STATE}, 1)
        await turns()
        assert not waiter.done()

        time.passes(HOUR)
        await waiter

    async def test_a_full_batch_waits_no_longer_however_it_grew(self) -> None:
        bell = OutboxBell()
        bell.batch = 3
        bell.stored({Stream.STATE}, 1)
        waiter = asyncio.create_task(bell.wait(HOUR))
        await turns()

        bell.stored({Stream.TELEMETRY}, 2)
        await waiter
        # And what was counted does not count again.
        bell.stored({Stream.STATE}, 1)
        second = asyncio.create_task(bell.wait(HOUR))
        await turns()

        assert not second.done()
        second.cancel()

    async def test_a_record_waits_for_nobody(self) -> None:
        bell = OutboxBell()
        bell.stored({Stream.STATE, Stream.RECORD}, 2)

        await bell.wait(HOUR)

    async def test_everybody_who_waits_for_a_record_is_woken(self) -> None:
        bell = OutboxBell()
        waiters = [asyncio.create_task(bell.next_record(HOUR)) for _ in range(3)]
        await turns()

        bell.stored({Stream.STATE}, 1)
        await turns()
        assert not any(waiter.done() for waiter in waiters)
        bell.stored({Stream.RECORD}, 1)
        await asyncio.gather(*waiters)

    async def test_a_record_is_waited_for_no_longer_than_allowed(self) -> None:
        bell, time = OutboxBell(), LoopTime()
        waiter = asyncio.create_task(bell.next_record(HOUR))
        await turns()

        time.passes(HOUR)
        await waiter
        await bell.next_record(-HOUR)
