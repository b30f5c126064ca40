"""The locks under which devices are worked: one lease, one fence for each device.

Owns ``locks``. A lock is taken with a token that only its holder knows, renewed and released by that
token in one statement each, and void when its lease has lapsed, its boot is over, or the daemon has
started anew (SPEC L1, L3, L5). The fence of a device only grows, also across restarts (SPEC L2): its
row stays when the lock is free.

What a device shares with others, such as a bridge, is occupied by the lock itself: for as long as the lock
is live, and no longer (SPEC L6). So there is nothing to be renewed or released beside it, and nobody waits
for one while holding the other.
"""

from typing import Final

from edgeagent.core.lease import Parent
from edgeagent.errors import LostRaceError
from edgeagent.ids import DeviceId
from edgeagent.store.database import Snapshot, SqlValue, Transaction
from edgeagent.store.inbox_row import Now
from edgeagent.values import dataclass

# Taken only if free or void; what it says of a live one it leaves alone.
_TAKE: Final = """
INSERT INTO locks (device, fence, run, holder, token, lease_until, boot, incarnation,
                   parent, parent_most, since)
SELECT :device, 1, :run, :holder, :token, :until, :boot, :incarnation, :parent, :most, :now
 WHERE :parent IS NULL
    OR (SELECT count(*) < min(:most, coalesce(min(l.parent_most), :most)) FROM locks l
         WHERE l.parent = :parent AND l.boot = :boot AND l.incarnation = :incarnation
           AND l.lease_until > :now)
ON CONFLICT (device) DO UPDATE
   SET fence = locks.fence + 1, run = excluded.run, holder = excluded.holder, token = excluded.token,
       lease_until = excluded.lease_until, boot = excluded.boot, incarnation = excluded.incarnation,
       parent = excluded.parent, parent_most = excluded.parent_most, since = excluded.since
 WHERE locks.token IS NULL OR locks.boot <> :boot OR locks.incarnation <> :incarnation
    OR locks.lease_until <= :now
RETURNING fence
"""
# A lapsed lease is not renewed, even if nobody has taken it yet: its holder was gone for too long.
_RENEW: Final = """
UPDATE locks SET lease_until = :until
 WHERE device = :device AND token = :token AND boot = :boot AND incarnation = :incarnation
   AND lease_until > :now
"""
_RELEASE: Final = """
UPDATE locks
   SET run = NULL, holder = NULL, token = NULL, lease_until = NULL, boot = NULL, incarnation = NULL,
       parent = NULL, parent_most = NULL, since = NULL
 WHERE device = :device AND token = :token
"""
# What a holder that is gone has left; of a live one nothing.
_CLEAR: Final = """
UPDATE locks
   SET run = NULL, holder = NULL, token = NULL, lease_until = NULL, boot = NULL, incarnation = NULL,
       parent = NULL, parent_most = NULL, since = NULL
 WHERE run = :run AND (boot <> :boot OR incarnation <> :incarnation OR lease_until <= :now)
"""
_HOLDS: Final = """
SELECT fence FROM locks
 WHERE device = :device AND token = :token AND boot = :boot AND incarnation = :incarnation
   AND lease_until > :now
"""
_HELD: Final = """
SELECT device, fence, run, holder, token, lease_until, since, parent FROM locks
 WHERE token IS NOT NULL AND boot = :boot AND incarnation = :incarnation AND lease_until > :now
 ORDER BY device
"""
_HOLDER: Final = "SELECT holder FROM locks WHERE device = :device AND token = :token"
_FENCE: Final = "SELECT fence FROM locks WHERE device = :device"


@dataclass(frozen=True, slots=True)
class Held:
    """A lock that is held.

    Attributes:
        device: whose.
        fence: under which.
        run: for which.
        holder: by whom.
        token: by which it is held.
        until: milliseconds of boot time at which the lease ends.
        since: milliseconds of boot time at which it was taken.
        parent: what is occupied beside the device; None for nothing.
    """

    device: DeviceId
    fence: int
    run: int
    holder: str
    token: str
    until: int
    since: int
    parent: str | None


@dataclass(frozen=True, slots=True)
class Key:
    """What proves that a lock is ours."""

    device: DeviceId
    token: str

    @property
    def parameters(self) -> dict[str, SqlValue]:
        """For SQL."""
        return {"device": self.device, "token": self.token}


def take(
    tx: Transaction,
    key: Key,
    *,
    run: int,
    holder: str,
    until: int,
    now: Now,
    parent: Parent | None = None,
) -> int:
    """Lock a device, and what it shares with others: both or neither.

    Returns:
        The fence.

    Raises:
        LostRaceError: somebody works it, or its parent has no room.
    """
    fields: dict[str, SqlValue] = {"run": run, "holder": holder, "until": until}
    fields |= {"parent": None if parent is None else parent.name}
    fields |= {"most": None if parent is None else parent.most}
    row = tx.row(_TAKE, fields | key.parameters | now.parameters)
    if row is None:
        raise LostRaceError(f"{key.device} is being worked")
    return int(row[0])


def renew(tx: Transaction, key: Key, *, until: int, now: Now) -> None:
    """Lengthen a lease.

    Raises:
        LostRaceError: it has lapsed, or is somebody else's.
    """
    if tx.execute(_RENEW, {"until": until} | key.parameters | now.parameters) != 1:
        raise LostRaceError(f"the lock of {key.device} is lost")


def check(db: Snapshot, key: Key, now: Now) -> None:
    """See whether a lock is still ours.

    Raises:
        LostRaceError: it has lapsed, or is somebody else's.
    """
    if db.row(_HOLDS, key.parameters | now.parameters) is None:
        raise LostRaceError(f"the lock of {key.device} is lost")


def release(tx: Transaction, key: Key) -> None:
    """Free a device.

    Raises:
        LostRaceError: the lock is somebody else's; it was left alone.
    """
    if tx.execute(_RELEASE, key.parameters) != 1:
        raise LostRaceError(f"the lock of {key.device} is lost")


def clear(tx: Transaction, run: int, now: Now) -> None:
    """Free the device of a run whose holder is gone, if it is still locked for that run."""
    tx.execute(_CLEAR, {"run": run, **now.parameters})


def of_device(db: Snapshot, device: DeviceId, now: Now) -> Held | None:
    """The lock of a device; None while nobody works it."""
    return next((each for each in held(db, now) if each.device == device), None)


def holder(db: Snapshot, key: Key) -> str | None:
    """In whose name a lock was taken; None if it is not held by this key."""
    row = db.row(_HOLDER, key.parameters)
    return None if row is None else str(row["holder"])


def fence(db: Snapshot, device: DeviceId) -> int:
    """The last fence of a device; 0 if it was never locked."""
    row = db.row(_FENCE, {"device": device})
    return 0 if row is None else int(row[0])


def held(db: Snapshot, now: Now) -> list[Held]:
    """All locks that are held."""
    return [
        Held(
            DeviceId(str(row["device"])),
            int(row["fence"]),
            int(row["run"]),
            str(row["holder"]),
            str(row["token"]),
            int(row["lease_until"]),
            int(row["since"]),
            row["parent"],
        )
        for row in db.rows(_HELD, now.parameters)
    ]
