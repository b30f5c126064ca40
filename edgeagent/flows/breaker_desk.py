"""What people may ask of breakers, and the look that follows when one has changed."""

import logging
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Final

from edgeagent.clock import EPOCH
from edgeagent.contracts.event import Stream
from edgeagent.contracts.policy import id_of_key
from edgeagent.contracts.reports.breakers import BreakerReport, BreakerRequest, BreakersReport
from edgeagent.core.breaker import Breaker, Phase, Scope
from edgeagent.core.short_names import meant
from edgeagent.errors import AmbiguousError, TransientError, UnknownError
from edgeagent.flows.breakers import Breakers
from edgeagent.ids import KeyId, key_id
from edgeagent.store import breakers
from edgeagent.store.database import Database
from edgeagent.values import dataclass

_MICROSECOND: Final = timedelta(microseconds=1)
log = logging.getLogger(__name__)

_NEVER: Final = timedelta(days=1)
_AFTER_FAULT: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class HubBreakers:
    """Answers about breakers.

    Attributes:
        store: where they are.
        breakers: open and close them.
        own: the hub's own public key.
        tell: called when commands that a breaker holds may go on.
    """

    store: Database
    breakers: Breakers
    own: bytes
    tell: Callable[[], None]

    async def run(self) -> None:
        """Follow what opens, closes, and becomes due for a try; ends only by cancellation."""
        outbox, wait = self.breakers.around.outbox, timedelta(0)
        while True:
            seen = outbox.records
            if self.breakers.stirred or wait <= timedelta(0):
                try:
                    wait = await self._look()
                except TransientError as why:
                    log.warning("breakers are not looked at", extra={"why": str(why)})
                    self.breakers.stirred, wait = True, _AFTER_FAULT
            began = self.breakers.now.at
            await outbox.next_record(wait, since=seen)
            wait -= self.breakers.now.at - began

    async def breakers_now(self) -> list[tuple[Breaker, int]]:
        """Those that are not closed."""
        return await self.store.read(breakers.standing)

    async def report(self) -> BreakersReport:
        """All that there is something to say of."""
        now, names = self.breakers.now, self._names()
        standing = await self.breakers_now()
        counted = await self.store.read(partial(breakers.counts, boot=now.boot))
        reports = []
        for breaker, at in standing:
            left = breaker.left(now)
            reports.append(
                BreakerReport(
                    action=breaker.scope.action,
                    origin=breaker.scope.origin,
                    name=names.get(breaker.scope.origin, ""),
                    phase=breaker.phase(now),
                    signal=breaker.signal,
                    why=breaker.why,
                    opened_at=EPOCH + at * _MICROSECOND,
                    left=None if left is None else left.total_seconds(),
                    probe=breaker.probe,
                )
            )
        open_ones = {breaker.scope for breaker, _ in standing}
        reports += [
            BreakerReport(
                action=scope.action,
                origin=scope.origin,
                name=names.get(scope.origin, ""),
                phase=Phase.CLOSED,
                counted={str(signal): number for signal, number in found.items()},
            )
            for scope, found in sorted(counted.items())
            if scope not in open_ones
        ]
        return BreakersReport(when_open=self.breakers.rule.when_open, breakers=reports)

    async def trip(self, request: BreakerRequest, actor: str) -> BreakersReport:
        """Open one, until it is reset."""
        scope = self._scope(request)
        await self.store.write(partial(self.breakers.trip, scope=scope, actor=actor, why=request.reason))
        return await self._changed()

    async def reset(self, request: BreakerRequest, actor: str) -> BreakersReport:
        """Close one."""
        scope = self._scope(request)
        await self.store.write(partial(self.breakers.reset, scope=scope, actor=actor, why=request.reason))
        return await self._changed()

    async def _changed(self) -> BreakersReport:
        await self._look()
        self.breakers.around.outbox.stored({Stream.RECORD}, 1)
        return await self.report()

    async def _look(self) -> timedelta:
        """See how they stand, and let go on what may.

        Returns:
            When the next one may be tried.
        """
        self.breakers.stirred = False
        found, now = [each for each, _ in await self.breakers_now()], self.breakers.now
        self.breakers.actions = frozenset(each.scope.action for each in found)
        self.tell()
        left = [each.left(now) for each in found if each.phase(now) is Phase.OPEN]
        return min((each for each in left if each is not None), default=_NEVER)

    def _names(self) -> dict[KeyId, str]:
        policy = self.breakers.trust.policy
        keys = {} if policy is None else policy.keys
        return {id_of_key(bytes.fromhex(raw)): name for name, raw in keys.items()} | {
            id_of_key(self.own): "hub"
        }

    def _scope(self, request: BreakerRequest) -> Scope:
        """Whose breaker is meant."""
        typed, names = request.origin, self._names()
        called = [key for key, name in names.items() if name == typed]
        begin_so = sorted(key for key in names if key.startswith(typed))
        if len(called) > 1:
            raise AmbiguousError(f"several keys are called {typed}: {', '.join(called)}")
        key = called[0] if called else meant(typed, begin_so)
        if key not in names:
            raise UnknownError(f"no key is called {typed}")
        return Scope(key_id(key), request.action)
