"""The steps of commands that are made of several, each as it was last recorded (SPEC S1).

Owns ``steps``. A step is recorded in the commit that precedes its message and in one when its end is
known; which phase may follow which is decided in ``core/saga``.
"""

import json
import sqlite3
from typing import Final

from edgeagent.contracts.policy import Level
from edgeagent.contracts.reasons import Reason
from edgeagent.core.saga import Mark, Phase
from edgeagent.store.database import Snapshot, Transaction

_OF: Final = """
SELECT part, name, phase, tries, before, level, reason, detail FROM steps WHERE run = :run ORDER BY part
"""
_SAVE: Final = """
INSERT INTO steps (run, part, name, phase, tries, before, level, reason, detail, at)
VALUES (:run, :part, :name, :phase, :tries, :before, :level, :reason, :detail, :at)
ON CONFLICT (run, part) DO UPDATE
   SET phase = excluded.phase, tries = excluded.tries, level = excluded.level, reason = excluded.reason,
       detail = excluded.detail, at = excluded.at
"""
# The message is known not to have left: the try does not count. At most one step is under way.
_UNSENT: Final = """
UPDATE steps SET tries = tries - 1 WHERE run = :run AND phase IN ('begun', 'undoing') AND tries > 0
"""


def of(db: Snapshot, run: int) -> tuple[Mark, ...]:
    """What is recorded of the steps of a run, in their order."""
    return tuple(_mark(row) for row in db.rows(_OF, {"run": run}))


def save(tx: Transaction, run: int, mark: Mark, *, at: str) -> None:
    """Record where a step stands; what it is and what was before it stay as they were first recorded."""
    tx.execute(
        _SAVE,
        {
            "run": run,
            "part": mark.part,
            "name": mark.name,
            "phase": mark.phase,
            "tries": mark.tries,
            "before": None if mark.before is None else json.dumps(mark.before, allow_nan=False),
            "level": mark.level,
            "reason": mark.reason,
            "detail": mark.detail,
            "at": at,
        },
    )


def note_unsent(tx: Transaction, run: int) -> None:
    """Take the last try back: its message is known not to have left. Nothing where there are no steps."""
    tx.execute(_UNSENT, {"run": run})


def _mark(row: sqlite3.Row) -> Mark:
    return Mark(
        part=int(row["part"]),
        name=str(row["name"]),
        phase=Phase(row["phase"]),
        tries=int(row["tries"]),
        before=None if row["before"] is None else json.loads(row["before"]),
        level=None if row["level"] is None else Level(row["level"]),
        reason=None if row["reason"] is None else Reason(row["reason"]),
        detail=str(row["detail"]),
    )
