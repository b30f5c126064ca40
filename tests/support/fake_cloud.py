"""A cloud in memory, for tests of flows. It keeps the promises of the real queue, and breaks on request.

``FakeCloud`` is an ``EventSink``, a ``CommandSource`` and a ``TimeSource``; the suite in
``tests/adapters/test_cloud_contract.py`` holds it and the real adapter to the same promises.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from edgeagent.clock import Clock
from edgeagent.contracts.door import encode
from edgeagent.contracts.event import Stream
from edgeagent.contracts.timestatement import TIME_TYPE, TimeStatement
from edgeagent.core.envelope import Signer, sign
from edgeagent.errors import RejectedError
from edgeagent.ids import Epoch, HubId
from edgeagent.ports.cloud import Acknowledged, Batch, Delivery
from edgeagent.ports.links import LinkError, Trouble


@dataclass(slots=True)
class _Queued:
    """A command in the queue, and its loan."""

    envelope: bytes
    handle: str | None = None
    until: timedelta = timedelta(0)
    acknowledged: bool = False
    traceparent: str | None = None


class FakeCloud:
    """The far side of a hub.

    Attributes:
        stored: every event that it holds, by epoch, stream and number.
        uploads: how many uploads reached it.
    """

    def __init__(self, hub: HubId, clock: Clock, *, time_key: Signer | None = None) -> None:
        self._hub = hub
        self._clock = clock
        self._time_key = time_key
        self._queue: list[_Queued] = []
        self._changed = asyncio.Event()
        self._down: LinkError | None = None
        self._answers_to_lose = 0
        self._poison: dict[tuple[Stream, int], str] = {}
        self._most_events: int | None = None
        self._says: datetime | None = None
        self._handles = 0
        self.stored: dict[tuple[Epoch, Stream, int], bytes] = {}
        self.uploads = 0

    def goes_down(
        self, trouble: Trouble = Trouble.UNREACHABLE, *, retry_after: timedelta | None = None
    ) -> None:
        """From now on nothing reaches it."""
        self._down = LinkError(trouble, "the cloud is down", retry_after)
        self._changed.set()

    def comes_back(self) -> None:
        """It can be reached again."""
        self._down = None

    def loses_answers(self, count: int = 1) -> None:
        """The next requests are carried out, but their answers are lost."""
        self._answers_to_lose += count

    def refuses(self, stream: Stream, number: int, reason: str = "malformed: poison") -> None:
        """It will never take this event."""
        self._poison[stream, number] = reason

    def takes_at_most(self, events: int) -> None:
        """Larger batches are refused as a whole."""
        self._most_events = events

    def offers(self, envelope: bytes, traceparent: str | None = None) -> None:
        """Put a command in the queue."""
        self._queue.append(_Queued(envelope, traceparent=traceparent))
        self._changed.set()

    def says_it_is(self, moment: datetime) -> None:
        """Sign this time, whatever the clock says."""
        self._says = moment

    @property
    def waiting(self) -> list[bytes]:
        """The commands that are not acknowledged, lent or not."""
        return [queued.envelope for queued in self._queue if not queued.acknowledged]

    def numbers(self, stream: Stream) -> list[int]:
        """The numbers of a stream that it holds, in all epochs."""
        return sorted(number for _, name, number in self.stored if name is stream)

    async def upload(self, batch: Batch) -> Acknowledged:
        """See ``EventSink``."""
        await self._reach()
        self.uploads += 1
        if self._most_events is not None and len(batch.events) > self._most_events:
            raise RejectedError("too_large: too many events")
        answer = Acknowledged(frozenset(), {})
        taken = set()
        for number, event in batch.events:
            reason = self._poison.get((batch.stream, number))
            held = self.stored.setdefault((batch.epoch, batch.stream, number), event) if not reason else event
            if reason or held != event:
                answer.refused[number] = reason or "id_conflict: another event"
            else:
                taken.add(number)
        self._lose()
        return Acknowledged(frozenset(taken), answer.refused)

    async def lease(self, *, most: int, wait: timedelta, hold: timedelta) -> list[Delivery]:
        """See ``CommandSource``. Waits by the clock of the loop, lends by the given clock."""
        await self._reach()
        try:
            async with asyncio.timeout(wait.total_seconds()):
                while not (due := self._due(most)):
                    self._changed.clear()
                    await self._changed.wait()
                    await self._reach()
        except TimeoutError:
            due = []
        deliveries = []
        for queued in due:
            self._handles += 1
            queued.handle = f"{self._handles:032x}"
            queued.until = self._clock.boot() + hold
            deliveries.append(Delivery(queued.handle, queued.envelope, queued.until, queued.traceparent))
        self._lose()
        return deliveries

    async def acknowledge(self, handles: Sequence[str]) -> None:
        """See ``CommandSource``."""
        await self._reach()
        for queued in self._lent(handles):
            queued.acknowledged = True
        self._lose()

    async def extend(self, handles: Sequence[str], *, hold: timedelta) -> None:
        """See ``CommandSource``."""
        await self._reach()
        for queued in self._lent(handles):
            queued.until = self._clock.boot() + hold
        self._lose()

    async def hand_back(self, handles: Sequence[str]) -> None:
        """See ``CommandSource``."""
        await self._reach()
        for queued in self._lent(handles):
            queued.handle = None
        self._changed.set()
        self._lose()

    async def statement(self, nonce: str) -> bytes:
        """See ``TimeSource``."""
        await self._reach()
        if self._time_key is None:
            raise LinkError(Trouble.BROKEN_ANSWER, "this cloud signs no time")
        moment = self._says or self._clock.wall().best
        self._lose()
        return sign(
            encode(TimeStatement(hub=self._hub, nonce=nonce, time=moment)), TIME_TYPE, [self._time_key]
        )

    async def _reach(self) -> None:
        await asyncio.sleep(0)  # as a network would, let others run
        if self._down is not None:
            raise self._down

    def _lose(self) -> None:
        if self._answers_to_lose:
            self._answers_to_lose -= 1
            raise LinkError(Trouble.UNREACHABLE, "the answer is lost")

    def _due(self, most: int) -> list[_Queued]:
        now = self._clock.boot()
        due = [
            queued
            for queued in self._queue
            if not queued.acknowledged and (queued.handle is None or queued.until <= now)
        ]
        return due[:most]

    def _lent(self, handles: Sequence[str]) -> list[_Queued]:
        return [queued for queued in self._queue if queued.handle in handles and not queued.acknowledged]
