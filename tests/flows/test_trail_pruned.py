"""The trail, followed and handed out while its beginning is dropped: that is no break, and leaves no gap."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import pytest

from edgeagent.contracts.reports.audit import ExportWanted, VerifyReport, VerifyWanted
from edgeagent.core.audit_chain import AuditKind
from edgeagent.errors import TransientError
from edgeagent.store import audit, checkpoints
from edgeagent.store.audit import Act, Head
from edgeagent.store.database import Transaction
from tests.flows.commanding import Hub, new_hub
from tests.support.stores import reads_wait

pytestmark = pytest.mark.requirement("A3")


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub that has just started."""
    async with new_hub(tmp_path) as made:
        yield made


async def signed_head(hub: Hub) -> Head:
    """Put some acts on record, with a checkpoint after them, and then some more."""
    stamp = hub.now.around.stamp()
    acts = [Act(kind=AuditKind.STARTED, subject=f"row-{n}", actor="agent", detail={}) for n in range(50)]
    await hub.store.write(partial(audit.append, acts=acts, stamp=stamp))
    head = await hub.store.write(hub.now.checkpoints.sign)
    await hub.store.write(partial(audit.append, acts=acts, stamp=stamp))
    return head


def drop(tx: Transaction, upto: int) -> None:
    """Drop rows, as what looks after the trail does."""
    checkpoints.forget(tx, before=upto)
    audit.drop(tx, upto=upto)


async def followed_while(hub: Hub, *works: Callable[[Transaction], None]) -> VerifyReport:
    """Follow the trail, and have something happen between its first answer and the rows."""
    following = asyncio.create_task(hub.now.trail.verify(VerifyWanted()))
    async with reads_wait(hub.store):
        for work in works:
            await hub.store.write(work)
    return await following


async def test_rows_that_are_dropped_while_the_trail_is_followed_are_no_break(hub: Hub) -> None:
    head = await signed_head(hub)

    report = await followed_while(hub, partial(drop, upto=head.number))

    assert (report.broken, report.begins_after) == (None, head.number)


async def test_a_break_is_told_also_where_rows_are_dropped_meanwhile(hub: Hub) -> None:
    head = await signed_head(hub)
    number = head.number + 7

    def steal(tx: Transaction) -> None:
        tx.execute("DELETE FROM audit WHERE number = ?", (number,))

    report = await followed_while(hub, steal, partial(drop, upto=head.number))

    assert report.broken is not None
    assert (report.broken.number, report.begins_after) == (number, head.number)


async def test_an_export_whose_rows_are_dropped_meanwhile_is_refused_and_another_begins_after_them(
    hub: Hub,
) -> None:
    head, desk, wanted = await signed_head(hub), hub.now.trail, ExportWanted(file="trail.jsonl")
    begun = await desk.begin_export(wanted, "uid:0 root")
    await hub.store.write(partial(drop, upto=head.number))

    with pytest.raises(TransientError, match=f"up to {head.number} were dropped"):
        await desk.export_page(begun.basis.number, begun.upto.number)

    again = await desk.begin_export(wanted, "uid:0 root")
    page = await desk.export_page(again.basis.number, again.upto.number)
    assert again.basis.number == head.number
    assert page.rows[0].number == head.number + 1
    assert page.rows[-1].number == again.upto.number


async def test_a_row_that_is_gone_for_no_reason_hinders_no_export(hub: Hub) -> None:
    await signed_head(hub)
    begun = await hub.now.trail.begin_export(ExportWanted(file="trail.jsonl"), "uid:0 root")
    await hub.store.write(lambda tx: tx.execute("DELETE FROM audit WHERE number IN (1, 30)"))

    before = await hub.now.trail.export_page(0, begun.upto.number)
    behind = await hub.now.trail.export_page(29, begun.upto.number)

    assert (before.rows[0].number, behind.rows[0].number) == (2, 31)
