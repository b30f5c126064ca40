"""What issuers mean to happen once, and what became of it (SPEC I1, I2).

Owns ``operations``: one row for each key, in the hands of the last command that says it.
"""

from typing import Final

from edgeagent.core.operation import OperationState
from edgeagent.ids import CommandId, Digest
from edgeagent.store.database import Snapshot, Transaction

_FIND: Final = "SELECT state, command FROM operations WHERE key = :key"
# What is processing or completed belongs to its command; the gate has refused everybody else.
_BEGIN: Final = """
INSERT INTO operations (key, state, command, run) VALUES (:key, 'processing', :command, :run)
ON CONFLICT (key) DO UPDATE SET state = 'processing', command = excluded.command, run = excluded.run
 WHERE operations.state IN ('failed', 'unknown')
"""
_SETTLE: Final = "UPDATE operations SET state = :state WHERE key = :key AND run = :run"


def find(db: Snapshot, key: Digest) -> tuple[OperationState, CommandId] | None:
    """What became of an operation, and which command said it last."""
    row = db.row(_FIND, {"key": key})
    return None if row is None else (OperationState(row["state"]), CommandId(str(row["command"])))


def begin(tx: Transaction, key: Digest, command: CommandId, run: int) -> bool:
    """Put an operation into a command's hands.

    Returns:
        False if another command has it.
    """
    return tx.execute(_BEGIN, {"key": key, "command": command, "run": run}) == 1


def settle(tx: Transaction, key: Digest, run: int, state: OperationState) -> None:
    """Note what became of an operation; only if it is still in the hands of ``run``."""
    tx.execute(_SETTLE, {"key": key, "run": run, "state": state})
