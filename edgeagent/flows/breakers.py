"""Breakers at the hub: what goes wrong is counted, too much of it stops its origin's action (SPEC B1, B2).

Everything here is part of the transaction of what caused it: a breaker opens in the commit of the ending that
was one too many, with its audit row and its alert. ``core/breaker`` says how they stand; the gate asks it.
"""

import logging
from datetime import timedelta
from typing import Final

from pydantic import JsonValue

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.event import EventType, Stream, data_text
from edgeagent.contracts.policy import BreakerRule, Tier, WhenOpen
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.contracts.scalars import duration_text
from edgeagent.core import breaker as states
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.blame import Blame, blame_of
from edgeagent.core.breaker import Breaker, Moment, Phase, Scope, Seen, Signal
from edgeagent.core.gate.verdict import Refuse
from edgeagent.core.work import Ending
from edgeagent.errors import RejectedError
from edgeagent.flows.surroundings import Surroundings
from edgeagent.flows.trust import Trust
from edgeagent.ids import CommandId
from edgeagent.store import audit, breakers, dead_letters, locks, outbox
from edgeagent.store.audit import Act
from edgeagent.store.database import Transaction
from edgeagent.store.inbox_row import Row
from edgeagent.store.outbox import NewEvent
from edgeagent.values import dataclass

log = logging.getLogger(__name__)

MOST_ASIDE: Final = 100
"""How many commands an open breaker puts aside as dead letters; the others are only counted."""

_MILLISECOND: Final = timedelta(milliseconds=1)
_UNPROVEN: Final = frozenset({Outcome.SUPERSEDED, Outcome.EXPIRED, Outcome.CANCELLED})


@dataclass(slots=True)
class Breakers:
    """Counts, opens and closes.

    Attributes:
        around: time, and whose hub it is.
        trust: the policy, which says how much is too much.
        actions: of which some origin's breaker is not closed, as of the last look; see ``BreakerWatch``.
        stirred: whether something has changed since.
    """

    around: Surroundings
    trust: Trust
    actions: frozenset[ActionName] = frozenset()
    stirred: bool = True

    @property
    def rule(self) -> BreakerRule:
        """How much is too much."""
        policy = self.trust.policy
        return BreakerRule() if policy is None else policy.breaker

    @property
    def now(self) -> Moment:
        """The present, as breakers count it."""
        clock = self.around.clock
        return Moment(clock.boot_id, clock.boot())

    def refused(self, tx: Transaction, scope: Scope, command: CommandId, why: Refuse) -> None:
        """The gate has refused a command whose origin is proven."""
        signals, found = states.signals_of(why.reason), breakers.find(tx, scope)
        if signals and found is not None and found.phase(self.now) is Phase.OPEN:
            # Where one in a while is taken, a wrong one takes its turn: a storm of them fills no record.
            breakers.let_in(tx, states.had_its_turn(found, self.now))
            return
        said = f"{why.reason}{f': {why.detail}' if why.detail else ''}"
        for signal in signals:
            if self._note(tx, scope, Seen(signal=signal, about=command, why=said)):
                return

    def taken(self, tx: Transaction, scope: Scope, run: int) -> None:
        """A command was let in: where its breaker is half-open, it is the probe."""
        found = breakers.find(tx, scope)
        if found is None:
            return
        let_in = states.let_in(found, run, self.now)
        breakers.let_in(tx, let_in)
        if let_in.probe is not None:
            self._audit(tx, AuditKind.BREAKER_PROBED, scope, "agent", {"run": run})

    def postponed(self, tx: Transaction, row: Row, reason: Reason) -> None:
        """A command was given back; it counts where a try has failed and another one is due.

        An update that has not begun waits for its file or its device, and a list of them is not a storm.
        """
        if reason is not Reason.RETRYING or (row.action is ActionName.INSTALL and not row.sent):
            return
        about = f"{row.run} {row.attempts}"
        self._worked(tx, row, Seen(signal=Signal.RETRIED, about=about, why="its tries are repeated"))

    def lease_lost(self, tx: Transaction, row: Row) -> None:
        """Whoever worked a command has lost its lease (SPEC L7)."""
        about = f"{row.run} {locks.fence(tx, row.device)}"
        self._worked(tx, row, Seen(signal=Signal.LEASE_LOST, about=about, why="its leases are lost"))

    def ended(self, tx: Transaction, row: Row, ending: Ending, *, buried: bool) -> None:
        """A command is final; ``buried`` where it left a dead letter that tells against its sender."""
        scope, reason = Scope(row.issuer, row.action), ending.reason
        if buried and reason is not Reason.DEVICE_REFUSED and blame_of(reason) is not Blame.TRANSIENT:
            # A device that says no is its own affair: a hostile one must not stop an issuer everywhere.
            told = f"{row.device}: {reason}"
            seen = Seen(signal=Signal.BURIED, about=str(row.run), why=told, identity=told)
            self._worked(tx, row, seen)
        if ending.outcome is Outcome.REFUSED and reason is not None:
            self.refused(tx, scope, row.command, Refuse(reason, ending.detail))
        found = breakers.find(tx, scope)
        if found is None or found.probe != row.run:
            return
        if ending.outcome is Outcome.SUCCEEDED:
            breakers.close(tx, scope)
            self._audit(tx, AuditKind.BREAKER_CLOSED, scope, "agent", {"probe": row.run})
            log.info("breaker closed", extra=_fields(scope))
        elif ending.outcome in _UNPROVEN or (ending.outcome is Outcome.REFUSED and not buried):
            # It told nothing of its origin: too late, or its device was not as it had to be.
            breakers.free(tx, scope, row.run)
            self.stirred = True
        else:
            self._open(tx, states.opened(scope, found.signal, f"its probe: {reason}", self.rule, self.now))

    def puts_aside(self, tx: Transaction, scope: Scope) -> bool:
        """Whether a command that is refused because of its breaker is kept as a dead letter."""
        if self.rule.when_open is not WhenOpen.QUARANTINE:
            return False
        return dead_letters.put_aside(tx, scope.origin, scope.action) < MOST_ASIDE

    def most(self, lane: Tier, concurrency: int) -> int:
        """How many of a lane are worked at once: half as many while a breaker of it is not closed."""
        policy = self.trust.policy
        rules = {} if policy is None else policy.actions
        is_hurt = any(action in rules and rules[action].tier is lane for action in self.actions)
        return max(concurrency // 2, 1) if is_hurt else concurrency

    def trip(self, tx: Transaction, scope: Scope, actor: str, why: str) -> None:
        """Open a breaker by hand; it stays open until somebody resets it."""
        self._open(tx, states.opened(scope, Signal.BY_HAND, why, self.rule, self.now), actor)

    def reset(self, tx: Transaction, scope: Scope, actor: str, why: str) -> None:
        """Close a breaker by hand.

        Raises:
            RejectedError: it is closed.
        """
        if not breakers.close(tx, scope):
            raise RejectedError(f"the breaker of {scope.action} is closed for that origin")
        self._audit(tx, AuditKind.BREAKER_CLOSED, scope, actor, {"why": why})
        log.info("breaker closed", extra=_fields(scope) | {"actor": actor})

    def _worked(self, tx: Transaction, row: Row, seen: Seen) -> None:
        scope = Scope(row.issuer, row.action)
        found = breakers.find(tx, scope)
        # What was begun before it opened tells nothing of whether it may close.
        if found is None or found.probe == row.run:
            self._note(tx, scope, seen)

    def _note(self, tx: Transaction, scope: Scope, seen: Seen) -> bool:
        """Count a signal.

        Returns:
            Whether the breaker has opened, or opened again.
        """
        policy, now = self.trust.policy, self.now
        rule = BreakerRule() if policy is None else policy.breaker_of(scope.action)
        found = breakers.find(tx, scope)
        if found is not None:
            if found.phase(now) is Phase.OPEN:
                return False
            self._open(tx, states.opened(scope, seen.signal, f"its probe: {seen.why}", rule, now))
            return True
        most, span = states.limit(seen.signal, rule)
        number = breakers.count(tx, scope, seen, now, span)
        if number < most:
            return False
        told = f"{number} times {seen.signal} within {duration_text(span)}, last {seen.why}"
        self._open(tx, states.opened(scope, seen.signal, told, rule, now))
        return True

    def _open(self, tx: Transaction, opened: Breaker, actor: str = "agent") -> None:
        at = self.around.event_time()
        breakers.put(tx, opened, at.at)
        breakers.forget_signals(tx, opened.scope)
        length = None if opened.open_for is None else opened.open_for // _MILLISECOND
        about: dict[str, JsonValue] = {"signal": opened.signal, "why": opened.why, "open_for_ms": length}
        self._audit(tx, AuditKind.BREAKER_OPENED, opened.scope, actor, about)
        told = {"reason": Reason.BREAKER_OPEN, **_fields(opened.scope), **about}
        event = NewEvent(Stream.RECORD, EventType.ALERT, None, at, data_text(told))
        outbox.append(tx, [event], incarnation=self.around.origin.incarnation)
        log.warning(
            "breaker open", extra=_fields(opened.scope) | {"signal": opened.signal, "why": opened.why}
        )

    def _audit(
        self, tx: Transaction, kind: AuditKind, scope: Scope, actor: str, more: dict[str, JsonValue]
    ) -> None:
        self.stirred = True
        act = Act(kind=kind, subject=scope.action, actor=actor, detail={"origin": scope.origin, **more})
        audit.append(tx, [act], self.around.stamp())


def _fields(scope: Scope) -> dict[str, str]:
    return {"action": scope.action, "origin": scope.origin}
