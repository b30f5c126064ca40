"""Retained messages on command topics: found, told once, never taken for a command or an answer (SPEC M3)."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.contracts.event import EventType, Stream
from edgeagent.core.audit_chain import AuditKind
from edgeagent.errors import StorageError
from edgeagent.flows.brokerwatch import BrokerWatch
from edgeagent.ports.links import LinkError
from edgeagent.store import audit
from tests.flows.building import Hub, new_hub
from tests.support.stores import full_disk
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("M3")

HOUR = timedelta(hours=1)
POISON = b'{"power": true}'


def looking(hub: Hub) -> BrokerWatch:
    """Who looks for them."""
    return BrokerWatch(hub.store, hub.bus, hub.devices, hub.around)


@asynccontextmanager
async def running(hub: Hub) -> AsyncIterator[BrokerWatch]:
    """Who looks for them, hour by hour."""
    retained = looking(hub)
    task = asyncio.create_task(retained.run())
    try:
        yield retained
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def alerts(hub: Hub) -> list[dict[str, object]]:
    """What was told."""
    return [{"device": told.device, **told.data} for told in await hub.told(Stream.RECORD, EventType.ALERT)]


async def test_one_is_found_told_and_put_on_record(tmp_path: Path) -> None:
    async with new_hub(tmp_path, "dev-1", "dev-2") as hub:
        hub.bus.delivers("dev-1/set", POISON, retain=True)

        await looking(hub).look()

        assert await alerts(hub) == [
            {"device": "dev-1", "reason": "retained_command", "topic": "'dev-1/set'"}
        ]
        [row] = [
            row
            for row, _ in await hub.store.read(lambda db: audit.rows(db, after=0, most=100))
            if row.kind == AuditKind.RETAINED_COMMAND
        ]
        assert (row.subject, json.loads(row.detail)) == (
            "dev-1",
            {"topic": "'dev-1/set'", "bytes": len(POISON)},
        )


async def test_it_commands_nothing_and_answers_nothing(tmp_path: Path) -> None:
    async with new_hub(tmp_path, "dev-1") as hub:
        hub.bus.delivers("dev-1/set", POISON, retain=True)
        await looking(hub).look()
        await hub.settles()

        assert hub.bus.published == []
        assert await hub.values("power") == []


async def test_it_is_told_again_only_when_it_is_new(tmp_path: Path) -> None:
    async with new_hub(tmp_path, "dev-1", "dev-2") as hub:
        retained = looking(hub)
        hub.bus.delivers("dev-1/set", POISON, retain=True)
        await retained.look()
        await retained.look()
        assert len(await alerts(hub)) == 1

        hub.bus.delivers("dev-2/set", POISON, retain=True)
        await retained.look()
        hub.bus.delivers("dev-1/set", b"", retain=True)  # somebody clears it …
        await retained.look()
        hub.bus.delivers("dev-1/set", POISON, retain=True)  # … and it is back
        await retained.look()

        assert [alert["device"] for alert in await alerts(hub)] == ["dev-1", "dev-2", "dev-1"]


async def test_a_restart_tells_nothing_again_and_what_lies_there_is_known_at_once(tmp_path: Path) -> None:
    async with new_hub(tmp_path, "dev-1") as hub:
        hub.bus.delivers("dev-1/set", POISON, retain=True)
        await looking(hub).look()
        commits = hub.store.commits

        started = looking(hub)
        await started.look()

        assert list(started.found) == ["dev-1/set"]
        assert len(await alerts(hub)) == 1
        assert hub.store.commits == commits


async def test_another_command_on_the_same_topic_is_told_as_well(tmp_path: Path) -> None:
    async with new_hub(tmp_path, "dev-1") as hub:
        for payload in (POISON, b'{"power": false}'):
            hub.bus.delivers("dev-1/set", payload, retain=True)

            await looking(hub).look()

        assert len(await alerts(hub)) == 2


async def test_what_was_cleared_while_nobody_looked_is_told_when_it_comes_back(tmp_path: Path) -> None:
    async with new_hub(tmp_path, "dev-1") as hub:
        for payload in (POISON, b"", POISON):
            hub.bus.delivers("dev-1/set", payload, retain=True)
            await looking(hub).look()

        assert len(await alerts(hub)) == 2


@pytest.mark.requirement("R2")
async def test_what_could_not_be_stored_is_told_the_next_time(tmp_path: Path) -> None:
    async with new_hub(tmp_path, "dev-1") as hub:
        retained = looking(hub)
        hub.bus.delivers("dev-1/set", POISON, retain=True)
        with full_disk(hub.path), pytest.raises(StorageError):
            await retained.look()
        assert await alerts(hub) == []

        await retained.look()

        assert len(await alerts(hub)) == 1


async def test_a_message_elsewhere_is_none_of_ours(tmp_path: Path) -> None:
    async with new_hub(tmp_path, "dev-1") as hub:
        hub.bus.delivers("stranger/set", POISON, retain=True)
        hub.bus.delivers("dev-1/state", POISON, retain=True)

        await looking(hub).look()

        assert await alerts(hub) == []


@pytest.mark.requirement("V5")
async def test_a_topic_that_means_harm_is_shown_as_plain_text(tmp_path: Path) -> None:
    """Whoever may write below a device's command topic chooses the rest of it."""
    async with new_hub(tmp_path) as hub:
        await hub.admits("AABBCCDDEEFF", "tasmota", topic="plug-a")
        hub.bus.delivers("cmnd/plug-a/\x1b[2J\u202e\n" + "x" * 200, b"ON", retain=True)

        await looking(hub).look()

        [alert] = await alerts(hub)
        shown = str(alert["topic"])
        assert shown.isascii()
        assert shown.isprintable()
        assert len(shown) < 120


async def test_without_devices_nobody_is_asked(tmp_path: Path) -> None:
    async with new_hub(tmp_path) as hub:
        hub.bus.goes_down()

        await looking(hub).look()

        assert await alerts(hub) == []


class TestHourByHour:
    """The broker is asked at the start and each hour; soon again when it could not be."""

    async def test_one_that_came_later_is_found_within_the_hour(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path, "dev-1") as hub, running(hub) as retained:
            await hub.breathes()
            hub.bus.delivers("dev-1/set", POISON, retain=True)
            await hub.passes(HOUR - timedelta(minutes=1))
            await hub.breathes()
            assert retained.found == {}

            await hub.passes(timedelta(minutes=1))
            await eventually(lambda: retained.found)

            assert list(retained.found) == ["dev-1/set"]

    async def test_a_broker_that_is_away_is_asked_again_soon(self, tmp_path: Path) -> None:
        async with new_hub(tmp_path, "dev-1") as hub:
            hub.bus.delivers("dev-1/set", POISON, retain=True)
            hub.bus.goes_down()
            with pytest.raises(LinkError):
                await looking(hub).look()
            async with running(hub) as retained:
                await hub.breathes()
                hub.bus.comes_up()

                await hub.passes(timedelta(seconds=30))
                await eventually(lambda: retained.found)
