"""Commands as rows of the inbox, with boring defaults."""

from dataclasses import replace
from datetime import timedelta
from typing import Final

from edgeagent.clock import BootId
from edgeagent.contracts.actions import ActionName
from edgeagent.contracts.policy import Tier
from edgeagent.core.freshness import LARGEST_SEQUENCE
from edgeagent.core.lifecycle import State
from edgeagent.ids import CommandId, DeviceId, Digest, KeyId
from edgeagent.store import inbox, locks
from edgeagent.store.database import Transaction
from edgeagent.store.inbox_row import NewCommand, Now, Row
from edgeagent.store.memory import Question
from tests.support.clocks import FIRST_BOOT

LAMP: Final = DeviceId("lamp-1")
DESK: Final = KeyId("d" * 64)
NOW: Final = Now(FIRST_BOOT, 10_000, 1)
SECOND: Final = timedelta(seconds=1)


def new(name: str = "c-1", *, sequence: int = 1, **changes: object) -> NewCommand:
    """A command to switch a lamp, in the low lane."""
    plain = NewCommand(
        command=CommandId(name),
        device=LAMP,
        issuer=DESK,
        signers=(DESK,),
        sequence=sequence,
        action=ActionName.POWER,
        slot="power",
        lane=Tier.LOW,
        operation=Digest("0" * 64),
        sha256=Digest("1" * 64),
        envelope=b"envelope",
        expires_at=1_800_000_000_000_000,
        begins_at=1_799_998_970_000_000,
        local=None,
        actor=DESK,
        received_at=1_799_999_000_000_000,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]  # checked by the tests that use it


def inserted(tx: Transaction, command: NewCommand, state: State = State.QUEUED) -> Row:
    """Store a command, and put it into a state whatever leads there."""
    first = state if state in {State.HELD, State.REFUSED} else State.QUEUED
    run = inbox.insert(tx, command, first, None)
    tx.execute("UPDATE inbox SET state = :state WHERE run = :run", {"state": state, "run": run})
    row = inbox.by_run(tx, run)
    assert row is not None
    return row


def locked(tx: Transaction, row: Row, *, whose: str = "ours", until: int = 40_000, now: Now = NOW) -> int:
    """Lock the device of a run; the fence."""
    return locks.take(tx, locks.Key(row.device, whose), run=row.run, holder="worker-1", until=until, now=now)


def later(milliseconds: int, *, boot: BootId = FIRST_BOOT, incarnation: int = 1) -> Now:
    """The present, so long after ``NOW``."""
    return Now(boot, NOW.milliseconds + milliseconds, incarnation)


def asked(command: NewCommand, *, largest: int = LARGEST_SEQUENCE) -> Question:
    """The question for what the store remembers of a command."""
    return Question(
        command=command.command,
        sha256=command.sha256,
        device=command.device,
        issuer=command.issuer,
        action=command.action,
        sequence=command.sequence,
        slot=command.slot,
        largest=largest,
        operation=command.operation,
    )
