"""What upkeep asks of the inbox: which open commands are over, may go on or are to be judged again.

Each question is answered by an index of its own over open rows, with at most so many runs at once: what it
costs grows neither with what is over nor with what waits for something else. Envelopes are not read.
"""

from typing import Final

from edgeagent.clock import BootId
from edgeagent.core.lifecycle import State
from edgeagent.ids import DeviceId, KeyId
from edgeagent.store.database import Snapshot, SqlValue
from edgeagent.values import dataclass

# One that was sent may have worked: whoever claims it finds out. It is done with here once it stands in its
# lane again; one that has a time is claimed then, and without the broker nobody can ask.
_OURS: Final = """
(sent = 0 OR (state = 'waiting' AND available_at IS NULL AND (:linked OR reason IS NOT 'broker_away')))
"""
_OVER: Final = f"""
SELECT run FROM inbox INDEXED BY inbox_open
 WHERE state IN ('held', 'queued', 'waiting', 'running') AND state <> 'running' AND local_boot IS NULL
   AND expires_at <= :earliest AND {_OURS}
 ORDER BY expires_at LIMIT :most
"""  # noqa: S608 - constant text
_OVER_HERE: Final = f"""
SELECT run FROM inbox INDEXED BY inbox_here
 WHERE local_boot IS NOT NULL AND state IN ('held', 'queued', 'waiting', 'running') AND state <> 'running'
   AND (local_boot <> :boot OR local_until <= :now) AND {_OURS}
 LIMIT :most
"""  # noqa: S608 - constant text
_NEXT_OVER: Final = """
SELECT expires_at FROM inbox INDEXED BY inbox_open
 WHERE state IN ('held', 'queued', 'waiting', 'running') AND state <> 'running' AND local_boot IS NULL
   AND expires_at > :earliest
 ORDER BY expires_at LIMIT 1
"""
_NEXT_OVER_HERE: Final = """
SELECT local_until FROM inbox INDEXED BY inbox_here
 WHERE local_boot IS NOT NULL AND state IN ('held', 'queued', 'waiting', 'running') AND state <> 'running'
   AND local_boot = :boot AND local_until > :now
 ORDER BY local_until LIMIT 1
"""
_BEGUN: Final = """
SELECT run, state FROM inbox INDEXED BY inbox_ahead
 WHERE state IN ('held', 'waiting') AND available_at IS NULL AND reason = 'not_yet_valid'
   AND begins_at <= :latest
 ORDER BY begins_at LIMIT :most
"""
_NEXT_BEGUN: Final = """
SELECT begins_at FROM inbox INDEXED BY inbox_ahead
 WHERE state IN ('held', 'waiting') AND available_at IS NULL AND reason = 'not_yet_valid'
   AND begins_at > :latest
 ORDER BY begins_at LIMIT 1
"""
_UNSURE: Final = """
SELECT run, state FROM inbox INDEXED BY inbox_unsure
 WHERE state IN ('held', 'waiting') AND available_at IS NULL
   AND reason IN ('clock_unsure', 'not_yet_valid', 'needs_approval', 'outcome_unknown') AND run > :after
 ORDER BY run LIMIT :most
"""
# From device to device, past all that wait for the same one.
_AWAITED: Final = """
WITH RECURSIVE awaited (device) AS (
    SELECT min(device) FROM inbox
     WHERE state = 'waiting' AND available_at IS NULL AND reason = 'device_offline'
     UNION ALL
    SELECT (SELECT min(device) FROM inbox
             WHERE state = 'waiting' AND available_at IS NULL AND reason = 'device_offline'
               AND device > awaited.device)
      FROM awaited WHERE device IS NOT NULL
)
SELECT device FROM awaited WHERE device IS NOT NULL
"""
_FOR_DEVICE: Final = """
SELECT run FROM inbox INDEXED BY inbox_on_event
 WHERE state = 'waiting' AND available_at IS NULL AND reason = 'device_offline' AND device = :device
 ORDER BY run LIMIT :most
"""
_FOR_BROKER: Final = """
SELECT run FROM inbox INDEXED BY inbox_on_event
 WHERE state = 'waiting' AND available_at IS NULL AND reason = 'broker_away' LIMIT :most
"""
_HELD_OF: Final = """
SELECT count(*) FROM (SELECT 1 FROM inbox WHERE issuer = :issuer AND state = 'held' LIMIT :most)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """By what is looked.

    Attributes:
        earliest: what the time is at least; microseconds since 1970.
        latest: what it is at most; None where nobody can tell.
        boot: this boot.
        now: milliseconds of boot time.
        linked: whether the broker can be reached.
        after: what waits to be judged again is looked through behind this run; None: it is not.
        most: at most so many of each.
    """

    earliest: int
    latest: int | None
    boot: BootId
    now: int
    linked: bool
    after: int | None
    most: int


@dataclass(frozen=True, slots=True)
class Unsure:
    """A run for which the gate could not tell enough.

    Attributes:
        run: which.
        held: whether it has to be judged again before it stands in its lane.
    """

    run: int
    held: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """The runs that are due, at most ``View.most`` in each list.

    Attributes:
        over: whose time is over.
        begun: those of the future that have begun.
        unsure: that wait for the time or somebody's word, in order; none where they are not looked through.
        for_broker: that waited for the broker, where it is there.
        awaited: the devices for which any waits.
        next_over: when the next is over by the wall clock; microseconds since 1970.
        next_over_here: when by boot time; milliseconds.
        next_begun: when the next of the future has begun; microseconds since 1970.
    """

    over: list[int]
    begun: list[Unsure]
    unsure: list[Unsure]
    for_broker: list[int]
    awaited: list[DeviceId]
    next_over: int | None
    next_over_here: int | None
    next_begun: int | None


def due(db: Snapshot, view: View) -> Due:
    """What is due now, and when there is more."""
    until: dict[str, SqlValue] = {"earliest": view.earliest, "boot": view.boot, "now": view.now}
    bound: dict[str, SqlValue] = {"linked": int(view.linked), "most": view.most}
    # Where nobody can tell, NULL comes after nothing.
    begun: dict[str, SqlValue] = {"latest": view.latest}
    return Due(
        over=(_runs(db, _OVER, until | bound) + _runs(db, _OVER_HERE, until | bound))[: view.most],
        begun=_unsure(db, _BEGUN, begun | bound),
        unsure=[] if view.after is None else _unsure(db, _UNSURE, bound | {"after": view.after}),
        for_broker=_runs(db, _FOR_BROKER, bound) if view.linked else [],
        awaited=[DeviceId(str(row[0])) for row in db.rows(_AWAITED)],
        next_over=_moment(db, _NEXT_OVER, until),
        next_over_here=_moment(db, _NEXT_OVER_HERE, until),
        next_begun=_moment(db, _NEXT_BEGUN, begun),
    )


def for_devices(db: Snapshot, devices: list[DeviceId], most: int) -> list[int]:
    """The runs that wait for these devices to be there, at most so many."""
    found: list[int] = []
    for device in devices:
        found += _runs(db, _FOR_DEVICE, {"device": device, "most": most - len(found)})
        if len(found) == most:
            break
    return found


def held_of(db: Snapshot, issuer: KeyId, most: int) -> int:
    """How many commands of an issuer are held; counted up to ``most``."""
    row = db.row(_HELD_OF, {"issuer": issuer, "most": most})
    return 0 if row is None else int(row[0])


def _runs(db: Snapshot, sql: str, fields: dict[str, SqlValue]) -> list[int]:
    return [int(row[0]) for row in db.rows(sql, fields)]


def _unsure(db: Snapshot, sql: str, fields: dict[str, SqlValue]) -> list[Unsure]:
    return [Unsure(int(row[0]), row[1] == State.HELD) for row in db.rows(sql, fields)]


def _moment(db: Snapshot, sql: str, fields: dict[str, SqlValue]) -> int | None:
    row = db.row(sql, fields)
    return None if row is None else int(row[0])
