"""Breakers of the producer's gate: who is refused too often is not queued for a while (SPEC B1, B4, V7).

    closed --too many refusals within the span--> open --its time is over--> the next command is a probe
       ^                                           ^                              |
       +------------- the probe passes ------------|------------------------------+
                                                   +----- the probe is refused ---+

Owns ``breakers``, ``breaker_refusals`` and ``breaker_turns``. A breaker belongs to one origin and one
action, so that nobody is stopped for what another did. Only refusals that tell of a wrong sender count: an
old epoch or a late command do not. The state is in the database and outlives the server; it is measured
on wall time, and a clock that was set back shortens it and never lengthens it.
"""

from datetime import datetime, timedelta
from typing import Final

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.policy import BreakerRule
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.scalars import timestamp
from edgeagent.issuer.store.opening import Instant, moment_of
from edgeagent.issuer.wire import BreakerStatus, BreakerTurn, Turn
from edgeagent.store.database import Snapshot, SqlValue, Transaction
from edgeagent.values import dataclass

COUNTED: Final = frozenset(
    {
        Reason.MALFORMED,
        Reason.WRONG_HUB,
        Reason.ID_CONFLICT,
        Reason.NOT_ALLOWED,
        Reason.BANNED,
        Reason.UNSUPPORTED_ACTION,
        Reason.ARTIFACT_NOT_APPROVED,
        Reason.ARTIFACT_UNSIGNED,
        Reason.ARTIFACT_REVOKED,
        Reason.ARTIFACT_TOO_OLD,
        Reason.BAD_ARGUMENTS,
        Reason.VALID_TOO_LONG,
    }
)
"""Refusals that tell of a sender that is wrong."""
MOST_TURNS: Final = 10_000
"""The oldest turns beyond this are forgotten."""

_MILLISECOND: Final = timedelta(milliseconds=1)

_OPEN: Final = "SELECT opened_at, until FROM breakers WHERE origin = :origin AND action = :action"
_NOTE: Final = "INSERT INTO breaker_refusals (origin, action, at) VALUES (:origin, :action, :now)"
# Those of the future were counted before the clock was set back.
_FORGET: Final = """
DELETE FROM breaker_refusals
 WHERE origin = :origin AND action = :action AND (at <= :since OR at > :now)
"""
_COUNT: Final = "SELECT count(*) FROM breaker_refusals WHERE origin = :origin AND action = :action"
_TRIP: Final = """
INSERT INTO breakers (origin, action, opened_at, until) VALUES (:origin, :action, :now, :until)
    ON CONFLICT (origin, action) DO UPDATE SET opened_at = excluded.opened_at, until = excluded.until
"""
_CLEAR: Final = "DELETE FROM breaker_refusals WHERE origin = :origin AND action = :action"
_CLOSE: Final = "DELETE FROM breakers WHERE origin = :origin AND action = :action"
_TURN: Final = """
INSERT INTO breaker_turns (at, turn, origin, action, reason)
VALUES (:at, :turn, :origin, :action, :reason)
"""
_PRUNE: Final = """
DELETE FROM breaker_turns WHERE number <= (SELECT max(number) FROM breaker_turns) - :most
"""
_ALL: Final = "SELECT origin, action, opened_at, until FROM breakers ORDER BY opened_at DESC LIMIT :most"
_TURNS: Final = """
SELECT at, turn, origin, action, reason FROM breaker_turns ORDER BY number DESC LIMIT :most
"""


@dataclass(frozen=True, slots=True)
class Circuit:
    """Whose commands of which action.

    Attributes:
        origin: the key that verified, else the login.
        action: what is asked.
    """

    origin: str
    action: ActionName

    @property
    def key(self) -> dict[str, SqlValue]:
        """As a statement's parameters."""
        return {"origin": self.origin, "action": self.action}


def open_until(db: Snapshot, circuit: Circuit, now: Instant) -> datetime | None:
    """Until when commands are not taken; None when one may be: the breaker is closed, or a probe is due."""
    row = db.row(_OPEN, circuit.key)
    if row is None or not int(row["opened_at"]) <= now.milliseconds < int(row["until"]):
        return None
    return moment_of(row["until"])


def passed(tx: Transaction, circuit: Circuit, now: Instant) -> None:
    """A command was taken; if it was a probe, the breaker closes."""
    if tx.execute(_CLOSE, circuit.key):
        tx.execute(_CLEAR, circuit.key)
        _log(tx, circuit, Turn.CLOSED, None, now)


def refused(
    tx: Transaction, circuit: Circuit, reason: Reason, rule: BreakerRule, now: Instant
) -> Turn | None:
    """A command was refused.

    Returns:
        What the breaker did; None when it stands as it stood.
    """
    if reason not in COUNTED:
        return None
    row = tx.row(_OPEN, circuit.key)
    if row is not None:
        if int(row["opened_at"]) <= now.milliseconds < int(row["until"]):
            return None
        return _open(tx, circuit, Turn.STAYED_OPEN, reason, rule, now)
    since = now.milliseconds - rule.within // _MILLISECOND
    tx.execute(_FORGET, {**circuit.key, "since": since, "now": now.milliseconds})
    tx.execute(_NOTE, {**circuit.key, "now": now.milliseconds})
    if int(tx.rows(_COUNT, circuit.key)[0][0]) < rule.refusals:
        return None
    return _open(tx, circuit, Turn.OPENED, reason, rule, now)


def standing(db: Snapshot, *, most: int) -> list[BreakerStatus]:
    """The breakers that are open, newest first."""
    return [
        BreakerStatus(
            origin=row["origin"],
            action=ActionName(row["action"]),
            opened_at=moment_of(row["opened_at"]),
            until=moment_of(row["until"]),
        )
        for row in db.rows(_ALL, {"most": most})
    ]


def turns(db: Snapshot, *, most: int) -> list[BreakerTurn]:
    """What breakers did, newest first."""
    return [
        BreakerTurn(
            at=timestamp(row["at"]),
            turn=Turn(row["turn"]),
            origin=row["origin"],
            action=ActionName(row["action"]),
            reason=row["reason"],
        )
        for row in db.rows(_TURNS, {"most": most})
    ]


def _open(
    tx: Transaction, circuit: Circuit, turn: Turn, reason: Reason, rule: BreakerRule, now: Instant
) -> Turn:
    until = now.milliseconds + rule.open_for // _MILLISECOND
    tx.execute(_TRIP, {**circuit.key, "now": now.milliseconds, "until": until})
    tx.execute(_CLEAR, circuit.key)
    _log(tx, circuit, turn, reason, now)
    return turn


def _log(tx: Transaction, circuit: Circuit, turn: Turn, reason: Reason | None, now: Instant) -> None:
    tx.execute(_TURN, {**circuit.key, "at": now.text, "turn": turn, "reason": reason})
    tx.execute(_PRUNE, {"most": MOST_TURNS})
