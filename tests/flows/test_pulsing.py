"""A lane that does not come back is noticed, and one that waits for the world is not (SPEC R6)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from edgeagent.contracts.policy import Level, Tier
from edgeagent.core.lifecycle import State
from edgeagent.core.pulses import LONGEST
from edgeagent.core.work import StepName
from edgeagent.errors import LostRaceError
from edgeagent.flows.dispatch import Dispatch
from edgeagent.flows.pulsing import PulsingDesk
from tests.flows.commanding import Hub, new_hub
from tests.flows.signing import MINUTE, POWER, SECOND
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("R6")


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub that has just started."""
    async with new_hub(tmp_path) as made:
        yield made


def seen(hub: Hub) -> PulsingDesk:
    """The desk of the lanes."""
    return PulsingDesk(hub.now.desk, hub.now.around.pulses, hub.clock)


def stuck(hub: Hub) -> str | None:
    """Who is stuck, by what the watchdog asks."""
    found = hub.now.around.pulses.stuck(hub.clock.boot())
    return None if found is None else found.flow


@asynccontextmanager
async def lane(hub: Hub) -> AsyncIterator[None]:
    """One that works the commands of a lane, as the agent runs it."""
    around = hub.now.around
    dispatch = Dispatch(seen(hub), Tier.LOW, hub.clock, around.chance, around.metrics)
    working = asyncio.create_task(dispatch.run("low-1"))
    try:
        yield
        assert not working.done()
    finally:
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working


async def test_a_lane_waits_for_a_command_and_for_a_device_for_as_long_as_it_takes(hub: Hub) -> None:
    tv = await hub.television()
    async with lane(hub):
        await hub.breathes()
        hub.passes(100 * LONGEST)
        assert stuck(hub) is None

        tv.goes_offline()
        await hub.settles()
        command = hub.command(POWER, on=True)
        await hub.admits(command)
        await eventually(lambda: hub.rows("SELECT state FROM inbox") == [(State.WAITING,)])
        hub.passes(10 * LONGEST)
        await hub.breathes()

        assert stuck(hub) is None


async def test_work_that_gets_on_may_last_for_hours_and_is_missed_when_it_does_not(hub: Hub) -> None:
    await hub.television()
    await hub.admits(hub.command(POWER, on=True))
    desk = seen(hub)
    claim = await desk.claim(Tier.LOW, "low-1")
    await desk.publish(claim, StepName.ACT)
    for _ in range(40):
        await desk.await_confirmation(claim, level=Level.VERIFIED, within=claim.lease / 3)
        await desk.renew(claim)
        hub.passes(claim.lease / 2)
        assert stuck(hub) is None

    hub.passes(LONGEST)
    assert stuck(hub) == "low-1"

    # What becomes of it then is no more its business: it has lost its lock, and asks for the next.
    with pytest.raises(LostRaceError):
        await desk.renew(claim)
    assert stuck(hub) is None
    hub.passes(2 * LONGEST)
    assert stuck(hub) == "low-1"
    asking = asyncio.create_task(desk.claim(Tier.LOW, "low-1"))
    await eventually(lambda: stuck(hub) is None)
    asking.cancel()


async def test_one_that_hangs_with_a_command_is_named_and_the_others_are_not(hub: Hub) -> None:
    await hub.television()
    async with lane(hub):
        hub.bus.says_nothing = True
        await hub.admits(hub.command(POWER, on=True))
        await eventually(lambda: hub.bus.published)
        hub.passes(LONGEST - SECOND)
        assert stuck(hub) is None

        hub.passes(MINUTE)
        assert stuck(hub) == "low-1"


async def test_a_desk_that_does_not_come_back_from_claiming_is_missed(hub: Hub) -> None:
    go = asyncio.Event()

    async def hangs() -> None:
        await go.wait()

    hub.now.desk.updates.let_go_of_ended = hangs  # type: ignore[method-assign] # in place of a mistake of ours
    claiming = asyncio.create_task(hub.now.desk.claim(Tier.LOW, "low-1"))
    await hub.breathes()
    hub.passes(LONGEST + SECOND)

    assert stuck(hub) == "desk"
    go.set()
    await eventually(lambda: stuck(hub) is None)
    claiming.cancel()
