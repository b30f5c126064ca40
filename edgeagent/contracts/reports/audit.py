"""Answers about the audit trail."""

from typing import Annotated, Final

from pydantic import Field

from edgeagent.contracts.checkpoint import Checkpoint
from edgeagent.contracts.door import Contract
from edgeagent.contracts.receipt import AuditMark
from edgeagent.contracts.scalars import DigestField, EpochField, HubIdField, PublicKeyHex, Timestamp

MOST_ROWS: Final = 500
"""The most rows in one answer."""

RowNumber = Annotated[int, Field(ge=0, lt=2**53)]


class AuditRowReport(Contract):
    """One row of the trail, as it is stored.

    Attributes:
        number: 1, 2, 3 without a hole.
        at: RFC 3339 in UTC, the best guess.
        clock: what that guess rests on.
        kind: what it tells.
        subject: whom it is about.
        actor: who did it.
        detail: the rest, as JSON text: its very bytes are what the hash covers.
        hash: of this row and all before it.
    """

    number: RowNumber
    at: str
    clock: str
    kind: str
    subject: str
    actor: str
    detail: str
    hash: DigestField


class AuditRowsReport(Contract):
    """Rows of the trail, oldest first."""

    rows: list[AuditRowReport]


class RowsWanted(Contract):
    """Which rows; all conditions together.

    Attributes:
        most: the newest so many.
        kind: of this kind.
        subject: about this device, command or file.
        since: written at this time or later, by the hub's clock.
    """

    most: Annotated[int, Field(ge=1, le=MOST_ROWS)] = 50
    kind: Annotated[str, Field(max_length=64)] | None = None
    subject: Annotated[str, Field(max_length=200)] | None = None
    since: Timestamp | None = None


class BreakReport(Contract):
    """Where the trail does not hold: the first row that does not fit, and why."""

    number: RowNumber
    why: str


class VerifyWanted(Contract):
    """What the trail is held against beside its own checkpoints.

    Attributes:
        head: a row that somebody else knows, such as the head that the cloud was told.
    """

    head: AuditMark | None = None


class VerifyReport(Contract):
    """Whether the trail holds.

    Attributes:
        begins_after: the row that the first one builds on; 0 when nothing was pruned.
        head: the last row that fits.
        checkpoints: how many signed heads were held against it.
        broken: where it does not hold; None when it does.
    """

    begins_after: RowNumber
    head: AuditMark
    checkpoints: Annotated[int, Field(ge=0)]
    broken: BreakReport | None = None


class ExportWanted(Contract):
    """An export is about to be made.

    Attributes:
        file: where to, for the record.
    """

    file: Annotated[str, Field(min_length=1, max_length=200)]


class ExportReport(Contract):
    """What an export holds: the rows after ``basis`` up to ``upto``, where a checkpoint stands.

    Attributes:
        hub: whose trail.
        epoch: the life of its database.
        key: the public half of the hub's key.
        basis: what the first row builds on.
        upto: the last row.
    """

    hub: HubIdField
    epoch: EpochField
    key: PublicKeyHex
    basis: AuditMark
    upto: AuditMark


class ExportPage(Contract):
    """A part of an export.

    Attributes:
        rows: in order; empty when there are no more.
        checkpoints: those of these rows.
    """

    rows: list[AuditRowReport]
    checkpoints: list[Checkpoint]
