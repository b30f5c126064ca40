"""What issuers mean to happen once, and what became of it (SPEC I1, I2).

Owns ``operations``: one row for each key, in the hands of the last command that says it. It outlives the
commands, so that an intent that is said again much later is still known to have happened.
"""

from typing import Final

from edgeagent.core.operation import OperationState
from edgeagent.ids import CommandId, Digest
from edgeagent.store.database import Snapshot, SqlValue, Transaction
from edgeagent.store.inbox_row import NewCommand

_FIND: Final = "SELECT state, command FROM operations WHERE key = :key"
# What is processing or completed belongs to its command; the gate has refused everybody else.
_BEGIN: Final = """
INSERT INTO operations (key, state, command, run, until)
VALUES (:key, 'processing', :command, :run, :until)
ON CONFLICT (key) DO UPDATE
   SET state = 'processing', command = excluded.command, run = excluded.run,
       until = max(until, excluded.until)
 WHERE operations.state IN ('failed', 'unknown')
"""
_FORGET: Final = """
DELETE FROM operations WHERE key IN (
    SELECT key FROM operations WHERE state <> 'processing' AND until <= :before LIMIT :most)
"""
_SETTLE: Final = "UPDATE operations SET state = :state WHERE key = :key AND run = :run"


def find(db: Snapshot, key: Digest) -> tuple[OperationState, CommandId] | None:
    """What became of an operation, and which command said it last."""
    row = db.row(_FIND, {"key": key})
    return None if row is None else (OperationState(row["state"]), CommandId(str(row["command"])))


def begin(tx: Transaction, new: NewCommand, run: int) -> bool:
    """Put a command's operation into its hands.

    Returns:
        False if another command has it.
    """
    fields: dict[str, SqlValue] = {
        "key": new.operation,
        "command": new.command,
        "run": run,
        "until": new.expires_at,
    }
    return tx.execute(_BEGIN, fields) == 1


def settle(tx: Transaction, key: Digest, run: int, state: OperationState) -> None:
    """Note what became of an operation; only if it is still in the hands of ``run``."""
    tx.execute(_SETTLE, {"key": key, "run": run, "state": state})


def forget(tx: Transaction, before: int, most: int) -> int:
    """Forget settled operations that nobody has said in a command that was good after ``before``.

    Args:
        tx: the transaction.
        before: microseconds since 1970.
        most: at most so many.

    Returns:
        How many were forgotten.
    """
    return tx.execute(_FORGET, {"before": before, "most": most})
