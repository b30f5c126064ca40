"""What devices fetch and who tries to: a row at once, then a row a minute, however many come."""

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from edgeagent.contracts.serving import Ended, Turned
from edgeagent.core.audit_chain import AuditKind
from edgeagent.errors import StorageError
from edgeagent.flows.serving import MINUTE, Serving
from edgeagent.ids import device_id, digest
from edgeagent.ports.artifact_site import Fetch
from tests.flows.building import Hub, new_hub
from tests.support.stores import full_disk

pytestmark = pytest.mark.requirement("F3")


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    async with new_hub(tmp_path) as hub:
        yield hub


def audited(hub: Hub, kind: AuditKind) -> list[Any]:
    rows = hub.rows(f"SELECT detail FROM audit WHERE kind = '{kind}' ORDER BY number")  # noqa: S608 - ours
    return [json.loads(str(detail)) for (detail,) in rows]


def fetched(address: str = "192.168.1.7") -> Fetch:
    return Fetch(
        device=device_id("plug-1"), digest=digest("ab" * 32), address=address, sent=7, ended=Ended.SENT
    )


async def test_a_fetch_is_on_record_with_who_and_what(hub: Hub) -> None:
    serving = Serving(hub.store, hub.around)
    serving.served(fetched())

    assert await serving.close_due() == MINUTE

    [row] = audited(hub, AuditKind.ARTIFACT_SERVED)
    assert (row["count"], row["ways"], row["bytes"]) == (1, {"sent": 1}, 7)
    assert row["addresses"] == ["192.168.1.7"]


async def test_ten_thousand_who_are_turned_away_cost_a_row_a_minute(hub: Hub) -> None:
    serving = Serving(hub.store, hub.around)
    serving.turned_away(Turned.NO_SUCH_PATH, "192.168.1.66")
    await serving.close_due()
    for number in range(10_000):
        serving.turned_away(Turned.NO_SUCH_PATH, f"192.168.1.{number % 250}")
        await serving.close_due() if number % 1000 == 0 else None
    hub.clock.passes(MINUTE + timedelta(seconds=1))
    await serving.close_due()

    rows = audited(hub, AuditKind.ARTIFACT_NOT_SERVED)
    assert [row["count"] for row in rows] == [1, 10_000]
    assert rows[1]["addresses"] == ["192.168.1.0", "192.168.1.1", "192.168.1.2"]


async def test_a_full_disk_loses_no_count_and_a_stop_writes_it(hub: Hub) -> None:
    serving = Serving(hub.store, hub.around)
    serving.served(fetched())
    with full_disk(hub.path), pytest.raises(StorageError):
        await serving.close_due()
    serving.served(fetched("192.168.1.8"))
    await hub.store.write(serving.last_words)

    [row] = audited(hub, AuditKind.ARTIFACT_SERVED)
    assert (row["count"], row["addresses"]) == (2, ["192.168.1.7", "192.168.1.8"])
