"""A command as a row of the inbox: what it carries, where it stands, where it may be moved."""

import json
import sqlite3
from datetime import timedelta
from typing import Final

from edgeagent.clock import BootId
from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.policy import Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.core.freshness import BootDeadline
from edgeagent.core.lease import ANY, Parent, Terms
from edgeagent.core.lifecycle import State
from edgeagent.ids import CommandId, DeviceId, Digest, KeyId
from edgeagent.store.database import SqlValue
from edgeagent.values import dataclass

_ENVELOPE: Final = "envelope"
_NAMES: Final = f"""
run, command, ordinal, device, issuer, signers, sequence, action, slot, lane, operation, sha256, {_ENVELOPE},
expires_at, begins_at, local_boot, local_until, actor, state, reason, received_at, available_at,
available_boot, attempts, sent, force_refresh, last_error, lease, parent, parent_most, losses, replay_of,
traceparent
"""


def columns(table: str) -> str:
    """What ``read_row`` reads of ``inbox``, under the name that a statement gives to it.

    A row that shares its envelope with another of its command has that one's.
    """
    names = {name: f"{table}.{name}" for name in _NAMES.replace(",", " ").split()}
    shared = f"(SELECT o.envelope FROM inbox o WHERE o.run = {table}.envelope_of)"  # noqa: S608 - our own names
    names[_ENVELOPE] = f"coalesce({table}.envelope, {shared}) AS envelope"
    return ", ".join(names.values())


COLUMNS: Final = columns("inbox")
"""The same where a statement gives it no name of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCommand:
    """A command that the gate let in, as it is asked of one device.

    Attributes:
        command: its id.
        device: whom it is for.
        issuer: the key in whose name.
        signers: all keys that are known to have signed it.
        sequence: of the issuer for the device.
        action: what to do.
        slot: what it supersedes; None for nothing.
        lane: where it is worked.
        operation: the key of its operation.
        sha256: of its payload.
        envelope: as it came.
        expires_at: microseconds since 1970.
        begins_at: the same: until then it is of the future.
        local: until when it is good, if it was typed here.
        actor: who is on record for it.
        received_at: microseconds since 1970.
        terms: under which its device is locked for it.
        traceparent: the place in a trace that came beside it; nobody has signed it.
    """

    command: CommandId
    device: DeviceId
    issuer: KeyId
    signers: tuple[KeyId, ...]
    sequence: int
    action: ActionName
    slot: str | None
    lane: Tier
    operation: Digest
    sha256: Digest
    envelope: bytes
    expires_at: int
    begins_at: int
    local: BootDeadline | None
    actor: str
    received_at: int
    terms: Terms = ANY
    traceparent: str | None = None

    @property
    def parent(self) -> Parent | None:
        """What it occupies beside its device."""
        return self.terms.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(NewCommand):
    """A command as it stands in the inbox.

    Attributes:
        run: the number of this run.
        ordinal: the how-manieth run of the command on its device.
        state: where it stands.
        reason: why, where there is more to say.
        available: when a waiting one is due: milliseconds of boot time, and the boot.
        attempts: how often something was sent.
        sent: whether something was sent in this run.
        force_refresh: whether its device has to be read before anything is sent.
        last_error: what went wrong last.
        losses: how often whoever worked it was gone before its end.
        replay_of: the run of which a person had this one made.
    """

    run: int
    ordinal: int
    state: State
    reason: Reason | None
    available: tuple[int, BootId] | None
    attempts: int
    sent: bool
    force_refresh: bool
    last_error: str | None
    losses: int = 0
    replay_of: int | None = None


@dataclass(frozen=True, slots=True)
class Again:
    """A further run of a command on its device.

    Attributes:
        ordinal: the how-manieth.
        of: the run that it repeats.
    """

    ordinal: int
    of: int


@dataclass(frozen=True, slots=True)
class Moved:
    """Where a row goes and what is said of it.

    Attributes:
        target: the new state.
        reason: why.
        available: when it is due, of a waiting row.
        force_refresh: whether its device has to be read first.
        error: what went wrong.
    """

    target: State
    reason: Reason | None = None
    available: tuple[int, BootId] | None = None
    force_refresh: bool = False
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Now:
    """The present, as leases count it: the boot, milliseconds since, and the start of the daemon."""

    boot: BootId
    milliseconds: int
    incarnation: int

    @property
    def parameters(self) -> dict[str, SqlValue]:
        """For SQL."""
        return {"boot": self.boot, "now": self.milliseconds, "incarnation": self.incarnation}


@dataclass(frozen=True, slots=True, kw_only=True)
class Over:
    """Which final rows are too old to be kept.

    Attributes:
        before: those that expired by then; microseconds since 1970.
        kept: of those typed here in an earlier boot, all but so many of the newest runs.
        boot: this boot.
        most: at most so many at once.
    """

    before: int
    kept: int
    boot: BootId
    most: int


@dataclass(frozen=True, slots=True)
class Old:
    """A row to be forgotten.

    Attributes:
        run: its run.
        expires_at: microseconds since 1970.
        is_local: whether it was typed here.
    """

    run: int
    expires_at: int
    is_local: bool


def read_row(row: sqlite3.Row) -> Row:
    """Read a row that has all of ``COLUMNS``."""
    local = row["local_boot"]
    due, parent = row["available_at"], row["parent"]
    return Row(
        run=int(row["run"]),
        command=CommandId(str(row["command"])),
        ordinal=int(row["ordinal"]),
        device=DeviceId(str(row["device"])),
        issuer=KeyId(str(row["issuer"])),
        signers=tuple(KeyId(str(key)) for key in json.loads(row["signers"])),
        sequence=int(row["sequence"]),
        action=ActionName(row["action"]),
        slot=row["slot"],
        lane=Tier(row["lane"]),
        operation=Digest(str(row["operation"])),
        sha256=Digest(str(row["sha256"])),
        envelope=bytes(row["envelope"]),
        expires_at=int(row["expires_at"]),
        begins_at=int(row["begins_at"]),
        local=None
        if local is None
        else BootDeadline(BootId(local), timedelta(milliseconds=row["local_until"])),
        actor=str(row["actor"]),
        state=State(row["state"]),
        reason=None if row["reason"] is None else Reason(row["reason"]),
        received_at=int(row["received_at"]),
        available=None if due is None else (int(due), BootId(str(row["available_boot"]))),
        attempts=int(row["attempts"]),
        sent=bool(row["sent"]),
        force_refresh=bool(row["force_refresh"]),
        last_error=row["last_error"],
        terms=Terms(
            timedelta(milliseconds=row["lease"]),
            None if parent is None else Parent(str(parent), int(row["parent_most"])),
        ),
        losses=int(row["losses"]),
        replay_of=row["replay_of"],
        traceparent=row["traceparent"],
    )
