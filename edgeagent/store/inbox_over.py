"""Which commands of the inbox are old enough to be forgotten, and forgetting them (SPEC T4).

A row whose envelope others share goes after them; the last row of all stays, so that a run's number is never
given again.
"""

from collections.abc import Sequence
from typing import Final

from edgeagent.store.database import Snapshot, Transaction
from edgeagent.store.inbox_row import Old, Over

_OVER: Final = """
SELECT run, expires_at, local_boot FROM inbox
 WHERE state NOT IN ('held', 'queued', 'waiting', 'running') AND expires_at <= :before
   AND run < (SELECT max(run) FROM inbox) AND run NOT IN (SELECT run FROM locks WHERE run IS NOT NULL)
   AND run NOT IN (SELECT envelope_of FROM inbox WHERE envelope_of IS NOT NULL)
 ORDER BY expires_at LIMIT :most
"""
# What was typed here in an earlier boot is over whatever the time is.
_OVER_HERE: Final = """
SELECT run, expires_at, local_boot FROM inbox
 WHERE run <= (SELECT max(run) FROM inbox) - :kept AND local_boot <> :boot
   AND state NOT IN ('held', 'queued', 'waiting', 'running')
   AND run NOT IN (SELECT run FROM locks WHERE run IS NOT NULL)
   AND run NOT IN (SELECT envelope_of FROM inbox WHERE envelope_of IS NOT NULL)
 ORDER BY run LIMIT :most
"""
_FORGET: Final = "DELETE FROM inbox WHERE run = ?"


def over(db: Snapshot, limit: Over) -> list[Old]:
    """Final rows that are old enough to be forgotten, the earliest expiry first."""
    found = db.rows(_OVER, {"before": limit.before, "most": limit.most})
    if not found:
        found = db.rows(_OVER_HERE, {"kept": limit.kept, "boot": limit.boot, "most": limit.most})
    return [Old(int(row["run"]), int(row["expires_at"]), row["local_boot"] is not None) for row in found]


def forget(tx: Transaction, old: Sequence[Old]) -> None:
    """Delete rows, with their receipts. Whoever does it notes the latest expiry among them."""
    tx.execute_many(_FORGET, [(each.run,) for each in old])
