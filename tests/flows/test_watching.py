"""Stuck work is found: each check of the lookout says what was seen and what to do next."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from edgeagent.clock import ClockSource, Wall
from edgeagent.contracts.event import Stream
from edgeagent.contracts.policy import Tier, TierRule
from edgeagent.contracts.reports.health import Check, Level
from edgeagent.core.audit_chain import AuditKind
from edgeagent.flows.tallies import BURST
from edgeagent.flows.watching.certificates import CertificateFiles
from edgeagent.flows.watching.lookout import Lookout
from tests.flows.building import event
from tests.flows.commanding import Hub, new_hub
from tests.flows.operating import operated_hub
from tests.flows.signing import MINUTE, OTHER_TV, POWER, SECOND, TV
from tests.support.certificates import Authority

pytestmark = pytest.mark.requirement("Q7", "O5")

DAY = timedelta(days=1)


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """A hub with a television."""
    async with new_hub(tmp_path) as made:
        await made.television()
        yield made


def lookout_of(hub: Hub) -> Lookout:
    """What watches this hub."""
    return Lookout(hub.store, hub.now.around, None, hub.now.tallies, CertificateFiles({}, {}))


async def check(lookout: Lookout, name: str) -> Check:
    """One of its checks."""
    [found] = [each for each in await lookout.checks() if each.name == name]
    assert found.level is Level.OK or found.advice
    return found


async def test_a_hub_that_is_well_says_so(hub: Hub) -> None:
    lookout = lookout_of(hub)
    await hub.admits(hub.command(POWER, on=True))
    await hub.works()

    assert {each.level for each in await lookout.checks()} == {Level.OK}


async def test_a_command_that_is_unfinished_past_its_time_is_told(hub: Hub) -> None:
    lookout = lookout_of(hub)
    command = hub.command(POWER, on=True, valid_for=MINUTE)
    typed = hub.command(POWER, on=False, valid_for=MINUTE)
    await hub.admits(command)
    await hub.admits_local(typed, valid_for=MINUTE)

    hub.passes(5 * MINUTE)
    before = await check(lookout, "stuck")
    hub.passes(2 * MINUTE)
    found = await check(lookout, "stuck")

    assert (before.level, found.level) == (Level.OK, Level.WARNING)
    assert str(command.id) in found.summary
    assert str(typed.id) in found.summary

    # Upkeep ends them, and all is well.
    await hub.now.upkeep.look()
    assert (await check(lookout, "stuck")).level is Level.OK


async def test_a_lane_that_nobody_works_is_told(hub: Hub) -> None:
    lookout = lookout_of(hub)
    command = hub.command(POWER, on=True)
    await hub.admits(command)

    first = await check(lookout, "workers")
    hub.passes(61 * SECOND)
    found = await check(lookout, "workers")

    assert (first.level, found.level) == (Level.OK, Level.CRITICAL)
    assert f"nobody works lane low, where {command.id} is due" in found.summary
    await hub.works()
    assert (await check(lookout, "workers")).level is Level.OK


async def test_a_worker_that_is_silent_is_told_when_nobody_takes_over(hub: Hub) -> None:
    lookout = lookout_of(hub)
    await hub.admits(hub.command(POWER, on=True))
    await hub.claims(holder="low-7")

    hub.passes(59 * SECOND)
    renewed_or_due = await check(lookout, "workers")
    hub.passes(2 * SECOND)
    found = await check(lookout, "workers")

    assert renewed_or_due.level is Level.OK
    assert found.level is Level.CRITICAL
    assert f"low-7 has not renewed its lock of {TV}" in found.summary
    await hub.works()
    assert (await check(lookout, "workers")).level is Level.OK


async def test_a_lane_that_is_behind_is_told_though_it_is_worked(hub: Hub) -> None:
    lookout = lookout_of(hub)
    await hub.has_policy(version=2, tiers={Tier.LOW: TierRule(concurrency=1)})
    await hub.television(OTHER_TV)
    await hub.admits(hub.command(POWER, on=True))
    late = hub.command(POWER, device=OTHER_TV, on=True, valid_for=9 * MINUTE)
    claim = await hub.claims()
    await hub.admits(late)

    await check(lookout, "lanes")
    for _ in range(31):
        hub.passes(10 * SECOND)
        await hub.now.desk.renew(claim)
    found, workers = await check(lookout, "lanes"), await check(lookout, "workers")

    assert (found.level, workers.level) == (Level.WARNING, Level.OK)
    assert f"low: 1 are queued, first {late.id}" in found.summary


async def test_a_device_that_is_locked_for_very_long_is_told(hub: Hub) -> None:
    lookout = lookout_of(hub)
    await hub.admits(hub.command(POWER, on=True))
    claim = await hub.claims(holder="low-3")

    levels = []
    for _ in range(16):
        levels.append((await check(lookout, "locks")).level)
        for _ in range(3):
            hub.passes(20 * SECOND)
            await hub.now.desk.renew(claim)
    found = await check(lookout, "locks")

    assert levels == [Level.OK] * 16
    assert found.level is Level.WARNING
    assert f"{TV} by low-3" in found.summary


@pytest.mark.requirement("O4", "T4")
async def test_a_burst_of_repeats_is_told_for_a_while_and_a_few_are_not(hub: Hub) -> None:
    lookout = lookout_of(hub)
    envelope = hub.signed(hub.command(POWER, on=True))
    await hub.admits(envelope)

    async def repeats(count: int) -> Level:
        await hub.admits(*[envelope] * count)
        hub.passes(61 * SECOND)
        await hub.now.tallies.close_due()
        return (await check(lookout, "replays")).level

    assert await repeats(BURST // 2) is Level.OK
    assert await repeats(BURST * 2) is Level.WARNING
    assert hub.keys.desk.id in (await check(lookout, "replays")).summary
    assert await hub.audited(AuditKind.COMMAND_REPLAYED)
    hub.passes(11 * MINUTE)
    assert (await check(lookout, "replays")).level is Level.OK


async def test_an_outbox_that_does_not_drain_is_told_where_there_is_a_cloud(tmp_path: Path) -> None:
    for name in ("with", "without"):
        (tmp_path / name).mkdir()
    async with operated_hub(tmp_path / "with") as desk:
        await desk.hub.stores(event(desk.hub.around, Stream.RECORD))
        before = await desk.check("draining")
        desk.clock.passes(6 * MINUTE)
        found = await desk.check("draining")

        assert (before.level, found.level) == (Level.OK, Level.WARNING)
        assert "record (1)" in found.summary
        assert "the link works" in found.advice
        async with desk.uploads():
            await desk.hub.store.read(lambda _: None)
            while (await desk.operator.outbox()).streams[Stream.RECORD].events:
                await desk.hub.store.read(lambda _: None)
        assert (await desk.check("draining")).level is Level.OK

    async with operated_hub(tmp_path / "without", with_cloud=False) as desk:
        await desk.hub.stores(event(desk.hub.around, Stream.RECORD))
        await desk.check("draining")
        desk.clock.passes(6 * MINUTE)
        assert (await desk.check("draining")).level is Level.OK


class TestCertificates:
    """Told two weeks ahead, and more loudly in the last two days."""

    @pytest.fixture
    def authority(self, tmp_path: Path) -> Authority:
        """Good for another month."""
        return Authority(tmp_path / "authority")

    @staticmethod
    def now() -> Wall:
        """The present, known."""
        best = datetime.now(UTC)
        return Wall(best=best, earliest=best - SECOND, latest=best + SECOND, source=ClockSource.KERNEL)

    @pytest.mark.parametrize(
        ("ends", "level"),
        [
            (30 * DAY, Level.OK),
            (10 * DAY, Level.WARNING),
            (DAY, Level.CRITICAL),
            (-DAY / 2, Level.CRITICAL),
        ],
    )
    def test_one_that_we_show(self, authority: Authority, ends: timedelta, level: Level) -> None:
        shown, _ = authority.issues("hub", "hub-7", ends=ends)

        found = CertificateFiles({"broker.tls.cert_file": shown}, {}).check(self.now())

        assert found.level is level
        assert ("broker.tls.cert_file ends at" in found.summary) is (level is not Level.OK)

    def test_a_bundle_is_as_good_as_its_best(self, authority: Authority, tmp_path: Path) -> None:
        over, _ = authority.issues("old", "old", ends=-DAY / 2)
        bundle = tmp_path / "bundle.pem"
        bundle.write_bytes(over.read_bytes() + authority.certificate.read_bytes())

        good = CertificateFiles({}, {"cloud.ca_file": bundle}).check(self.now())
        bad = CertificateFiles({}, {"cloud.ca_file": over}).check(self.now())

        assert (good.level, bad.level) == (Level.OK, Level.CRITICAL)

    @pytest.mark.parametrize("content", [None, b"", b"-----BEGIN CERTIFICATE-----\nAAAA\n", b"\xff\xff"])
    def test_one_that_cannot_be_read_is_told(self, tmp_path: Path, content: bytes | None) -> None:
        file = tmp_path / "hub.pem"
        if content is not None:
            file.write_bytes(content)

        found = CertificateFiles({"broker.tls.cert_file": file}, {}).check(self.now())

        assert found.level is Level.WARNING
        assert found.summary.startswith("cannot be read: broker.tls.cert_file")
        assert found.advice
