"""What the agent tells for a support bundle: counts and names, no content."""

from pydantic import Field

from edgeagent.contracts.door import Contract
from edgeagent.contracts.reports.audit import RowNumber


class TrailRow(Contract):
    """A row of the audit trail without its detail.

    Attributes:
        number: 1, 2, 3 without a hole.
        at: RFC 3339 in UTC.
        clock: what that rests on.
        kind: what it tells.
        subject: whom it is about.
        actor: who did it.
        hash: of the whole row and all before it.
    """

    number: RowNumber
    at: str
    clock: str
    kind: str
    subject: str
    actor: str
    hash: str


class StoreReport(Contract):
    """The database by numbers.

    Attributes:
        migrations: how many it has seen.
        pages: of the file.
        free_pages: of these, not used.
        page_bytes: the size of each.
        tables: how many rows each has; None where there was no time to count.
        head: the number and hash of the trail's last row.
        rows: the last rows of the trail, oldest first.
    """

    migrations: int
    pages: int
    free_pages: int
    page_bytes: int
    tables: dict[str, int | None]
    head: str
    rows: list[TrailRow]


class SupportReport(Contract):
    """What the running agent adds.

    Attributes:
        store: the database.
        metrics: as ``/metrics`` has them.
    """

    store: StoreReport
    metrics: str = Field(max_length=4 * 1024 * 1024)
