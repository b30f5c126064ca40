"""Commands on their way to hubs, and how they ended.

    queued --lease--> leased --acknowledge--> taken --receipt, refusal--> final
       ^                |                                  (from any state)
       +---hand back----+
       +---loan is over-+        queued, never lent, its time over --> expired
                                 queued, never lent, its epoch over --> refused

Owns ``commands``, ``results`` and ``deliveries``. A command is one payload, which ends on each of its
devices on its own and is final when it has ended on all; a delivery is one envelope around it, and
there are several when more signatures came (SPEC T7). Each loan has a handle of its own, so that whoever
held an earlier one can neither acknowledge nor extend the next. Loans are measured on boot time; those
of an earlier boot are over.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from hashlib import sha256
from typing import Final

from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.command import Command
from edgeagent.contracts.door import decode
from edgeagent.contracts.envelope import MOST_SIGNATURES
from edgeagent.contracts.event import CloudEvent, EventType
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.scalars import EpochField, timestamp
from edgeagent.core.envelope import unproven_payload
from edgeagent.errors import BrokenInvariantError, RejectedError, TransientError
from edgeagent.ids import CommandId, DeviceId, Digest, Epoch, HubId
from edgeagent.issuer.event_data import Arrived, Read, ReceiptData, RefusedData, SwitchedData
from edgeagent.issuer.order_gate import PassedOrder
from edgeagent.issuer.producer_gate import Passed
from edgeagent.issuer.store.opening import Instant, milliseconds_of
from edgeagent.issuer.wire import CommandState, CommandStatus
from edgeagent.store.database import Snapshot, SqlValue, Transaction
from edgeagent.values import dataclass

_FIND: Final = """
SELECT command, payload_sha256, action, state, accepted_at, lent
  FROM commands WHERE hub = :hub AND command = :command
"""
_VOID: Final = """
SELECT command FROM commands WHERE hub = :hub AND state = 'refused' AND expires_at > :now
 ORDER BY accepted_at DESC LIMIT :most
"""
_ENVELOPES: Final = """
SELECT envelope FROM deliveries WHERE hub = :hub AND command = :command ORDER BY number
"""
_WAITING: Final = "SELECT count(*) FROM deliveries WHERE hub = :hub AND state <> 'settled'"
_ACCEPT: Final = """
INSERT INTO commands (hub, command, payload_sha256, action, state, accepted_at, expires_at)
VALUES (:hub, :command, :payload, :action, 'queued', :accepted_at, :expires_at)
"""
_NAME: Final = "INSERT INTO results (hub, command, device, place) VALUES (?, ?, ?, ?)"
_RESULTS: Final = "SELECT device, event FROM results WHERE hub = :hub AND command = :command ORDER BY place"
_THE_HUB: Final = ""
# More envelopes than a command may have signatures add nothing.
_ENQUEUE: Final = """
INSERT INTO deliveries (hub, command, envelope, sha256, state, traceparent)
SELECT :hub, :command, :envelope, :sha256, 'queued', :traceparent
 WHERE (SELECT count(*) FROM deliveries WHERE hub = :hub AND command = :command) < :most
    ON CONFLICT (hub, command, sha256) DO NOTHING
"""
# A command that was lent once may be on its hub's disk: only the hub can say that it expired.
_EXPIRE: Final = """
UPDATE commands SET state = 'expired'
 WHERE hub = :hub AND state = 'queued' AND lent = 0 AND expires_at <= :now RETURNING command
"""
# One that was lent once may have been done in the epoch that it was signed for: only the hub can tell.
_NEVER_LENT: Final = """
SELECT d.command AS command, min(d.envelope) AS envelope
  FROM commands c JOIN deliveries d ON d.hub = c.hub AND d.command = c.command
 WHERE c.hub = :hub AND c.state = 'queued' AND c.lent = 0 GROUP BY d.command
"""
_REFUSE: Final = """
UPDATE commands SET state = 'refused' WHERE hub = ? AND command = ? AND state = 'queued' AND lent = 0
"""
_SETTLE_ALL: Final = """
UPDATE deliveries SET state = 'settled', handle = NULL, boot = NULL, until = NULL
 WHERE hub = ? AND command = ? AND state <> 'settled'
"""
_DUE: Final = """
SELECT number, command, envelope, traceparent FROM deliveries
 WHERE hub = :hub AND state <> 'settled'
   AND (state = 'queued' OR boot <> :boot_id OR until <= :boot)
 ORDER BY number LIMIT :most
"""
_LEND: Final = """
UPDATE deliveries SET state = 'leased', handle = :handle, boot = :boot_id, until = :until
 WHERE number = :number AND state <> 'settled'
"""
_LENT: Final = """
UPDATE commands SET lent = lent + 1, state = CASE state WHEN 'queued' THEN 'leased' ELSE state END
 WHERE hub = ? AND command = ?
"""
_NEXT_END: Final = """
SELECT min(until) FROM deliveries WHERE hub = :hub AND state = 'leased' AND boot = :boot_id
"""
_ACKNOWLEDGE: Final = """
UPDATE deliveries SET state = 'settled', handle = NULL, boot = NULL, until = NULL
 WHERE hub = :hub AND handle = :handle AND state = 'leased' RETURNING command
"""
_TAKEN: Final = """
UPDATE commands SET state = 'taken' WHERE hub = ? AND command = ? AND state IN ('queued', 'leased')
"""
_HAND_BACK: Final = """
UPDATE deliveries SET state = 'queued', handle = NULL, boot = NULL, until = NULL
 WHERE hub = :hub AND handle = :handle AND state = 'leased' RETURNING command
"""
_QUEUED_AGAIN: Final = """
UPDATE commands SET state = 'queued' WHERE hub = ? AND command = ? AND state = 'leased'
"""
_EXTEND: Final = """
UPDATE deliveries SET until = :until, boot = :boot_id
 WHERE hub = :hub AND handle = :handle AND state = 'leased' RETURNING command
"""
_END: Final = """
UPDATE results SET event = :event, run = :run
 WHERE hub = :hub AND command = :command AND device = :device AND (run IS NULL OR run < :run)
   AND EXISTS (SELECT 1 FROM commands
                WHERE hub = :hub AND command = :command AND payload_sha256 = :payload)
"""
_FINISH: Final = """
UPDATE commands SET state = 'final'
 WHERE hub = :hub AND command = :command
   AND NOT EXISTS (SELECT 1 FROM results WHERE hub = :hub AND command = :command AND event IS NULL)
"""
_IS_LENT: Final = """
SELECT 1 FROM deliveries WHERE hub = :hub AND command = :command
   AND state = 'leased' AND boot = :boot_id AND until > :boot
"""


class IdConflictError(RejectedError):
    """The id of another command, with another payload."""


class QueueFullError(TransientError):
    """As many commands wait for the hub as may; nothing was taken."""


class _Addressed(Read):
    """What the queue looks at in a payload that it has taken, of whichever kind it is."""

    epoch: EpochField | None = None


@dataclass(frozen=True, slots=True)
class Loan:
    """A command that is lent from now on."""

    handle: str
    envelope: bytes
    traceparent: str | None = None


def enqueue(
    tx: Transaction,
    hub: HubId,
    passed: Passed | PassedOrder,
    envelope: bytes,
    *,
    now: Instant,
    most_waiting: int,
    traceparent: str | None = None,
) -> None:
    """Take a command or an order that has passed the gate. The same again changes nothing.

    The same payload in another envelope, with more signatures, is delivered as well while the command
    is open.

    Raises:
        IdConflictError: its id names another payload; nothing was taken.
        QueueFullError: too many wait; nothing was taken.
    """
    command = passed.order if isinstance(passed, PassedOrder) else passed.command
    key: dict[str, SqlValue] = {"hub": hub, "command": command.id}
    known = tx.row(_FIND, key)
    if known is not None and known["payload_sha256"] != passed.sha256:
        raise IdConflictError("another command has this id")
    if known is not None and CommandState(known["state"]).is_over:
        return
    if _count(tx, _WAITING, {"hub": hub}) >= most_waiting:
        raise QueueFullError(f"{most_waiting} commands wait for the hub")
    if known is None:
        row: dict[str, SqlValue] = {
            "payload": passed.sha256,
            "action": command.action if isinstance(command, Command) else None,
            "accepted_at": now.text,
            "expires_at": milliseconds_of(command.expires_at),
        }
        tx.execute(_ACCEPT, {**key, **row})
        devices = command.devices if isinstance(command, Command) else [_THE_HUB]
        named = enumerate(devices, start=1)
        tx.execute_many(_NAME, [(hub, command.id, device, place) for place, device in named])
    digest = sha256(envelope).hexdigest()
    sent: dict[str, SqlValue] = {"envelope": envelope, "sha256": digest, "traceparent": traceparent}
    tx.execute(_ENQUEUE, {**key, **sent, "most": MOST_SIGNATURES})


def lease(
    tx: Transaction, hub: HubId, *, most: int, hold: timedelta, now: Instant, new_handle: Callable[[], str]
) -> list[Loan]:
    """Lend the oldest commands that are not lent, at most ``most``, for ``hold``."""
    expire(tx, hub, now)
    clock: dict[str, SqlValue] = {"boot_id": now.boot_id, "boot": now.boot}
    until = now.boot + hold // timedelta(milliseconds=1)
    loans = []
    for row in tx.rows(_DUE, {"hub": hub, "most": most, **clock}):
        loan = Loan(new_handle(), bytes(row["envelope"]), row["traceparent"])
        mark: dict[str, SqlValue] = {"handle": loan.handle, "boot_id": now.boot_id, "until": until}
        if tx.execute(_LEND, {"number": row["number"], **mark}) != 1:
            raise BrokenInvariantError("a delivery was settled while it was lent")
        tx.execute(_LENT, (hub, row["command"]))
        loans.append(loan)
    return loans


def next_end(db: Snapshot, hub: HubId, now: Instant) -> timedelta | None:
    """How long until the first running loan of a hub ends; None when none runs."""
    row = db.rows(_NEXT_END, {"hub": hub, "boot_id": now.boot_id})[0]
    return None if row[0] is None else timedelta(milliseconds=max(int(row[0]) - now.boot, 0))


def acknowledge(tx: Transaction, hub: HubId, handles: Sequence[str]) -> list[str]:
    """Settle the deliveries of these loans: they are on the hub's disk.

    A loan whose time is over counts until the command is lent anew.

    Returns:
        The handles for which it was done; the others are no loans of this hub.
    """
    return _each(tx, hub, handles, _ACKNOWLEDGE, _TAKEN)


def hand_back(tx: Transaction, hub: HubId, handles: Sequence[str]) -> list[str]:
    """Queue the commands of these loans again, in their old places.

    Returns:
        As ``acknowledge``.
    """
    return _each(tx, hub, handles, _HAND_BACK, _QUEUED_AGAIN)


def extend(
    tx: Transaction, hub: HubId, handles: Sequence[str], *, hold: timedelta, now: Instant
) -> list[str]:
    """Let these loans end ``hold`` from now.

    Returns:
        As ``acknowledge``.
    """
    until = now.boot + hold // timedelta(milliseconds=1)
    mark: dict[str, SqlValue] = {"hub": hub, "boot_id": now.boot_id, "until": until}
    return [handle for handle in handles if tx.rows(_EXTEND, {**mark, "handle": handle})]


def expire(tx: Transaction, hub: HubId, now: Instant) -> int:
    """End the commands whose time was over before the hub ever saw them.

    Returns:
        How many.
    """
    rows = tx.rows(_EXPIRE, {"hub": hub, "now": now.milliseconds})
    tx.execute_many(_SETTLE_ALL, [(hub, row["command"]) for row in rows])
    return len(rows)


def end_other_epochs(tx: Transaction, hub: HubId, life: Epoch) -> int:
    """End the commands that the hub never saw and that were signed for another epoch (SPEC T8).

    Returns:
        How many.
    """
    old = [
        (hub, row["command"])
        for row in tx.rows(_NEVER_LENT, {"hub": hub})
        if _epoch_of(bytes(row["envelope"])) not in {life, None}
    ]
    tx.execute_many(_REFUSE, old)
    tx.execute_many(_SETTLE_ALL, old)
    return len(old)


def note(tx: Transaction, hub: HubId, event: Arrived) -> None:
    """Draw from a new event how a command ended on a device: by its receipt, or its refusal at admission.

    An order ends by its refusal, or by the event that says what was stopped or resumed.
    A later run's receipt takes the place of an earlier one. Once it has ended on all of its devices it need
    not be delivered any more.
    """
    match event.data:
        case ReceiptData(command=command, payload_sha256=payload, run=run):
            pass
        case SwitchedData(order=command, payload_sha256=payload) if (
            command is not None and payload is not None
        ):
            run = 0
        case RefusedData(command=command, payload_sha256=payload, reason=reason) if (
            # A replay's refusal tells nothing of the command itself.
            command is not None and payload is not None and reason != Reason.REPLAYED
        ):
            run = 0
        case _:
            return
    key: dict[str, SqlValue] = {"hub": hub, "command": command}
    device = event.device or _THE_HUB
    end: dict[str, SqlValue] = {"device": device, "payload": payload, "event": event.text, "run": run}
    if tx.execute(_END, key | end) and tx.execute(_FINISH, key):
        tx.execute_many(_SETTLE_ALL, [(hub, command)])


def status(db: Snapshot, hub: HubId, command: CommandId, now: Instant) -> CommandStatus | None:
    """Where a command stands; None when there is none of that id."""
    key: dict[str, SqlValue] = {"hub": hub, "command": command}
    row = db.row(_FIND, key)
    if row is None:
        return None
    state = CommandState(row["state"])
    clock: dict[str, SqlValue] = {"boot_id": now.boot_id, "boot": now.boot}
    if state is CommandState.LEASED and db.row(_IS_LENT, {**key, **clock}) is None:
        state = CommandState.QUEUED  # its loan is over; it is lent again when the hub asks
    results = db.rows(_RESULTS, key)
    return CommandStatus(
        id=CommandId(row["command"]),
        payload_sha256=Digest(row["payload_sha256"]),
        devices=[DeviceId(each["device"]) for each in results if each["device"] != _THE_HUB],
        action=None if row["action"] is None else ActionName(row["action"]),
        state=state,
        accepted_at=timestamp(row["accepted_at"]),
        lent=int(row["lent"]),
        reason=Reason.WRONG_EPOCH if state is CommandState.REFUSED else None,
        results=[
            CloudEvent.model_validate_json(each["event"]) for each in results if each["event"] is not None
        ],
    )


def void(db: Snapshot, hub: HubId, now: Instant, *, most: int) -> list[CommandId]:
    """Commands of an earlier epoch that were never lent and whose time is not over, oldest first."""
    rows = db.rows(_VOID, {"hub": hub, "now": now.milliseconds, "most": most})
    return [CommandId(row["command"]) for row in reversed(rows)]


def envelopes(db: Snapshot, hub: HubId, command: CommandId) -> list[bytes]:
    """The envelopes in which a command came, oldest first; none when there is no such command."""
    return [bytes(row["envelope"]) for row in db.rows(_ENVELOPES, {"hub": hub, "command": command})]


def waiting(db: Snapshot, hub: HubId) -> int:
    """How many deliveries a hub has not acknowledged."""
    return _count(db, _WAITING, {"hub": hub})


def ends_a_command(event: Arrived) -> bool:
    """Whether somebody who watches a command may wait for this event."""
    return event.event.type in {EventType.RECEIPT, EventType.REFUSED, EventType.STOPPED, EventType.RESUMED}


def _epoch_of(envelope: bytes) -> Epoch | None:
    return decode(_Addressed, unproven_payload(envelope), limit=len(envelope)).epoch


def _each(
    tx: Transaction, hub: HubId, handles: Sequence[str], of_delivery: str, of_command: str
) -> list[str]:
    done = []
    for handle in handles:
        for row in tx.rows(of_delivery, {"hub": hub, "handle": handle}):
            tx.execute(of_command, (hub, row["command"]))
            done.append(handle)
    return done


def _count(db: Snapshot, sql: str, parameters: dict[str, SqlValue]) -> int:
    return int(db.rows(sql, parameters)[0][0])
