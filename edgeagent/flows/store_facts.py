"""The ``SupportDesk`` port: the database by numbers, read beside the writer, and the instruments as text."""

import asyncio
from functools import partial
from pathlib import Path

from prometheus_client import generate_latest
from typing_extensions import override

from edgeagent.contracts.reports.support import StoreReport, SupportReport, TrailRow
from edgeagent.metrics import Metrics
from edgeagent.ports.support_desk import SupportDesk
from edgeagent.store.inventory import inventory
from edgeagent.values import dataclass


@dataclass(frozen=True, slots=True)
class StoreFacts(SupportDesk):
    """Tells how much there is.

    Attributes:
        path: the database.
        metrics: the instruments.
    """

    path: Path
    metrics: Metrics

    @override
    async def support(self) -> SupportReport:
        store = await asyncio.to_thread(partial(store_report, self.path))
        return SupportReport(store=store, metrics=generate_latest(self.metrics.registry).decode("utf-8"))


def store_report(path: Path) -> StoreReport:
    """A database by numbers; blocks for some seconds at most.

    Raises:
        ConfigurationError: there is none, or we may not read it.
        StorageError: the disk does not give it, or it is damaged.
    """
    found = inventory(path)
    return StoreReport(
        migrations=found.migrations,
        pages=found.pages,
        free_pages=found.free_pages,
        page_bytes=found.page_bytes,
        tables=found.tables,
        head=f"{found.head.number}-{found.head.hash.hex()}",
        rows=[
            TrailRow(
                number=row.number,
                at=row.at,
                clock=row.clock,
                kind=row.kind,
                subject=row.subject,
                actor=row.actor,
                hash=stored.hex(),
            )
            for row, stored in found.rows
        ],
    )
