"""The trail's head, signed now and then; and what lies far behind a signed head, dropped.

    rows ──an hour, 1,000 rows, an orderly stop, an export──> checkpoint ──> outbox, for the cloud to keep

A trail at rest makes no checkpoint, since a checkpoint is no row of it. Rows go once they are old enough and
a checkpoint after them is in other hands; the chain begins after that checkpoint then (SPEC A3).
"""

import asyncio
import logging
from datetime import timedelta
from functools import partial
from typing import Final

from pydantic import JsonValue

from edgeagent.clock import EPOCH
from edgeagent.contracts.checkpoint import Checkpoint
from edgeagent.contracts.door import encode
from edgeagent.contracts.event import EventType, Stream
from edgeagent.contracts.receipt import AuditMark
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.envelope import Signer
from edgeagent.core.evidence import signed_checkpoint
from edgeagent.errors import TransientError
from edgeagent.flows.surroundings import Surroundings
from edgeagent.ids import Digest
from edgeagent.store import audit, checkpoints, outbox
from edgeagent.store.audit import Act, Head, Stamp
from edgeagent.store.checkpoints import Signed
from edgeagent.store.database import Database, Snapshot, Transaction
from edgeagent.store.outbox import NewEvent
from edgeagent.values import dataclass

log = logging.getLogger(__name__)

LONGEST: Final = timedelta(hours=1)
"""How long a row waits at most to be covered."""
MOST_ROWS: Final = 1000
"""How many rows wait at most."""
# What one commit drops: not less than is worth a row of its own, and not so much that others wait for it.
_FEWEST_DROPPED: Final = 1000
_MOST_DROPPED: Final = 5000
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """How long the trail reaches back.

    Attributes:
        keep: rows younger than this stay.
        look: how often it is looked whether something is due.
    """

    keep: timedelta = timedelta(days=365)
    look: timedelta = timedelta(minutes=1)


class Checkpoints:
    """Signs the trail's head, and drops what lies far behind one."""

    def __init__(self, store: Database, key: Signer, around: Surroundings, settings: AuditSettings) -> None:
        self._store = store
        self._key = key
        self._around = around
        self._settings = settings
        self._made = around.clock.boot()

    def adopt(self, settings: AuditSettings) -> None:
        """Go on with other settings."""
        self._settings = settings

    async def run(self) -> None:
        """Look now and then; ends only by cancellation."""
        while True:
            await asyncio.sleep(self._settings.look.total_seconds())
            try:
                await self.look()
            except TransientError as why:
                log.warning("no checkpoint", extra={"why": str(why)})

    async def look(self) -> None:
        """Do what is due.

        Raises:
            StorageError: it is not done.
        """
        head, last = await self._store.read(lambda db: (audit.head(db), checkpoints.last(db)))
        now = self._around.clock.boot()
        waiting = head.number - last.number
        if waiting >= MOST_ROWS or (waiting and now - self._made >= LONGEST):
            await self._store.write(self.sign)
            self._made = now
            self._around.outbox.stored({Stream.RECORD}, 1)
        await self._drop_old()

    def sign(self, tx: Transaction) -> Head:
        """Sign the head as it is in this transaction; not twice the same.

        Returns:
            The row that the newest checkpoint covers now.
        """
        head = audit.head(tx)
        if head.number == checkpoints.last(tx).number:
            return head
        wall, origin = self._around.clock.wall(), self._around.origin
        checkpoint = Checkpoint(
            hub=origin.hub,
            epoch=origin.epoch,
            audit=AuditMark(number=head.number, hash=Digest(head.hash.hex())),
            at=wall.best,
            clock=wall.source,
        )
        data = encode(signed_checkpoint(checkpoint, self._key))
        event = NewEvent(Stream.RECORD, EventType.CHECKPOINT, None, self._around.event_time(), data)
        [number] = outbox.append(tx, [event], incarnation=origin.incarnation)
        at = (wall.best - EPOCH) // _MICROSECOND
        signed = Signed(head=head, at=at, proven=wall.error is not None, event=number, data=data)
        checkpoints.add(tx, signed)
        return head

    async def _drop_old(self) -> None:
        """Drop what is surely old enough and in other hands; nothing while the time is not proven."""
        wall = self._around.clock.wall()
        if wall.error is None:
            return
        # Where rows stay for longer than there are dates, none is old enough.
        before = max(0, (wall.earliest - EPOCH - self._settings.keep) // _MICROSECOND)
        # Looking costs a read only; most looks find nothing.
        if await self._store.read(partial(_droppable, before=before)) is None:
            return
        stamp = self._around.stamp()
        dropped = await self._store.write(lambda tx: _drop(tx, before, stamp))
        log.info("audit rows dropped", extra={"rows": dropped})


def _droppable(db: Snapshot, before: int) -> tuple[Head, Head] | None:
    """What the trail builds on now and may build on; None when there is not enough to drop."""
    now = checkpoints.basis(db)
    if now is None:
        return None  # It is broken already; nothing of the evidence goes.
    then = checkpoints.prunable(db, after=now.number, upto=now.number + _MOST_DROPPED, before=before)
    return None if then is None or then.number - now.number < _FEWEST_DROPPED else (now, then)


def _drop(tx: Transaction, before: int, stamp: Stamp) -> int:
    found = _droppable(tx, before)
    if found is None:
        return 0
    now, then = found
    detail: dict[str, JsonValue] = {"after": now.number, "upto": then.number, "hash": then.hash.hex()}
    # First the row that tells of it: the trail is never without a last one.
    audit.append(tx, [Act(kind=AuditKind.PRUNED, subject="audit", actor="agent", detail=detail)], stamp)
    checkpoints.forget(tx, before=then.number)
    return audit.drop(tx, upto=then.number)
