"""Dead letters: commands that ended badly, kept whole until somebody deals with them (SPEC D1).

Owns ``dead_letters``. A letter is written in the commit of the ending that it tells of and never edited but
to say how it was dealt with. It carries its own copy of the command: the inbox forgets. At most ``MOST`` are
kept, and of those that call nobody so many fewer that they crowd out no others; the oldest make way.
"""

import sqlite3
from datetime import timedelta
from typing import Final

from edgeagent.clock import BootId
from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.policy import Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.blame import Blame
from edgeagent.core.freshness import BootDeadline
from edgeagent.ids import CommandId, DeviceId, Digest, KeyId
from edgeagent.store.database import Snapshot, SqlValue, Transaction
from edgeagent.values import dataclass

MOST: Final = 10_000
"""How many letters are kept."""
MOST_ANSWERED: Final = 1_000
"""How many of them are such that nobody is called for."""

_MILLISECOND: Final = timedelta(milliseconds=1)
_COLUMNS: Final = """
number, run, ordinal, command, device, action, issuer, actor, lane, sha256, envelope, expires_at, local_boot,
local_until, outcome, blame, reason, detail, attempts, sent, fence, holder, received_at, buried_at,
traceparent, answered, dealt, dealt_by, dealt_at, dealt_why, replayed_as
"""
_ADD: Final = """
INSERT INTO dead_letters (number, run, ordinal, command, device, action, issuer, actor, lane, sha256,
                          envelope, expires_at, local_boot, local_until, outcome, blame, reason, detail,
                          attempts, sent, fence, holder, received_at, buried_at, traceparent, answered)
VALUES (:number, :run, :ordinal, :command, :device, :action, :issuer, :actor, :lane, :sha256, :envelope,
        :expires_at, :local_boot, :local_until, :outcome, :blame, :reason, :detail, :attempts, :sent, :fence,
        :holder, :received_at, :buried_at, :traceparent, :answered)
"""
_NEXT: Final = "SELECT coalesce(max(number), 0) + 1 FROM dead_letters"
_MAKE_WAY: Final = "DELETE FROM dead_letters WHERE number <= :number RETURNING number, dealt"
_CROWDED: Final = """
DELETE FROM dead_letters
 WHERE answered = 1 AND number <= (
           SELECT number FROM dead_letters WHERE answered = 1 ORDER BY number DESC LIMIT 1 OFFSET :most)
RETURNING number, dealt
"""
_FIND: Final = f"SELECT {_COLUMNS} FROM dead_letters WHERE number = :number"  # noqa: S608 - constant text
_PICK: Final = f"""
SELECT {_COLUMNS} FROM dead_letters
 WHERE (:dealt OR dealt IS NULL) AND (:action IS NULL OR action = :action)
   AND (:device IS NULL OR device = :device) AND (:reason IS NULL OR reason = :reason)
   AND (:since IS NULL OR buried_at >= :since) AND number > :after
 ORDER BY number LIMIT :most
"""  # noqa: S608 - constant text
_DEAL: Final = """
UPDATE dead_letters
   SET dealt = :dealt, dealt_by = :by, dealt_at = :at, dealt_why = :why, replayed_as = :run
 WHERE number = :number AND dealt IS NULL
"""
_WAITING: Final = """
SELECT blame, count(*) AS letters FROM dead_letters
 WHERE dealt IS NULL AND (:all OR answered = 0) GROUP BY blame
"""
_ASIDE: Final = """
SELECT count(*) FROM dead_letters
 WHERE issuer = :issuer AND action = :action AND dealt IS NULL AND reason = 'breaker_open'
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewLetter:
    """A command that has ended badly.

    Attributes:
        run: its run; 0 of one that never had a row.
        ordinal: the how-manieth run of the command on its device.
        command: its id.
        device: whom it was for.
        action: what it asked.
        issuer: the key in whose name.
        actor: who is on record for it.
        lane: where it was worked.
        sha256: of its payload.
        envelope: as it came.
        expires_at: microseconds since 1970.
        local: until when it is good, if it was typed here.
        outcome: how it ended.
        blame: of which class.
        reason: why.
        detail: for people.
        attempts: how often it was sent.
        sent: whether something was sent.
        fence: of its last lock; 0 of one that was never claimed.
        holder: who worked it.
        received_at: when it came; microseconds since 1970.
        buried_at: when it ended; the same.
        traceparent: the place in a trace under which it ran.
        answered: whether its issuer decides anew, and nobody is called.
    """

    run: int
    ordinal: int
    command: CommandId
    device: DeviceId
    action: ActionName
    issuer: KeyId
    actor: str
    lane: Tier
    sha256: Digest
    envelope: bytes
    expires_at: int
    local: BootDeadline | None
    outcome: Outcome
    blame: Blame
    reason: Reason | None
    detail: str
    attempts: int
    sent: bool
    fence: int
    holder: str | None
    received_at: int
    buried_at: int
    traceparent: str | None
    answered: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Dealt:
    """What somebody did with a letter.

    Attributes:
        how: ``replayed`` or ``discarded``.
        by: who.
        at: when; microseconds since 1970.
        why: for people.
        run: the run that it became.
    """

    how: str
    by: str
    at: int
    why: str = ""
    run: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter(NewLetter):
    """A letter that lies here.

    Attributes:
        number: by which it is named.
        dealt: what was done with it; None while it waits.
    """

    number: int
    dealt: Dealt | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Picked:
    """Which letters are meant.

    Attributes:
        action: of this action only.
        device: for this device only.
        reason: that ended for this reason only.
        since: buried since then; microseconds since 1970.
        dealt: also those that were dealt with.
        after: numbers above this one.
        most: at most so many.
    """

    action: ActionName | None = None
    device: DeviceId | None = None
    reason: Reason | None = None
    since: int | None = None
    dealt: bool = False
    after: int = 0
    most: int = 100


def upcoming(db: Snapshot) -> int:
    """The number that the next letter gets."""
    row = db.row(_NEXT)
    return 1 if row is None else int(row[0])


def add(tx: Transaction, new: NewLetter) -> tuple[int, list[int]]:
    """Lay a letter down.

    Returns:
        Its number, and those of letters that waited and had to make way.
    """
    number = upcoming(tx)
    tx.execute(
        _ADD,
        {
            "number": number,
            "run": new.run,
            "ordinal": new.ordinal,
            "command": new.command,
            "device": new.device,
            "action": new.action,
            "issuer": new.issuer,
            "actor": new.actor,
            "lane": new.lane,
            "sha256": new.sha256,
            "envelope": new.envelope,
            "expires_at": new.expires_at,
            "local_boot": None if new.local is None else new.local.boot_id,
            "local_until": None if new.local is None else new.local.until // _MILLISECOND,
            "outcome": new.outcome,
            "blame": new.blame,
            "reason": new.reason,
            "detail": new.detail,
            "attempts": new.attempts,
            "sent": int(new.sent),
            "fence": new.fence,
            "holder": new.holder,
            "received_at": new.received_at,
            "buried_at": new.buried_at,
            "traceparent": new.traceparent,
            "answered": int(new.answered),
        },
    )
    gone = tx.rows(_MAKE_WAY, {"number": number - MOST}) if number > MOST else []
    if new.answered:
        gone += tx.rows(_CROWDED, {"most": MOST_ANSWERED})
    return number, [int(row["number"]) for row in gone if row["dealt"] is None]


def find(db: Snapshot, number: int) -> Letter | None:
    """One letter."""
    row = db.row(_FIND, {"number": number})
    return None if row is None else _read(row)


def pick(db: Snapshot, picked: Picked) -> list[Letter]:
    """The letters that are meant, oldest first."""
    fields: dict[str, SqlValue] = {
        "action": picked.action,
        "device": picked.device,
        "reason": picked.reason,
        "since": picked.since,
        "dealt": int(picked.dealt),
        "after": picked.after,
        "most": picked.most,
    }
    return [_read(row) for row in db.rows(_PICK, fields)]


def deal(tx: Transaction, number: int, dealt: Dealt) -> bool:
    """Note what was done with a letter that waits.

    Returns:
        False if it does not wait any more; nothing was changed.
    """
    fields: dict[str, SqlValue] = {
        "number": number,
        "dealt": dealt.how,
        "by": dealt.by,
        "at": dealt.at,
        "why": dealt.why,
        "run": dealt.run,
    }
    return tx.execute(_DEAL, fields) == 1


def waiting(db: Snapshot, *, answered: bool = True) -> dict[Blame, int]:
    """How many letters wait, by their class; ``answered`` with those for which nobody is called."""
    return {Blame(row["blame"]): int(row["letters"]) for row in db.rows(_WAITING, {"all": int(answered)})}


def put_aside(db: Snapshot, issuer: KeyId, action: ActionName) -> int:
    """How many commands of an origin an open breaker has put aside."""
    row = db.row(_ASIDE, {"issuer": issuer, "action": action})
    return 0 if row is None else int(row[0])


def _read(row: sqlite3.Row) -> Letter:
    local = row["local_boot"]
    dealt = row["dealt"]
    return Letter(
        number=int(row["number"]),
        run=int(row["run"]),
        ordinal=int(row["ordinal"]),
        command=CommandId(str(row["command"])),
        device=DeviceId(str(row["device"])),
        action=ActionName(row["action"]),
        issuer=KeyId(str(row["issuer"])),
        actor=str(row["actor"]),
        lane=Tier(row["lane"]),
        sha256=Digest(str(row["sha256"])),
        envelope=bytes(row["envelope"]),
        expires_at=int(row["expires_at"]),
        local=None if local is None else BootDeadline(BootId(local), row["local_until"] * _MILLISECOND),
        outcome=Outcome(row["outcome"]),
        blame=Blame(row["blame"]),
        reason=None if row["reason"] is None else Reason(row["reason"]),
        detail=str(row["detail"]),
        attempts=int(row["attempts"]),
        sent=bool(row["sent"]),
        fence=int(row["fence"]),
        holder=row["holder"],
        received_at=int(row["received_at"]),
        buried_at=int(row["buried_at"]),
        traceparent=row["traceparent"],
        answered=bool(row["answered"]),
        dealt=None
        if dealt is None
        else Dealt(
            how=str(dealt),
            by=str(row["dealt_by"]),
            at=int(row["dealt_at"]),
            why=str(row["dealt_why"] or ""),
            run=row["replayed_as"],
        ),
    )
