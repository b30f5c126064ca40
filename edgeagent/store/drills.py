"""When each drill was held last.

Owns ``drills``: one row for each kind that was ever held.
"""

from typing import Final

from edgeagent.contracts.reports.drills import DrillKind
from edgeagent.store.database import Snapshot, Transaction
from edgeagent.values import dataclass

# A drill that fails leaves alone when the last good one was.
_SAVE: Final = """
INSERT INTO drills (kind, at, passed, milliseconds, why, actor, good_at)
VALUES (:kind, :at, :passed, :milliseconds, :why, :actor, iif(:passed, :at, NULL))
    ON CONFLICT (kind) DO UPDATE
   SET at = excluded.at, passed = excluded.passed, milliseconds = excluded.milliseconds, why = excluded.why,
       actor = excluded.actor, good_at = coalesce(excluded.good_at, drills.good_at)
"""
_ALL: Final = "SELECT kind, at, passed, milliseconds, why, actor, good_at FROM drills ORDER BY kind"


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A drill that is over.

    Attributes:
        kind: which.
        at: when it began, in microseconds since 1970.
        passed: whether it passed.
        milliseconds: how long it took.
        why: why it did not pass; empty when it did.
        actor: who had it held.
        good_at: when the last one that passed began; of a new one it is known from ``at``.
    """

    kind: DrillKind
    at: int
    passed: bool
    milliseconds: int
    why: str
    actor: str
    good_at: int | None = None


def save(tx: Transaction, held: Held) -> None:
    """Note a drill as the last of its kind."""
    tx.execute(
        _SAVE,
        {
            "kind": held.kind,
            "at": held.at,
            "passed": int(held.passed),
            "milliseconds": held.milliseconds,
            "why": held.why,
            "actor": held.actor,
        },
    )


def load(db: Snapshot) -> list[Held]:
    """The last drill of each kind, by kind."""
    return [
        Held(
            kind=DrillKind(row["kind"]),
            at=int(row["at"]),
            passed=bool(row["passed"]),
            milliseconds=int(row["milliseconds"]),
            why=str(row["why"]),
            actor=str(row["actor"]),
            good_at=row["good_at"],
        )
        for row in db.rows(_ALL)
    ]
