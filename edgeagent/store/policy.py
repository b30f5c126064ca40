"""The policy in force, as it was signed.

Owns ``policy``: one row. The daemon judges from here, so that a file that is lost, cut or put back to
an earlier version changes nothing (DESIGN decision 6).
"""

from typing import Final

from edgeagent.errors import LostRaceError
from edgeagent.store.database import Snapshot, Transaction

# The version only grows, whoever writes last.
_SAVE: Final = """
INSERT INTO policy (one, version, envelope) VALUES (1, :version, :envelope)
ON CONFLICT (one) DO UPDATE SET version = excluded.version, envelope = excluded.envelope
 WHERE excluded.version >= policy.version
"""
_LOAD: Final = "SELECT envelope FROM policy"


def save(tx: Transaction, version: int, envelope: bytes) -> None:
    """Store a verified policy.

    Raises:
        LostRaceError: a later version is stored.
    """
    if tx.execute(_SAVE, {"version": version, "envelope": envelope}) != 1:
        raise LostRaceError("a later policy is in force")


def load(db: Snapshot) -> bytes | None:
    """The stored envelope; None when no policy was ever accepted."""
    row = db.row(_LOAD)
    return None if row is None else bytes(row["envelope"])
