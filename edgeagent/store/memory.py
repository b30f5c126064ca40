"""What the store remembers that bears on one command, in one statement.

Every command is judged by it twice, and as eight statements it took longer than the judgement itself. It owns
no table and writes none: what each column means is told by the module of its table (``inbox``, ``meta``,
``operations``, ``stops``, ``approvals``, ``breakers``). No part of it looks through rows that are over: each
is found by a unique key or by an index, however many there are.
"""

import json
from datetime import datetime
from typing import Final

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.scalars import timestamp
from edgeagent.core.breaker import Breaker, Scope
from edgeagent.core.gate.world import Approval
from edgeagent.core.lifecycle import FINAL, State
from edgeagent.core.operation import OperationState
from edgeagent.ids import CommandId, DeviceId, Digest, KeyId
from edgeagent.store import approvals, breakers
from edgeagent.store.database import Snapshot, SqlValue
from edgeagent.values import dataclass

# All rows of a command have the same payload: another one under its id is refused beside it.
_RECALL: Final = """
SELECT (SELECT sha256 FROM inbox WHERE command = :command LIMIT 1) AS sha256,
       r.run, r.state, r.signers, r.actor,
       (SELECT command FROM inbox
         WHERE issuer = :issuer AND device = :device AND sequence = :sequence AND ordinal = 1) AS sequence_of,
       (SELECT command FROM inbox
         WHERE issuer = :issuer AND device = :device AND slot = :slot
           AND sequence > :sequence AND sequence <= :largest
           AND state NOT IN ('refused', 'cancelled')
         ORDER BY sequence DESC LIMIT 1) AS superseded_by,
       (SELECT value FROM meta WHERE name = 'forgotten') AS forgotten,
       o.state AS became, o.command AS said_by,
       (SELECT json_group_array(kind) FROM stops WHERE verb = 'stop') AS stopped,
       EXISTS (SELECT 1 FROM approvals a WHERE a.run = r.run) AS has_approvals,
       EXISTS (SELECT 1 FROM breakers WHERE origin = :issuer AND action = :action) AS has_breaker
  FROM (SELECT 1)
  LEFT JOIN inbox r ON r.run = (SELECT run FROM inbox WHERE command = :command AND device = :device
                                 ORDER BY ordinal DESC LIMIT 1)
  LEFT JOIN operations o ON o.key = :operation
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """About which command something is asked.

    Attributes:
        command: its id.
        sha256: of its payload.
        device: for whom.
        issuer: in whose name.
        action: what to do.
        sequence: of the issuer for the device.
        slot: what it supersedes; None for nothing.
        largest: the largest sequence that is not of a far future.
        operation: the key of its operation.
    """

    command: CommandId
    sha256: Digest
    device: DeviceId
    issuer: KeyId
    action: ActionName
    sequence: int
    slot: str | None
    largest: int
    operation: Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What is remembered.

    Attributes:
        sha256: of the payload that the command's id names; None if the id is not known.
        state: of its last run on the device; None for none.
        signers: the keys that are known to have signed that.
        actor: who is on record for that.
        sequence_of: whose its sequence number is already.
        superseded_by: the latest command of its issuer for the slot, where that is a later one.
        forgotten: commands that expire by then may have been here and be forgotten; None for none.
        operation: what became of its operation, and which command said it last.
        stops: the kinds of command that are stopped.
        approvals: of that run, while it is open.
        breaker: of its issuer and action; None while it is closed.
    """

    sha256: Digest | None
    state: State | None
    signers: frozenset[KeyId]
    actor: str
    sequence_of: CommandId | None
    superseded_by: CommandId | None
    forgotten: datetime | None
    operation: tuple[OperationState, CommandId] | None
    stops: frozenset[str]
    approvals: tuple[Approval, ...]
    breaker: Breaker | None


def recall(db: Snapshot, asked: Question) -> Memory:
    """Everything that the store remembers about a command."""
    [row] = db.rows(_RECALL, _parameters(asked))
    state = None if row["state"] is None else State(row["state"])
    is_open = state is not None and state not in FINAL
    stopped: list[str] = json.loads(row["stopped"])
    return Memory(
        sha256=None if row["sha256"] is None else Digest(row["sha256"]),
        state=state,
        signers=frozenset() if state is None else frozenset(map(KeyId, json.loads(row["signers"]))),
        actor="" if state is None else str(row["actor"]),
        sequence_of=_command(row["sequence_of"]),
        superseded_by=_command(row["superseded_by"]),
        forgotten=None if row["forgotten"] is None else timestamp(row["forgotten"]),
        operation=None
        if row["became"] is None
        else (OperationState(row["became"]), CommandId(row["said_by"])),
        stops=frozenset(stopped),
        approvals=approvals.of_run(db, asked.sha256, asked.device, int(row["run"]))
        if is_open and row["has_approvals"]
        else (),
        breaker=breakers.find(db, Scope(asked.issuer, asked.action)) if row["has_breaker"] else None,
    )


def _parameters(asked: Question) -> dict[str, SqlValue]:
    return {
        "command": asked.command,
        "device": asked.device,
        "issuer": asked.issuer,
        # As plain text: a member of an enum goes the long way through the module's adapters.
        "action": str(asked.action),
        "sequence": asked.sequence,
        "slot": asked.slot,
        "largest": asked.largest,
        "operation": asked.operation,
    }


def _command(value: str | None) -> CommandId | None:
    return None if value is None else CommandId(value)
