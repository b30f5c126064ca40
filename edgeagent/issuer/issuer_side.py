"""The issuer's side of the queue: commands in, results out, and everything that is known, to read."""

import logging
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from typing import Annotated, Final

from aiohttp import web
from pydantic import Field

from edgeagent.adapters.cloud.wire import JSON, LONGEST_WAIT, Fault
from edgeagent.contracts.command import COMMAND_BYTES
from edgeagent.contracts.door import Contract
from edgeagent.contracts.event import Stream
from edgeagent.contracts.order import ORDER_BYTES, ORDER_TYPE
from edgeagent.contracts.policy import BreakerRule
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.scalars import EpochField
from edgeagent.core.envelope import type_of
from edgeagent.errors import MalformedError
from edgeagent.ids import CommandId, Epoch, HubId, KeyId, command_id
from edgeagent.issuer.access import hub_of
from edgeagent.issuer.bells import About, heard
from edgeagent.issuer.bodies import ProblemError, answer, answer_bytes, read_body, read_query, traceparent_of
from edgeagent.issuer.order_gate import PassedOrder, judge_raw_order
from edgeagent.issuer.producer_gate import GateRefusedError, GateWorld, Passed, judge
from edgeagent.issuer.service import Service
from edgeagent.issuer.store import breakers, commands, heads, hubs, refusals, streams
from edgeagent.issuer.store.breakers import Circuit
from edgeagent.issuer.store.commands import IdConflictError, QueueFullError
from edgeagent.issuer.store.opening import Instant
from edgeagent.issuer.tokens import Principal
from edgeagent.issuer.wire import (
    MOST_VOID,
    CommandState,
    CommandStatus,
    DevicesAnswer,
    EnvelopesAnswer,
    HubStatus,
    RefusalsAnswer,
    Turn,
)
from edgeagent.store.database import Snapshot, Transaction
from edgeagent.values import dataclass

log = logging.getLogger(__name__)

_MOST_EVENTS: Final = 2000
_MOST_REFUSALS: Final = 1000
_COME_AGAIN: Final = timedelta(seconds=10)

# A status that tells the kinds of refusal apart; the reason in the body says more.
_STATUS: Final = {
    Reason.TOO_LARGE: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    Reason.MALFORMED: HTTPStatus.BAD_REQUEST,
    Reason.WRONG_PAYLOAD_TYPE: HTTPStatus.BAD_REQUEST,
    Reason.ID_CONFLICT: HTTPStatus.CONFLICT,
}


class StatusQuery(Contract):
    """How long to wait for a command to move on.

    Attributes:
        wait: seconds; 0 to answer at once.
        known: the state that the asker knows: another one is answered at once. Without it only a final
            one is.
    """

    wait: Annotated[float, Field(ge=0, le=LONGEST_WAIT)] = 0.0
    known: CommandState | None = None


class HubQuery(Contract):
    """Which life of the hub's database; the current one where absent."""

    epoch: EpochField | None = None


class EventsQuery(Contract):
    """Which events.

    Attributes:
        stream: of which stream.
        epoch: of which life of the hub's database; the current one where absent.
        after: from the number after this one on.
        most: at most so many.
    """

    stream: Stream
    epoch: EpochField | None = None
    after: Annotated[int, Field(ge=0, lt=2**63)] = 0
    most: Annotated[int, Field(ge=1, le=_MOST_EVENTS)] = 500


class RefusalsQuery(Contract):
    """How many rows."""

    most: Annotated[int, Field(ge=1, le=_MOST_REFUSALS)] = 100


class IssuerSide:
    """Answers issuers and auditors."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def send(self, request: web.Request, who: Principal) -> web.Response:
        """POST commands: judge an envelope, and queue it."""
        hub = hub_of(request, self._service.logins)
        if request.content_type != JSON:
            raise ProblemError(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE, Fault.UNSUPPORTED_TYPE, f"the body is to be {JSON}"
            )
        raw = await read_body(request, limit=COMMAND_BYTES, within=self._service.limits.body_time)
        now = Instant.of(self._service.clock)
        try:
            status = await self._take(_Post(hub, raw, traceparent_of(request)), who, now)
        except GateRefusedError as why:
            await self._count(why, who, now)
            raise ProblemError(
                _STATUS.get(why.reason, HTTPStatus.UNPROCESSABLE_ENTITY), why.reason, str(why)
            ) from why
        except QueueFullError as why:
            raise ProblemError(
                HTTPStatus.SERVICE_UNAVAILABLE, Fault.BUSY, str(why), retry_after=_COME_AGAIN
            ) from why
        self._service.bells.ring(hub, About.QUEUE)
        self._service.instruments.taken()
        log.info("command taken", extra={"hub": hub, "command": status.id, "devices": len(status.devices)})
        return answer(status, status=HTTPStatus.ACCEPTED)

    async def command(self, request: web.Request, _who: Principal) -> web.Response:
        """GET commands/{id}: where a command stands, waiting for it to move on."""
        hub = hub_of(request, self._service.logins)
        query = read_query(request, StatusQuery)
        deadline = self._service.clock.boot() + timedelta(seconds=query.wait)
        with self._service.bells.listening(hub, About.COMMANDS) as bell:
            while True:
                bell.clear()
                status = await self._status(hub, _command_of(request))
                left = deadline - self._service.clock.boot()
                moved = status.state.is_over or query.known not in {None, status.state}
                if moved or left <= timedelta(0) or self._service.bells.closing:
                    return answer(status)
                await heard(bell, within=left)

    async def envelopes(self, request: web.Request, _who: Principal) -> web.Response:
        """GET commands/{id}/envelopes: the command as it was sent, with its signatures."""
        hub = hub_of(request, self._service.logins)
        read = partial(commands.envelopes, hub=hub, command=_command_of(request))
        found = await self._service.database.read(read)
        if not found:
            raise ProblemError(HTTPStatus.NOT_FOUND, Fault.NOT_FOUND, "there is no such command")
        return answer(EnvelopesAnswer(envelopes=found))

    async def hub(self, request: web.Request, _who: Principal) -> web.Response:
        """GET a hub: its epoch, its newest hello, what is stored of its streams."""
        hub = hub_of(request, self._service.logins)
        query = read_query(request, HubQuery)
        now = Instant.of(self._service.clock)

        def read(db: Snapshot) -> HubStatus:
            current = hubs.current_epoch(db, hub)
            epoch = None if current is None else current.epoch
            shown = query.epoch or epoch
            return HubStatus(
                hub=hub,
                epoch=epoch,
                hello=None if current is None else current.hello,
                streams=[] if shown is None else [streams.status(db, hub, shown, one) for one in Stream],
                waiting=commands.waiting(db, hub),
                void=commands.void(db, hub, now, most=MOST_VOID),
                audit=None if shown is None else heads.status(db, hub, shown),
            )

        return answer(await self._service.database.read(read))

    async def devices(self, request: web.Request, _who: Principal) -> web.Response:
        """GET devices: each with its state's version and etag, and its newest readings."""
        hub = hub_of(request, self._service.logins)

        def read(db: Snapshot) -> DevicesAnswer:
            current = hubs.current_epoch(db, hub)
            epoch = None if current is None else current.epoch
            return DevicesAnswer(hub=hub, epoch=epoch, devices=hubs.devices(db, hub))

        return answer(await self._service.database.read(read))

    async def events(self, request: web.Request, _who: Principal) -> web.Response:
        """GET events: a page of a stream, as the hub sent them."""
        hub = hub_of(request, self._service.logins)
        query = read_query(request, EventsQuery)

        def read(db: Snapshot) -> tuple[Epoch, list[tuple[int, str]]]:
            current = hubs.current_epoch(db, hub)
            life = query.epoch or (None if current is None else current.epoch)
            if life is None:
                raise ProblemError(HTTPStatus.NOT_FOUND, Fault.NOT_FOUND, "the hub has not said hello yet")
            return life, streams.page(db, hub, life, query.stream, after=query.after, most=query.most)

        life, page = await self._service.database.read(read)
        # The events are JSON text already; reading them only to write them again would say nothing new.
        listed = ",".join(text for _, text in page)
        last = page[-1][0] if page else query.after
        return answer_bytes(
            f'{{"epoch":"{life}","stream":"{query.stream}","events":[{listed}],"last":{last}}}'.encode()
        )

    async def refusals(self, request: web.Request, _who: Principal) -> web.Response:
        """GET refusals: what the producer's gate refused, counted."""
        most = read_query(request, RefusalsQuery).most

        def read(db: Snapshot) -> RefusalsAnswer:
            return RefusalsAnswer(
                refusals=refusals.newest(db, most=most),
                breakers=breakers.standing(db, most=most),
                turns=breakers.turns(db, most=most),
            )

        return answer(await self._service.database.read(read))

    async def metrics(self, _request: web.Request, _who: Principal) -> web.Response:
        """GET metrics: what the producer's gate counts, for Prometheus."""
        return web.Response(body=self._service.instruments.text(), content_type="text/plain", charset="utf-8")

    async def _take(self, post: "_Post", who: Principal, now: Instant) -> CommandStatus:
        """Judge and queue in one transaction, so that the epoch it is judged by is the one in force.

        Raises:
            GateRefusedError: it is not queued.
            QueueFullError: too many wait.
        """
        in_force, most = self._service.policy.current(), self._service.limits.waiting
        hub, raw = post.hub, post.envelope

        def take(tx: Transaction) -> CommandStatus:
            current = hubs.current_epoch(tx, hub)
            epoch = None if current is None else current.epoch
            world = GateWorld(
                hub=hub,
                epoch=epoch,
                now=now.wall,
                policy=None if in_force is None else in_force.policy,
                policy_until=None if in_force is None else in_force.until,
                catalogue=None if in_force is None else in_force.catalogue,
            )
            if type_of(raw, limit=ORDER_BYTES) == ORDER_TYPE:
                return _take_order(tx, post, world, now, most)
            passed = judge(raw, world)
            circuit = Circuit(_origin(passed.signers, who), passed.command.action)
            _refuse_if_open(tx, circuit, passed, now)
            try:
                post.enqueue(tx, passed, now=now, most=most)
            except IdConflictError as why:
                raise _refusal(Reason.ID_CONFLICT, str(why), passed) from why
            breakers.passed(tx, circuit, now)
            return _known(commands.status(tx, hub, passed.command.id, now))

        return await self._service.database.write(take)

    async def _count(self, why: GateRefusedError, who: Principal, now: Instant) -> None:
        origin = _origin(() if why.origin is None else (why.origin,), who)
        log.info(
            "command refused", extra={"reason": why.reason, "origin": origin, "command": why.command or ""}
        )
        in_force = self._service.policy.current()

        def count(tx: Transaction) -> Turn | None:
            refusals.count(tx, origin=origin, reason=why.reason, sample=why.command, now=now)
            if why.action is None:
                return None  # nothing of it could have been queued, whoever sent it
            rule = BreakerRule() if in_force is None else in_force.policy.breaker_of(why.action)
            return breakers.refused(tx, Circuit(origin, why.action), why.reason, rule, now)

        turn = await self._service.database.write(count)
        self._service.instruments.refused(origin, why.reason)
        if turn is not None:
            self._service.instruments.turned(turn)
            log.warning("breaker", extra={"turn": turn, "origin": origin, "action": why.action or ""})

    async def _status(self, hub: HubId, command: CommandId) -> CommandStatus:
        now = Instant.of(self._service.clock)
        status = _known(await self._service.database.read(partial(_look, hub, command, now)))
        if status.state is not CommandState.QUEUED:
            return status
        # Its time may be over; the row says so only once somebody has looked.
        expired = await self._service.database.write(partial(commands.expire, hub=hub, now=now))
        return (
            _known(await self._service.database.read(partial(_look, hub, command, now)))
            if expired
            else status
        )


@dataclass(frozen=True, slots=True)
class _Post:
    """What an issuer has sent for a hub."""

    hub: HubId
    envelope: bytes
    traceparent: str | None

    def enqueue(self, tx: Transaction, passed: Passed | PassedOrder, *, now: Instant, most: int) -> None:
        """Queue it; see ``commands.enqueue``."""
        commands.enqueue(
            tx, self.hub, passed, self.envelope, now=now, most_waiting=most, traceparent=self.traceparent
        )


def _origin(signers: Sequence[KeyId], who: Principal) -> str:
    """Whom a command is counted for: the key that verified, else the login that sent it."""
    return signers[0] if signers else f"token:{who.name}"


def _refuse_if_open(tx: Transaction, circuit: Circuit, passed: Passed, now: Instant) -> None:
    until = breakers.open_until(tx, circuit, now)
    if until is not None:
        words = (
            f"too many {circuit.action} of this origin were refused; try again at {until:%Y-%m-%dT%H:%M:%SZ}"
        )
        raise _refusal(Reason.BREAKER_OPEN, words, passed)


def _refusal(reason: Reason, words: str, passed: Passed) -> GateRefusedError:
    """The refusal of a command that has passed all but this."""
    return GateRefusedError(
        reason,
        words,
        origin=passed.signers[0] if passed.signers else None,
        command=passed.command.id,
        action=passed.command.action,
    )


def _take_order(tx: Transaction, post: _Post, world: GateWorld, now: Instant, most: int) -> CommandStatus:
    """Judge and queue an order to the hub itself. No breaker stands before what stops commands."""
    passed = judge_raw_order(post.envelope, world)
    try:
        post.enqueue(tx, passed, now=now, most=most)
    except IdConflictError as why:
        origin = passed.signers[0] if passed.signers else None
        raise GateRefusedError(Reason.ID_CONFLICT, str(why), origin=origin, command=passed.order.id) from why
    return _known(commands.status(tx, world.hub, passed.order.id, now))


def _look(hub: HubId, command: CommandId, now: Instant, db: Snapshot) -> CommandStatus | None:
    return commands.status(db, hub, command, now)


def _known(status: CommandStatus | None) -> CommandStatus:
    if status is None:
        raise ProblemError(HTTPStatus.NOT_FOUND, Fault.NOT_FOUND, "there is no such command")
    return status


def _command_of(request: web.Request) -> CommandId:
    try:
        return command_id(request.match_info["command"])
    except MalformedError as why:
        raise ProblemError(HTTPStatus.NOT_FOUND, Fault.NOT_FOUND, "that is no command's id") from why
