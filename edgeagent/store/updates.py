"""Updates of firmware, each as it was last recorded (SPEC F4).

Owns ``updates``. A stage is recorded in the commit that precedes the message that begins it, or in one when
it is seen; which may follow which is decided in ``core/firmware``.
"""

import sqlite3
from collections.abc import Sequence
from typing import Final

from edgeagent.contracts.update import Stage
from edgeagent.core.firmware import Update
from edgeagent.ids import ArtifactId, DeviceId, Digest
from edgeagent.store.database import Snapshot, Transaction

_OF: Final = """
SELECT stage, artifact, sha256, earlier, wanted, percent, runs FROM updates WHERE run = :run
"""
_IS_WORKED: Final = "SELECT 1 FROM inbox WHERE run = :run AND state IN ('queued', 'running')"
_UNDER_WAY: Final = """
SELECT u.run FROM inbox i INDEXED BY inbox_updating JOIN updates u ON u.run = i.run
 WHERE i.action = 'install' AND (i.state = 'running' OR (i.sent = 1 AND i.state IN ('queued', 'waiting')))
"""
_SAVE: Final = """
INSERT INTO updates (run, device, stage, artifact, sha256, earlier, wanted, percent, runs, at)
VALUES (:run, :device, :stage, :artifact, :sha256, :earlier, :wanted, :percent, :runs, :at)
ON CONFLICT (run) DO UPDATE
   SET stage = excluded.stage, earlier = excluded.earlier, percent = excluded.percent, runs = excluded.runs,
       at = excluded.at
"""


def of(db: Snapshot, run: int) -> Update | None:
    """What is recorded of the update of a run; None where it has not begun."""
    row = db.row(_OF, {"run": run})
    return None if row is None else _update(row)


def ended(db: Snapshot, runs: Sequence[int]) -> list[int]:
    """Those of some runs that are neither worked nor about to be."""
    return [run for run in runs if db.row(_IS_WORKED, {"run": run}) is None]


def under_way(db: Snapshot) -> set[int]:
    """The runs whose devices are being updated."""
    return {int(row[0]) for row in db.rows(_UNDER_WAY)}


def save(tx: Transaction, run: int, device: DeviceId, update: Update, *, at: str) -> None:
    """Record where an update stands; what it is stays as it was first recorded."""
    tx.execute(
        _SAVE,
        {
            "run": run,
            "device": device,
            "stage": update.stage,
            "artifact": update.artifact,
            "sha256": update.sha256,
            "earlier": update.earlier,
            "wanted": update.wanted,
            "percent": update.percent,
            "runs": update.runs,
            "at": at,
        },
    )


def _update(row: sqlite3.Row) -> Update:
    return Update(
        stage=Stage(row["stage"]),
        artifact=ArtifactId(row["artifact"]),
        sha256=Digest(row["sha256"]),
        earlier=str(row["earlier"]),
        wanted=str(row["wanted"]),
        percent=None if row["percent"] is None else int(row["percent"]),
        runs=str(row["runs"]),
    )
