"""From the cloud's queue into the inbox: on the disk, then acknowledged."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest

from edgeagent.contracts.order import ORDER_TYPE
from edgeagent.contracts.reasons import Reason
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.envelope import sign
from edgeagent.core.lifecycle import State
from edgeagent.core.retry import BackoffRule
from edgeagent.flows.bells import Bell
from edgeagent.flows.downlink import Downlink, DownlinkSettings
from edgeagent.ports.crash import CrashPoint
from edgeagent.ports.links import Trouble
from tests.flows.approvals import have_a_say, order, signed
from tests.flows.commanding import Hub, new_hub
from tests.flows.points import KilledError
from tests.flows.signing import HUB, MINUTE, POWER, SECOND, VOLUME
from tests.support.clocks import LoopTime
from tests.support.fake_cloud import FakeCloud
from tests.support.keys import MemoryKey
from tests.support.stores import full_disk
from tests.support.waiting import eventually

QUICK = BackoffRule(first=timedelta(milliseconds=1), longest=timedelta(milliseconds=2))


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub with a television."""
    async with new_hub(tmp_path) as made:
        await made.television()
        yield made


@pytest.fixture
def cloud(hub: Hub) -> FakeCloud:
    """The cloud's queue, empty."""
    return FakeCloud(HUB, hub.clock)


@asynccontextmanager
async def fetching(
    hub: Hub, cloud: FakeCloud, *, most: int = 20, backoff: BackoffRule = QUICK
) -> AsyncIterator[Downlink]:
    """A downlink that runs beside the test."""
    settings = DownlinkSettings(most=most, backoff=backoff)
    downlink = Downlink(cloud, hub.now.admission, hub.now.switch, hub.now.around, settings)
    task = asyncio.create_task(downlink.run())
    try:
        yield downlink
    finally:
        if task.done() and isinstance(task.exception(), KilledError):
            pass
        else:
            assert not task.done(), task.exception()
        task.cancel()
        with suppress(asyncio.CancelledError, KilledError):
            await task


def stored(hub: Hub) -> list[object]:
    """The commands in the inbox, in the order in which they came."""
    return [command for (command,) in hub.rows("SELECT command FROM inbox ORDER BY run")]


@pytest.mark.requirement("Q3")
async def test_what_the_cloud_offers_is_let_in_and_then_acknowledged(hub: Hub, cloud: FakeCloud) -> None:
    commands = [hub.command(VOLUME, level=level) for level in range(45)]
    async with fetching(hub, cloud):
        for command in commands:
            cloud.offers(hub.signed(command))

        await eventually(lambda: not cloud.waiting)

    assert stored(hub) == [command.id for command in commands]


@pytest.mark.requirement("Q3", "R2")
async def test_nothing_is_acknowledged_that_the_disk_has_not_taken(hub: Hub, cloud: FakeCloud) -> None:
    command = hub.command(POWER, on=True)
    async with fetching(hub, cloud) as downlink:
        with full_disk(hub.path):
            cloud.offers(hub.signed(command))
            await eventually(lambda: downlink.trouble is Trouble.BUSY)
            assert len(cloud.waiting) == 1
            assert stored(hub) == []

        await eventually(lambda: not cloud.waiting)
        await eventually(lambda: downlink.trouble is None)

    assert stored(hub) == [command.id]


@pytest.mark.requirement("Q3", "T4")
async def test_an_acknowledgement_that_is_lost_brings_it_again_and_it_is_known(
    hub: Hub, cloud: FakeCloud
) -> None:
    command = hub.command(POWER, on=True)
    hub.points.happens_at(CrashPoint.COMMAND_ADMITTED, cloud.goes_down)
    async with fetching(hub, cloud) as downlink:
        cloud.offers(hub.signed(command))
        await eventually(lambda: downlink.trouble is Trouble.UNREACHABLE)
        assert (stored(hub), len(cloud.waiting)) == ([command.id], 1)

        cloud.comes_back()
        hub.passes(2 * MINUTE)
        cloud.offers(hub.signed(hub.command(POWER, on=False)))
        await eventually(lambda: not cloud.waiting)

    assert len(stored(hub)) == 2
    [counted] = await hub.audited(AuditKind.COMMAND_REPLAYED)
    assert str(command.id) in str(counted["samples"])


@pytest.mark.requirement("Q3", "R5", "T4")
async def test_a_death_between_the_commit_and_the_acknowledgement_loses_and_doubles_nothing(
    hub: Hub, cloud: FakeCloud
) -> None:
    command = hub.command(POWER, on=True)
    hub.points.dies_at(CrashPoint.COMMAND_ADMITTED)
    async with fetching(hub, cloud):
        cloud.offers(hub.signed(command))
        await eventually(lambda: CrashPoint.COMMAND_ADMITTED in hub.points.passed)
    assert len(cloud.waiting) == 1
    await hub.starts_anew()
    hub.passes(2 * MINUTE)

    async with fetching(hub, cloud):
        await eventually(lambda: not cloud.waiting)

    assert stored(hub) == [command.id]
    await hub.works_all()
    assert len([sent for sent in hub.bus.published if sent.topic.endswith("/set/power")]) == 1


@pytest.mark.requirement("Q3", "T9")
async def test_what_is_refused_is_acknowledged_once_its_refusal_is_on_record(
    hub: Hub, cloud: FakeCloud
) -> None:
    too_long = hub.command(POWER, on=True, valid_for=60 * MINUTE)
    forged = hub.signed(hub.command(POWER, on=True), MemoryKey())
    async with fetching(hub, cloud):
        for envelope in (hub.signed(too_long), forged, b"\x00\xff", b""):
            cloud.offers(envelope)

        await eventually(lambda: not cloud.waiting)

    row = await hub.row(too_long)
    assert (row.state, row.reason) == (State.REFUSED, Reason.VALID_TOO_LONG)
    counted = await hub.audited(AuditKind.COMMANDS_UNVERIFIED)
    assert {row["reason"] for row in counted} == {Reason.BAD_SIGNATURE, Reason.MALFORMED}


@pytest.mark.requirement("T9", "B2")
async def test_a_flood_of_forged_ones_keeps_no_good_one_out_and_fills_no_table(
    hub: Hub, cloud: FakeCloud
) -> None:
    forger, good = MemoryKey(), hub.command(POWER, on=True)
    flood = [hub.signed(hub.command(POWER), forger) for _ in range(400)]
    async with fetching(hub, cloud):
        for envelope in (*flood[:200], hub.signed(good), *flood[200:]):
            cloud.offers(envelope)

        await eventually(lambda: not cloud.waiting)

    assert stored(hub) == [good.id]
    hub.passes(MINUTE)
    await hub.now.tallies.close_due()
    counted = await hub.audited(AuditKind.COMMANDS_UNVERIFIED)
    assert sum(int(str(row["count"])) for row in counted) == 400
    assert len(counted) == 2


@pytest.mark.requirement("H3", "E4", "R8")
async def test_a_cloud_that_comes_back_is_used_again_without_a_restart(hub: Hub, cloud: FakeCloud) -> None:
    cloud.goes_down(Trouble.CAPTIVE_PORTAL)
    async with fetching(hub, cloud) as downlink:
        await eventually(lambda: downlink.trouble is Trouble.CAPTIVE_PORTAL)
        assert downlink.why
        cloud.comes_back()
        cloud.offers(hub.signed(hub.command(POWER, on=True)))

        await eventually(lambda: not cloud.waiting)
        await eventually(lambda: downlink.trouble is None)

    assert len(stored(hub)) == 1


@pytest.mark.requirement("E4", "R8")
async def test_a_cloud_that_asks_for_patience_is_left_alone_for_so_long(hub: Hub, cloud: FakeCloud) -> None:
    timers = LoopTime()
    cloud.goes_down(Trouble.BUSY, retry_after=MINUTE)
    async with fetching(hub, cloud) as downlink:
        await eventually(lambda: downlink.trouble is Trouble.BUSY)
        cloud.comes_back()
        cloud.offers(hub.signed(hub.command(POWER, on=True)))

        timers.passes(MINUTE / 2)
        await hub.breathes()
        assert len(cloud.waiting) == 1
        timers.passes(MINUTE / 2 + SECOND)

        await eventually(lambda: not cloud.waiting)


@pytest.mark.requirement("M7", "T2")
async def test_without_a_policy_what_comes_is_refused_and_acknowledged(
    tmp_path: Path,
) -> None:
    hub = Hub(tmp_path)
    await hub.starts()
    cloud = FakeCloud(HUB, hub.clock)
    async with fetching(hub, cloud):
        cloud.offers(hub.signed(hub.command(POWER, on=True)))

        await eventually(lambda: not cloud.waiting)

    [row] = await hub.audited(AuditKind.COMMANDS_UNVERIFIED)
    assert row["reason"] == Reason.NO_POLICY
    await hub.dies()


@pytest.mark.requirement("Q3", "T2")
async def test_nothing_is_fetched_before_commands_can_be_judged(hub: Hub, cloud: FakeCloud) -> None:
    command = hub.command(VOLUME, level=7)
    cloud.offers(hub.signed(command))
    known, bell = asyncio.Event(), Bell()
    downlink = Downlink(
        cloud, hub.now.admission, hub.now.switch, hub.now.around, DownlinkSettings(backoff=QUICK)
    )
    fetching = asyncio.create_task(downlink.run_when(known.is_set, bell))
    bell.ring()
    await asyncio.sleep(0)
    assert stored(hub) == []

    known.set()
    bell.ring()

    await eventually(lambda: stored(hub) == [command.id])
    fetching.cancel()
    with suppress(asyncio.CancelledError):
        await fetching


@pytest.mark.requirement("B3")
async def test_an_order_among_commands_is_obeyed_first_and_all_are_acknowledged(
    hub: Hub, cloud: FakeCloud
) -> None:
    """A stop takes effect on whatever was lent together with it."""
    others = await have_a_say(hub)
    command = hub.command(POWER, on=True)
    cloud.offers(hub.signed(command))
    cloud.offers(signed(order(hub), others.guard))
    cloud.offers(sign(b"{}", ORDER_TYPE, [MemoryKey()]))

    async with fetching(hub, cloud):
        await eventually(lambda: not cloud.waiting)

    assert (await hub.ended(command)).reason is Reason.STOPPED
    assert [stop.kind for stop in hub.now.switch.stops().stops] == ["all"]
