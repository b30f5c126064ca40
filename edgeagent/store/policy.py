"""The policy in force, as it was signed, with what stands behind it.

Owns ``policy``: one row. The daemon judges from here, so that a file that is lost, cut or put back to
an earlier version changes nothing (DESIGN decision 6). A policy is the envelope of one signer, or the
target of metadata that are kept with it (``ports/policy_source``).
"""

from datetime import datetime, timedelta
from typing import Final

from edgeagent.clock import EPOCH
from edgeagent.errors import LostRaceError
from edgeagent.ids import Digest
from edgeagent.ports.policy_source import Held, Metadata, Published
from edgeagent.store import catalogue, meta
from edgeagent.store.database import Snapshot, Transaction
from edgeagent.values import dataclass

_MICROSECOND: Final = timedelta(microseconds=1)

# The version only grows, whoever writes last.
_SAVE: Final = """
INSERT INTO policy (one, version, envelope) VALUES (1, :version, :envelope)
ON CONFLICT (one) DO UPDATE
   SET version = excluded.version, envelope = excluded.envelope, taken_at = NULL,
       target = NULL, pin = NULL, root = NULL, timestamp = NULL, snapshot = NULL, targets = NULL,
       root_version = NULL, timestamp_version = NULL, snapshot_version = NULL, targets_version = NULL,
       until = NULL, is_over = 0
 WHERE excluded.version >= policy.version
"""
# Anew: the root has replaced the keys that had signed the last one, and so taken back how far it counted.
# Under one pin the root itself never goes back.
_SAVE_PUBLISHED: Final = """
INSERT INTO policy (one, version, taken_at, target, pin, root, timestamp, snapshot, targets,
                    root_version, timestamp_version, snapshot_version, targets_version, until)
VALUES (1, :version, :taken_at, :target, :pin, :root, :timestamp, :snapshot, :targets,
        :root_version, :timestamp_version, :snapshot_version, :targets_version, :until)
ON CONFLICT (one) DO UPDATE
   SET version = excluded.version, taken_at = excluded.taken_at, envelope = NULL,
       target = excluded.target, pin = excluded.pin, root = excluded.root,
       timestamp = excluded.timestamp, snapshot = excluded.snapshot, targets = excluded.targets,
       root_version = excluded.root_version, timestamp_version = excluded.timestamp_version,
       snapshot_version = excluded.snapshot_version, targets_version = excluded.targets_version,
       until = excluded.until,
       is_over = policy.is_over AND :is_over AND excluded.version = policy.version
 WHERE (excluded.version >= policy.version OR (:anew = 1 AND excluded.pin = policy.pin))
   AND (policy.pin IS NOT excluded.pin OR excluded.root_version >= policy.root_version)
"""
_SAVE_ROOT: Final = """
UPDATE policy SET root = :root, root_version = :version WHERE pin = :pin AND root_version < :version
"""
_FORGET_BELOW: Final = "DELETE FROM policy WHERE version < :version"
_IS_STORED: Final = "SELECT 1 FROM policy"
_VERSION: Final = "SELECT version FROM policy"
_LOAD: Final = "SELECT envelope FROM policy"
_LOAD_PUBLISHED: Final = """
SELECT taken_at, target, pin, root, timestamp, snapshot, targets, until FROM policy WHERE target IS NOT NULL
"""
_NOTE_OVER: Final = "UPDATE policy SET is_over = 1 WHERE is_over = 0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A published policy that was taken.

    Attributes:
        held: the policy and its metadata.
        at: when they were taken last: the best guess.
        until: the first end of the metadata.
    """

    held: Held
    at: datetime
    until: datetime


def save(tx: Transaction, version: int, envelope: bytes) -> None:
    """Store a verified policy of one signer.

    Raises:
        LostRaceError: a later version is stored.
    """
    if tx.execute(_SAVE, {"version": version, "envelope": envelope}) != 1:
        raise LostRaceError("a later policy is in force")


def save_published(
    tx: Transaction, version: int, published: Published, at: datetime, *, is_over: bool
) -> None:
    """Store a policy with the metadata behind it.

    Args:
        tx: the transaction.
        version: of the policy.
        published: the policy.
        at: now, as a best guess.
        is_over: whether its time is over already.

    Raises:
        LostRaceError: a later version of the policy or of the root is stored.
    """
    held, versions = published.held, published.versions
    found = tx.execute(
        _SAVE_PUBLISHED,
        {
            "version": version,
            "taken_at": _since_1970(at),
            "target": held.policy,
            "pin": held.pin,
            "root": held.metadata.root,
            "timestamp": held.metadata.timestamp,
            "snapshot": held.metadata.snapshot,
            "targets": held.metadata.targets,
            "root_version": versions.root,
            "timestamp_version": versions.timestamp,
            "snapshot_version": versions.snapshot,
            "targets_version": versions.targets,
            "until": _since_1970(published.expires_at),
            "anew": int(published.is_anew),
            "is_over": int(is_over),
        },
    )
    if found != 1:
        raise LostRaceError("a later policy is in force")


def save_root(tx: Transaction, pin: Digest, version: int, root: bytes) -> bool:
    """Store a later root alone: what else was published with it did not verify.

    Returns:
        Whether it is later than the stored one, and goes back to the same first root.
    """
    return tx.execute(_SAVE_ROOT, {"pin": pin, "version": version, "root": root}) == 1


def note_over(tx: Transaction) -> bool:
    """Note that the policy's time is over.

    Returns:
        Whether that was news.
    """
    return tx.execute(_NOTE_OVER) == 1


def load(db: Snapshot) -> bytes | None:
    """The stored envelope; None when no policy of one signer was accepted last."""
    row = db.row(_LOAD)
    return None if row is None or row["envelope"] is None else bytes(row["envelope"])


def load_published(db: Snapshot) -> Taken | None:
    """The published policy that was taken last; None when that was of another kind."""
    row = db.row(_LOAD_PUBLISHED)
    if row is None:
        return None
    metadata = Metadata(
        root=bytes(row["root"]),
        timestamp=bytes(row["timestamp"]),
        snapshot=bytes(row["snapshot"]),
        targets=bytes(row["targets"]),
        delegated=catalogue.load_metadata(db),
    )
    return Taken(
        held=Held(policy=bytes(row["target"]), metadata=metadata, pin=Digest(row["pin"])),
        at=EPOCH + int(row["taken_at"]) * _MICROSECOND,
        until=EPOCH + int(row["until"]) * _MICROSECOND,
    )


def _since_1970(moment: datetime) -> int:
    return (moment - EPOCH) // _MICROSECOND


def forget_below(tx: Transaction, version: int) -> bool:
    """Forget the stored policy if it is older than a version that is known to have been in force.

    Returns:
        Whether it was.
    """
    return tx.execute(_FORGET_BELOW, {"version": version}) == 1


def is_stored(db: Snapshot) -> bool:
    """Whether there is one."""
    return db.row(_IS_STORED) is not None


def least_version(db: Snapshot) -> int | None:
    """The version below which none may come into force any more: of the stored one, or an earlier life's."""
    row = db.row(_VERSION)
    least = max(meta.policy_floor(db), 0 if row is None else int(row["version"]))
    return least or None
