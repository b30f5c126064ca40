"""The audit trail's chain: an edited, removed, swapped or inserted row breaks it.

    hash(n) = sha256( hash(n-1) || bytes of row n ),    hash(0) = 32 zero bytes

The bytes of a row are the JSON array of its fields in their declared order, compact and UTF-8, so
that ``jq`` and ``sha256sum`` can follow the chain without us (SPEC A3).
"""

import json
from collections.abc import Iterable
from enum import StrEnum
from hashlib import sha256
from typing import Final

from pydantic import JsonValue

from edgeagent.values import dataclass

GENESIS: Final = bytes(32)
"""What the first row's hash builds on."""


class AuditKind(StrEnum):
    """What an audit row tells."""

    DATABASE_CREATED = "database_created"
    """A new epoch began; names a damaged file that was set aside."""
    STARTED = "started"
    """The agent has started: incarnation, version, boot."""
    STOPPED = "stopped"
    """The agent has stopped in order."""
    DEVICE_ADMITTED = "device_admitted"
    """A device was admitted, by whom."""
    DEVICE_MOVED = "device_moved"
    """A device announced itself by another name, and is spoken to by that."""
    DEVICE_FORGOTTEN = "device_forgotten"
    """A device was forgotten, by whom."""
    RETAINED_COMMAND = "retained_command"
    """A retained message lies on a command topic."""
    POLICY_ACCEPTED = "policy_accepted"
    """A policy came into force."""
    POLICY_REFUSED = "policy_refused"
    """A policy was refused; the one in force stays."""
    ARTIFACTS_LISTED = "artifacts_listed"
    """Another catalogue of artifacts was taken: what is signed for, and what is no more."""
    ARTIFACTS_REFUSED = "artifacts_refused"
    """A catalogue of artifacts was refused; the one before stays."""
    CLOCK_PROVEN = "clock_proven"
    """A proof of the time was taken after a time without one."""
    POLICY_EXPIRED = "policy_expired"
    """The time of the policy in force is over; what its grace still allows is allowed."""
    CLOCK_CONFIRMED = "clock_confirmed"
    """A person said what time it is."""
    FLOOR_RESET = "floor_reset"
    """A person set the floor of time back: from where, to where."""
    EPOCH_BEGUN = "epoch_begun"
    """A new life of the database began, and why: lost, damaged or restored."""
    STOPPED_KIND = "stopped_kind"
    """The kill switch was thrown for a kind of command."""
    RESUMED_KIND = "resumed_kind"
    """The kill switch was taken back for a kind of command."""
    ORDER_REFUSED = "order_refused"
    """An order to stop or resume was refused, and why."""
    COMMAND_APPROVED = "command_approved"
    """A person at the hub approved a held command, by the hash of its payload."""
    BREAKER_OPENED = "breaker_opened"
    """A breaker opened, or opened again: for which action and origin, and why."""
    BREAKER_PROBED = "breaker_probed"
    """A command was let in to try whether a breaker may close."""
    BREAKER_CLOSED = "breaker_closed"
    """A breaker closed: its probe has succeeded, or a person reset it."""
    BREAKER_REFUSED = "breaker_refused"
    """Commands that open breakers refused, counted over a minute."""
    DEAD_LETTER_REPLAYED = "dead_letter_replayed"
    """A person has a dead letter run again, and what the gate said."""
    DEAD_LETTER_DISCARDED = "dead_letter_discarded"
    """A dead letter was put away, by whom and why."""
    DEAD_LETTER_SHOWN = "dead_letter_shown"
    """A dead letter was shown to a person, whole."""
    DEAD_LETTERS_EXPORTED = "dead_letters_exported"
    """Dead letters were handed to a person, whole."""
    CERTIFICATE_RENEWED = "certificate_renewed"
    """The hub shows another certificate: its serial number, its end, and the one before."""
    ALERT = "alert"
    """The hub has called for a person, or has stopped to."""
    PRUNED = "pruned"
    """Earlier rows were dropped, up to a checkpoint that others have."""
    DRILLED = "drilled"
    """A drill was held: which, how it ended, how long it took."""
    BACKED_UP = "backed_up"
    """A copy of the database was handed to a person."""
    RESTORED = "restored"
    """A person has put this copy back, from which backup; a new epoch begins with it."""
    CONFIGURATION_TAKEN = "configuration_taken"
    """The configuration was read again: which keys were taken, which wait for a restart."""
    CONFIGURATION_REFUSED = "configuration_refused"
    """The configuration was to be read again and has mistakes; what was in force stays."""
    STORE_RECOVERED = "store_recovered"
    """The disk takes writes again: what was wrong, since when, how many commits had failed."""
    EXPORTED = "exported"
    """Rows were handed to a person."""
    REVALIDATED = "revalidated"
    """A device was read afresh."""
    ROLLOUT_STOPPED = "rollout_stopped"
    """So many devices of a list ended badly that the rest is not begun."""
    ROLLOUT_PAUSED = "rollout_paused"
    """A person paused the update of a list, and why."""
    ROLLOUT_RESUMED = "rollout_resumed"
    """A person let the update of a list go on, and why."""
    ROLLOUT_ABORTED = "rollout_aborted"
    """A person cancelled what is not begun of a list, and why."""
    UPDATE_CALLED_OFF = "update_called_off"
    """A person called the update of a device off, at which stage and why."""
    ARTIFACT_FETCHED = "artifact_fetched"
    """A file for devices was fetched and is the one that was signed."""
    ARTIFACT_NOT_FETCHED = "artifact_not_fetched"
    """A file for devices did not come, or was not the one that was signed; and why."""
    ARTIFACT_REMOVED = "artifact_removed"
    """A fetched file was removed, by whom and why."""
    ARTIFACT_SERVED = "artifact_served"
    """A device has fetched a file from the hub, counted over a minute."""
    ARTIFACT_NOT_SERVED = "artifact_not_served"
    """Somebody was turned away who wanted a file from the hub, counted over a minute."""
    COMMAND_ACCEPTED = "command_accepted"
    """A command passed the gate and stands in the inbox."""
    COMMAND_HELD = "command_held"
    """A command waits for what the gate misses."""
    COMMAND_REFUSED = "command_refused"
    """A command was refused, at which moment and why."""
    COMMANDS_UNVERIFIED = "commands_unverified"
    """Refusals without a verified origin, counted over a minute."""
    HOLD_REFUSED = "hold_refused"
    """Commands that would have been held beyond what is held of one issuer, counted over a minute."""
    COMMAND_REPLAYED = "command_replayed"
    """Repeats of known commands, counted over a minute."""
    COMMAND_SIGNED = "command_signed"
    """Further signatures came for a held command."""
    COMMAND_QUEUED = "command_queued"
    """What a waiting command has waited for has come."""
    COMMAND_CLAIMED = "command_claimed"
    """A command was begun: device, fence, holder."""
    STEP_SENT = "step_sent"
    """A message is about to go to the device."""
    STEP_ENDED = "step_ended"
    """What became of one step of several."""
    UPDATE_MOVED = "update_moved"
    """An update of firmware came to another stage, or a tenth further: which file, from which version."""
    COMMAND_WAITING = "command_waiting"
    """A try ended without result; when the next is due and why."""
    COMMAND_TAKEN_OVER = "command_taken_over"
    """The holder stopped; the command is worked anew."""
    LOCK_RELEASED = "lock_released"
    """A person took a device's lock from whoever held it, and why."""
    COMMAND_SETTLED = "command_settled"
    """A command is final: outcome, reason, level."""
    COMMAND_CORRECTED = "command_corrected"
    """An outcome that was unknown has become known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """One row of the trail.

    Attributes:
        number: 1, 2, 3 without a hole.
        at: RFC 3339 in UTC, the best guess.
        clock: what that guess rests on.
        kind: what it tells: an ``AuditKind``, or what somebody wrote in its place.
        subject: whom it is about: a device, a command, a file.
        actor: who did it: a key id, ``uid:1000``, ``agent``.
        detail: the rest, as compact JSON.
    """

    number: int
    at: str
    clock: str
    kind: str
    subject: str
    actor: str
    detail: str


@dataclass(frozen=True, slots=True)
class Break:
    """Where the chain does not hold.

    Attributes:
        number: the first row that does not fit.
        why: what is wrong with it.
    """

    number: int
    why: str


# Made once: making one takes as long as writing a row.
_ROW: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_DETAIL: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True)


def row_bytes(row: AuditRow) -> bytes:
    """The bytes of a row that its hash covers."""
    fields = [row.number, row.at, row.clock, str(row.kind), row.subject, row.actor, row.detail]
    return _ROW.encode(fields).encode()


def next_hash(previous: bytes, row: AuditRow) -> bytes:
    """The hash of ``row`` as the successor of the row whose hash is ``previous``."""
    return sha256(previous + row_bytes(row)).digest()


def detail_text(fields: dict[str, JsonValue]) -> str:
    """Write a row's detail: compact JSON with sorted keys."""
    text = _DETAIL.encode(fields)
    # The one character that we write as it is and jq (1.6) escapes: the row's bytes would not be the same.
    return text.replace("\x7f", r"\u007f")


def first_break(
    rows: Iterable[tuple[AuditRow, bytes]], *, after: int = 0, previous: bytes = GENESIS
) -> Break | None:
    """Follow the chain and name the first row that does not fit.

    Args:
        rows: each row with its stored hash, in order.
        after: the number of the row before the first.
        previous: the hash of that row.
    """
    for row, stored in rows:
        if row.number != after + 1:
            return Break(after + 1, f"row {after + 1} is missing, row {row.number} follows")
        if next_hash(previous, row) != stored:
            return Break(row.number, "its hash does not fit its content and its predecessor")
        after, previous = row.number, stored
    return None
