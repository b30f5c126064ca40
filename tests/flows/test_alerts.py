"""Alerts: raised once, told again once a day, cleared; and no storm, whatever comes and goes."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import JsonValue

from edgeagent.contracts.alerts import Alert
from edgeagent.contracts.event import EventType
from edgeagent.contracts.policy import Tier, TierRule
from edgeagent.contracts.reasons import Reason
from edgeagent.contracts.reports.dead_letters import DiscardRequest, LettersWanted
from edgeagent.contracts.reports.health import Check, HealthReport, Level
from edgeagent.core.audit_chain import AuditKind
from edgeagent.errors import StorageError
from edgeagent.flows.alerts import AGAIN, CHECKS, QUIET, SURE, Alerts
from edgeagent.flows.breaker_health import breaker_checks
from edgeagent.flows.machine.disk import write_check
from edgeagent.flows.machine.kernel import Kernel
from tests.flows.commanding import Hub, new_hub
from tests.flows.signing import HUB, MINUTE, POWER
from tests.support.stores import full_disk
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("O4", "Q7")

LOW = Check(name="disk", level=Level.WARNING, summary="100 MiB free", advice="free some")
FINE = Check(name="disk", level=Level.OK, summary="9000 MiB free")


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub."""
    async with new_hub(tmp_path) as made:
        yield made


def alerts_of(hub: Hub) -> Alerts:
    """What calls for a person, as a start of the agent makes it."""

    async def nothing() -> HealthReport:
        return HealthReport(at=hub.clock.wall().best, checks=[])

    return Alerts(hub.store, hub.now.around, nothing)


async def told(hub: Hub) -> list[tuple[JsonValue, JsonValue]]:
    """Code and turn of all alerts, in the records and in the trail alike."""
    events = [(data["reason"], data["turn"]) for _, data in await hub.records(EventType.ALERT)]
    assert events == [(row["alert"], row["turn"]) for row in await hub.audited(AuditKind.ALERT)]
    return events


async def test_it_is_raised_once_it_lasts_told_again_each_day_and_cleared(hub: Hub) -> None:
    alerts = alerts_of(hub)

    await alerts.compare([LOW])
    assert await told(hub) == []
    for _ in range(30 * 60):
        hub.passes(MINUTE)
        await alerts.compare([LOW])

    raised = [(Alert.DISK_LOW, "raised"), (Alert.DISK_LOW, "standing")]
    assert await told(hub) == raised
    for _ in range(3):
        hub.passes(MINUTE)
        await alerts.compare([FINE])
    assert await told(hub) == [*raised, (Alert.DISK_LOW, "cleared")]
    first, *_, last = [data for _, data in await hub.records(EventType.ALERT)]
    assert (first["level"], first["words"]) == ("warning", "100 MiB free")
    assert last["since"] == first["since"]


async def test_a_restart_tells_nothing_again(hub: Hub) -> None:
    for _ in range(5):
        alerts = alerts_of(hub)
        await alerts.compare([LOW])
        await alerts.compare([LOW])
        await hub.starts_anew()

    assert await told(hub) == [(Alert.DISK_LOW, "raised")]

    # What has gone meanwhile is cleared by a start that never saw it, once that has run for a while.
    alerts = alerts_of(hub)
    for _ in range(SURE // MINUTE):
        await alerts.compare([FINE])
        hub.passes(MINUTE)
    assert await told(hub) == [(Alert.DISK_LOW, "raised")]
    await alerts.compare([FINE])
    assert await told(hub) == [(Alert.DISK_LOW, "raised"), (Alert.DISK_LOW, "cleared")]


async def test_what_a_start_has_raised_itself_is_cleared_as_soon_as_it_is_gone(hub: Hub) -> None:
    alerts = alerts_of(hub)

    for check in (LOW, LOW, FINE, FINE):
        await alerts.compare([check])

    assert await told(hub) == [(Alert.DISK_LOW, "raised"), (Alert.DISK_LOW, "cleared")]


async def test_a_start_clears_nothing_that_takes_it_an_hour_to_see_again(hub: Hub, tmp_path: Path) -> None:
    io = tmp_path / "proc" / "self" / "io"
    io.parent.mkdir(parents=True)
    io.write_text(f"write_bytes: {20 * 1024**3}\n", "utf-8")

    for _ in range(3):
        started, alerts = hub.clock.boot(), alerts_of(hub)
        for _ in range(90):
            hub.passes(MINUTE)
            up = hub.clock.boot()
            await alerts.compare([write_check(Kernel(tmp_path), tmp_path, up - started, up)])
        await hub.starts_anew()

    assert await told(hub) == [(Alert.MACHINE_STRAINED, "raised")]


@pytest.mark.parametrize(
    "look",
    [
        pytest.param([Check(name="disk", level=Level.UNKNOWN, summary="it hangs")], id="unknown"),
        pytest.param([Check(name="database", level=Level.CRITICAL, summary="read-only")], id="not made"),
        pytest.param([], id="nothing"),
    ],
)
async def test_what_nobody_can_look_at_clears_nothing(hub: Hub, look: list[Check]) -> None:
    alerts = alerts_of(hub)
    await alerts.compare([LOW])
    await alerts.compare([LOW])

    for _ in range(3 * 60):
        hub.passes(MINUTE)
        await alerts.compare(look)
    assert await told(hub) == [(Alert.DISK_LOW, "raised")]

    await alerts.compare([FINE])
    await alerts.compare([FINE])
    assert await told(hub) == [(Alert.DISK_LOW, "raised"), (Alert.DISK_LOW, "cleared")]


async def test_one_check_that_is_well_does_not_speak_for_another_that_is_unknown(hub: Hub) -> None:
    well = Check(name="memory", level=Level.OK, summary="enough")
    alerts = alerts_of(hub)

    for level in (Level.WARNING, Level.WARNING, Level.UNKNOWN, Level.UNKNOWN):
        await alerts.compare([well, Check(name="temperature", level=level, summary="70 degrees")])

    assert await told(hub) == [(Alert.MACHINE_STRAINED, "raised")]


async def test_the_gauge_of_what_stands_is_right_from_the_first_look_after_a_start(hub: Hub) -> None:
    def stands() -> float | None:
        labels = {"alert": str(Alert.DISK_LOW)}
        return hub.now.around.metrics.registry.get_sample_value("edgeagent_alerts_standing", labels)

    alerts = alerts_of(hub)
    await alerts.compare([LOW])
    await alerts.compare([LOW])
    await hub.starts_anew()
    assert stands() == 0

    alerts = alerts_of(hub)
    await alerts.compare([LOW])
    assert stands() == 1

    hub.passes(SURE)
    await alerts.compare([FINE])
    assert stands() == 1
    await alerts.compare([FINE])
    assert stands() == 0


async def test_whatever_comes_and_goes_is_told_a_bounded_number_of_times(hub: Hub) -> None:
    alerts = alerts_of(hub)

    for minute in range(24 * 60):
        hub.passes(MINUTE)
        await alerts.compare([LOW if minute // 2 % 2 else FINE])

    turns = [turn for _, turn in await told(hub)]
    assert turns.count("raised") <= AGAIN / QUIET
    assert turns.count("cleared") <= turns.count("raised")


async def test_one_that_is_gone_before_it_is_looked_at_again_is_not_told(hub: Hub) -> None:
    alerts = alerts_of(hub)

    for _ in range(10):
        hub.passes(MINUTE)
        await alerts.compare([LOW])
        await alerts.compare([FINE])

    assert await told(hub) == []


async def test_a_clock_that_is_set_back_keeps_nothing_quiet(hub: Hub) -> None:
    alerts = alerts_of(hub)
    for check in (LOW, LOW, FINE, FINE):
        await alerts.compare([check])

    hub.time_is_known(hub.readings.wall() - timedelta(days=2))
    await alerts.compare([LOW])
    await alerts.compare([LOW])

    assert [turn for _, turn in await told(hub)] == ["raised", "cleared", "raised"]


async def test_what_cannot_be_stored_is_told_the_next_time(hub: Hub) -> None:
    alerts = alerts_of(hub)
    await alerts.compare([LOW])

    with full_disk(hub.path), pytest.raises(StorageError):
        await alerts.compare([LOW])

    assert await told(hub) == []
    await alerts.compare([LOW])
    assert await told(hub) == [(Alert.DISK_LOW, "raised")]


async def test_nothing_is_written_while_nothing_turns(hub: Hub) -> None:
    alerts = alerts_of(hub)
    await alerts.compare([LOW])
    await alerts.compare([LOW])
    commits = hub.store.commits

    for _ in range(60):
        hub.passes(MINUTE)
        await alerts.compare([LOW])

    assert hub.store.commits == commits


@pytest.mark.parametrize(("name", "alert"), CHECKS.items())
async def test_each_watched_check_calls_under_its_own_code(hub: Hub, name: str, alert: Alert) -> None:
    alerts = alerts_of(hub)
    bad = Check(name=name, level=Level.CRITICAL, summary="bad", advice="do something")

    await alerts.compare([bad])
    await alerts.compare([bad])

    assert await told(hub) == [(alert, "raised")]
    metrics = hub.now.around.metrics.registry
    assert metrics.get_sample_value("edgeagent_alerts_total", {"alert": alert}) == 1
    assert metrics.get_sample_value("edgeagent_alerts_standing", {"alert": alert}) == 1


@pytest.mark.requirement("E1", "D1")
async def test_a_suspicious_command_is_told_of_until_somebody_has_dealt_with_it(hub: Hub) -> None:
    alerts = alerts_of(hub)
    await hub.admits(hub.command(POWER, id_="c-1", on=True), hub.command(POWER, id_="c-1", on=False))

    for _ in range(2):
        await alerts.compare(await hub.store.read(breaker_checks))
    before = await told(hub)
    await hub.now.letters.discard(DiscardRequest(wanted=LettersWanted(number=1), why="known"), "uid:0 root")
    for _ in range(2):
        await alerts.compare(await hub.store.read(breaker_checks))

    assert before == [(Alert.DEAD_LETTERS, "raised")]
    assert await told(hub) == [*before, (Alert.DEAD_LETTERS, "cleared")]


@pytest.mark.requirement("I2")
async def test_an_operation_that_has_worked_twice_is_told(hub: Hub) -> None:
    one_try = {tier: TierRule(attempts=1) for tier in (Tier.LOW, Tier.MEDIUM)}
    await hub.has_policy(version=2, tiers=one_try)
    tv = await hub.television()
    tv.is_deaf()
    tv.is_mute()
    first = hub.command(POWER, operation="once", on=True)
    await hub.admits(first)
    await hub.works()

    # Nobody knows what became of it: it is asked for again, and then the first shows its effect.
    again = hub.command(POWER, operation="once", on=True)
    await hub.admits(again)
    tv.reports(power=True)
    await hub.settles()
    await hub.now.upkeep.look()

    [(_, alert)] = await hub.records(EventType.ALERT)
    assert (alert["reason"], alert["turn"]) == (Alert.PROCESSED_TWICE, "raised")
    assert str(first.id) in str(alert["words"])
    assert str(again.id) in str(alert["words"])
    [row] = await hub.audited(AuditKind.ALERT)
    assert json.dumps(row["words"]) == json.dumps(alert["words"])


async def test_a_look_that_fails_ends_nothing(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    async def look() -> HealthReport:
        nonlocal looks
        looks += 1
        if looks == 1:
            raise StorageError("disk I/O error")
        return HealthReport(at=hub.clock.wall().best, checks=[LOW])

    monkeypatch.setattr("edgeagent.flows.alerts.EVERY", timedelta(milliseconds=1))
    running = asyncio.create_task(Alerts(hub.store, hub.now.around, look).run())
    await eventually(lambda: hub.rows("SELECT 1 FROM alerts") != [])
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert await told(hub) == [(Alert.DISK_LOW, "raised")]


def test_no_code_is_a_reason_too() -> None:
    assert not {str(alert) for alert in Alert} & {str(reason) for reason in Reason}
    assert HUB
