"""Reading a device afresh after a command that was decided on an older state of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from pydantic import JsonValue

from edgeagent.contracts.command import Command, Precondition
from edgeagent.contracts.event import EventType
from edgeagent.contracts.policy import Tier
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.receipt import Outcome
from edgeagent.core.audit_chain import AuditKind
from edgeagent.core.confirmation import Wish
from edgeagent.core.lease import SHORTEST as LEASE
from edgeagent.flows.revalidate import MOST_ATTEMPTS
from edgeagent.ids import DeviceId, reading_name
from tests.flows.commanding import Hub, new_hub
from tests.flows.scripted import Television
from tests.flows.signing import MILLISECOND, MINUTE, OTHER_TV, POWER, SECOND, TV, VOLUME
from tests.support.clocks import LoopTime
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("C3")

LISTED = "SELECT device, command, attempts FROM revalidations ORDER BY device"


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub that has just started."""
    async with new_hub(tmp_path) as made:
        yield made


@pytest.fixture
async def tv(hub: Hub) -> Television:
    """Its television, off."""
    return await hub.television()


@asynccontextmanager
async def revalidating(hub: Hub, workers: int = 1) -> AsyncIterator[None]:
    """Let devices be read, by so many at once."""
    tasks = [asyncio.create_task(hub.now.revalidation.run()) for _ in range(workers)]
    try:
        yield
        for task in tasks:
            assert not task.done(), task.exception()
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task


async def told_stale(hub: Hub, tv: Television, volume: int = 30, device: DeviceId = TV) -> Command:
    """A command that is refused, since somebody has turned the volume meanwhile."""
    found = hub.now.devices.get(device)
    assert found is not None
    decided = Precondition(version=found.shadow.version)
    command = hub.command(POWER, device=device, on=True, precondition=decided)
    await hub.admits(command)
    tv.reports(volume=volume)
    await hub.settles()
    await hub.works()
    receipt = await hub.ended(command)
    assert (receipt.outcome, receipt.reason) == (Outcome.REFUSED, Reason.STALE)
    return command


async def reports(hub: Hub) -> list[dict[str, JsonValue]]:
    """What was told of devices that were read."""
    return [data for _, data in await hub.records(EventType.REVALIDATED)]


async def one_report(hub: Hub) -> dict[str, JsonValue]:
    """The one report there is, once it is there."""
    told = "SELECT 1 FROM outbox WHERE type = 'edgeagent.device.revalidated'"
    await eventually(lambda: hub.rows(told))
    [report] = await reports(hub)
    return report


async def test_a_stale_refusal_has_its_device_read_and_reported_so_that_the_issuer_can_decide_again(
    hub: Hub, tv: Television
) -> None:
    command = await told_stale(hub, tv)
    tv.shows["input"] = "HDMI 2"

    async with revalidating(hub):
        report = await one_report(hub)

    assert tv.asked == 1
    assert tv.effects == []
    assert (report["command"], report["live"]) == (command.id, True)
    assert isinstance(report["readings"], dict)
    assert report["readings"]["input"] == {"value": "HDMI 2", "version": report["version"], "live": True}
    assert isinstance(report["version"], int)
    again = hub.command(POWER, on=True, precondition=Precondition(version=report["version"]))
    await hub.admits(again)
    await hub.works()
    assert (await hub.ended(again)).outcome is Outcome.SUCCEEDED
    assert hub.rows(LISTED) == []
    [row] = await hub.audited(AuditKind.REVALIDATED)
    assert (row["subject"], row["command"], row["live"]) == (TV, command.id, True)


@pytest.mark.requirement("C2")
async def test_the_receipt_of_a_stale_command_names_what_the_device_is_at_now(
    hub: Hub, tv: Television
) -> None:
    receipt = await hub.ended(await told_stale(hub, tv))

    found = hub.now.devices.get(TV)
    assert found is not None
    assert receipt.after is not None
    assert (receipt.after.version, receipt.after.etag) == (found.shadow.version, found.shadow.etag)


async def test_a_device_is_put_on_the_list_in_the_commit_that_refuses_the_command(
    hub: Hub, tv: Television
) -> None:
    command = await told_stale(hub, tv)

    await hub.dies()
    assert hub.rows(LISTED) == [(TV, command.id, 0)]

    await hub.starts()
    async with revalidating(hub):
        report = await one_report(hub)
    assert report["command"] == command.id
    assert tv.asked == 1


async def test_one_that_dies_while_it_waits_for_the_answer_asks_again_and_reports_once(
    hub: Hub, tv: Television
) -> None:
    command = await told_stale(hub, tv)
    hub.bus.reacts(f"{TV}/get", lambda _: None)
    async with revalidating(hub):
        await eventually(lambda: hub.bus.published)
    await hub.dies()

    await hub.starts()
    tv = Television(hub.bus, TV, hub.passes)
    async with revalidating(hub):
        report = await one_report(hub)

    assert report["command"] == command.id
    assert hub.rows(LISTED) == []


async def test_two_stale_commands_have_their_device_read_once(hub: Hub, tv: Television) -> None:
    await told_stale(hub, tv, volume=30)
    later = await told_stale(hub, tv, volume=31)
    assert hub.rows(LISTED) == [(TV, later.id, 0)]

    async with revalidating(hub, workers=3):
        report = await one_report(hub)
        await hub.breathes()

    assert report["command"] == later.id
    assert (tv.asked, len(await reports(hub))) == (1, 1)


async def test_a_command_that_is_stale_while_its_device_is_read_has_it_read_again(
    hub: Hub, tv: Television
) -> None:
    """The answer may have been on its way when the device changed."""
    await told_stale(hub, tv)
    hub.bus.reacts(f"{TV}/get", lambda _: None)
    async with revalidating(hub):
        await eventually(lambda: len(hub.bus.published) == 1)
        later = await told_stale(hub, tv, volume=31)
        tv = Television(hub.bus, TV, hub.passes)
        tv.shows["volume"] = 31
        hub.passes(MILLISECOND)
        hub.bus.delivers(f"{TV}/answer", b'{"power": false, "volume": 31, "input": "HDMI 1"}')
        report = await one_report(hub)

    assert report["command"] == later.id
    assert tv.asked == 1
    assert hub.rows(LISTED) == []


async def test_a_device_that_is_away_is_read_when_it_comes_back(hub: Hub, tv: Television) -> None:
    await told_stale(hub, tv)
    tv.goes_offline()
    await hub.settles()

    async with revalidating(hub):
        await hub.breathes()
        assert (tv.asked, await reports(hub)) == (0, [])
        tv.comes_online()
        report = await one_report(hub)

    assert report["live"] is True


async def test_while_the_broker_is_away_nothing_is_asked_and_nothing_counts(hub: Hub, tv: Television) -> None:
    await told_stale(hub, tv)
    hub.bus.goes_down()
    await hub.settles()

    async with revalidating(hub):
        await hub.breathes()
        assert (tv.asked, await reports(hub)) == (0, [])
        assert [row[2] for row in hub.rows(LISTED)] == [0]
        hub.bus.comes_up()
        report = await one_report(hub)

    assert report["live"] is True


async def test_a_device_that_is_worked_is_read_after_that(hub: Hub, tv: Television) -> None:
    command = hub.command(VOLUME, level=20)
    await told_stale(hub, tv)
    await hub.admits(command)
    claim = await hub.claims()

    async with revalidating(hub):
        await hub.breathes()
        assert tv.asked == 0
        await hub.now.dispatch[Tier.LOW].work(claim)
        report = await one_report(hub)

    assert isinstance(report["readings"], dict)
    volume = report["readings"]["volume"]
    assert isinstance(volume, dict)
    assert volume["value"] == 20


async def test_a_device_whose_holder_is_gone_without_a_word_is_read_when_the_lease_lapses(
    hub: Hub, tv: Television
) -> None:
    timers = LoopTime()
    await told_stale(hub, tv)
    await hub.admits(hub.command(VOLUME, level=20))
    await hub.claims()

    async with revalidating(hub):
        await hub.breathes()
        assert tv.asked == 0
        hub.passes(LEASE)
        timers.passes(LEASE)
        report = await one_report(hub)

    assert report["live"] is True


async def test_what_was_read_while_a_command_was_begun_is_not_reported(hub: Hub, tv: Television) -> None:
    await told_stale(hub, tv)
    await hub.admits(hub.command(VOLUME, level=20))
    hub.bus.reacts(f"{TV}/get", lambda _: None)

    async with revalidating(hub):
        await eventually(lambda: len(hub.bus.published) == 1)
        claim = await hub.claims()
        hub.passes(MILLISECOND)
        hub.bus.delivers(f"{TV}/answer", b'{"power": false, "volume": 30, "input": "HDMI 1"}')
        await hub.settles()
        await hub.breathes()
        assert await reports(hub) == []
        Television(hub.bus, TV, hub.passes)
        await hub.now.dispatch[Tier.LOW].work(claim)
        report = await one_report(hub)

    assert isinstance(report["readings"], dict)
    volume = report["readings"]["volume"]
    assert isinstance(volume, dict)
    assert volume["value"] == 20


@pytest.mark.requirement("E2")
async def test_a_silent_device_is_asked_a_few_times_at_growing_distances_and_then_given_up_with_a_word(
    hub: Hub, tv: Television
) -> None:
    timers = LoopTime()
    command = await told_stale(hub, tv)
    tv.is_mute()
    hub.chance = 0.5

    async with revalidating(hub):
        for attempt in range(1, MOST_ATTEMPTS):
            listed = [(TV, command.id, attempt)]
            await eventually(partial(lambda wanted: hub.rows(LISTED) == wanted, listed))
            assert (tv.asked, await reports(hub)) == (attempt, [])
            await hub.breathes()
            assert tv.asked == attempt
            hub.passes(MINUTE)
            timers.passes(MINUTE)
        report = await one_report(hub)

    assert tv.asked == MOST_ATTEMPTS
    assert (report["live"], report["reason"]) == (False, Reason.NO_CONFIRMATION)
    found = hub.now.devices.get(TV)
    assert found is not None
    assert report["version"] == found.shadow.version
    assert hub.rows(LISTED) == []


async def test_after_a_power_cut_the_next_try_does_not_wait_for_the_old_boot_time(
    hub: Hub, tv: Television
) -> None:
    command = await told_stale(hub, tv)
    tv.is_mute()
    hub.chance = 0.999
    async with revalidating(hub):
        await eventually(lambda: hub.rows(LISTED) == [(TV, command.id, 1)])
    tv.obeys()

    await hub.reboots()
    async with revalidating(hub):
        report = await one_report(hub)

    assert report["live"] is True


async def test_a_device_that_cannot_be_asked_is_reported_as_it_is_known(hub: Hub) -> None:
    tv = await hub.television(OTHER_TV, mute=True)
    await told_stale(hub, tv, device=OTHER_TV)

    async with revalidating(hub):
        report = await one_report(hub)

    assert (report["live"], report["reason"]) == (False, Reason.UNSUPPORTED_ACTION)
    assert hub.bus.published == []


async def test_a_device_that_is_forgotten_is_not_asked_any_more(hub: Hub, tv: Television) -> None:
    await told_stale(hub, tv)
    await hub.now.devices.forget(TV, actor="uid:0 root")

    async with revalidating(hub):
        await hub.breathes()

    assert hub.rows(LISTED) == []
    assert (tv.asked, await reports(hub)) == (0, [])


async def test_a_silent_device_keeps_no_other_from_being_read(hub: Hub, tv: Television) -> None:
    hub.bus.reacts(f"{TV}/get", lambda _: None)
    other = await hub.television(OTHER_TV)
    await told_stale(hub, tv)
    await told_stale(hub, other, device=OTHER_TV)

    async with revalidating(hub, workers=2):
        await one_report(hub)

    assert [row[0] for row in hub.rows(LISTED)] == [TV]
    assert other.asked == 1


async def test_a_command_that_ends_otherwise_has_nothing_read(hub: Hub, tv: Television) -> None:
    tv.refuses("child lock")
    await hub.admits(hub.command(POWER, on=True))

    await hub.works()

    assert hub.rows(LISTED) == []


# What is counted.


def counted(hub: Hub) -> dict[str, float]:
    """What the knowledge of devices was good for."""
    registry = hub.now.around.metrics.registry
    words = ("hit", "miss", "miss_after_update", "stale")
    return {
        word: value
        for word in words
        if (value := registry.get_sample_value("edgeagent_shadow_answers_total", {"result": word}))
    }


@pytest.mark.requirement("C6")
async def test_every_count_is_there_before_anything_happens_and_none_names_a_device(hub: Hub) -> None:
    registry = hub.now.around.metrics.registry

    [family] = [each for each in registry.collect() if each.name == "edgeagent_shadow_answers"]

    assert {tuple(sample.labels) for sample in family.samples} == {("result",)}
    assert {sample.labels["result"] for sample in family.samples} == {
        "hit", "miss", "miss_after_update", "stale"
    }  # fmt: skip


@pytest.mark.requirement("C6")
async def test_what_live_knowledge_answers_is_a_hit(hub: Hub, tv: Television) -> None:
    await hub.admits(hub.command(POWER, on=False))
    await hub.works()
    assert counted(hub) == {"hit": 1}

    found = hub.now.devices.get(TV)
    assert found is not None
    await hub.admits(hub.command(POWER, on=True, precondition=Precondition(version=found.shadow.version)))
    await hub.works()

    assert counted(hub) == {"hit": 2}
    assert tv.asked == 0


@pytest.mark.requirement("C6")
async def test_a_command_that_asks_for_nothing_to_be_known_is_neither(hub: Hub, tv: Television) -> None:
    await hub.admits(hub.command(POWER, on=True))

    await hub.works()

    assert counted(hub) == {}
    assert tv.effects == [("power", True)]


@pytest.mark.requirement("C6")
async def test_what_has_to_be_read_first_is_a_miss(hub: Hub, tv: Television) -> None:
    await hub.starts_anew()
    await hub.admits(hub.command(POWER, on=False))

    await hub.works()

    assert (counted(hub), tv.asked) == ({"miss": 1}, 1)


@pytest.mark.requirement("C6")
async def test_a_stale_refusal_is_counted_once(hub: Hub, tv: Television) -> None:
    await told_stale(hub, tv)

    assert counted(hub) == {"stale": 1}


@pytest.mark.requirement("C6")
@pytest.mark.parametrize(
    ("after", "expected"),
    [
        pytest.param(MINUTE - SECOND, {"miss": 1, "miss_after_update": 1}, id="within"),
        pytest.param(MINUTE + MILLISECOND, {"miss": 1}, id="later"),
    ],
)
async def test_a_read_back_that_finds_another_value_soon_after_a_confirmed_write_is_counted(
    hub: Hub, tv: Television, after: timedelta, expected: dict[str, float]
) -> None:
    await hub.admits(hub.command(POWER, on=True))
    await hub.works()
    hub.passes(after)
    tv.shows["power"] = False
    hub.bus.goes_down()
    hub.bus.comes_up()
    await hub.settles()

    await hub.admits(hub.command(POWER, on=True))
    await hub.works()

    assert counted(hub) == expected


@pytest.mark.requirement("C6")
async def test_a_read_back_that_finds_what_was_written_is_no_miss_after_it(hub: Hub, tv: Television) -> None:
    hub.now.desk.writes.confirmed(TV, Wish(reading_name("power"), value=False))
    await told_stale(hub, tv)

    async with revalidating(hub):
        await one_report(hub)

    assert counted(hub) == {"stale": 1}


@pytest.mark.requirement("C6")
async def test_what_revalidation_finds_is_compared_with_what_was_written_too(
    hub: Hub, tv: Television
) -> None:
    hub.now.desk.writes.confirmed(TV, Wish(reading_name("power"), value=True))
    await told_stale(hub, tv)

    async with revalidating(hub):
        await one_report(hub)

    assert counted(hub) == {"stale": 1, "miss_after_update": 1}
