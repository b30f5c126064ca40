"""The hub's side of the queue: events up, commands down, the time.

Everything is committed before it is answered: the events of an upload with what they say of devices and
commands, the loans of a lease, each acknowledgement.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from typing import Final

from aiohttp import web

from edgeagent.adapters.cloud.wire import (
    ExtendRequest,
    Fault,
    HandlesAnswer,
    HandlesRequest,
    LeaseAnswer,
    LeaseRequest,
    LentCommand,
    RefusedEvent,
    TimeRequest,
    UploadAnswer,
    UploadQuery,
    head_of,
    one_line,
    ranges_of,
)
from edgeagent.contracts.door import encode
from edgeagent.contracts.event import BATCH_CONTENT_TYPE, EventType
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.timestatement import TIME_TYPE, TimeStatement
from edgeagent.core.envelope import sign
from edgeagent.errors import MalformedError
from edgeagent.ids import HubId
from edgeagent.issuer.access import hub_of
from edgeagent.issuer.bells import About, heard
from edgeagent.issuer.bodies import (
    ProblemError,
    answer,
    answer_bytes,
    read_json,
    read_query,
    read_upload_body,
)
from edgeagent.issuer.event_data import Upload, read_upload
from edgeagent.issuer.service import Service
from edgeagent.issuer.store import commands, heads, hubs, streams
from edgeagent.issuer.store.commands import Loan
from edgeagent.issuer.store.heads import Fork
from edgeagent.issuer.store.opening import Instant
from edgeagent.issuer.tokens import Principal
from edgeagent.store.database import Transaction

log = logging.getLogger(__name__)

# Two agents with one identity would otherwise take the waiting place from each other without a pause.
_AFTER_TAKE_OVER: Final = timedelta(seconds=5)


class HubSide:
    """Answers hubs."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._reading = asyncio.Semaphore(service.limits.uploads_at_once)

    async def upload(self, request: web.Request, _who: Principal) -> web.Response:
        """POST events: store what is new, and prove what is stored."""
        hub = hub_of(request, self._service.logins)
        query = read_query(request, UploadQuery)
        try:
            upload = await self._read_upload(request, hub, query)
        except ProblemError as why:
            # The nonce proves to the hub that the queue itself refuses the batch.
            raise why.of_batch(query.batch) from why
        refused, rings, fork = await self._service.database.write(partial(self._store, upload, self._now()))
        if fork is not None:
            log.error("audit trail forked", extra={"hub": hub, "told": fork.told, "known": fork.known})
        if rings:
            self._service.bells.ring(hub, About.COMMANDS)
        taken = [event.number for event in upload.events if event.number not in refused]
        return answer(
            UploadAnswer(
                batch=query.batch,
                hub=hub,
                epoch=query.epoch,
                stream=query.stream,
                taken=ranges_of(taken),
                refused=[
                    RefusedEvent(number=number, reason=one_line(why)) for number, why in refused.items()
                ],
            )
        )

    async def lease(self, request: web.Request, _who: Principal) -> web.Response:
        """POST commands/lease: lend commands, waiting for the first."""
        hub = hub_of(request, self._service.logins)
        wanted = await read_json(request, LeaseRequest, within=self._service.limits.body_time)
        began = self._service.clock.boot()
        loans = await self._lease_waiting(request, hub, wanted, began)
        if loans:
            self._service.bells.ring(hub, About.COMMANDS)
        return answer(
            LeaseAnswer(
                commands=[
                    LentCommand(
                        handle=loan.handle,
                        envelope=loan.envelope,
                        hold_seconds=wanted.hold_seconds,
                        traceparent=loan.traceparent,
                    )
                    for loan in loans
                ],
                waited_seconds=max((self._service.clock.boot() - began).total_seconds(), 0),
            )
        )

    async def acknowledge(self, request: web.Request, _who: Principal) -> web.Response:
        """POST commands/acknowledge: these are on the hub's disk."""
        hub = hub_of(request, self._service.logins)
        handles = (await read_json(request, HandlesRequest, within=self._service.limits.body_time)).handles
        return await self._settle(hub, handles, lambda tx: commands.acknowledge(tx, hub, handles))

    async def hand_back(self, request: web.Request, _who: Principal) -> web.Response:
        """POST commands/hand-back: lend these anew."""
        hub = hub_of(request, self._service.logins)
        handles = (await read_json(request, HandlesRequest, within=self._service.limits.body_time)).handles
        return await self._settle(hub, handles, lambda tx: commands.hand_back(tx, hub, handles))

    async def extend(self, request: web.Request, _who: Principal) -> web.Response:
        """POST commands/extend: lend these for longer."""
        hub = hub_of(request, self._service.logins)
        wanted = await read_json(request, ExtendRequest, within=self._service.limits.body_time)
        hold, now = timedelta(seconds=wanted.hold_seconds), self._now()
        return await self._settle(
            hub, wanted.handles, lambda tx: commands.extend(tx, hub, wanted.handles, hold=hold, now=now)
        )

    async def time(self, request: web.Request, _who: Principal) -> web.Response:
        """POST time: sign the time over the hub's nonce."""
        hub = hub_of(request, self._service.logins)
        nonce = (await read_json(request, TimeRequest, within=self._service.limits.body_time)).nonce
        if self._service.time_key is None:
            raise ProblemError(HTTPStatus.NOT_FOUND, Fault.NOT_FOUND, "this queue signs no time")
        statement = TimeStatement(hub=hub, nonce=nonce, time=self._service.clock.wall().best)
        return answer_bytes(sign(encode(statement), TIME_TYPE, [self._service.time_key]))

    async def _read_upload(self, request: web.Request, hub: HubId, query: UploadQuery) -> Upload:
        limits = self._service.limits
        async with self._reading:
            raw = await read_upload_body(
                request,
                BATCH_CONTENT_TYPE,
                limit=limits.upload_bytes,
                unpacked_limit=limits.unpacked_bytes,
                within=limits.body_time,
            )
            read = partial(
                read_upload,
                raw,
                hub,
                query,
                limit=limits.unpacked_bytes,
                most_events=limits.events,
                most_event_bytes=limits.event_bytes,
            )
            try:
                # A thousand events take some 20 ms: too long for the loop.
                return await asyncio.to_thread(read)
            except MalformedError as why:
                raise ProblemError(HTTPStatus.BAD_REQUEST, Reason.MALFORMED, str(why)) from why

    def _store(
        self, upload: Upload, now: Instant, tx: Transaction
    ) -> tuple[dict[int, str], bool, Fork | None]:
        """Store an upload and all that follows from it.

        Returns:
            What is refused and why, whether somebody may wait for what is new, and whether the head of
            the hub's audit trail does not fit what it told before.
        """
        fresh, refused = streams.store(tx, upload)
        streams.prune(tx, upload, keep=self._service.limits.kept_events)
        hubs.note(tx, upload, fresh)
        for event in fresh:
            commands.note(tx, upload.hub, event)
        query = upload.query
        fork = (
            None if query.head is None else heads.note(tx, upload.hub, query.epoch, head_of(query.head), now)
        )
        current, ended = hubs.current_epoch(tx, upload.hub), 0
        if current is not None and any(event.event.type is EventType.HUB_HELLO for event in fresh):
            ended = commands.end_other_epochs(tx, upload.hub, current.epoch)
        return refused, ended > 0 or any(commands.ends_a_command(event) for event in fresh), fork

    async def _lease_waiting(
        self, request: web.Request, hub: HubId, wanted: LeaseRequest, began: timedelta
    ) -> list[Loan]:
        """Lend what is due, or wait for it as long as is wanted; who is shut out meanwhile gets nothing."""
        service, deadline = self._service, began + timedelta(seconds=wanted.wait_seconds)
        with service.bells.listening(hub, About.QUEUE) as bell:
            holder = service.bells.take_over(hub)
            try:
                while True:
                    bell.clear()
                    now = self._now()
                    loans = await service.database.write(partial(self._lend, hub, wanted, now))
                    left = deadline - service.clock.boot()
                    if loans or left <= timedelta(0) or service.bells.closing:
                        return loans
                    end = await service.database.read(partial(commands.next_end, hub=hub, now=now))
                    await heard(bell, within=left if end is None else min(left, end))
                    if not service.bells.holds(hub, holder):
                        raise ProblemError(
                            HTTPStatus.TOO_MANY_REQUESTS,
                            Fault.BUSY,
                            "a newer lease of this hub waits: have two machines one identity?",
                            retry_after=_AFTER_TAKE_OVER,
                        )
                    await service.logins.principal(request)
            finally:
                service.bells.let_go(hub, holder)

    def _lend(self, hub: HubId, wanted: LeaseRequest, now: Instant, tx: Transaction) -> list[Loan]:
        return commands.lease(
            tx,
            hub,
            most=wanted.most,
            hold=timedelta(seconds=wanted.hold_seconds),
            now=now,
            new_handle=self._service.new_handle,
        )

    async def _settle(
        self, hub: HubId, handles: list[str], work: Callable[[Transaction], list[str]]
    ) -> web.Response:
        done = await self._service.database.write(work)
        self._service.bells.ring(hub, About.QUEUE, About.COMMANDS)
        return answer(HandlesAnswer(done=done, gone=[handle for handle in handles if handle not in done]))

    def _now(self) -> Instant:
        return Instant.of(self._service.clock)
