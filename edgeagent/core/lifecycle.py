"""A command's life at the hub: which states there are, and which may follow which.

    new ──> held ──────────────┐
     │        │                ├──> superseded, cancelled, expired, refused
     ├──> queued <─> waiting ──┘
     │      │ ^        ^
     │      v │        │
     │    running ─────┘──> succeeded, failed, unknown, rolled_back, rollback_failed
     │         └──> expired, refused
     └──> refused

Superseded, cancelled, expired and refused say that nothing was done: once a step was sent, as of a
command that waits for its next try, none of them may follow.

The database repeats this table as CHECK and as ``WHERE state = ...``; ``tests/store/test_inbox.py`` and
``tests/core/test_lifecycle.py`` walk all pairs.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from edgeagent.contracts.receipt import Outcome
from edgeagent.errors import IllegalTransitionError


class State(StrEnum):
    """Where a command stands."""

    NEW = "new"
    """It has come and is being judged; never stored."""
    HELD = "held"
    """The gate misses something that may still come: a proof of the time, a person's word."""
    QUEUED = "queued"
    """It may be claimed."""
    WAITING = "waiting"
    """It may be claimed later: its device is away, a try has failed, or its list is not so far."""
    RUNNING = "running"
    """Claimed: its device is locked for it."""
    SUCCEEDED = "succeeded"
    """Final; see ``Outcome``."""
    REFUSED = "refused"
    """Final; see ``Outcome``."""
    SUPERSEDED = "superseded"
    """Final; see ``Outcome``."""
    CANCELLED = "cancelled"
    """Final; see ``Outcome``."""
    EXPIRED = "expired"
    """Final; see ``Outcome``."""
    FAILED = "failed"
    """Final; see ``Outcome``."""
    ROLLED_BACK = "rolled_back"
    """Final; see ``Outcome``."""
    ROLLBACK_FAILED = "rollback_failed"
    """Final; see ``Outcome``."""
    UNKNOWN = "unknown"
    """Final; see ``Outcome``."""


FINAL: Final = frozenset(State(outcome.value) for outcome in Outcome)
"""States that nothing follows."""
OPEN: Final = frozenset(State) - FINAL - {State.NEW}
"""States in which a command can still be carried out."""

NEXT: Final[Mapping[State, frozenset[State]]] = MappingProxyType(
    {
        State.NEW: frozenset({State.HELD, State.QUEUED, State.REFUSED}),
        State.HELD: frozenset(
            {State.QUEUED, State.REFUSED, State.SUPERSEDED, State.CANCELLED, State.EXPIRED}
        ),
        State.QUEUED: frozenset(
            {State.RUNNING, State.WAITING, State.SUPERSEDED, State.CANCELLED, State.EXPIRED, State.REFUSED}
        ),
        State.WAITING: frozenset(
            {State.QUEUED, State.EXPIRED, State.SUPERSEDED, State.CANCELLED, State.REFUSED}
        ),
        State.RUNNING: frozenset({State.WAITING, State.QUEUED}) | FINAL - {State.CANCELLED, State.SUPERSEDED},
    }
    | {state: frozenset() for state in FINAL}
)
"""Which states may follow which."""

_ONLY_UNSENT: Final = frozenset({State.SUPERSEDED, State.CANCELLED, State.EXPIRED, State.REFUSED})


def check_move(current: State, target: State, *, sent: bool) -> None:
    """Refuse a move that the table does not list.

    Args:
        current: where the command stands.
        target: where it is to go.
        sent: whether a step of this run was sent: then it is no longer true that nothing was done.

    Raises:
        IllegalTransitionError: ``target`` may not follow ``current``.
    """
    if target not in NEXT[current] or (sent and target in _ONLY_UNSENT):
        raise IllegalTransitionError(f"{current} may not become {target}{' once sent' if sent else ''}")


def state_of(outcome: Outcome) -> State:
    """The final state that stands for an outcome."""
    return State(outcome.value)
