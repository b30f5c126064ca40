"""Breakers: commands of one origin and action are stopped when too much goes wrong with them (SPEC B1, B2).

    closed ──too much of one signal within its span──> open ──its time is over──> half-open
      ^                                                 ^                             │ one probe is let in
      └──────────── the probe has succeeded ────────────┼─────────────────────────────┤
                                                        └──── the probe went wrong ───┘

A breaker belongs to one origin, the key that has verified, and one action, so that nobody is stopped for
what another did. A closed one is not kept. Time is boot time: no clock that is set shortens or lengthens
it; after a reboot its span begins anew. One that a person has tripped stays open until a person resets it.
"""

from dataclasses import replace
from datetime import timedelta
from enum import StrEnum

from edgeagent.clock import BootId
from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.policy import BreakerRule, WhenOpen
from edgeagent.contracts.reasons import Reason
from edgeagent.core.blame import INVALID, OFF_TARGET
from edgeagent.ids import KeyId
from edgeagent.values import dataclass


class Phase(StrEnum):
    """How a breaker stands."""

    CLOSED = "closed"
    """Commands are taken."""
    OPEN = "open"
    """They are not."""
    HALF_OPEN = "half_open"
    """One is let in to try."""


class Signal(StrEnum):
    """What is counted."""

    INVALID = "invalid"
    """A command that no honest sender makes was refused."""
    OFF_TARGET = "off_target"
    """It was for a target that is not the sender's."""
    RETRIED = "retried"
    """A try has to be repeated."""
    BURIED = "buried"
    """A command ended as a dead letter; equal ones are counted together."""
    LEASE_LOST = "lease_lost"
    """Whoever worked it lost its lease."""
    BY_HAND = "by_hand"
    """A person tripped it; never counted."""


@dataclass(frozen=True, slots=True, order=True)
class Scope:
    """Whose commands of which action."""

    origin: KeyId
    action: ActionName


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Something that is counted.

    Attributes:
        signal: as what.
        about: of what it is a signal: a command counts once, for however many devices it is.
        why: for people.
        identity: which ones are equal; empty where all are.
    """

    signal: Signal
    about: str
    why: str
    identity: str = ""


@dataclass(frozen=True, slots=True)
class Moment:
    """An instant of boot time, with its boot."""

    boot: BootId
    at: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """A breaker that is not closed.

    Attributes:
        scope: whose, of which action.
        signal: what opened it.
        why: for people.
        opened: when.
        open_for: how long it stays open; None until it is reset.
        probe: the run that was let in to try.
        let_by: when one was judged last, where they are slowed.
    """

    scope: Scope
    signal: Signal
    why: str
    opened: Moment
    open_for: timedelta | None
    probe: int | None = None
    let_by: Moment | None = None

    def left(self, now: Moment) -> timedelta | None:
        """How long it stays open; nothing when its time is over, None until it is reset."""
        if self.open_for is None:
            return None
        return max(self.open_for - _since(self.opened, now), timedelta(0))

    def phase(self, now: Moment) -> Phase:
        """How it stands."""
        return Phase.HALF_OPEN if self.left(now) == timedelta(0) else Phase.OPEN


@dataclass(frozen=True, slots=True)
class Shut:
    """What stands before a command at the gate.

    Attributes:
        how: what becomes of it.
        detail: why, for people.
    """

    how: WhenOpen
    detail: str


def signals_of(refusal: Reason) -> tuple[Signal, ...]:
    """What a refusal counts as."""
    if refusal in OFF_TARGET:
        return Signal.OFF_TARGET, Signal.INVALID
    return (Signal.INVALID,) if refusal in INVALID else ()


def limit(signal: Signal, rule: BreakerRule) -> tuple[int, timedelta]:
    """How many of a signal open a breaker, and within which span."""
    match signal:
        case Signal.INVALID:
            return rule.refusals, rule.within
        case Signal.OFF_TARGET:
            return rule.off_target, rule.within
        case Signal.RETRIED:
            return rule.retries, rule.worked_within
        case Signal.BURIED:
            return rule.dead_letters, rule.worked_within
        case Signal.LEASE_LOST:
            return rule.lease_losses, rule.worked_within
        case Signal.BY_HAND:
            return 1, timedelta(0)


def shut(breaker: Breaker | None, rule: BreakerRule, now: Moment) -> Shut | None:
    """What stands before a new command; None where it is taken, be it as a probe."""
    if breaker is None:
        return None
    if breaker.phase(now) is Phase.HALF_OPEN:
        return None if breaker.probe is None else Shut(rule.when_open, f"run {breaker.probe} tries")
    if rule.when_open is WhenOpen.SLOW:
        last = breaker.let_by
        if last is None or _since(last, now) >= rule.slow_pace:
            return None
    left = breaker.left(now)
    until = "until it is reset" if left is None else f"for {max(int(left.total_seconds()), 1)} s more"
    return Shut(rule.when_open, f"{until}: {breaker.why}")


def let_in(breaker: Breaker, run: int, now: Moment) -> Breaker:
    """A command was taken: as the probe of a half-open one, or at the pace of one that slows."""
    if breaker.phase(now) is Phase.HALF_OPEN:
        return replace(breaker, probe=run)
    return had_its_turn(breaker, now)


def had_its_turn(breaker: Breaker, now: Moment) -> Breaker:
    """A command was judged, whatever came of it: where they are slowed the next one waits for its pace."""
    return replace(breaker, let_by=now)


def opened(scope: Scope, signal: Signal, why: str, rule: BreakerRule, now: Moment) -> Breaker:
    """A breaker that has just opened, or opened again."""
    span = None if signal is Signal.BY_HAND else rule.open_for
    return Breaker(scope=scope, signal=signal, why=why, opened=now, open_for=span)


def _since(then: Moment, now: Moment) -> timedelta:
    """How long ago something was, as far as it is known: what was in an earlier boot counts from this one."""
    return now.at - then.at if then.boot == now.boot else now.at
