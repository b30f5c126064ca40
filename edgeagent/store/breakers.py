"""Breakers on disk: those that are not closed, and what is counted towards the next (SPEC B1, B2).

Owns ``breakers`` and ``breaker_signals``. Both are written in the commit of what caused them, so that they
survive whatever that survives. What was counted is kept no longer than it counts.
"""

import sqlite3
from datetime import timedelta
from typing import Final

from edgeagent.clock import BootId
from edgeagent.contracts.actions import ActionName
from edgeagent.core.breaker import Breaker, Moment, Scope, Seen, Signal
from edgeagent.ids import KeyId
from edgeagent.store.database import Snapshot, SqlValue, Transaction

_MILLISECOND: Final = timedelta(milliseconds=1)
_COLUMNS: Final = """
origin, action, signal, why, at, opened_boot, opened_at, open_for, probe, let_boot, let_at
"""
_FIND: Final = f"""
SELECT {_COLUMNS} FROM breakers WHERE origin = :origin AND action = :action
"""  # noqa: S608 - constant text
_ALL: Final = f"SELECT {_COLUMNS} FROM breakers ORDER BY at, origin, action"  # noqa: S608 - constant text
_ACTIONS: Final = "SELECT DISTINCT action FROM breakers"
_PUT: Final = """
INSERT INTO breakers (origin, action, signal, why, at, opened_boot, opened_at, open_for)
VALUES (:origin, :action, :signal, :why, :wall, :opened_boot, :opened_at, :open_for)
ON CONFLICT (origin, action) DO UPDATE
   SET signal = excluded.signal, why = excluded.why, at = excluded.at, opened_boot = excluded.opened_boot,
       opened_at = excluded.opened_at, open_for = excluded.open_for, probe = NULL, let_boot = NULL,
       let_at = NULL
"""
_LET_IN: Final = """
UPDATE breakers SET probe = :probe, let_boot = :let_boot, let_at = :let_at
 WHERE origin = :origin AND action = :action AND probe IS NULL
"""
_FREE: Final = """
UPDATE breakers SET probe = NULL WHERE origin = :origin AND action = :action AND probe = :probe
"""
_CLOSE: Final = "DELETE FROM breakers WHERE origin = :origin AND action = :action"
_NOTE: Final = """
INSERT INTO breaker_signals (origin, action, signal, identity, about, boot, at)
VALUES (:origin, :action, :signal, :identity, :about, :boot, :at)
ON CONFLICT DO NOTHING
"""
# Whatever is too old to count, and what was counted in an earlier boot: nobody knows how long that is ago.
_FADE: Final = """
DELETE FROM breaker_signals
 WHERE origin = :origin AND action = :action AND signal = :signal AND (boot <> :boot OR at <= :since)
"""
_COUNT: Final = """
SELECT count(*) FROM breaker_signals
 WHERE origin = :origin AND action = :action AND signal = :signal AND identity = :identity
"""
_COUNTS: Final = """
SELECT origin, action, signal, count(*) AS number FROM breaker_signals
 WHERE boot = :boot GROUP BY origin, action, signal ORDER BY origin, action, signal
"""
_CLEAR: Final = "DELETE FROM breaker_signals WHERE origin = :origin AND action = :action"


def find(db: Snapshot, scope: Scope) -> Breaker | None:
    """The breaker of a scope; None while it is closed."""
    row = db.row(_FIND, _key(scope))
    return None if row is None else _read(row)


def standing(db: Snapshot) -> list[tuple[Breaker, int]]:
    """All that are not closed, and since when: microseconds since 1970, the best guess."""
    return [(_read(row), int(row["at"])) for row in db.rows(_ALL)]


def actions(db: Snapshot) -> frozenset[ActionName]:
    """The actions of which some origin's breaker is not closed."""
    return frozenset(ActionName(row["action"]) for row in db.rows(_ACTIONS))


def put(tx: Transaction, breaker: Breaker, at: int) -> None:
    """Open a breaker, or open it again.

    Args:
        tx: the transaction.
        breaker: as it has just opened.
        at: the same; microseconds since 1970.
    """
    fields: dict[str, SqlValue] = {
        "signal": breaker.signal,
        "why": breaker.why,
        "wall": at,
        "opened_boot": breaker.opened.boot,
        "opened_at": breaker.opened.at // _MILLISECOND,
        "open_for": None if breaker.open_for is None else breaker.open_for // _MILLISECOND,
    }
    tx.execute(_PUT, fields | _key(breaker.scope))


def let_in(tx: Transaction, breaker: Breaker) -> None:
    """Note what was let in: a probe, or one at the pace of a breaker that slows."""
    let_by = breaker.let_by
    fields: dict[str, SqlValue] = {
        "probe": breaker.probe,
        "let_boot": None if let_by is None else let_by.boot,
        "let_at": None if let_by is None else let_by.at // _MILLISECOND,
    }
    tx.execute(_LET_IN, fields | _key(breaker.scope))


def free(tx: Transaction, scope: Scope, probe: int) -> None:
    """The probe told nothing: another one may try."""
    tx.execute(_FREE, {"probe": probe} | _key(scope))


def close(tx: Transaction, scope: Scope) -> bool:
    """Close a breaker, and forget what was counted.

    Returns:
        False if it was closed.
    """
    tx.execute(_CLEAR, _key(scope))
    return tx.execute(_CLOSE, _key(scope)) == 1


def forget_signals(tx: Transaction, scope: Scope) -> None:
    """Forget what was counted towards a breaker: it is open now."""
    tx.execute(_CLEAR, _key(scope))


def count(tx: Transaction, scope: Scope, seen: Seen, now: Moment, span: timedelta) -> int:
    """Count a signal.

    Args:
        tx: the transaction.
        scope: towards whose breaker.
        seen: what.
        now: the present.
        span: what is looked at.

    Returns:
        How many equal ones there were in the span, with this one.
    """
    at = now.at // _MILLISECOND
    fields = {"signal": str(seen.signal), "boot": now.boot} | _key(scope)
    tx.execute(_FADE, fields | {"since": at - span // _MILLISECOND})
    tx.execute(_NOTE, fields | {"identity": seen.identity, "about": seen.about, "at": at})
    row = tx.row(_COUNT, {"signal": seen.signal, "identity": seen.identity} | _key(scope))
    return 0 if row is None else int(row[0])


def counts(db: Snapshot, boot: BootId) -> dict[Scope, dict[Signal, int]]:
    """What is counted towards breakers in this boot; some of it may be too old by now."""
    found: dict[Scope, dict[Signal, int]] = {}
    for row in db.rows(_COUNTS, {"boot": boot}):
        scope = Scope(KeyId(str(row["origin"])), ActionName(row["action"]))
        found.setdefault(scope, {})[Signal(row["signal"])] = int(row["number"])
    return found


def _key(scope: Scope) -> dict[str, SqlValue]:
    return {"origin": scope.origin, "action": scope.action}


def _read(row: sqlite3.Row) -> Breaker:
    return Breaker(
        scope=Scope(KeyId(str(row["origin"])), ActionName(row["action"])),
        signal=Signal(row["signal"]),
        why=str(row["why"]),
        opened=Moment(BootId(str(row["opened_boot"])), int(row["opened_at"]) * _MILLISECOND),
        open_for=None if row["open_for"] is None else int(row["open_for"]) * _MILLISECOND,
        probe=row["probe"],
        let_by=None
        if row["let_boot"] is None
        else Moment(BootId(str(row["let_boot"])), int(row["let_at"]) * _MILLISECOND),
    )
