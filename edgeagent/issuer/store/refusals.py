"""What the producer's gate refused, counted (SPEC T9, V7).

Owns ``refusals``: one row for each minute, origin and reason, however many they were, so that a flood
of one origin fills neither the disk nor the list of the others.
"""

from typing import Final

from edgeagent.adapters.cloud.wire import one_line
from edgeagent.contracts.scalars import timestamp, timestamp_text
from edgeagent.ids import CommandId
from edgeagent.issuer.store.opening import Instant
from edgeagent.issuer.wire import RefusalCount
from edgeagent.store.database import Snapshot, Transaction

MOST_ROWS: Final = 100_000
"""The oldest rows beyond this are forgotten."""

_COUNT: Final = """
INSERT INTO refusals (minute, origin, reason, count, sample) VALUES (:minute, :origin, :reason, 1, :sample)
    ON CONFLICT (minute, origin, reason) DO UPDATE
   SET count = count + 1, sample = coalesce(sample, excluded.sample)
"""
_PRUNE: Final = """
DELETE FROM refusals
 WHERE minute < (SELECT minute FROM refusals ORDER BY minute DESC LIMIT 1 OFFSET :most)
"""
_NEWEST: Final = """
SELECT minute, origin, reason, count, sample FROM refusals
 ORDER BY minute DESC, origin, reason LIMIT :most
"""


def count(tx: Transaction, *, origin: str, reason: str, sample: CommandId | None, now: Instant) -> None:
    """Count one refusal.

    Args:
        tx: the transaction.
        origin: the key that verified, else the login that sent it.
        reason: its code.
        sample: the command's id, where it could be read.
        now: the present.
    """
    minute = now.wall.replace(second=0, microsecond=0)
    row = {"minute": timestamp_text(minute), "origin": one_line(origin), "reason": reason, "sample": sample}
    tx.execute(_COUNT, row)
    tx.execute(_PRUNE, {"most": MOST_ROWS})


def newest(db: Snapshot, *, most: int) -> list[RefusalCount]:
    """The newest rows, newest minute first."""
    return [
        RefusalCount(
            minute=timestamp(row["minute"]),
            origin=row["origin"],
            reason=row["reason"],
            count=row["count"],
            sample=row["sample"],
        )
        for row in db.rows(_NEWEST, {"most": most})
    ]
