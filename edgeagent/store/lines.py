"""The lines in which queued commands stand: who is next in a lane.

Owns ``lines`` and ``turns``. Every issuer that has queued commands for a device stands there in a line of
its own. Issuers take turns, and the devices of an issuer take turns: whoever was served goes to the back, so
that a flood delays nobody else by more than a round (SPEC Q8). Among those that wait for the same turn the
oldest is first.

Of one device and slot the order of arrival holds across issuers: what came later must have the last word.
Finding the next one costs as much as there are lines of locked devices and full parents before it, however
many commands are queued or over.
"""

import sqlite3
from typing import Final

from edgeagent.contracts.policy import Tier
from edgeagent.core.lifecycle import State
from edgeagent.errors import BrokenInvariantError
from edgeagent.store.database import Snapshot, SqlValue, Transaction
from edgeagent.store.inbox_row import COLUMNS, Now, Row, columns, read_row
from edgeagent.values import dataclass

_STAND: Final = """
INSERT INTO lines (lane, issuer, device, turn)
SELECT :lane, :issuer, :device,
       1 + coalesce((SELECT max(turn) FROM lines WHERE lane = :lane AND issuer = :issuer), 0)
 WHERE true
ON CONFLICT (lane, issuer, device) DO NOTHING
"""
_ENTER: Final = """
INSERT INTO turns (lane, issuer, turn)
SELECT :lane, :issuer, 1 + coalesce((SELECT max(turn) FROM turns WHERE lane = :lane), 0)
 WHERE true
ON CONFLICT (lane, issuer) DO NOTHING
"""
_SERVED: Final = """
UPDATE turns SET turn = 1 + (SELECT max(turn) FROM turns WHERE lane = :lane)
 WHERE lane = :lane AND issuer = :issuer
"""
_TO_THE_BACK: Final = """
UPDATE lines SET turn = 1 + (SELECT max(turn) FROM lines WHERE lane = :lane AND issuer = :issuer)
 WHERE lane = :lane AND issuer = :issuer AND device = :device
"""
_LEAVE: Final = """
DELETE FROM lines
 WHERE lane = :lane AND issuer = :issuer AND device = :device
   AND NOT EXISTS (SELECT 1 FROM inbox WHERE lane = :lane AND issuer = :issuer AND device = :device
                                         AND state = 'queued')
"""
_ROW: Final = columns("i")
_DUE_AGAIN: Final = f"""
SELECT {COLUMNS} FROM inbox
 WHERE lane = :lane AND state = 'waiting' AND available_at IS NOT NULL
   AND (available_boot <> :boot OR available_at <= :now)
 ORDER BY run
"""  # noqa: S608 - constant text
_QUEUED: Final = "SELECT count(*) FROM inbox WHERE lane = :lane AND state = 'queued'"
_RUNNING: Final = "SELECT count(*) FROM inbox WHERE lane = :lane AND state = 'running'"
# A lease that lapses makes work too: nobody tells that its holder is gone.
_OUTLOOK: Final = """
SELECT EXISTS (SELECT 1 FROM lines WHERE lane = :lane) AS is_left, min(due) AS next FROM (
    SELECT available_at AS due FROM inbox
     WHERE lane = :lane AND state = 'waiting' AND available_boot = :boot AND available_at IS NOT NULL
     UNION ALL
    SELECT l.lease_until FROM inbox i INDEXED BY inbox_running CROSS JOIN locks l ON l.run = i.run
     WHERE i.lane = :lane AND i.state = 'running' AND l.boot = :boot AND l.incarnation = :incarnation
)
"""
_PENDING: Final = """
SELECT lane, state, count(*) AS number, min(received_at) AS oldest FROM inbox INDEXED BY inbox_open
 WHERE state IN ('held', 'queued', 'waiting', 'running') GROUP BY lane, state
"""
# In the order of the indexes, so that nothing is sorted and the first that fits is the answer.
# A device in the middle of an update is nobody else's, whoever works that (SPEC F4).
# A lock of another boot, of an earlier start of the daemon, or past its lease is void. A parent has room for
# as many as whoever occupies it, and whoever wants to, can bear.
_FIRST: Final = f"""
SELECT {_ROW}
  FROM turns t
 CROSS JOIN lines w ON w.lane = t.lane AND w.issuer = t.issuer
 CROSS JOIN inbox i ON i.run = (SELECT run FROM inbox
                                 WHERE lane = w.lane AND issuer = w.issuer AND device = w.device
                                   AND state = 'queued'
                                 ORDER BY run LIMIT 1)
 WHERE t.lane = :lane
   AND NOT EXISTS (SELECT 1 FROM locks l
                    WHERE l.device = w.device AND l.token IS NOT NULL AND l.boot = :boot
                      AND l.incarnation = :incarnation AND l.lease_until > :now)
   AND NOT EXISTS (SELECT 1 FROM updates u JOIN inbox o ON o.run = u.run
                    WHERE u.device = w.device AND u.run <> i.run AND o.state IN ('queued', 'running')
                      AND u.stage IN ('triggered', 'installing', 'soaking', 'astray', 'reverting'))
   AND (i.parent IS NULL
        OR (SELECT count(*) < min(i.parent_most, coalesce(min(l.parent_most), i.parent_most)) FROM locks l
             WHERE l.parent = i.parent AND l.boot = :boot AND l.incarnation = :incarnation
               AND l.lease_until > :now))
 ORDER BY t.turn, w.turn LIMIT 1
"""  # noqa: S608 - constant text
_EARLIER: Final = f"""
SELECT {_ROW} FROM inbox i
 WHERE i.device = :device AND i.slot = :slot AND i.state = 'queued' AND i.slot IS NOT NULL
   AND i.lane = :lane AND i.parent IS :parent AND i.run < :run
 ORDER BY i.run LIMIT 1
"""  # noqa: S608 - constant text


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a lane waits for.

    Attributes:
        next: when there may be work, in milliseconds of boot time: a waiting command is due, or a lease
            lapses. None while nothing is to come.
        is_left: whether commands stand queued that could not be claimed: their device is worked, what they
            share has no room, or the lane works enough.
    """

    next: int | None
    is_left: bool


def stand(tx: Transaction, fields: dict[str, SqlValue]) -> None:
    """Have a command that is queued stand in its line.

    Args:
        tx: in which it was queued.
        fields: its lane, issuer and device.
    """
    tx.execute(_ENTER, {"lane": fields["lane"], "issuer": fields["issuer"]})
    tx.execute(_STAND, fields)


def leave(tx: Transaction, fields: dict[str, SqlValue], *, served: bool) -> None:
    """Have a command that is not queued any more leave its line.

    Args:
        tx: in which it was moved.
        fields: its lane, issuer and device.
        served: whether it was claimed: then its issuer and its device go to the back.
    """
    if served:
        tx.execute(_SERVED, {"lane": fields["lane"], "issuer": fields["issuer"]})
        tx.execute(_TO_THE_BACK, fields)
    tx.execute(_LEAVE, fields)


def first(db: Snapshot, lane: Tier, now: Now) -> Row | None:
    """The command of a lane that is next: its device is free, and its parent has room."""
    found = _one(db.row(_FIRST, {"lane": lane, **now.parameters}))
    if found is None or found.slot is None:
        return found
    fields: dict[str, SqlValue] = {
        "lane": lane,
        "device": found.device,
        "slot": found.slot,
        "run": found.run,
        "parent": None if found.parent is None else found.parent.name,
    }
    return _one(db.row(_EARLIER, fields)) or found


def due_again(db: Snapshot, lane: Tier, now: Now) -> list[Row]:
    """The waiting commands of a lane whose time has come."""
    return [read_row(row) for row in db.rows(_DUE_AGAIN, {"lane": lane, **now.parameters})]


def running(db: Snapshot, lane: Tier) -> int:
    """How many commands of a lane are being worked."""
    row = db.row(_RUNNING, {"lane": lane})
    return 0 if row is None else int(row[0])


def queued(db: Snapshot, lane: Tier) -> int:
    """How many commands of a lane wait to be claimed."""
    row = db.row(_QUEUED, {"lane": lane})
    return 0 if row is None else int(row[0])


def outlook(db: Snapshot, lane: Tier, now: Now) -> Outlook:
    """What a lane is to wait for in which nothing more can be claimed now."""
    row = db.row(_OUTLOOK, {"lane": str(lane), **now.parameters})
    if row is None:
        raise BrokenInvariantError("an aggregate has one row")
    return Outlook(None if row["next"] is None else int(row["next"]), bool(row["is_left"]))


def pending(db: Snapshot) -> dict[tuple[Tier, State], tuple[int, int]]:
    """The open commands of each lane and state.

    Returns:
        How many there are, and when the oldest came, in microseconds since 1970; nothing for none.
    """
    return {
        (Tier(row["lane"]), State(row["state"])): (int(row["number"]), int(row["oldest"]))
        for row in db.rows(_PENDING)
    }


def _one(row: sqlite3.Row | None) -> Row | None:
    return None if row is None else read_row(row)
