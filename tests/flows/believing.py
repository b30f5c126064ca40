"""A hub that wants to know the time, and those who tell it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from edgeagent.clock import BUILT_AT, ProvenClock
from edgeagent.contracts.door import encode
from edgeagent.contracts.timestatement import TIME_TYPE, TimeStatement
from edgeagent.core.envelope import sign
from edgeagent.flows.timefloor import TimeFloor
from edgeagent.flows.timekeeping import Timekeeping, TimeSettings
from edgeagent.flows.trust import Trust, TrustSettings
from edgeagent.ids import HubId
from edgeagent.ports.cloud import TimeSource
from edgeagent.ports.links import LinkError, Trouble
from edgeagent.store.database import Database
from tests.flows.building import HUB, breathe, surroundings
from tests.flows.policies import signed_policy
from tests.support.clocks import NOON, LoopTime, ManualReadings
from tests.support.keys import MemoryKey
from tests.support.waiting import eventually

VENUE: Final = MemoryKey()
"""The key whose policies count."""
TIME: Final = MemoryKey()
"""The key whose word on the time counts, by that policy."""
HOUR: Final = timedelta(hours=1)


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
        floor: of time.
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
        issued_at: datetime = BUILT_AT,
    ) -> None:
        self._store = store
        self._settings = TimeSettings(refresh=refresh)
        self._loop_time = LoopTime()
        self._chance = chance
        self._issued_at = issued_at
        self._source: TimeSource | None = None
        self.readings = readings
        self.clock = ProvenClock(readings, floor=floor)
        self.floor = TimeFloor(store, self.clock)
        self._around = surroundings(self.clock, chance=lambda: self._chance)
        self.trust = Trust(store, self.clock, self._around, TrustSettings(signer=VENUE.public))

    def asks(self, source: TimeSource) -> None:
        """Have it ask somebody."""
        self._source = source

    @asynccontextmanager
    async def believes(self) -> AsyncIterator[None]:
        """Let it find out the time, and keep it proven."""
        await self.trust.load(signed_policy(VENUE, 1, time_key=TIME, issued_at=self._issued_at))
        task = asyncio.create_task(self._timekeeping().run())
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

    def _timekeeping(self) -> Timekeeping:
        return Timekeeping(self._store, self.floor, self._source, self.trust, self._around, self._settings)


async def asked(statements: Statements, times: int) -> None:
    """Wait until the time was asked for so often."""
    await eventually(lambda: statements.asked == times)
