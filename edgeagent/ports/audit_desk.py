"""What a person at the hub may ask of the audit trail."""

from typing import Protocol

from edgeagent.contracts.reports.audit import (
    AuditRowReport,
    AuditRowsReport,
    ExportPage,
    ExportReport,
    ExportWanted,
    RowsWanted,
    VerifyReport,
    VerifyWanted,
)


class AuditDesk(Protocol):
    """Shows the trail, follows it, and hands it out."""

    async def rows(self, wanted: RowsWanted) -> AuditRowsReport:
        """The newest rows of a kind, about a subject, since a time."""
        ...

    async def row(self, number: int) -> AuditRowReport:
        """One row.

        Raises:
            RejectedError: there is none of that number, or it was pruned.
        """
        ...

    async def verify(self, wanted: VerifyWanted) -> VerifyReport:
        """Follow the whole trail, and hold it against what the hub has signed and the cloud was told.

        Raises:
            TransientError: its beginning goes on being dropped meanwhile.
        """
        ...

    async def begin_export(self, wanted: ExportWanted, actor: str) -> ExportReport:
        """Put an export on record, and sign the head that it will end with.

        Raises:
            RejectedError: rows are gone that no checkpoint covers.
        """
        ...

    async def export_page(self, after: int, upto: int) -> ExportPage:
        """The next rows of an export.

        Raises:
            TransientError: they were dropped since it began; another one begins after them.
        """
        ...

    async def end_export(self, number: int) -> None:
        """Note that the rows up to a checkpoint are on somebody's disk.

        Raises:
            RejectedError: there is no checkpoint of that row.
        """
        ...
