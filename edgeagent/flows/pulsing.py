"""A desk at which whoever works is heard of: what the watchdog goes by in the lanes (SPEC R6).

    resting ──is given a command──> at work, at the desk every few seconds ──asks for the next──> resting
                                       └──not there for longer than anything takes──> stuck

A lane without a command rests for as long as there is none, and one whose device is away gives its command
back. Whoever has one comes to the desk every few seconds, however long the whole takes: to renew the lease,
to wait for an answer a little longer, to see how far a firmware is. One that comes no more has stopped in
between, or inside of the desk: its device goes to another one, and it itself would be gone for good.

It knows ports and the core only, so that the isolated worker can run it (DESIGN, floor 7).
"""

from collections.abc import Awaitable
from datetime import timedelta
from typing import Final, TypeVar

from edgeagent.clock import Clock
from edgeagent.contracts.mqtt import PublishResult
from edgeagent.contracts.policy import Level, Tier
from edgeagent.contracts.update import Stage
from edgeagent.core.firmware import Served, Sight, Update
from edgeagent.core.gate.world import World
from edgeagent.core.pulses import LONGEST, Pulses, Work
from edgeagent.core.saga import Mark
from edgeagent.core.work import Answered, Claim, Ending, Later, StepName
from edgeagent.ports.desk import WorkDesk

_AT_ONCE: Final = timedelta(0)

T = TypeVar("T")


class PulsingDesk:
    """A ``WorkDesk`` that takes note of when somebody has come to it last.

    Args:
        desk: does the work.
        pulses: hears of it.
        clock: time since boot.
    """

    def __init__(self, desk: WorkDesk, pulses: Pulses, clock: Clock) -> None:
        self._desk = desk
        self._pulses = pulses
        self._clock = clock
        self._works: dict[str, Work] = {}

    async def claim(self, lane: Tier, holder: str) -> Claim:
        """Wait for a command of a lane and lock its device; what its holder had before is over, somehow."""
        for token, work in list(self._works.items()):
            if work.flow == holder:
                self._pulses.end(self._works.pop(token))
        claim = await self._desk.claim(lane, holder)
        self._works[claim.token] = self._pulses.begin(holder, self._clock.boot() + LONGEST)
        return claim

    async def renew(self, claim: Claim) -> None:
        """Lengthen the lease."""
        await self._at(claim, self._desk.renew(claim))

    async def publish(self, claim: Claim, step: StepName, part: int = 0) -> PublishResult:
        """Send a step."""
        return await self._at(claim, self._desk.publish(claim, step, part))

    async def checkpoint(self, claim: Claim, mark: Mark) -> None:
        """Record what became of the part that is next."""
        await self._at(claim, self._desk.checkpoint(claim, mark))

    async def await_confirmation(self, claim: Claim, *, level: Level, within: timedelta) -> Answered:
        """Wait until the last step is proven to ``level``, denied, read back or over; at most so long."""
        return await self._at(claim, self._desk.await_confirmation(claim, level=level, within=within), within)

    async def read_device(self, claim: Claim) -> World:
        """What is known now of everything that the gate judges by."""
        return await self._at(claim, self._desk.read_device(claim))

    async def serve(self, claim: Claim) -> Served:
        """Have an update's file served to its device."""
        return await self._at(claim, self._desk.serve(claim))

    async def await_progress(self, claim: Claim, *, within: timedelta) -> Sight:
        """Wait until more is seen of an update; at most so long."""
        return await self._at(claim, self._desk.await_progress(claim, within=within), within)

    async def enter(self, claim: Claim, stage: Stage) -> Update:
        """Record which stage an update is at."""
        return await self._at(claim, self._desk.enter(claim, stage))

    async def finish(self, claim: Claim, ending: Ending) -> None:
        """End the command."""
        await self._at(claim, self._desk.finish(claim, ending))

    async def postpone(self, claim: Claim, later: Later) -> None:
        """Give the command back, to be taken up again later."""
        await self._at(claim, self._desk.postpone(claim, later))

    async def _at(self, claim: Claim, asked: Awaitable[T], within: timedelta = _AT_ONCE) -> T:
        self._goes_on(claim, within)
        try:
            return await asked
        finally:
            self._goes_on(claim, _AT_ONCE)

    def _goes_on(self, claim: Claim, within: timedelta) -> None:
        work = self._works.get(claim.token)
        if work is not None:
            work.until = self._clock.boot() + within + LONGEST
