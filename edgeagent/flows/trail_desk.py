"""What a person at the hub may ask of the audit trail: the ``AuditDesk`` port, answered from the store.

The trail is read in parts, so that whoever else reads the store need not wait for all of it. Old rows may be
dropped between two parts: what then seems to be missing is no break, and whoever reads begins anew.
"""

import asyncio
from functools import partial
from typing import Final

from edgeagent.contracts.checkpoint import CHECKPOINT_BYTES, Checkpoint
from edgeagent.contracts.door import decode
from edgeagent.contracts.receipt import AuditMark
from edgeagent.contracts.reports.audit import (
    MOST_ROWS,
    AuditRowReport,
    AuditRowsReport,
    BreakReport,
    ExportPage,
    ExportReport,
    ExportWanted,
    RowsWanted,
    VerifyReport,
    VerifyWanted,
)
from edgeagent.core.audit_chain import AuditKind, AuditRow, Break
from edgeagent.core.trail import Anchor, Follower, anchors_of
from edgeagent.errors import RejectedError, TransientError, UnknownError
from edgeagent.flows.checkpoints import Checkpoints
from edgeagent.flows.surroundings import Surroundings
from edgeagent.ids import Digest, HubId
from edgeagent.store import audit, checkpoints
from edgeagent.store.audit import EMPTY, Act, Head
from edgeagent.store.database import Database, Snapshot, Transaction
from edgeagent.values import dataclass

_PART: Final = 1000
_TRIES: Final = 5
GONE: Final = "rows before it are gone, and no checkpoint covers them"


@dataclass(frozen=True, slots=True)
class TrailDesk:
    """Answers about the trail.

    Attributes:
        store: the hub's.
        key: the public half of its key.
        checkpoints: signs the trail's head.
        around: whose trail it is, and the time.
    """

    store: Database
    key: bytes
    checkpoints: Checkpoints
    around: Surroundings

    async def rows(self, wanted: RowsWanted) -> AuditRowsReport:
        """The newest rows of a kind, about a subject, since a time."""
        found = await self.store.read(
            partial(
                audit.newest,
                kind=wanted.kind,
                subject=wanted.subject,
                since=None if wanted.since is None else wanted.since.strftime("%Y-%m-%dT%H:%M:%S"),
                most=wanted.most,
            )
        )
        return AuditRowsReport(rows=[_row(row, stored) for row, stored in found])

    async def row(self, number: int) -> AuditRowReport:
        """One row."""
        found = await self.store.read(partial(audit.rows, after=number - 1, most=1))
        if not found or found[0][0].number != number:
            raise UnknownError(f"the trail has no row {number}")
        return _row(*found[0])

    async def verify(self, wanted: VerifyWanted) -> VerifyReport:
        """Follow the whole trail, and hold it against what the hub has signed and the cloud was told."""
        known = await self.store.read(checkpoints.basis)
        for _ in range(_TRIES):
            report = await self._followed(known, wanted)
            begun, known = known, await self.store.read(checkpoints.basis)
            if report.broken is None or known == begun:
                return report
        raise TransientError("rows of the trail are dropped faster than they are followed")

    async def _followed(self, known: Head | None, wanted: VerifyWanted) -> VerifyReport:
        """Follow the trail from what its first row builds on."""
        check = TrailCheck(self.around.origin.hub, self.key, known, wanted.head)
        while check.wants_checkpoints:
            part = await self.store.read(partial(checkpoints.page, after=check.checkpoint, most=_PART))
            # A signature each: some tens of milliseconds for a part.
            await asyncio.to_thread(check.take_checkpoints, part)
        check.take_told(await self.store.read(audit.told))
        while check.wants_rows:
            check.take_rows(await self.store.read(partial(audit.rows, after=check.row, most=_PART)))
        return check.report()

    async def begin_export(self, wanted: ExportWanted, actor: str) -> ExportReport:
        """Put an export on record, and sign the head that it will end with."""
        origin, stamp = self.around.origin, self.around.stamp()
        act = Act(kind=AuditKind.EXPORTED, subject=wanted.file, actor=actor, detail={})

        def begin(tx: Transaction) -> tuple[Head, Head]:
            basis = checkpoints.basis(tx)
            if basis is None:
                raise RejectedError("the trail is broken; edgeagent audit verify says where")
            audit.append(tx, [act], stamp)
            return basis, self.checkpoints.sign(tx)

        basis, upto = await self.store.write(begin)
        return ExportReport(
            hub=origin.hub, epoch=origin.epoch, key=self.key.hex(), basis=mark_of(basis), upto=mark_of(upto)
        )

    async def export_page(self, after: int, upto: int) -> ExportPage:
        """The next rows of an export."""

        def read(db: Snapshot) -> ExportPage:
            rows = audit.rows(db, after=after, most=min(MOST_ROWS, max(upto - after, 0)))
            last = rows[-1][0].number if rows else after
            if rows and rows[0][0].number > after + 1:
                _refuse_if_dropped(db, after)
            signed = checkpoints.page(db, after=after, upto=last, most=MOST_ROWS)
            return ExportPage(
                rows=[_row(row, stored) for row, stored in rows],
                checkpoints=[decode(Checkpoint, data, limit=CHECKPOINT_BYTES) for _, data in signed],
            )

        return await self.store.read(read)

    async def end_export(self, number: int) -> None:
        """Note that the rows up to a checkpoint are on somebody's disk."""
        if not await self.store.write(partial(checkpoints.note_exported, number=number)):
            raise RejectedError(f"no export up to row {number} is open")


class TrailCheck:
    """Follows a trail that is read in parts: its checkpoints first, then its rows.

    Attributes:
        checkpoint: the row of the last checkpoint that was taken.
        wants_checkpoints: whether there may be more.
        wants_rows: whether there may be more.
    """

    def __init__(self, hub: HubId, key: bytes, basis: Head | None, expected: AuditMark | None) -> None:
        self._hub, self._key = hub, key
        begins = EMPTY if basis is None else basis
        self._basis = begins
        self._follower = Follower(begins.number, begins.hash)
        self._broken = Break(1, GONE) if basis is None else None
        # The one that the trail begins after is verified too.
        self.checkpoint = max(begins.number - 1, 0)
        self._checkpoints = 0
        self.wants_checkpoints = self.wants_rows = self._broken is None
        if expected is not None:
            self._expect(Head(expected.number, bytes.fromhex(expected.hash)), "the head that was given")

    @property
    def row(self) -> int:
        """The last row that fits."""
        return self._follower.after

    def take_checkpoints(self, part: list[tuple[int, bytes]]) -> None:
        """Hold the trail against these too."""
        anchors = anchors_of(part, self._hub, self._key)
        self.wants_checkpoints = bool(part) and not isinstance(anchors, Break)
        if isinstance(anchors, Break):
            self._breaks(anchors)
            return
        self._checkpoints += len(anchors)
        for anchor in anchors:
            self.checkpoint = anchor.number
            self._expect(Head(anchor.number, anchor.hash), anchor.whose)

    def take_told(self, told: Head | None) -> None:
        """Hold the trail against what the cloud was told."""
        if told is not None:
            self._expect(told, "the head that the cloud was told")

    def take_rows(self, part: list[tuple[AuditRow, bytes]]) -> None:
        """Follow these rows; none are the end."""
        self.wants_rows = bool(part)
        found = self._follower.follow(part) if part else self._follower.end()
        if found is not None:
            self._breaks(found)

    def report(self) -> VerifyReport:
        """What was found."""
        broken = self._broken
        return VerifyReport(
            begins_after=self._basis.number,
            head=mark_of(Head(self._follower.after, self._follower.previous)),
            checkpoints=self._checkpoints,
            broken=None if broken is None else BreakReport(number=broken.number, why=broken.why),
        )

    def _expect(self, head: Head, whose: str) -> None:
        if head.number == self._basis.number and head.hash != self._basis.hash:
            self._breaks(Break(head.number, f"it is not the row that {whose} names"))
        elif head.number > self._basis.number:
            self._follower.anchors.append(Anchor(head.number, head.hash, whose))

    def _breaks(self, found: Break) -> None:
        self._broken = self._broken or found
        self.wants_rows = self.wants_checkpoints = False


def _refuse_if_dropped(db: Snapshot, after: int) -> None:
    """Refuse where the rows after one were dropped: a gap for any other reason is for the file to show."""
    basis = checkpoints.basis(db)
    if basis is not None and basis.number > after:
        raise TransientError(f"the rows up to {basis.number} were dropped since the export began")


def mark_of(head: Head) -> AuditMark:
    """A row as contracts name it."""
    return AuditMark(number=head.number, hash=Digest(head.hash.hex()))


def _row(row: AuditRow, stored: bytes) -> AuditRowReport:
    return AuditRowReport(
        number=row.number,
        at=row.at,
        clock=row.clock,
        kind=row.kind,
        subject=row.subject,
        actor=row.actor,
        detail=row.detail,
        hash=Digest(stored.hex()),
    )
