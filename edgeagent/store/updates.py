"""Updates of firmware, each as it was last recorded (SPEC F4).

Owns ``updates``. A stage is recorded in the commit that precedes the message that begins it, or in one when
it is seen; which may follow which is decided in ``core/firmware``.
"""

import sqlite3
from collections.abc import Sequence
from typing import Final

from edgeagent.contracts.update import Stage
from edgeagent.core.firmware import Update
from edgeagent.errors import BrokenInvariantError
from edgeagent.ids import ArtifactId, DeviceId, Digest
from edgeagent.store.database import Snapshot, SqlValue, Transaction

_OF: Final = """
SELECT stage, artifact, sha256, earlier, wanted, percent, runs FROM updates WHERE run = :run
"""
_IS_WORKED: Final = "SELECT 1 FROM inbox WHERE run = :run AND state IN ('queued', 'running')"
_UNDER_WAY: Final = """
SELECT u.run FROM inbox i INDEXED BY inbox_updating JOIN updates u ON u.run = i.run
 WHERE i.action = 'install' AND (i.state = 'running' OR (i.sent = 1 AND i.state IN ('queued', 'waiting')))
"""
_TICKET_OF: Final = "SELECT ticket FROM updates WHERE run = :run"
_BEGIN: Final = """
INSERT INTO updates (run, device, stage, ticket, artifact, sha256, earlier, wanted, percent, runs, at)
VALUES (:run, :device, :stage, :ticket, :artifact, :sha256, :earlier, :wanted, :percent, :runs, :at)
"""
_SAVE: Final = """
UPDATE updates SET stage = :stage, earlier = :earlier, percent = :percent, runs = :runs, at = :at
 WHERE run = :run
"""
# Only what the device may still be at.
_CALL_OFF: Final = """
UPDATE updates SET called_off = 1
 WHERE run = :run AND called_off = 0 AND stage IN ('triggered', 'installing')
"""
_NOT_CALLED_OFF: Final = "UPDATE updates SET called_off = 0 WHERE run = :run AND called_off = 1"


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


def ticket_of(db: Snapshot, run: int) -> str | None:
    """The secret of the update of a run, of which the address of its file is made; None as for ``of``.

    It is told to nobody but the device, as that address, and stands in no log, trail or report.
    """
    row = db.row(_TICKET_OF, {"run": run})
    return None if row is None else str(row["ticket"])


def begin(tx: Transaction, run: int, device: DeviceId, update: Update, *, ticket: str, at: str) -> None:
    """Record an update for the first time, with a new secret of its own."""
    tx.execute(
        _BEGIN,
        {
            "run": run,
            "device": device,
            "ticket": ticket,
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


def save(tx: Transaction, run: int, update: Update, *, at: str) -> None:
    """Record where an update stands; what it is stays as it was first recorded.

    Raises:
        BrokenInvariantError: it has not begun.
    """
    told: dict[str, SqlValue] = {"percent": update.percent, "runs": update.runs, "earlier": update.earlier}
    moved = tx.execute(_SAVE, told | {"run": run, "stage": update.stage, "at": at})
    if moved != 1:
        raise BrokenInvariantError(f"the update of run {run} has not begun")


def call_off(tx: Transaction, run: int) -> bool:
    """Record that the message leaves now that calls an update off; False if it did before, or is too late."""
    return tx.execute(_CALL_OFF, {"run": run}) == 1


def not_called_off(tx: Transaction, run: int) -> None:
    """Take that back: it is known not to have left."""
    tx.execute(_NOT_CALLED_OFF, {"run": run})


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
