"""The inbox: commands that came, and what became of them.

Owns ``inbox``. A row is inserted in the commit that accepts a command and moves only along the table
in ``core/lifecycle``; every move names the state that it expects and checks that it was so. Final rows
stay: they are the memory that answers a replay (SPEC T4), until they are certainly too old. The rows of one
command share its envelope: a list of devices costs it once.
"""

import json
import sqlite3
from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from edgeagent.contracts.reasons import Reason
from edgeagent.core.lifecycle import State, check_move
from edgeagent.errors import BrokenInvariantError
from edgeagent.ids import CommandId, DeviceId, KeyId
from edgeagent.store import lines
from edgeagent.store.database import Snapshot, SqlValue, Transaction
from edgeagent.store.inbox_row import (
    COLUMNS,
    Again,
    Moved,
    NewCommand,
    Now,
    Row,
    columns,
    read_row,
)

_NEXT_RUN: Final = "SELECT coalesce(max(run), 0) + 1 FROM inbox"
_INSERT: Final = """
INSERT INTO inbox (run, command, ordinal, device, issuer, signers, sequence, action, slot, lane, operation,
                   sha256, envelope, envelope_of, expires_at, begins_at, local_boot, local_until, actor,
                   state, reason, received_at, lease, parent, parent_most, replay_of, traceparent, since)
VALUES (:run, :command, :ordinal, :device, :issuer, :signers, :sequence, :action, :slot, :lane, :operation,
        :sha256, :envelope, :envelope_of, :expires_at, :begins_at, :local_boot, :local_until, :actor,
        :state, :reason, :received_at, :lease, :parent, :parent_most, :replay_of, :traceparent,
        (SELECT coalesce(max(number), 0) FROM audit))
"""
_MOVE: Final = """
UPDATE inbox
   SET state = :target, reason = :reason, available_at = :available_at, available_boot = :available_boot,
       force_refresh = :force_refresh, last_error = coalesce(:error, last_error)
 WHERE run = :run AND state = :current
"""
_ADD_SIGNATURES: Final = """
UPDATE inbox SET envelope = :envelope, envelope_of = :envelope_of, signers = :signers
 WHERE run = :run AND state = 'held'
"""
# What is asked of a list of devices comes in one envelope: its first row keeps it, and the others name that.
# Who keeps it for others goes on keeping its own.
_KEEPER: Final = """
SELECT k.run FROM inbox i JOIN inbox k ON k.run = coalesce(i.envelope_of, i.run)
 WHERE i.command = :command AND k.run <> :run AND k.envelope = :envelope
   AND NOT EXISTS (SELECT 1 FROM inbox s WHERE s.envelope_of = :run)
 LIMIT 1
"""
# Recorded before the message leaves: after a crash it is known that it may have been sent.
_SENT: Final = "UPDATE inbox SET sent = 1, attempts = attempts + 1 WHERE run = :run AND state = 'running'"
# The message is known not to have left: the try does not count.
_UNSENT: Final = """
UPDATE inbox SET attempts = attempts - 1, sent = (attempts > 1) WHERE run = :run AND state = 'running'
"""
# What a power cut or the end of the daemon has left is not the command's fault.
_LOST: Final = """
UPDATE inbox SET losses = losses + 1
 WHERE run = :run AND state = 'running'
   AND EXISTS (SELECT 1 FROM locks WHERE run = :run AND boot = :boot AND incarnation = :incarnation)
"""
# It has come further since then: those who were lost were not lost over the same thing.
_PROGRESS: Final = "UPDATE inbox SET losses = 0 WHERE run = :run AND losses > 0"
_HOLD_FOR: Final = "UPDATE inbox SET reason = :reason WHERE run = :run AND state = 'held'"
_WAITING_FOR: Final = """
SELECT count(*) FROM inbox
 WHERE state IN ('held', 'queued', 'waiting', 'running') AND state IN ('held', 'waiting') AND reason = :reason
"""
_BY_RUN: Final = f"SELECT {COLUMNS} FROM inbox WHERE run = :run"  # noqa: S608 - constant text
_OF_DEVICE: Final = f"""
SELECT {COLUMNS} FROM inbox
 WHERE command = :command AND device = :device ORDER BY ordinal DESC LIMIT 1
"""  # noqa: S608 - constant text
_BY_COMMAND: Final = f"""
SELECT {columns("i")} FROM inbox i
 WHERE command = :command AND ordinal = (
           SELECT max(ordinal) FROM inbox WHERE command = i.command AND device = i.device)
 ORDER BY run
"""  # noqa: S608 - constant text
_LAST_SEQUENCE: Final = "SELECT coalesce(max(sequence), 0) FROM inbox WHERE issuer = :issuer"
# One of which a step was sent has begun, also while it waits for its next try.
_EARLIER: Final = f"""
SELECT {COLUMNS} FROM inbox INDEXED BY inbox_open_slot
 WHERE issuer = :issuer AND device = :device AND slot = :slot AND slot IS NOT NULL
   AND sequence < :sequence AND state IN ('held', 'queued', 'waiting') AND sent = 0
"""  # noqa: S608 - constant text
_IN_STATE: Final = f"""
SELECT {COLUMNS} FROM inbox
 WHERE state = :state AND state IN ('held', 'queued', 'waiting', 'running') ORDER BY run
"""  # noqa: S608 - constant text
_ABANDONED: Final = f"""
SELECT {columns("i")}
  FROM inbox i INDEXED BY inbox_running LEFT JOIN locks l ON l.run = i.run
 WHERE i.state = 'running'
   AND (l.token IS NULL OR l.boot <> :boot OR l.incarnation <> :incarnation OR l.lease_until <= :now)
 ORDER BY i.run
"""  # noqa: S608 - constant text
_LAST_RUN: Final = "SELECT coalesce(max(run), 0) FROM inbox"
# What is typed at the hub tells nothing of whether its issuers know of the new epoch.
_ACCEPTED_AFTER: Final = """
SELECT 1 FROM inbox
 WHERE run > :run AND local_boot IS NULL AND state NOT IN ('held', 'refused') LIMIT 1
"""
_FOR_THE_TIME: Final = """
SELECT count(*) FROM inbox
 WHERE state IN ('held', 'queued', 'waiting', 'running') AND state IN ('held', 'waiting')
   AND reason IN ('clock_unsure', 'not_yet_valid')
"""
_RECENT: Final = f"SELECT {COLUMNS} FROM inbox ORDER BY run DESC LIMIT :most"  # noqa: S608 - constant text


def insert(
    tx: Transaction, new: NewCommand, state: State, reason: Reason | None, again: Again | None = None
) -> int:
    """Store a command as HELD, QUEUED or REFUSED; ``again`` where it is not its first run.

    Returns:
        The number of its run.
    """
    check_move(State.NEW, state, sent=False)
    row = tx.row(_NEXT_RUN)
    run = 1 if row is None else int(row[0])
    tx.execute(
        _INSERT,
        {
            "run": run,
            "command": new.command,
            "ordinal": 1 if again is None else again.ordinal,
            "replay_of": None if again is None else again.of,
            "device": new.device,
            "issuer": new.issuer,
            "signers": json.dumps(new.signers),
            "sequence": new.sequence,
            "action": str(new.action),
            "slot": new.slot,
            "lane": str(new.lane),
            "operation": new.operation,
            "sha256": new.sha256,
            **_kept(tx, run, new.command, new.envelope),
            "expires_at": new.expires_at,
            "begins_at": new.begins_at,
            "local_boot": None if new.local is None else new.local.boot_id,
            "local_until": None if new.local is None else new.local.until // timedelta(milliseconds=1),
            "actor": new.actor,
            "state": str(state),
            "reason": None if reason is None else str(reason),
            "received_at": new.received_at,
            "lease": new.terms.length // timedelta(milliseconds=1),
            "parent": None if new.parent is None else new.parent.name,
            "parent_most": None if new.parent is None else new.parent.most,
            "traceparent": new.traceparent,
        },
    )
    if state is State.QUEUED:
        lines.stand(tx, _line(new))
    return run


def move(tx: Transaction, row: Row, to: Moved) -> None:
    """Move a command on.

    Raises:
        IllegalTransitionError: the table of states does not list the move.
        BrokenInvariantError: the row is not where ``row`` says; nothing was changed.
    """
    check_move(row.state, to.target, sent=row.sent)
    fields: dict[str, SqlValue] = {
        "run": row.run,
        # As plain text: a member of an enum goes the long way through the module's adapters.
        "current": str(row.state),
        "target": str(to.target),
        "reason": None if to.reason is None else str(to.reason),
        "available_at": None if to.available is None else to.available[0],
        "available_boot": None if to.available is None else to.available[1],
        "force_refresh": int(to.force_refresh),
        "error": to.error,
    }
    if tx.execute(_MOVE, fields) != 1:
        raise BrokenInvariantError(f"run {row.run} is not {row.state}")
    if row.state is State.QUEUED:
        lines.leave(tx, _line(row), served=to.target is State.RUNNING)
    elif to.target is State.QUEUED:
        lines.stand(tx, _line(row))


def note_sent(tx: Transaction, run: int) -> None:
    """Record that a step of a running command is about to be sent.

    Raises:
        BrokenInvariantError: it is not running.
    """
    if tx.execute(_SENT, {"run": run}) != 1:
        raise BrokenInvariantError(f"run {run} is not running")


def note_progress(tx: Transaction, run: int) -> None:
    """Record that a command which takes long has come further: its losses are counted anew."""
    tx.execute(_PROGRESS, {"run": run})


def note_lost(tx: Transaction, run: int, now: Now) -> bool:
    """Count that whoever worked a running command was gone before its end.

    Returns:
        Whether it was counted: what another boot or start of the daemon has left is not.
    """
    fields: dict[str, SqlValue] = {"run": run, "boot": now.boot, "incarnation": now.incarnation}
    return tx.execute(_LOST, fields) == 1


def note_unsent(tx: Transaction, run: int) -> None:
    """Take back ``note_sent``: the message is known not to have left.

    Raises:
        BrokenInvariantError: it is not running.
    """
    if tx.execute(_UNSENT, {"run": run}) != 1:
        raise BrokenInvariantError(f"run {run} is not running")


def add_signatures(tx: Transaction, run: int, signed: tuple[bytes, tuple[KeyId, ...]]) -> None:
    """Put an envelope with more signatures in the place of a held command's.

    Raises:
        BrokenInvariantError: it is not held.
    """
    envelope, signers = signed
    row = by_run(tx, run)
    kept = {} if row is None else _kept(tx, run, row.command, envelope)
    fields: dict[str, SqlValue] = {"run": run, "signers": json.dumps(signers), **kept}
    if tx.execute(_ADD_SIGNATURES, fields) != 1:
        raise BrokenInvariantError(f"run {run} is not held")


def hold_for(tx: Transaction, run: int, reason: Reason) -> None:
    """Note that a held command waits for something else now.

    Raises:
        BrokenInvariantError: it is not held.
    """
    if tx.execute(_HOLD_FOR, {"run": run, "reason": reason}) != 1:
        raise BrokenInvariantError(f"run {run} is not held")


def waiting_for(db: Snapshot, reason: Reason) -> int:
    """How many commands wait for one thing."""
    row = db.row(_WAITING_FOR, {"reason": reason})
    return 0 if row is None else int(row[0])


def by_run(db: Snapshot, run: int) -> Row | None:
    """One run."""
    return _one(db.row(_BY_RUN, {"run": run}))


def of_device(db: Snapshot, command: CommandId, device: DeviceId) -> Row | None:
    """The last run of a command on a device."""
    return _one(db.row(_OF_DEVICE, {"command": command, "device": device}))


def by_command(db: Snapshot, command: CommandId) -> list[Row]:
    """The last run of a command on each of its devices, in the order of its list."""
    return _all(db.rows(_BY_COMMAND, {"command": command}))


def last_sequence(db: Snapshot, issuer: KeyId) -> int:
    """The highest sequence number that an issuer has used; 0 if none."""
    row = db.row(_LAST_SEQUENCE, {"issuer": issuer})
    return 0 if row is None else int(row[0])


def earlier_in_slot(
    db: Snapshot, issuer: KeyId, device: DeviceId, slot: str | None, sequence: int
) -> list[Row]:
    """Commands of an issuer for a device's slot before ``sequence`` that can still be superseded."""
    fields = {"issuer": issuer, "device": device, "slot": slot, "sequence": sequence}
    return _all(db.rows(_EARLIER, fields))


def in_state(db: Snapshot, state: State) -> list[Row]:
    """The commands that stand in an open state, oldest first."""
    return _all(db.rows(_IN_STATE, {"state": state}))


def abandoned(db: Snapshot, now: Now) -> list[Row]:
    """Running commands whose holder is gone: their lock is of another boot or start, or has lapsed."""
    return _all(db.rows(_ABANDONED, now.parameters))


def last_run(db: Snapshot) -> int:
    """The number of the last run; 0 while there is none."""
    row = db.row(_LAST_RUN)
    return 0 if row is None else int(row[0])


def has_accepted(db: Snapshot, *, after: int) -> bool:
    """Whether a command from elsewhere was accepted after a run."""
    return db.row(_ACCEPTED_AFTER, {"run": after}) is not None


def waiting_for_time(db: Snapshot) -> int:
    """How many open commands wait because of what is known of the time."""
    row = db.row(_FOR_THE_TIME)
    return 0 if row is None else int(row[0])


def recent(db: Snapshot, most: int) -> list[Row]:
    """The commands that came last, newest first."""
    return _all(db.rows(_RECENT, {"most": most}))


def _kept(tx: Transaction, run: int, command: CommandId, envelope: bytes) -> dict[str, SqlValue]:
    """How a row has its envelope: its own, or that of another row of its command."""
    keeper = tx.row(_KEEPER, {"command": command, "run": run, "envelope": envelope})
    if keeper is None:
        return {"envelope": envelope, "envelope_of": None}
    return {"envelope": None, "envelope_of": int(keeper[0])}


def _line(row: NewCommand) -> dict[str, SqlValue]:
    return {"lane": str(row.lane), "issuer": row.issuer, "device": row.device}


def _one(row: sqlite3.Row | None) -> Row | None:
    return None if row is None else read_row(row)


def _all(rows: Iterable[sqlite3.Row]) -> list[Row]:
    return [read_row(row) for row in rows]
