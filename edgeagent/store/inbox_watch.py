"""What those who watch ask of the inbox and the locks: what should have been over, and what nobody works.

Only open rows are looked at, by the index over them: what it costs does not grow with what is over.
"""

from typing import Final

from edgeagent.contracts.policy import Tier
from edgeagent.ids import CommandId, DeviceId
from edgeagent.store.database import Snapshot, SqlValue
from edgeagent.store.inbox_row import Now
from edgeagent.values import dataclass

# An update that was set off runs to its end, which may be hours after the time of its command.
_OVERDUE: Final = """
SELECT command, device, state, reason FROM inbox
 WHERE state IN ('held', 'queued', 'waiting', 'running')
   AND NOT (action = 'install' AND sent = 1 AND state IN ('queued', 'running'))
   AND CASE WHEN local_boot IS NULL THEN expires_at <= :before
            ELSE local_boot <> :boot OR local_until <= :until END
 ORDER BY run LIMIT :most
"""
_QUEUED: Final = """
SELECT i.lane AS lane, i.run AS run, i.command AS command, i.device AS device,
       count(*) AS number, min(i.run),
       EXISTS (SELECT 1 FROM locks l WHERE (l.device = i.device OR l.parent = i.parent)
                  AND l.token IS NOT NULL AND l.boot = :boot
                  AND l.incarnation = :incarnation AND l.lease_until > :now) AS busy,
       (SELECT count(*) FROM inbox r WHERE r.lane = i.lane AND r.state = 'running') AS running
  FROM inbox i WHERE i.state = 'queued' AND i.state IN ('held', 'queued', 'waiting', 'running')
 GROUP BY i.lane
"""
# Whoever works takes over what has lapsed at once: what stays so has nobody who works.
_SILENT: Final = """
SELECT device, holder FROM locks
 WHERE token IS NOT NULL AND boot = :boot AND incarnation = :incarnation AND lease_until <= :before
 ORDER BY device
"""


@dataclass(frozen=True, slots=True)
class Overdue:
    """A command that should have been over.

    Attributes:
        command: which.
        device: where.
        state: in which it stands.
        reason: why.
    """

    command: CommandId
    device: DeviceId
    state: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class Line:
    """The queued commands of a lane.

    Attributes:
        lane: which.
        number: how many there are.
        run: of the one that came first.
        command: of the same.
        is_free: whether nobody works its device, or what that shares with others.
        running: how many of the lane are being worked.
    """

    lane: Tier
    number: int
    run: int
    command: CommandId
    is_free: bool
    running: int


@dataclass(frozen=True, slots=True)
class Silent:
    """A lock whose lease has lapsed, and that nobody has taken over."""

    device: DeviceId
    holder: str


def overdue(db: Snapshot, *, before: int, until: int, now: Now, most: int) -> list[Overdue]:
    """Open commands whose time was over by then, the earliest first.

    Args:
        db: the database.
        before: microseconds since 1970.
        until: for those typed here: milliseconds of this boot's time.
        now: the present.
        most: at most so many.
    """
    fields: dict[str, SqlValue] = {"before": before, "until": until, "boot": now.boot, "most": most}
    return [
        Overdue(CommandId(str(row[0])), DeviceId(str(row[1])), str(row[2]), row[3])
        for row in db.rows(_OVERDUE, fields)
    ]


def queued(db: Snapshot, now: Now) -> list[Line]:
    """The lanes in which commands are queued."""
    return [
        Line(
            lane=Tier(row["lane"]),
            number=int(row["number"]),
            run=int(row["run"]),
            command=CommandId(str(row["command"])),
            is_free=not row["busy"],
            running=int(row["running"]),
        )
        for row in db.rows(_QUEUED, now.parameters)
    ]


def silent(db: Snapshot, now: Now, *, before: int) -> list[Silent]:
    """Locks whose lease lapsed by then.

    Args:
        db: the database.
        now: the present.
        before: milliseconds of boot time.
    """
    fields: dict[str, SqlValue] = {"before": before, "boot": now.boot, "incarnation": now.incarnation}
    return [Silent(DeviceId(str(row[0])), str(row[1])) for row in db.rows(_SILENT, fields)]
