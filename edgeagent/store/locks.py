"""The locks under which devices are worked: one lease, one fence for each device.

Owns ``locks``. A lock is taken with a token that only its holder knows, renewed and released by that
token in one statement each, and void when its lease has lapsed, its boot is over, or the daemon has
started anew (SPEC L1, L3, L5). The fence of a device only grows, also across restarts (SPEC L2): its
row stays when the lock is free.
"""

from dataclasses import dataclass
from typing import Final

from edgeagent.errors import LostRaceError
from edgeagent.ids import DeviceId
from edgeagent.store.database import Snapshot, SqlValue, Transaction
from edgeagent.store.inbox_row import Now

# Taken only if free or void; what it says of a live one it leaves alone.
_TAKE: Final = """
INSERT INTO locks (device, fence, run, holder, token, lease_until, boot, incarnation)
VALUES (:device, 1, :run, :holder, :token, :until, :boot, :incarnation)
ON CONFLICT (device) DO UPDATE
   SET fence = locks.fence + 1, run = excluded.run, holder = excluded.holder, token = excluded.token,
       lease_until = excluded.lease_until, boot = excluded.boot, incarnation = excluded.incarnation
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
   SET run = NULL, holder = NULL, token = NULL, lease_until = NULL, boot = NULL, incarnation = NULL
 WHERE device = :device AND token = :token
"""
# What a holder that is gone has left; of a live one nothing.
_CLEAR: Final = """
UPDATE locks
   SET run = NULL, holder = NULL, token = NULL, lease_until = NULL, boot = NULL, incarnation = NULL
 WHERE run = :run AND (boot <> :boot OR incarnation <> :incarnation OR lease_until <= :now)
"""
_HOLDS: Final = """
SELECT fence FROM locks
 WHERE device = :device AND token = :token AND boot = :boot AND incarnation = :incarnation
   AND lease_until > :now
"""
_HELD: Final = """
SELECT device, fence, run, holder, lease_until FROM locks
 WHERE token IS NOT NULL AND boot = :boot AND incarnation = :incarnation AND lease_until > :now
 ORDER BY device
"""
_FENCE: Final = "SELECT fence FROM locks WHERE device = :device"


@dataclass(frozen=True, slots=True)
class Held:
    """A lock that is held.

    Attributes:
        device: whose.
        fence: under which.
        run: for which.
        holder: by whom.
        until: milliseconds of boot time at which the lease ends.
    """

    device: DeviceId
    fence: int
    run: int
    holder: str
    until: int


@dataclass(frozen=True, slots=True)
class Key:
    """What proves that a lock is ours."""

    device: DeviceId
    token: str

    @property
    def parameters(self) -> dict[str, SqlValue]:
        """For SQL."""
        return {"device": self.device, "token": self.token}


def take(tx: Transaction, key: Key, *, run: int, holder: str, until: int, now: Now) -> int:
    """Lock a device.

    Returns:
        The fence.

    Raises:
        LostRaceError: somebody works it.
    """
    fields: dict[str, SqlValue] = {"run": run, "holder": holder, "until": until}
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
            int(row["lease_until"]),
        )
        for row in db.rows(_HELD, now.parameters)
    ]
