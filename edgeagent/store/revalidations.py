"""The devices that are to be read afresh (SPEC C3).

Owns ``revalidations``: one row for each device. It is written in the commit that refuses a command as
stale, and taken away in the commit that reports what was read.
"""

import sqlite3
from typing import Final

from edgeagent.clock import BootId
from edgeagent.ids import CommandId, DeviceId
from edgeagent.store.database import Snapshot, Transaction
from edgeagent.values import dataclass

# What was read for an earlier command does not answer a later one, so that its tries begin anew.
# A device that was forgotten meanwhile is asked nothing.
_ASK: Final = """
INSERT INTO revalidations (device, run, command, attempts)
SELECT :device, :run, :command, 0 WHERE EXISTS (SELECT 1 FROM devices WHERE device = :device)
ON CONFLICT (device) DO UPDATE
   SET run = excluded.run, command = excluded.command, attempts = 0, due_at = NULL, due_boot = NULL
"""
_ALL: Final = "SELECT device, run, command, attempts, due_at, due_boot FROM revalidations ORDER BY run"
_END: Final = "DELETE FROM revalidations WHERE device = :device AND run = :run"
_POSTPONE: Final = """
UPDATE revalidations SET attempts = attempts + 1, due_at = :due_at, due_boot = :due_boot
 WHERE device = :device AND run = :run
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A device that is to be read.

    Attributes:
        device: which.
        run: of the last command that was stale.
        command: that command.
        attempts: how often it was asked in vain.
        due: milliseconds of boot time of the next try, and the boot; None: at once.
    """

    device: DeviceId
    run: int
    command: CommandId
    attempts: int
    due: tuple[int, BootId] | None


def ask(tx: Transaction, device: DeviceId, *, run: int, command: CommandId) -> None:
    """Have a device read afresh; one that is to be read already is read once."""
    tx.execute(_ASK, {"device": device, "run": run, "command": command})


def load(db: Snapshot) -> list[Wanted]:
    """All of them, the one that waits longest first."""
    return [_read(row) for row in db.rows(_ALL)]


def end(tx: Transaction, wanted: Wanted) -> bool:
    """Take a device off the list.

    Returns:
        False if it is to be read again since, or is on it no more.
    """
    return tx.execute(_END, {"device": wanted.device, "run": wanted.run}) == 1


def postpone(tx: Transaction, wanted: Wanted, due: tuple[int, BootId]) -> bool:
    """Count a try, and say when the next is due.

    Returns:
        False if it is to be read again since, or is on the list no more.
    """
    at, boot = due
    return (
        tx.execute(_POSTPONE, {"device": wanted.device, "run": wanted.run, "due_at": at, "due_boot": boot})
        == 1
    )


def _read(row: sqlite3.Row) -> Wanted:
    at = row["due_at"]
    return Wanted(
        device=DeviceId(str(row["device"])),
        run=int(row["run"]),
        command=CommandId(str(row["command"])),
        attempts=int(row["attempts"]),
        due=None if at is None else (int(at), BootId(str(row["due_boot"]))),
    )
