"""From the outbox to the cloud.

    outbox ──batch of one stream──> EventSink ──proof──> delete those numbers

Nothing leaves the outbox before the far side has proven that it holds it; what is not proven is sent
again, and the far side drops repeats by number (SPEC U1, U4). In each round ``record`` goes first, then
one batch of each other stream, so that a backlog of one never starves the others. State and telemetry
linger a moment, so that a trickle is not one request and one delete for each reading; records do not.
"""

import asyncio
import logging
from dataclasses import field
from datetime import timedelta
from functools import partial

from edgeagent.contracts.event import StoredEvent, Stream, render
from edgeagent.contracts.receipt import AuditMark
from edgeagent.core.retry import Backoff, BackoffRule
from edgeagent.errors import RejectedError, StorageError
from edgeagent.flows.surroundings import Surroundings
from edgeagent.ids import Digest
from edgeagent.ports.cloud import Acknowledged, Batch, EventSink
from edgeagent.ports.crash import CrashPoint
from edgeagent.ports.links import LinkError, Trouble
from edgeagent.store import audit, outbox, receipts
from edgeagent.store.audit import Head
from edgeagent.store.database import Database, Snapshot, Transaction
from edgeagent.values import dataclass

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class UplinkSettings:
    """How readings go up.

    Attributes:
        linger: how long state and telemetry wait for more of their kind.
        most_events: in one upload.
        most_bytes: of event data in one upload, before compression.
        backoff: after failures.
    """

    linger: timedelta = timedelta(seconds=1)
    most_events: int = 500
    most_bytes: int = 256 * 1024
    backoff: BackoffRule = field(default_factory=BackoffRule)


@dataclass(slots=True)
class UplinkState:
    """How the uplink stands, for health.

    Attributes:
        last_success: boot time of the last proven upload; None since start.
        failing_since: boot time of the first of the present failures; None while it works.
        trouble: what kind of failure; None while it works.
        why: the last failure, for people.
    """

    last_success: timedelta | None = None
    failing_since: timedelta | None = None
    trouble: Trouble | None = None
    why: str = ""


class Uplink:
    """Sends the outbox up; one owner of the link to the event sink."""

    def __init__(
        self, store: Database, sink: EventSink, around: Surroundings, settings: UplinkSettings
    ) -> None:
        self._store = store
        self._sink = sink
        self._around = around
        self._settings = settings
        self._backoff = Backoff(settings.backoff)
        around.outbox.batch = settings.most_events
        self.state = UplinkState()

    def adopt(self, settings: UplinkSettings) -> None:
        """Go on with other settings."""
        self._settings = settings
        self._backoff = Backoff(settings.backoff)
        self._around.outbox.batch = settings.most_events

    async def run(self) -> None:
        """Send what is there and what comes; ends only by cancellation."""
        self._around.outbox.stored((), 0)  # what an earlier start has left
        while True:
            await self._around.outbox.wait(self._settings.linger)
            try:
                while await self._watched_round():
                    self._succeeded()
            except LinkError as why:
                await self._failed(why)
            except StorageError as why:
                # What was acknowledged is still in the outbox; the far side drops the repeat.
                log.warning("outbox unreadable", extra={"why": str(why)})
                await self._pause(None)

    async def _watched_round(self) -> bool:
        with self._around.at_work("uplink"):
            return await self._round()

    async def _round(self) -> bool:
        """Send one batch of each stream.

        Returns:
            Whether there was anything to send.
        """
        sent = False
        for stream in Stream:
            events, head = await self._store.read(partial(self._oldest, stream))
            if events:
                sent = True
                await self._send(stream, events, head)
        return sent

    def _oldest(self, stream: Stream, db: Snapshot) -> tuple[list[StoredEvent], Head]:
        """The oldest events of a stream, and the head of the audit trail, both of one moment."""
        settings = self._settings
        events = outbox.batch(db, stream, most=settings.most_events, most_bytes=settings.most_bytes)
        return events, audit.head(db)

    async def _send(self, stream: Stream, events: list[StoredEvent], head: Head) -> None:
        origin = self._around.origin
        rendered = [(event.number, render(origin.hub, origin.epoch, stream, event)) for event in events]
        try:
            with self._around.metrics.upload_seconds.time():
                answer = await self._sink.upload(Batch(origin.epoch, stream, rendered, _mark(head)))
        except RejectedError as why:
            if len(events) > 1:
                # One of them is too much for the far side, or all of them together are.
                await self._send(stream, events[: len(events) // 2], head)
                return
            answer = Acknowledged(frozenset(), {events[0].number: str(why)})
        self._around.crash.reached(CrashPoint.EVENTS_UPLOADED)
        await self._settle(stream, {event.number for event in events}, answer, head)

    async def _settle(self, stream: Stream, sent: set[int], answer: Acknowledged, head: Head) -> None:
        """Forget what is proven stored, set aside what never will be; nothing that was not sent."""
        taken = sorted(answer.taken & sent)
        refused = {number: why for number, why in answer.refused.items() if number in sent}
        if not taken and not refused:
            raise LinkError(Trouble.BROKEN_ANSWER, "the cloud acknowledged nothing of the batch")

        at = self._around.event_time().at

        def settle(tx: Transaction) -> None:
            outbox.acknowledge(tx, stream, taken)
            if stream is Stream.RECORD:
                receipts.note_uploaded(tx, taken, at=at)
            outbox.set_aside(tx, stream, refused)
            audit.note_told(tx, head)

        await self._store.write(settle)
        self._around.metrics.uploads.labels("ok").inc()
        for number, why in refused.items():
            log.warning("event refused", extra={"stream": stream, "number": number, "why": why})

    def _succeeded(self) -> None:
        now = self._around.clock.boot()
        self._backoff.worked(now)
        self.state = UplinkState(last_success=now)

    async def _failed(self, why: LinkError) -> None:
        now = self._around.clock.boot()
        if self.state.trouble is not why.trouble:
            log.warning("uplink fails", extra={"trouble": why.trouble, "why": str(why)})
        self.state.failing_since = self.state.failing_since or now
        self.state.trouble = why.trouble
        self.state.why = str(why)
        self._around.metrics.uploads.labels("failed").inc()
        await self._pause(why.retry_after)

    async def _pause(self, asked: timedelta | None) -> None:
        self._around.outbox.stored((), 0)  # there is something left to send
        wait = self._backoff.failed(self._around.clock.boot(), chance=self._around.chance(), at_least=asked)
        await asyncio.sleep(wait.total_seconds())


def _mark(head: Head) -> AuditMark:
    return AuditMark(number=head.number, hash=Digest(head.hash.hex()))
