"""The kill switch at work: orders come in, what waits is refused in the same commit (SPEC B3).

    order (queue or terminal) ──> judged ──> one commit: last word, order, open commands, event, audit row
                                                └──> memory, which is asked right before each step is sent

A stop survives the agent; a resume revives nothing that a stop has ended. Commands of which a step was
sent are left to run to their confirmation: it is not true any more that nothing was done.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from pydantic import JsonValue

from edgeagent.clock import EPOCH, Wall
from edgeagent.contracts.door import decode
from edgeagent.contracts.event import EventType, Stream, data_text
from edgeagent.contracts.order import ORDER_BYTES, ORDER_TYPE, Order, Verb, covers
from edgeagent.contracts.policy import RoleKind
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.contracts.reports.switch import StopReport, StopsReport, SwitchRequest
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.envelope import RefusedEnvelopeError, Verified, verify
from edgeagent.core.freshness import CHANCE_BITS
from edgeagent.core.gate.roles import keys_of
from edgeagent.core.gate.verdict import Duplicate, Refuse
from edgeagent.core.lifecycle import State
from edgeagent.core.stops import LARGEST_ORDER, Obey, OrderWorld, Standing, judge_order
from edgeagent.core.work import Ending
from edgeagent.errors import MalformedError, RejectedError
from edgeagent.flows.settling import Ended, Settling
from edgeagent.flows.tallies import Counts, Source, Tallies
from edgeagent.flows.worlds import Worlds
from edgeagent.ids import CommandId
from edgeagent.store import audit, inbox, meta, outbox, stops
from edgeagent.store.audit import Act
from edgeagent.store.database import Database, Transaction
from edgeagent.store.outbox import NewEvent
from edgeagent.values import dataclass

log = logging.getLogger(__name__)

_MICROSECOND: Final = timedelta(microseconds=1)
_MILLISECOND: Final = timedelta(milliseconds=1)
_DETAIL: Final = 200
_OPEN: Final = (State.HELD, State.QUEUED, State.WAITING)
_KINDS: Final = {
    Verb.STOP: (AuditKind.STOPPED_KIND, EventType.STOPPED),
    Verb.RESUME: (AuditKind.RESUMED_KIND, EventType.RESUMED),
}

Said = Obey | Refuse | Duplicate


@dataclass(frozen=True, slots=True)
class _Came:
    """An order that a key of the policy has signed."""

    order: Order
    verified: Verified


class KillSwitch:
    """Obeys orders, and remembers what is stopped."""

    def __init__(self, store: Database, worlds: Worlds, settling: Settling, tallies: Tallies) -> None:
        self._store = store
        self._tallies = tallies
        self._worlds = worlds
        self._settling = settling
        self._around = worlds.around
        self._thrown: list[Callable[[], None]] = []

    def when_thrown(self, tell: Callable[[], None]) -> None:
        """Have ``tell`` called whenever an order or somebody at the hub may have changed what is stopped."""
        self._thrown.append(tell)

    async def load(self) -> None:
        """Remember what was stopped before this start."""
        self._remember(await self._store.read(stops.standings))

    async def obey(self, envelopes: Sequence[bytes]) -> list[Said]:
        """Judge orders that the queue has brought, and do them, all in one commit.

        Returns:
            What was said to each, in order. All of it is on the disk.

        Raises:
            StorageError: nothing of it is.
        """
        came = [self._opened(envelope) for envelope in envelopes]
        wall = self._around.clock.wall()

        known = self._tallies.open

        def take(tx: Transaction) -> tuple[list[Said], list[Standing], Counts]:
            counts = Counts()
            said = [
                self._take(each, envelope, wall, tx, counts)
                for each, envelope in zip(came, envelopes, strict=True)
            ]
            self._tallies.write(tx, counts.without(known))
            return said, stops.standings(tx), counts

        said, standings, counts = await self._store.write(take)
        self._tallies.counted(counts, unwritten=known)
        self._done(standings, len(said))
        for each in said:
            log.info("order came", extra={"verdict": type(each).__name__.lower()})
        return said

    async def throw(self, request: SwitchRequest, verb: Verb, actor: str) -> StopsReport:
        """Stop or resume a kind of command, as somebody at the hub says.

        Raises:
            RejectedError: there is nothing to resume.
            StorageError: nothing was done.
        """
        wall = self._around.clock.wall()

        def throw(tx: Transaction) -> list[Standing]:
            if verb is Verb.RESUME and request.kind not in stops.stopped(tx):
                raise RejectedError(f"{request.kind} is not stopped")
            last = stops.last_sequence(tx, request.kind)
            word = self._word(request.kind, verb, _sequence(verb, wall, last), (actor, request.why))
            word = replace(word, is_guess=wall.latest is None)
            self._say(tx, word, None)
            return stops.standings(tx)

        standings = await self._store.write(throw)
        self._done(standings, 1)
        return self.stops()

    def stops(self) -> StopsReport:
        """The last word on each kind that there was one on."""
        return StopsReport(
            stops=[
                StopReport(
                    kind=word.kind,
                    stopped=word.verb is Verb.STOP,
                    by=word.by,
                    why=word.why,
                    at=EPOCH + word.at * _MICROSECOND,
                )
                for word in self._worlds.stops.standings
            ]
        )

    def _opened(self, envelope: bytes) -> _Came | Refuse:
        policy = self._worlds.trust.policy
        if policy is None:
            return Refuse(Reason.NO_POLICY)
        try:
            verified = verify(envelope, keys_of(policy, {RoleKind.STOP}), ORDER_TYPE, limit=ORDER_BYTES)
            return _Came(decode(Order, verified.payload, limit=ORDER_BYTES), verified)
        except RefusedEnvelopeError as why:
            return Refuse(why.reason, str(why))
        except MalformedError as why:
            return Refuse(Reason.MALFORMED, str(why))

    def _take(
        self, came: _Came | Refuse, envelope: bytes, wall: Wall, tx: Transaction, counts: Counts
    ) -> Said:
        """Judge one and do it. What anybody can repeat without a key is counted, not written one by one."""
        if isinstance(came, Refuse):
            counts.note(Source(AuditKind.COMMANDS_UNVERIFIED, "unknown", came.reason), envelope)
            return came
        order, verified = came.order, came.verified
        origin = self._around.origin
        known = stops.known(tx, order.id)
        world = OrderWorld(
            hub=origin.hub,
            epoch=origin.epoch,
            policy=self._worlds.trust.policy,
            until=self._worlds.trust.until,
            wall=wall,
            known=known,
            forgotten=meta.forgotten(tx),
            last=stops.last(tx, order.kind),
        )
        said = Duplicate() if known == verified.sha256 else judge_order(order, verified, world)
        match said:
            case Obey(issuer):
                stops.remember(tx, order, verified.sha256, None)
                word = self._word(order.kind, order.verb, order.sequence, (issuer, order.why))
                self._say(tx, word, came)
            case Refuse(reason, detail) if known is None:
                stops.remember(tx, order, verified.sha256, reason)
                self._refuse(tx, came, reason, detail)
            case Refuse(reason):
                # Another under its id is remembered: this one may come as often as somebody has recorded it.
                counts.note(
                    Source(AuditKind.COMMAND_REPLAYED, verified.signers[0], reason), envelope, order.id
                )
            case Duplicate():
                source = Source(AuditKind.COMMAND_REPLAYED, verified.signers[0], Reason.REPLAYED)
                counts.note(source, envelope, order.id)
        return said

    def _say(self, tx: Transaction, word: Standing, came: _Came | None) -> None:
        """Let a word be the last; at a stop, refuse whatever of its kind is open and was not begun."""
        stops.put(tx, word)
        ended = self._end_open(tx, word) if word.verb is Verb.STOP else 0
        named: dict[str, JsonValue] = (
            {} if came is None else {"order": came.order.id, "payload_sha256": came.verified.sha256}
        )
        about: dict[str, JsonValue] = {"kind": word.kind, "by": word.by, "why": word.why, "refused": ended}
        kind, type_ = _KINDS[word.verb]
        self._tell(tx, type_, {**named, **about})
        self._audit(tx, kind, word.kind, word.by, {**named, "why": word.why, "refused": ended})

    def _end_open(self, tx: Transaction, word: Standing) -> int:
        open_rows = [row for state in _OPEN for row in inbox.in_state(tx, state)]
        mine = [row for row in open_rows if not row.sent and covers(word.kind, row.action, row.lane)]
        for row in mine:
            ending = Ending(
                outcome=Outcome.REFUSED, reason=Reason.STOPPED, detail=f"{word.kind} by {word.by}"
            )
            self._settling.settle(tx, row, Ended(ending=ending))
        return len(mine)

    def _refuse(self, tx: Transaction, came: _Came, reason: Reason, detail: str) -> None:
        order, issuer = came.order, came.verified.signers[0]
        said: dict[str, JsonValue] = {"reason": reason, "detail": detail[:_DETAIL]}
        named: dict[str, JsonValue] = {"command": order.id, "payload_sha256": came.verified.sha256}
        self._tell(tx, EventType.REFUSED, {**named, **said, "issuer": issuer})
        about: dict[str, JsonValue] = {"verb": order.verb, "kind": order.kind}
        self._audit(tx, AuditKind.ORDER_REFUSED, order.id, issuer, about | said)
        log.warning("order refused", extra={"order": order.id, "reason": reason, "why": detail})

    def _word(self, kind: str, verb: Verb, sequence: int, said: tuple[str, str]) -> Standing:
        by, why = said
        at = self._around.event_time().at
        return Standing(kind=kind, verb=verb, sequence=sequence, by=by, why=why, at=at)

    def _tell(self, tx: Transaction, type_: EventType, data: dict[str, JsonValue]) -> None:
        event = NewEvent(Stream.RECORD, type_, None, self._around.event_time(), data_text(data))
        outbox.append(tx, [event], incarnation=self._around.origin.incarnation)

    def _audit(
        self,
        tx: Transaction,
        kind: AuditKind,
        subject: str | CommandId,
        actor: str,
        detail: dict[str, JsonValue],
    ) -> None:
        audit.append(tx, [Act(kind=kind, subject=subject, actor=actor, detail=detail)], self._around.stamp())

    def _done(self, standings: list[Standing], events: int) -> None:
        self._remember(standings)
        for tell in self._thrown:
            tell()
        self._around.outbox.stored({Stream.RECORD}, events)

    def _remember(self, standings: list[Standing]) -> None:
        self._worlds.stops.standings = standings
        self._around.metrics.stops.set(len(self._worlds.stops.kinds))


def _sequence(verb: Verb, wall: Wall, last: int) -> int:
    """The sequence of what is typed here: later than the last word, and of now.

    Where the clock gives an interval, a stop is of its end and a resume of its beginning: of two words at
    one time the stop wins.
    """
    now = wall.earliest if verb is Verb.RESUME else wall.latest or wall.best
    by_time = (now - EPOCH) // _MILLISECOND << CHANCE_BITS
    return max(min(by_time, LARGEST_ORDER), last + 1)
